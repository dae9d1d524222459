"""Make isolated kernels: one process with everything imported, from which each is forked."""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from visual_tools.errors import SandboxError, require
from visual_tools.sandbox.backends import ISOLATING, MODES, is_open_to_all, make_plan
from visual_tools.sandbox.channels import Channels, Message, check_socket_path, make_key, open_listeners, wait_for_first
from visual_tools.sandbox.contract import Backend, Limits
from visual_tools.sandbox.kernel import IsolatedKernel, Running
from visual_tools.sandbox.walk import remove_tree
from visual_tools.sandbox.work_folder import FolderInMemory, FolderOnDisk, measure_need
from visual_tools.sandbox.zygote.plan import CHANNELS, NOBODY, WORK_DIRS, KernelSpec, Mode, Plan
from visual_tools.sandbox.zygote_client import KernelProcess, ZygoteClient

_START_S = 30.0
_END_S = 2.0  # from the end of a kernel's sockets to word of its own end


@dataclass(slots=True, kw_only=True)
class _Shared:
    in_memory: FolderInMemory
    number: int
    num_kernels: int = 0


class Sandbox:
    """Makes kernels. Use `await Sandbox.start()`, best as `async with await Sandbox.start() as sandbox`.

    Attributes:
        backend: What isolates.
    """

    def __init__(self, backend: Backend, limits: Limits, folder: Path, plan: Plan, zygote: ZygoteClient) -> None:
        self.backend: Backend = backend
        self._limits = limits
        self._folder = folder
        self._plan = plan
        self._zygote = zygote
        self._numbers = 0
        self._kernels: list[IsolatedKernel] = []
        self._in_memory: dict[Path, _Shared] = {}
        self._rooms_lock = asyncio.Lock()
        self._is_closed = False

    @classmethod
    async def start(cls, backend: Backend | Literal["auto"] = "auto", limits: Limits | None = None) -> "Sandbox":
        """Start what makes kernels; it takes a few seconds, a kernel then takes milliseconds.

        Args:
            backend: `auto` takes the best that works here and never `none`, which isolates nothing.
            limits: What each kernel may use, unless it is given its own.

        Raises:
            SandboxError: Nothing here can isolate, or what was asked for cannot; the text says why and what to do.
        """
        require("ipykernel", "sandbox")
        require("jupyter_client", "sandbox")
        reasons = []
        for name in ISOLATING if backend == "auto" else (backend,):
            for mode in MODES[name]:
                try:
                    return await cls.start_as(name, mode, limits or Limits())
                except SandboxError as error:
                    reasons.append(f"{name}: {error}")
        raise SandboxError(
            f"code cannot be isolated here. {'. '.join(dict.fromkeys(reasons))}. Install bubblewrap and allow user "
            "namespaces; or ask for the backend 'none' by name, which isolates nothing"
        )

    @classmethod
    async def start_as(cls, backend: Backend, mode: Mode, limits: Limits) -> "Sandbox":
        """Start with one way to cut kernels off and no other; `start` chooses.

        Args:
            backend: Its name.
            mode: The way.
            limits: What each kernel may use.

        Raises:
            SandboxError: It does not work here.
        """
        folder = Path(tempfile.mkdtemp(prefix="k25-kernels-"))
        try:
            check_socket_path(folder / "1000000")
            wrapper, plan = make_plan(mode, str(folder))
            zygote = await ZygoteClient.start(wrapper, plan, folder)
        except BaseException:
            remove_tree(str(folder))
            raise
        return cls(backend, limits, folder, plan, zygote)

    async def make_kernel(
        self, folder: Path, *, readable: Sequence[Path] = (), limits: Limits | None = None
    ) -> IsolatedKernel:
        """Start a fresh kernel; see `KernelMaker.make_kernel`."""
        if self._is_closed:
            raise SandboxError("this sandbox is closed: start a new one")
        folder, paths = _prepare_paths(Path(folder), readable)
        limits = limits or self._limits
        is_moved = self._plan.mode in ("nested", "exec")
        inside_dir = _choose_inside_dir((*self._plan.system_paths, *paths)) if is_moved else str(folder)

        async def launch(on_output: Callable[[Message], None]) -> Running:
            return await self._launch(folder, inside_dir, paths, limits, on_output)

        in_memory = await self._enter_memory(folder, limits, inside_dir) if self._plan.mode == "nested" else None

        async def leave() -> None:
            if in_memory is not None:
                await self._leave_memory(folder)

        kernel = IsolatedKernel(
            folder=folder,
            inside_dir=inside_dir,
            backend=self.backend,
            limits=limits,
            launch=launch,
            zygote=self._zygote,
            place=in_memory or FolderOnDisk(str(folder), self._choose_owner(folder)),
            on_close=leave,
        )
        try:
            await kernel.start()
        except BaseException:
            await kernel.close()
            raise
        self._kernels.append(kernel)
        return kernel

    async def _enter_memory(self, folder: Path, limits: Limits, inside_dir: str) -> FolderInMemory:
        """The folder's twin in memory, which all kernels in the folder share."""
        async with self._rooms_lock:
            if folder not in self._in_memory:
                self._numbers += 1
                number = self._numbers  # others go on counting meanwhile
                need = await asyncio.to_thread(measure_need, folder, limits.disk_bytes, limits.num_files)
                fd = await self._zygote.mount_disk(number, *need)
                in_memory = FolderInMemory(folder, fd, NOBODY if self._plan.is_root else None, inside_dir)
                self._in_memory[folder] = _Shared(in_memory=in_memory, number=number)
            shared = self._in_memory[folder]
            shared.num_kernels += 1
            return shared.in_memory

    async def _leave_memory(self, folder: Path) -> None:
        async with self._rooms_lock:
            shared = self._in_memory[folder]
            shared.num_kernels -= 1
            if shared.num_kernels == 0:
                del self._in_memory[folder]
                await asyncio.to_thread(shared.in_memory.close)
                self._zygote.unmount_disk(shared.number)

    def _choose_owner(self, folder: Path) -> int | None:
        """Owner of a kernel's files, when root starts it: the user `nobody`, or None if it cannot reach the folder."""
        if not self._plan.is_root or (self._plan.mode != "nested" and not is_open_to_all([str(folder)])):
            return None
        return NOBODY

    async def _launch(
        self,
        folder: Path,
        inside_dir: str,
        readable: tuple[str, ...],
        limits: Limits,
        on_output: Callable[[Message], None],
    ) -> Running:
        self._numbers += 1
        private = self._folder / str(self._numbers)
        private.mkdir(mode=0o700)
        key = make_key()
        spec = KernelSpec(
            folder=str(folder),
            inside_dir=inside_dir,
            readable=readable,
            private_dir=str(private),
            owner=self._choose_owner(folder),
            key=key,
            limits=limits,
            disk=self._in_memory[folder].number if folder in self._in_memory else 0,
        )
        listeners = open_listeners(private)
        try:
            process = self._zygote.make(spec, [listener.fileno() for listener in listeners])
            channels = Channels(private, key, limits.image_bytes * 4 // 3, on_output)
        finally:
            for listener in listeners:
                listener.close()
        try:
            await self._wait_until_ready(process, channels)
        except BaseException:
            channels.close()
            await self._zygote.kill(process)
            raise
        finally:
            for name in CHANNELS:
                (private / name).unlink(missing_ok=True)
        process.ended.add_done_callback(lambda _: self._remove(private))
        return Running(process=process, channels=channels)

    def _remove(self, folder: Path) -> None:
        """Off the event loop: code may have filled it."""
        if not self._is_closed:
            asyncio.get_running_loop().run_in_executor(None, remove_tree, str(folder))

    async def _wait_until_ready(self, process: KernelProcess, channels: Channels) -> None:
        ready = asyncio.ensure_future(channels.connect())
        try:
            await wait_for_first(ready, process.ended, timeout_s=_START_S)
            error = ready.exception() if ready.done() else None
            if ready.done() and error is None:
                return
            await wait_for_first(process.ended, timeout_s=_END_S if error else 0)
            told = str(error) if error else f"no answer in {_START_S:g} s"
            why = process.error or (process.ended.result() if process.ended.done() else told)
            raise SandboxError(f"the kernel did not start: {why}")
        finally:
            ready.cancel()

    async def close(self) -> None:
        """End every kernel and the processes that make them. May be called twice."""
        if self._is_closed:
            return
        self._is_closed = True
        for kernel in self._kernels:
            await kernel.close()
        await self._zygote.close()
        await asyncio.to_thread(remove_tree, str(self._folder))

    async def __aenter__(self) -> "Sandbox":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


def _prepare_paths(folder: Path, readable: Sequence[Path]) -> tuple[Path, tuple[str, ...]]:
    """The real places of a working folder, which is made, and of what else may be read."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return folder.resolve(), tuple(str(Path(path).resolve(strict=True)) for path in readable)
    except OSError as error:
        raise SandboxError(f"{error.filename}: {error.strerror}; a kernel needs a folder that it may write") from error


def _choose_inside_dir(shown: Sequence[str]) -> str:
    """Where a kernel sees its folder: a place that hides none of the paths that it must see."""
    for place in WORK_DIRS:
        if not any(Path(path).is_relative_to(place) or Path(place).is_relative_to(path) for path in shown):
            return place
    raise SandboxError(f"the paths {', '.join(shown)} leave no place for the working folder")
