"""A file that only grows by whole lines, whatever happens to the process or the disk."""

import os
from pathlib import Path

from cua.errors import TrajectoryError
from cua.trajectory.run_files import MAX_RECORD_BYTES, check_no_link, read_inside


class AppendOnlyLines:
    """Appends lines straight to the operating system: what was appended survives the death of the process.

    A line that could not be written completely is cut off again, so that the next one starts clean.
    """

    def __init__(self, path: Path, *, keep_bytes: int | None = None) -> None:
        """Open for appending.

        Args:
            path: The file; made when it is not there.
            keep_bytes: Cut the file to this size first (a torn last line is dropped that way).

        Raises:
            OSError: The file cannot be opened.
            TrajectoryError: It is a link.
        """
        self._path = path
        check_no_link(path)
        self._fd: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if keep_bytes is not None:
            os.ftruncate(self._fd, keep_bytes)
        self._size_bytes = os.fstat(self._fd).st_size

    def append(self, line: bytes, *, is_durable: bool) -> None:
        """Write one line, its line end included.

        Args:
            line: The bytes.
            is_durable: Wait until the disk has them (fsync), so that they survive a power cut too.

        Raises:
            TrajectoryError: The file is closed or was deleted.
            OSError: The disk is full, broken or read-only.
        """
        if self._fd is None:
            raise TrajectoryError(f"the record {self._path} is closed; nothing more can be written to it")
        if os.fstat(self._fd).st_nlink == 0:
            raise TrajectoryError(
                f"the record {self._path} was deleted while the run was going on. "
                "Start the run again, and leave its folder in place until it ends"
            )
        try:
            _write_all(self._fd, line)
            if is_durable:
                os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, self._size_bytes)
            raise
        self._size_bytes += len(line)

    def sync(self) -> None:
        """Wait until the disk has all lines.

        Raises:
            OSError: It does not take them.
        """
        if self._fd is not None:
            os.fsync(self._fd)

    def close(self) -> None:
        """Let the file go. May be called twice."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def whole_lines(path: Path) -> list[bytes]:
    """All complete lines of a file, without their ends; a last line without its end was torn and is left out.

    Raises:
        OSError: The file cannot be read.
        TrajectoryError: It is a link, no regular file, or larger than a record may be.
    """
    return read_inside(path.parent, path.name, max_bytes=MAX_RECORD_BYTES).split(b"\n")[:-1]
