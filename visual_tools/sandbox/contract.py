"""What running a cell in isolation takes and gives: plain types, shared by every backend."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol

Backend = Literal["bubblewrap", "landlock", "none"]
"""What isolates: namespaces made by bubblewrap; Landlock with seccomp; nothing (only when asked for by name)."""

Status = Literal["ok", "error", "interrupted", "died"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one kernel may use.

    Attributes:
        wall_s: Seconds that a cell may take; then it is interrupted, and killed when that does not help.
        cpu_s: Processor seconds over the life of a kernel, all its processes.
        memory_bytes: Memory of a kernel beyond what it starts with, all its processes.
        num_processes: Processes and threads.
        file_bytes: Size of one file.
        disk_bytes: What the working folder may hold. With namespaces it lies in memory, of which a quarter is the most.
        num_files: Files and folders that the working folder may hold.
        output_chars: Text of a cell that is handed back; head and tail are kept.
        num_images: Images of a cell that are handed back.
        image_side_px: Longer side of a handed-back image; larger ones are reduced, and it is said.
        image_bytes: Size of one handed-back image.
    """

    wall_s: float = 60.0
    cpu_s: float = 3600.0
    memory_bytes: int = 2 * 2**30
    num_processes: int = 64
    file_bytes: int = 512 * 2**20
    disk_bytes: int = 2**30
    num_files: int = 50_000
    output_chars: int = 20_000
    num_images: int = 8
    image_side_px: int = 2048
    image_bytes: int = 8 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class CellImage:
    """An image that a cell displayed.

    Attributes:
        png: The file's bytes.
        size_px: Width and height as handed back.
        original_px: Width and height before it was reduced; equal to `size_px` when it was not.
    """

    png: bytes = field(repr=False)
    size_px: tuple[int, int]
    original_px: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellError:
    """What a cell raised.

    Attributes:
        name: Class of the exception.
        message: Its text.
        traceback: The frames of the cell's own code, no colour codes, no frames of IPython.
    """

    name: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """What became of a cell.

    Attributes:
        status: `interrupted` at the time limit or on request; `died`: the kernel was lost and started anew.
        text: Standard output, standard error, displayed text and the last value, in order of time.
        images: Displayed images, in order.
        error: What was raised, for `error` and `interrupted`.
        files_written: Files in the working folder that were made or changed, relative, sorted.
        outputs: The same outputs in nbformat's form, for a notebook.
        execution_count: Number of the cell, `In [n]`; None when it was not counted.
        duration_s: Seconds.
        is_truncated: Whether text or images were left out; the text says where.
        is_state_lost: Whether variables are gone: the kernel was started anew.
        notes: What the model must be told besides: limits that struck, state that is gone.
    """

    status: Status
    text: str = ""
    images: tuple[CellImage, ...] = ()
    error: CellError | None = None
    files_written: tuple[str, ...] = ()
    outputs: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    execution_count: int | None = None
    duration_s: float = 0.0
    is_truncated: bool = False
    is_state_lost: bool = False
    notes: tuple[str, ...] = ()


class Kernel(Protocol):
    """A Python that keeps its state between cells and can reach nothing but its working folder.

    Attributes:
        folder: The working folder, on this machine.
        inside_dir: The working folder as the code sees it; it is also the current folder there.
        backend: What isolates it.
    """

    folder: Path
    inside_dir: str
    backend: Backend

    async def run(self, code: str, *, timeout_s: float | None = None, store_history: bool = True) -> CellResult:
        """Run a cell; calls made at the same time are run one after the other, in order.

        Args:
            code: The cell, IPython syntax.
            timeout_s: Instead of `Limits.wall_s`.
            store_history: Count it as `In [n]`.

        Raises:
            SandboxError: The kernel is closed, or cannot be started anew.
        """
        ...

    async def interrupt(self) -> None:
        """Stop the running cell, if any."""
        ...

    async def close(self) -> None:
        """End it and everything it started. May be called twice."""
        ...


class KernelMaker(Protocol):
    """Makes kernels; `visual_tools.sandbox.Sandbox` is the real one."""

    backend: Backend

    async def make_kernel(self, folder: Path, *, readable: Sequence[Path] = (), limits: Limits | None = None) -> Kernel:
        """Start a fresh kernel.

        Args:
            folder: Its working folder, which it may read and write; made when it is not there.
            readable: Files and folders outside it that the code may read, at the same absolute path.
            limits: Instead of the maker's own.

        Raises:
            SandboxError: It cannot be started; the text says why and what to do.
        """
        ...

    async def close(self) -> None:
        """End every kernel and the processes that make them. May be called twice."""
        ...

    async def __aenter__(self) -> "KernelMaker": ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
