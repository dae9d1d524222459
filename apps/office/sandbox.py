"""Sandbox for reading and rendering office files: no network, limits on memory and time."""

import importlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from apps.office.safe_xml import OfficeError
from cua.config import load_settings
from cua.tool_agent.assemble import start_sandbox
from visual_tools.sandbox.contract import Backend, Kernel, KernelLimits, KernelMaker

_PACKAGES = ("apps", "cua", "envs", "visual_tools")
_CONFIGURATION = ("/etc/libreoffice", "/var/lib/libreoffice", "/etc/libreoffice/registry")
MEMORY_BYTES = 4 * 2**30  # per kernel; bounds files that expand in memory
CELL_S = 600.0  # rendering and checking hundreds of pages takes minutes
_ANSWER = "office-answer.json"
_ERRORS = ("OfficeError", "MissingDependencyError", "MissingPackageError", "ConfigError")


def readable_paths() -> list[Path]:
    """Return the additional paths readable in the sandbox: this package, and LibreOffice's configuration."""
    own = [Path(str(importlib.import_module(name).__file__)).parent for name in _PACKAGES]
    system = [Path(name) for name in _CONFIGURATION[:2]]
    return [path for path in (*own, *system) if path.exists()]


class OfficeKernels:
    """Creates kernels in which `apps.office` can be imported and LibreOffice runs; implements `KernelMaker`.

    Args:
        maker: Maker of the underlying kernels.
    """

    def __init__(self, maker: KernelMaker) -> None:
        self._maker = maker
        self.backend: Backend = maker.backend

    async def make_kernel(
        self, folder: Path, *, readable: Sequence[Path] = (), limits: KernelLimits | None = None
    ) -> Kernel:
        """Start a fresh kernel; see `KernelMaker.make_kernel`."""
        chosen = replace(limits or KernelLimits(), memory_bytes=MEMORY_BYTES, num_processes=256)
        return await self._maker.make_kernel(folder, readable=(*readable, *readable_paths()), limits=chosen)

    async def close(self) -> None:
        """Close every kernel and the underlying maker."""
        await self._maker.close()

    async def __aenter__(self) -> "OfficeKernels":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


@asynccontextmanager
async def office_kernels(settings: Mapping[str, object] | None = None) -> AsyncIterator[OfficeKernels]:
    """Yield a maker of kernels isolated as in the settings.

    Raises:
        SandboxError: If code cannot be isolated here.
    """
    async with OfficeKernels(await start_sandbox(load_settings(settings or {}).settings)) as maker:
        yield maker


async def run_in_kernel(kernel: Kernel, module: str, function: str, *args: object, timeout_s: float = CELL_S) -> Any:
    """Call a function of this package in a kernel; arguments and result are JSON values, paths relative to its folder.

    Args:
        kernel: Kernel that runs the call.
        module: Module of the function.
        function: Name of the function, which returns a JSON value.
        args: Arguments, JSON values.
        timeout_s: Time limit in seconds.

    Raises:
        OfficeError: If the function raised it, or a limit ended the call.
    """
    arguments_json = json.dumps(args)
    code = (
        "import json as _json, pathlib as _pathlib\n"
        f"from {module} import {function} as _function\n"
        f"_given = _json.loads({arguments_json!r})\n"
        f"_pathlib.Path({_ANSWER!r}).write_text(_json.dumps(_function(*_given)), encoding='utf-8')\n"
    )
    result = await kernel.run(code, timeout_s=timeout_s, store_history=False)
    if result.status == "ok":
        path = kernel.folder / _ANSWER
        answer = json.loads(path.read_text("utf-8"))
        path.unlink()
        return answer
    if result.error is not None and result.error.name in _ERRORS:
        raise OfficeError(result.error.message)
    if result.error is not None and result.error.name == "MemoryError":
        raise OfficeError(f"it needs more than {MEMORY_BYTES / 2**30:g} GB of memory, the limit for one file")
    cause = f"{result.error.name}: {result.error.message}" if result.error else f"the kernel {result.status}"
    raise OfficeError(f"{function} failed: {cause}{'; '.join(('', *result.notes))}")
