"""A kernel as its user sees it: cells run one after the other, limits are kept, a lost one is started anew."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from visual_tools.errors import SandboxError
from visual_tools.sandbox.channels import Channels, Message, parent_id, wait_for_first
from visual_tools.sandbox.collect import Collector
from visual_tools.sandbox.contract import Backend, CellResult, Limits, Status
from visual_tools.sandbox.work_folder import WorkFolder
from visual_tools.sandbox.zygote_client import KernelProcess, ZygoteClient

_GRACE_S = 5.0  # after an interrupt, before the kernel is ended
_AGAIN_S = 1.0
_MIN_OUTPUT_BYTES, _WASTE = 64 * 2**20, 4
_ENDED = "{count} processes that an earlier cell had left running were ended at its time limit"
_LOST = "the kernel was started anew: variables, imports and definitions of earlier cells are gone, files are kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A live kernel.

    Attributes:
        process: As the zygote reports on it.
        channels: To talk to it.
    """

    process: KernelProcess
    channels: Channels


Launch = Callable[[Callable[[Message], None]], Awaitable[Running]]


class _Cell:
    """A cell in progress."""

    def __init__(self, message_id: str, limits: Limits, channels: Channels) -> None:
        self.id = message_id
        self._channels = channels
        self.collector = Collector(limits)
        self.is_idle = asyncio.Event()
        self.execution_count: int | None = None

    def take(self, message: Message) -> None:
        kind, content = message["msg_type"], message["content"]
        if kind == "status" and content.get("execution_state") == "idle":
            self.is_idle.set()
        elif kind == "execute_input":
            count = content.get("execution_count")
            self.execution_count = count if isinstance(count, int) else None
        elif kind == "error" or not self.collector.is_flooded:
            self.collector.take(kind, content)
        else:
            self._channels.is_flooded.set()


