"""One writer a run: a lock that the operating system frees when its process dies, however it dies."""

import os
import time
from pathlib import Path

from cua.errors import TrajectoryError
from cua.trajectory.run_files import check_no_link

NAME = "lock"
_PATIENCE_S = 0.3
"""`is_locked` of another process may hold the lock for an instant; a writer holds it for good."""


class RunLock:
    """Held by the process that writes a run."""

    def __init__(self, run_dir: Path) -> None:
        """Take the lock.

        Raises:
            TrajectoryError: Another process (or another writer of this one) has it, or a link stands in its place.
            OSError: The lock file cannot be opened.
        """
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
        """Let it go. May be called twice."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def is_locked(run_dir: Path) -> bool:
    """Whether some process is writing this run now."""
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
