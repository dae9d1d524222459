"""Create isolated kernels, forked from one process with all imports loaded, and run their cells.

Cells of a kernel run one after the other within its limits, and a lost kernel is restarted.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from visual_tools.errors import SandboxError, require
from visual_tools.sandbox.backends import ISOLATING, MODES, is_open_to_all, make_plan
from visual_tools.sandbox.channels import (
    Channels,
    Message,
    check_socket_path,
    make_key,
    open_listeners,
    parent_id,
    wait_for_first,
)
from visual_tools.sandbox.collect import Collector
from visual_tools.sandbox.contract import Backend, CellResult, KernelLimits, Status
from visual_tools.sandbox.walk import remove_tree
from visual_tools.sandbox.work_folder import FolderInMemory, FolderOnDisk, WorkFolder, measure_need
from visual_tools.sandbox.zygote.plan import CHANNELS, NOBODY, WORK_DIRS, KernelSpec, Mode, ZygotePlan
from visual_tools.sandbox.zygote_client import KernelProcess, ZygoteClient

_GRACE_S = 5.0  # after an interrupt, before the kernel is killed
_INTERRUPT_INTERVAL_S = 1.0  # interrupts are repeated at this interval, because code may swallow one
# A cell may send `_WASTE` times the encoded size of its output limits (displays repeat, text is escaped), and a minimum
_MIN_OUTPUT_BYTES, _WASTE = 64 * 2**20, 4
_LEFTOVERS_ENDED = "{count} processes that an earlier cell had left running were ended at that cell's time limit"
_STATE_LOST = "the kernel was restarted: variables, imports and definitions of earlier cells are gone, files are kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Live kernel process and its channels."""

    process: KernelProcess
    channels: Channels


Launch = Callable[[Callable[[Message], None]], Awaitable[Running]]
"""Starts a kernel, whose output messages go to the given callback."""


class _Cell:
    """Cell in progress."""

    def __init__(self, message_id: str, limits: KernelLimits, channels: Channels) -> None:
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
    """Kernel created by `Sandbox.make_kernel`; see `visual_tools.sandbox.Kernel`."""

    def __init__(
        self,
        *,
        folder: Path,
        inside_dir: str,
        backend: Backend,
        limits: KernelLimits,
        launch: Launch,
        zygote: ZygoteClient,
        work_folder: WorkFolder,
        on_close: Callable[[], Awaitable[None]],
    ) -> None:
        self.folder = folder
        self.inside_dir = inside_dir
        self.backend: Backend = backend
        self._limits = limits
        self._launch = launch
        self._zygote = zygote
        self._work_folder = work_folder
        self._on_close = on_close
        self._running: Running | None = None
        self._cell: _Cell | None = None
        self._is_interrupted = False
        self._is_closed = False
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Start the kernel.

        Raises:
            SandboxError: If it did not start.
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
            before, begin_notes = await asyncio.to_thread(self._work_folder.begin)
            began = time.monotonic()
            outcome = await self._run_cell(code, self._limits.wall_s if timeout_s is None else timeout_s, store_history)
            result = await self._report(outcome, time.monotonic() - began, notes)
            written, end_notes = await asyncio.to_thread(self._work_folder.end, before)
            return replace(result, files_written=written, notes=(*result.notes, *begin_notes, *end_notes))

    async def _revive(self) -> tuple[str, ...]:
        """Restart the kernel if it died; return notes for the model."""
        if self._is_closed:
            raise SandboxError("this kernel is closed: make a new one")
        running, cell = self._running, self._cell
        if running is None:
            why = "it could not be restarted"
        elif running.channels.is_cut_off and not running.process.ended.done():
            why = "it sent a message that kernels do not send"
        else:
            if not running.process.ended.done() and (
                cell is None or cell.is_idle.is_set() or await self._stop(running, cell)
            ):
                return ()  # stop a cell that is still running: its caller was cancelled
            why = running.process.ended.result()
        await self._restart()
        return (f"the kernel had ended: {why}", _STATE_LOST)

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
        self._zygote.set_busy(running.process, True, timeout_s)  # later it ends what the cell leaves running
        reply = channels.send("shell", message)
        try:
            return await self._follow(running, cell, reply, timeout_s)
        finally:
            self._zygote.set_busy(running.process, False)

    async def _follow(
        self, running: Running, cell: _Cell, reply: "asyncio.Future[Message]", timeout_s: float
    ) -> "_Outcome":
        """Wait until a cell ends, for any reason."""
        done = asyncio.ensure_future(_reply_and_idle(reply, cell.is_idle))
        flooded = asyncio.ensure_future(running.channels.is_flooded.wait())
        try:
            if self._is_interrupted:  # before it was sent
                await self._stop(running, cell)
            await wait_for_first(done, flooded, running.process.ended, timeout_s=timeout_s)
            if done.done():
                return _Outcome(cell, "interrupted" if self._is_interrupted else "ok", done.result())
            if running.process.ended.done():
                return _Outcome(cell, "died", {}, running.process.ended.result())
            why = "its output was too large" if flooded.done() else f"it ran for {timeout_s:g} s"
            if await self._stop(running, cell):
                await wait_for_first(done, timeout_s=_INTERRUPT_INTERVAL_S)
                return _Outcome(cell, "interrupted", done.result() if done.done() else {}, why)
            return _Outcome(cell, "died", {}, f"{why} and could not be interrupted")
        finally:
            done.cancel()
            flooded.cancel()

    async def _stop(self, running: Running, cell: _Cell) -> bool:
        """Interrupt a cell, and kill the kernel if the cell does not stop; return True if it stopped."""
        until = time.monotonic() + _GRACE_S
        idle = asyncio.ensure_future(cell.is_idle.wait())
        try:
            while time.monotonic() < until and not running.process.ended.done():
                running.channels.request("control", "interrupt_request", {})
                await wait_for_first(idle, running.process.ended, timeout_s=_INTERRUPT_INTERVAL_S)
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
            notes = (*notes, _LEFTOVERS_ENDED.format(count=running.process.num_left))
            running.process.num_left = 0
        if status == "died":
            notes = (*notes, f"the kernel ended: {why}", _STATE_LOST)
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
        """End the kernel; see `Kernel.close`."""
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


