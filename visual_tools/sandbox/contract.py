"""Inputs and outputs of running a cell in isolation: plain types, shared by every backend."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol

Backend = Literal["bubblewrap", "landlock", "none"]
"""Isolation method: bubblewrap namespaces; Landlock with seccomp; none (only if requested by name)."""

Status = Literal["ok", "error", "interrupted", "died"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLimits:
    """Resource limits of one kernel.

    Attributes:
        wall_s: Seconds that a cell may take; it is then interrupted, and killed if it does not stop.
        cpu_s: CPU seconds over the life of a kernel, all its processes.
        memory_bytes: Memory of a kernel beyond its use at start, all its processes.
        num_processes: Processes and threads.
        file_bytes: Size of one file.
        disk_bytes: Size of the working folder. With namespaces in memory, and at most a quarter of the memory.
        num_files: Files and folders in the working folder.
        output_chars: Text of a cell that is returned; head and tail are kept.
        num_images: Images of a cell that are returned.
        image_side_px: Longer side of a returned image; larger ones are reduced, and the output says so.
        image_bytes: Size of one returned image.
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
    """Image that a cell displayed.

    Attributes:
        png: Bytes of the PNG file.
        size_px: Width and height as returned.
        original_px: Width and height before reduction; equal to `size_px` if it was not reduced.
    """

    png: bytes = field(repr=False)
    size_px: tuple[int, int]
    original_px: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellError:
    """Exception that a cell raised.

    Attributes:
        name: Class of the exception.
        message: Text of the exception.
        traceback: Frames of the cell's own code, without colour codes or frames of IPython.
    """

    name: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """Result of running one cell.

    Attributes:
        status: `interrupted` at the time limit or on request; `died` if the kernel was lost and restarted.
        text: Standard output, standard error, displayed text and the last value, in chronological order.
        images: Displayed images, in order.
        error: Exception raised, for `error` and `interrupted`.
        files_written: Files created or changed in the working folder, relative paths, sorted.
        outputs: The same outputs in nbformat's form, for a notebook.
        execution_count: Number of the cell, `In [n]`; None if it was not counted.
        duration_s: Duration in seconds.
        is_truncated: True if text or images were left out; the text says where.
        is_state_lost: True if the kernel was restarted and its variables are lost.
        notes: Additional messages for the model: limits that were hit, state that was lost.
    """

    status: Status
    text: str = ""
    images: tuple[CellImage, ...] = ()
    error: CellError | None = None
    files_written: tuple[str, ...] = ()
    outputs: tuple[Mapping[str, object], ...] = field(default=(), repr=False)
    execution_count: int | None = None
    duration_s: float = 0.0
    is_truncated: bool = False
    is_state_lost: bool = False
    notes: tuple[str, ...] = ()


class Kernel(Protocol):
    """Python process that keeps its state between cells and can access only its working folder.

    Attributes:
        folder: Working folder, on this machine.
        inside_dir: Working folder as the code sees it, which is also the current folder there.
        backend: Isolation method.
    """

    folder: Path
    inside_dir: str
    backend: Backend

    async def run(self, code: str, *, timeout_s: float | None = None, store_history: bool = True) -> CellResult:
        """Run a cell; concurrent calls are run one after the other, in order.

        Args:
            code: Cell in IPython syntax.
            timeout_s: Overrides `KernelLimits.wall_s`.
            store_history: True to count the cell as `In [n]`.

        Raises:
            SandboxError: If the kernel is closed or cannot be restarted.
        """
        ...

    async def interrupt(self) -> None:
        """Stop the running cell, if any."""
        ...

    async def close(self) -> None:
        """End the kernel and every process it started. May be called twice."""
        ...


class KernelMaker(Protocol):
    """Factory of kernels; `visual_tools.sandbox.Sandbox` is the implementation."""

    backend: Backend

    async def make_kernel(
        self, folder: Path, *, readable: Sequence[Path] = (), limits: KernelLimits | None = None
    ) -> Kernel:
        """Start a new kernel.

        Args:
            folder: Working folder, readable and writable; created if it does not exist.
            readable: Files and folders outside it that the code may read, at the same absolute path.
            limits: Overrides the maker's limits.

        Raises:
            SandboxError: If the kernel cannot be started; the text says why and what to do.
        """
        ...

    async def close(self) -> None:
        """End every kernel and the processes that create them. May be called twice."""
        ...

    async def __aenter__(self) -> "KernelMaker": ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
