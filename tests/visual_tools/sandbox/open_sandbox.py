"""Sandboxes that hold nothing: one whose kernels run free on this machine, one that runs nothing at all."""

import asyncio
import contextlib
import itertools
import json
import os
import queue
import re
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from visual_tools.sandbox.check import preamble
from visual_tools.sandbox.contract import Backend, CellError, CellResult, KernelLimits, Status


class _Maker:
    backend: Backend = "none"

    async def close(self) -> None:
        """Nothing is shared."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class OpenSandbox(_Maker):
    """Plain Jupyter kernels, nothing between them and this machine."""

    async def make_kernel(
        self, folder: Path, *, readable: Sequence[Path] = (), limits: KernelLimits | None = None
    ) -> "OpenKernel":
        kernel = OpenKernel(folder)
        await asyncio.to_thread(kernel.start)
        return kernel


class OpenKernel:
    """A kernel as `jupyter_client` starts it: no limit but a time limit for each cell."""

    backend: Backend = "none"

    def __init__(self, folder: Path) -> None:
        from jupyter_client.manager import KernelManager

        self.folder = folder
        self.inside_dir = str(folder)
        self._manager: Any = KernelManager(kernel_name="python3")
        self._lock = asyncio.Lock()
        self._tags = itertools.count()

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "HOME": str(self.folder), "IPYTHONDIR": str(self.folder / ".ipython")}
        self._manager.start_kernel(cwd=str(self.folder), env=environment, close_fds=False)
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)

    async def run(self, code: str, *, timeout_s: float | None = None, store_history: bool = True) -> CellResult:
        async with self._lock:
            return await asyncio.to_thread(self._run, code, timeout_s or 10.0)

    def _run(self, code: str, timeout_s: float) -> CellResult:
        if not self._manager.is_alive():
            self._manager.restart_kernel(now=True)
            self._client.wait_for_ready(timeout=60)
        message_id, end = self._client.execute(code), time.monotonic() + timeout_s
        text, error = "", None
        while time.monotonic() < end and self._manager.is_alive():
            with contextlib.suppress(queue.Empty):
                message = self._client.get_iopub_msg(timeout=0.2)
                if message["parent_header"].get("msg_id") != message_id:
                    continue
                content = message["content"]
                text += content.get("text", "") + content.get("data", {}).get("text/plain", "")
                if message["msg_type"] == "error":
                    error = CellError(
                        name=content["ename"], message=content["evalue"], traceback="\n".join(content["traceback"])
                    )
                if content.get("execution_state") == "idle":
                    return CellResult(status="error" if error else "ok", text=text, error=error)
        self._manager.restart_kernel(now=True)
        self._client.wait_for_ready(timeout=60)
        return CellResult(status="died", text=text)

    async def interrupt(self) -> None:
        """It has no way to be interrupted."""

    async def close(self) -> None:
        if self._manager.has_kernel:
            self._client.stop_channels()
            await asyncio.to_thread(self._manager.shutdown_kernel, now=True)


class FakeSandbox(_Maker):
    """Runs nothing and answers the same to every cell.

    Args:
        status: How every cell is said to have ended.
        claims: Say of each attempt that it worked.
    """

    def __init__(self, status: Status, *, claims: bool) -> None:
        self._status: Status = status
        self._claims = claims

    async def make_kernel(
        self, folder: Path, *, readable: Sequence[Path] = (), limits: KernelLimits | None = None
    ) -> "FakeKernel":
        with contextlib.suppress(FileExistsError):
            await asyncio.to_thread(folder.mkdir, parents=True)
        return FakeKernel(folder, self._status, self._claims)


class FakeKernel:
    """Answers without looking."""

    backend: Backend = "none"

    def __init__(self, folder: Path, status: Status, claims: bool) -> None:
        self.folder = folder
        self.inside_dir = str(folder)
        self._status: Status = status
        self._claims = claims

    async def run(self, code: str, *, timeout_s: float | None = None, store_history: bool = True) -> CellResult:
        attempts = re.findall(r"attempt\(", code.partition("planted = ")[2]) if self._claims else []
        lines = [preamble.MARK + json.dumps(["open", f"attempt {n}", "claimed"]) for n in range(len(attempts))]
        return CellResult(status=self._status, text="\n".join(["42", *lines]))

    async def interrupt(self) -> None:
        """Nothing runs."""

    async def close(self) -> None:
        """Nothing is there."""