def _count_allowed_bytes(limits: KernelLimits) -> int:
    """Return the maximum bytes of messages read for one cell: several times the returned output in its widest form."""
    return _MIN_OUTPUT_BYTES + _WASTE * (limits.num_images * limits.image_bytes * 4 // 3 + 6 * limits.output_chars)


async def _reply_and_idle(reply: "asyncio.Future[Message]", is_idle: asyncio.Event) -> Message:
    message = await reply
    await is_idle.wait()
    return message


_START_S = 30.0  # a kernel starts in milliseconds to two seconds; a busy machine needs longer
_END_S = 2.0  # from the end of a kernel's sockets to the report that its process ended


@dataclass(slots=True, kw_only=True)
class _Shared:
    in_memory: FolderInMemory
    number: int
    num_kernels: int = 0


class Sandbox:
    """Factory of isolated kernels, created with `await Sandbox.start()`.

    Use it as `async with await Sandbox.start() as sandbox`.
    """

    def __init__(
        self, backend: Backend, limits: KernelLimits, folder: Path, plan: ZygotePlan, zygote: ZygoteClient
    ) -> None:
        self.backend: Backend = backend
        self._limits = limits
        self._folder = folder
        self._plan = plan
        self._zygote = zygote
        self._numbers = 0
        self._kernels: list[IsolatedKernel] = []
        self._in_memory: dict[Path, _Shared] = {}
        self._in_memory_lock = asyncio.Lock()
        self._is_closed = False

    @classmethod
    async def start(cls, backend: Backend | Literal["auto"] = "auto", limits: KernelLimits | None = None) -> "Sandbox":
        """Start the zygote; takes a few seconds, after which a kernel takes milliseconds.

        Args:
            backend: `auto` selects the best backend that works here, but never `none`, which isolates nothing.
            limits: Default limits of each kernel.

        Raises:
            SandboxError: If no backend works here, or the requested one does not; the text says why and what to do.
        """
        require("ipykernel", "sandbox")
        require("jupyter_client", "sandbox")
        reasons = []
        for name in ISOLATING if backend == "auto" else (backend,):
            for mode in MODES[name]:
                try:
                    return await cls.start_as(name, mode, limits or KernelLimits())
                except SandboxError as error:
                    reasons.append(f"{name}: {error}")
        raise SandboxError(
            f"code cannot be isolated here. {'. '.join(dict.fromkeys(reasons))}. Install bubblewrap and allow user "
            "namespaces; or ask for the backend 'none' by name, which isolates nothing"
        )

    @classmethod
    async def start_as(cls, backend: Backend, mode: Mode, limits: KernelLimits) -> "Sandbox":
        """Start with exactly this backend and mode; `start` selects them.

        Raises:
            SandboxError: If the mode does not work here.
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
        self, folder: Path, *, readable: Sequence[Path] = (), limits: KernelLimits | None = None
    ) -> IsolatedKernel:
        """Start a new kernel; see `KernelMaker.make_kernel`."""
        if self._is_closed:
            raise SandboxError("this sandbox is closed: start a new one")
        folder, paths = _prepare_paths(Path(folder), readable)
        limits = limits or self._limits
        is_moved = self._plan.mode in ("nested", "exec")  # `Mode`; these mount the folder at another path
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
            work_folder=in_memory or FolderOnDisk(str(folder), self._choose_owner(folder)),
            on_close=leave,
        )
        try:
            await kernel.start()
        except BaseException:
            await kernel.close()
            raise
        self._kernels.append(kernel)
        return kernel

    async def _enter_memory(self, folder: Path, limits: KernelLimits, inside_dir: str) -> FolderInMemory:
        """Return the in-memory copy of the folder, which all kernels in the folder share."""
        async with self._in_memory_lock:
            if folder not in self._in_memory:
                self._numbers += 1
                number = self._numbers  # of this disk: other calls increment the counter during the awaits below
                need = await asyncio.to_thread(measure_need, folder, limits.disk_bytes, limits.num_files)
                fd = await self._zygote.mount_disk(number, *need)
                in_memory = FolderInMemory(folder, fd, NOBODY if self._plan.is_root else None, inside_dir)
                self._in_memory[folder] = _Shared(in_memory=in_memory, number=number)
            shared = self._in_memory[folder]
            shared.num_kernels += 1
            return shared.in_memory

    async def _leave_memory(self, folder: Path) -> None:
        async with self._in_memory_lock:
            shared = self._in_memory[folder]
            shared.num_kernels -= 1
            if shared.num_kernels == 0:
                del self._in_memory[folder]
                await asyncio.to_thread(shared.in_memory.close)
                self._zygote.unmount_disk(shared.number)

    def _choose_owner(self, folder: Path) -> int | None:
        """Return `nobody` as owner of a kernel's files if root starts it and the folder is reachable, else None."""
        if not self._plan.is_root or (self._plan.mode != "nested" and not is_open_to_all([str(folder)])):
            return None
        return NOBODY

    async def _launch(
        self,
        folder: Path,
        inside_dir: str,
        readable: tuple[str, ...],
        limits: KernelLimits,
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
        """Remove a folder outside the event loop, because code may have filled it."""
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
            reason = str(error) if error else f"no answer in {_START_S:g} s"
            why = process.error or (process.ended.result() if process.ended.done() else reason)
            raise SandboxError(f"the kernel did not start: {why}")
        finally:
            ready.cancel()

    async def close(self) -> None:
        """End every kernel and the processes that create them. May be called twice."""
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
    """Create the working folder; return its real path and the real paths of what else may be read."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return folder.resolve(), tuple(str(Path(path).resolve(strict=True)) for path in readable)
    except OSError as error:
        raise SandboxError(f"{error.filename}: {error.strerror}; a kernel needs a folder that it may write") from error


def _choose_inside_dir(shown: Sequence[str]) -> str:
    """Choose where a kernel sees its folder, such that it hides none of the paths that the kernel must see."""
    for folder in WORK_DIRS:
        if not any(Path(path).is_relative_to(folder) or Path(folder).is_relative_to(path) for path in shown):
            return folder
    raise SandboxError(f"the paths {', '.join(shown)} leave no free path for the working folder")
