"""Append-only file of whole lines with a single writer, and readable messages for file errors."""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cua.errors import TrajectoryError
from cua.trajectory.run_files import MAX_RECORD_BYTES, check_no_link, read_inside


class AppendOnlyLines:
    """Appender that passes lines directly to the operating system: they survive the death of the process.

    A partly written line is cut off again, so that the next one starts on a new line; a line break is added after bytes
    that another program has appended.

    Args:
        path: Path of the file; created if missing, refused if it is a link.
        keep_bytes: Size to truncate the file to first, which drops a torn last line.
    """

    def __init__(self, path: Path, *, keep_bytes: int | None = None) -> None:
        self._path = path
        check_no_link(path)
        self._fd: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if keep_bytes is not None:
            os.ftruncate(self._fd, keep_bytes)
        self._size_bytes = os.fstat(self._fd).st_size

    def append(self, line: bytes, *, is_durable: bool) -> None:
        """Append one line, including its line end.

        Raises:
            TrajectoryError: If the file is closed or was deleted.
            OSError: If the disk is full, broken or read-only.
        """
        if self._fd is None:
            raise TrajectoryError(f"the record {self._path} is closed; nothing more can be written to it")
        status = os.fstat(self._fd)
        if status.st_nlink == 0:
            raise TrajectoryError(
                f"the record {self._path} was deleted while the run was going on. "
                "Start the run again, and leave its folder in place until it ends"
            )
        if status.st_size > self._size_bytes:  # bytes of another writer, perhaps without a line end
            line = b"\n" + line
        try:
            _write_all(self._fd, line)
            if is_durable:
                os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, status.st_size)
            raise
        self._size_bytes = status.st_size + len(line)

    def sync(self) -> None:
        """Wait until all lines are on disk."""
        if self._fd is not None:
            os.fsync(self._fd)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_file(path: Path) -> None:
    """Wait until a file is on disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Wait until the names inside a folder are on disk (where the system supports it)."""
    with suppress(PermissionError):  # Windows does not open folders
        sync_file(folder)


def whole_lines(path: Path) -> list[bytes]:
    """Read all complete lines of a file, without line ends; a last line without a line end is dropped as torn.

    Raises:
        OSError: If the file cannot be read.
        TrajectoryError: If it is a link, not a regular file, or larger than a record may be.
    """
    return read_inside(path.parent, path.name, max_bytes=MAX_RECORD_BYTES).split(b"\n")[:-1]


def whole_size(path: Path) -> int:
    """Return the size of a file up to its last line end, in bytes, without reading more than its last line."""
    step = 2**16
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - step)
            file.seek(start)
            place = file.read(end - start).rfind(b"\n")
            if place >= 0:
                return start + place + 1
            end = start
    return 0


NAME = "lock"
_PATIENCE_S = 0.3
"""Timeout for the lock: `is_locked` of another process may hold it briefly; a writer keeps it."""


class RunLock:
    """Lock held by the process that writes a run.

    Raises:
        TrajectoryError: If another process or writer holds it, or the lock file is a link.
    """

    def __init__(self, run_dir: Path) -> None:
        path = run_dir / NAME
        check_no_link(path)
        self._fd: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        give_up_at = time.monotonic() + _PATIENCE_S
        while not _try_lock(self._fd):
            if time.monotonic() > give_up_at:
                holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
                self.release()
                raise TrajectoryError(
                    f"the run {run_dir} is being written by another process (pid {holder}). "
                    "Wait for it or stop it, then try again"
                )
            time.sleep(0.02)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock; safe to call twice."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def is_locked(run_dir: Path) -> bool:
    """Return True if a process is writing this run."""
    path = run_dir / NAME
    if path.is_symlink() or not path.is_file():
        return False
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _try_lock(fd)
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        import fcntl
    except ModuleNotFoundError:
        return _try_lock_windows(fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _try_lock_windows(fd: int) -> bool:
    import importlib

    msvcrt = importlib.import_module("msvcrt")
    os.lseek(fd, 1024, os.SEEK_SET)  # a byte past the pid: Windows locks forbid reading too
    try:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True


_ADVICE = {
    errno.ENOSPC: "Free some space there, or set K25_RUNS_DIR to a folder on another disk",
    errno.EDQUOT: "Free some of your quota, or set K25_RUNS_DIR to a folder on another disk",
    errno.EFBIG: "Raise the limit on file sizes (ulimit -f), or set K25_RUNS_DIR to another folder",
    errno.EROFS: "Set K25_RUNS_DIR to a folder that can be written",
    errno.EACCES: "Set K25_RUNS_DIR to a folder that you may use",
    errno.ENOENT: "The folder is gone: leave it in place until the run ends, and start the run again",
    errno.ENOTDIR: "Part of its path is not a folder: set K25_RUNS_DIR to another folder",
}


@contextmanager
def translate_os_errors(doing: str, path: Path) -> Iterator[None]:
    """Convert an `OSError` inside the block to a `TrajectoryError`.

    Raises:
        TrajectoryError: On an `OSError`; the message names the path, the cause and a solution.
    """
    try:
        yield
    except OSError as error:
        cause = os.strerror(error.errno) if error.errno else str(error)
        advice = _ADVICE.get(error.errno or 0, "Check that disk, or set K25_RUNS_DIR to another folder")
        raise TrajectoryError(f"cannot {doing} the record of the run in {path}: {cause}. {advice}") from error