class IsolatedKernel:
    """See `visual_tools.sandbox.Kernel`. Made by `Sandbox.make_kernel`."""

    def __init__(
        self,
        *,
        folder: Path,
        inside_dir: str,
        backend: Backend,
        limits: Limits,
        launch: Launch,
        zygote: ZygoteClient,
        place: WorkFolder,
        on_close: Callable[[], Awaitable[None]],
    ) -> None:
        self.folder = folder
        self.inside_dir = inside_dir
        self.backend: Backend = backend
        self._limits = limits
        self._launch = launch
        self._zygote = zygote
        self._place = place
        self._on_close = on_close
        self._running: Running | None = None
        self._cell: _Cell | None = None
        self._is_interrupted = False
        self._is_closed = False
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Start it.

        Raises:
            SandboxError: It did not come up.
        """
        self._running = await self._launch(self._take_output)

    def _take_output(self, message: Message) -> None:
        if self._cell is not None and parent_id(message) == self._cell.id:
            self._cell.take(message)

    async def run(self, code: str, *, timeout_s: float | None = None, store_history: bool = True) -> CellResult:
        """Run a cell; see `Kernel.run`."""
        async with self._lock:
            self._is_interrupted = False
            notes = await self._revive()
            before, told = await asyncio.to_thread(self._place.begin)
            began = time.monotonic()
            outcome = await self._run_cell(code, self._limits.wall_s if timeout_s is None else timeout_s, store_history)
            result = await self._report(outcome, time.monotonic() - began, notes)
            written, told_after = await asyncio.to_thread(self._place.end, before)
            return replace(result, files_written=written, notes=(*result.notes, *told, *told_after))

    async def _revive(self) -> tuple[str, ...]:
        """Restart the kernel if it died; returns notes for the model."""
        if self._is_closed:
            raise SandboxError("this kernel is closed: make a new one")
        running, cell = self._running, self._cell
        if running is None:
            why = "it could not be started anew"
        elif running.channels.is_cut_off and not running.process.ended.done():
            why = "what it sent was no message of a kernel's"
        else:
            if not running.process.ended.done() and (
                cell is None or cell.is_idle.is_set() or await self._stop(running, cell)
            ):
                return ()  # a cell that was still running is stopped: its caller had gone away
            why = running.process.ended.result()
        await self._restart()
        return (f"the kernel had ended: {why}", _LOST)

    async def _restart(self) -> None:
        await self._end()
        self._cell = None
        await self.start()

    async def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            await self._zygote.kill(running.process)
            running.channels.close()

    async def _run_cell(self, code: str, timeout_s: float, store_history: bool) -> "_Outcome":
        assert self._running is not None
        running, channels = self._running, self._running.channels
        content = {
            "code": code.encode("utf-8", "replace").decode(),
            "silent": False,
            "store_history": store_history,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        message = channels.make("execute_request", content)
        cell = self._cell = _Cell(message["header"]["msg_id"], self._limits, channels)
        channels.allow_output(_count_allowed_bytes(self._limits))
        self._zygote.set_busy(running.process, True, timeout_s)
        reply = channels.send("shell", message)
        try:
            return await self._follow(running, cell, reply, timeout_s)
        finally:
            self._zygote.set_busy(running.process, False)

    async def _follow(
        self, running: Running, cell: _Cell, reply: "asyncio.Future[Message]", timeout_s: float
    ) -> "_Outcome":
        """Wait for the end of a cell, whichever it is."""
        done = asyncio.ensure_future(_both(reply, cell.is_idle))
        flooded = asyncio.ensure_future(running.channels.is_flooded.wait())
        try:
            if self._is_interrupted:  # before it was sent
                await self._stop(running, cell)
            await wait_for_first(done, flooded, running.process.ended, timeout_s=timeout_s)
            if done.done():
                return _Outcome(cell, "interrupted" if self._is_interrupted else "ok", done.result())
            if running.process.ended.done():
                return _Outcome(cell, "died", {}, running.process.ended.result())
            why = "it put out more than anybody can read" if flooded.done() else f"it ran for {timeout_s:g} s"
            if await self._stop(running, cell):
                await wait_for_first(done, timeout_s=_AGAIN_S)
                return _Outcome(cell, "interrupted", done.result() if done.done() else {}, why)
            return _Outcome(cell, "died", {}, f"{why} and could not be interrupted")
        finally:
            done.cancel()
            flooded.cancel()

    async def _stop(self, running: Running, cell: _Cell) -> bool:
        """Interrupt a cell; end the kernel if that does not help. Whether it helped."""
        until = time.monotonic() + _GRACE_S
        idle = asyncio.ensure_future(cell.is_idle.wait())
        try:
            while time.monotonic() < until and not running.process.ended.done():
                running.channels.request("control", "interrupt_request", {})
                await wait_for_first(idle, running.process.ended, timeout_s=_AGAIN_S)
                if idle.done():
                    return True
        finally:
            idle.cancel()
        await self._zygote.kill(running.process)
        return False

    async def _report(self, outcome: "_Outcome", duration_s: float, notes: tuple[str, ...]) -> CellResult:
        if self._is_closed:
            raise SandboxError("this kernel was closed while the cell ran")
        running = self._running
        collector, status, why = outcome.cell.collector, outcome.status, outcome.why
        is_lost = bool(notes)
        if running is not None and running.process.num_left:
            notes = (*notes, _ENDED.format(count=running.process.num_left))
            running.process.num_left = 0
        if status == "died":
            notes = (*notes, f"the kernel ended: {why}", _LOST)
            is_lost = True
            await self._restart()
        elif status == "interrupted" and why:
            notes = (*notes, f"the cell was interrupted: {why}")
        elif status == "ok" and collector.error is not None:
            status = "error"
        return CellResult(
            status=status,
            text=collector.text,
            images=tuple(collector.images),
            error=collector.error if status in ("error", "interrupted") else None,
            outputs=collector.outputs,
            execution_count=outcome.cell.execution_count,
            duration_s=duration_s,
            is_truncated=collector.is_truncated,
            is_state_lost=is_lost,
            notes=notes,
        )

    async def interrupt(self) -> None:
        """Stop the running cell; see `Kernel.interrupt`."""
        if not self._lock.locked():
            return
        self._is_interrupted = True
        cell, running = self._cell, self._running
        if cell is not None and running is not None and not cell.is_idle.is_set():
            await self._stop(running, cell)

    async def close(self) -> None:
        """End it; see `Kernel.close`."""
        is_first, self._is_closed = not self._is_closed, True
        await self._end()
        if is_first:
            await self._on_close()


@dataclass(frozen=True, slots=True)
class _Outcome:
    cell: _Cell
    status: Status
    reply: dict[str, Any]
    why: str = ""


def _count_allowed_bytes(limits: Limits) -> int:
    """Messages of one cell that the host reads: several times what it hands back, in the widest form."""
    return _MIN_OUTPUT_BYTES + _WASTE * (limits.num_images * limits.image_bytes * 4 // 3 + 6 * limits.output_chars)


async def _both(reply: "asyncio.Future[Message]", is_idle: asyncio.Event) -> Message:
    message = await reply
    await is_idle.wait()
    return message
