"""Files of a record while it is written: its lines, chained and locked, and its images."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from cua.errors import TrajectoryError
from cua.trajectory.chain import hash_line, link
from cua.trajectory.codec import to_line
from cua.trajectory.disk import AppendOnlyLines, RunLock, sync_file, sync_folder, translate_os_errors, whole_lines
from cua.trajectory.events import Event, ResumedEvent, RunEvent, RunHeader
from cua.trajectory.images import FOLDER, ImageFolder, write_atomically
from cua.trajectory.load import load_chain
from cua.trajectory.run_files import TASK_FILES, TRAJECTORY, check_name, check_no_link, make_run_dir


@contextmanager
def reserve_run(runs_dir: Path, title: str) -> Iterator[Path]:
    """Make the folder of a run whose record begins later, so that `last` refers to it; remove it if it stays empty."""
    with translate_os_errors("write", runs_dir):
        run_dir = make_run_dir(runs_dir.absolute(), title, time.time())
    try:
        yield run_dir
    finally:
        with suppress(OSError):
            run_dir.rmdir()


class RecordFile:
    """Record of one run on disk, for all of the run's agents; not thread-safe.

    Every method that writes raises `TrajectoryError` on failure.

    Attributes:
        run_dir: Folder of the run.
        is_grouped: True if durable writes wait for `sync`, so that many of them share one wait for the disk.
    """

    def __init__(self, run_dir: Path, lock: RunLock, redact: Callable[[str], str], *, is_durable: bool) -> None:
        """Internal: use `create` or `reopen`."""
        self.run_dir = run_dir
        self.is_grouped = False
        self._lock = lock
        self._redact = redact
        self._is_durable = is_durable
        self._images = ImageFolder(run_dir)
        self._lines: AppendOnlyLines | None = None
        self._last_hash: str | None = ""  # None: a record without a chain, of an earlier version
        self._unsynced: list[Path] = []
        self._is_synced = True

    @classmethod
    def create(
        cls,
        runs_dir: Path,
        header: RunHeader,
        redact: Callable[[str], str],
        *,
        is_durable: bool,
        run_dir: Path | None = None,
    ) -> Self:
        """Make a new run folder, unless one is reserved, and write its first line."""
        started_at = header.started_at or time.time()
        with translate_os_errors("write", runs_dir):
            run_dir = run_dir or make_run_dir(runs_dir.absolute(), redact(header.instruction), started_at)
            try:
                record = cls(run_dir, RunLock(run_dir), redact, is_durable=is_durable)
                with record._closed_on_error():
                    (run_dir / FOLDER).mkdir(mode=0o700)
                    record._lines = AppendOnlyLines(run_dir / TRAJECTORY)
                    header = replace(header, started_at=started_at)
                    event = RunEvent(at=started_at, header=header, run_id=run_dir.name)
                    record.append(event, is_durable=True)
                    if is_durable:
                        sync_folder(run_dir)
            except (OSError, TrajectoryError):
                shutil.rmtree(run_dir, ignore_errors=True)  # a run without a first line
                raise
        return record

    @classmethod
    def reopen(cls, run_dir: Path, redact: Callable[[str], str], *, is_durable: bool) -> Self:
        """Continue a run: drop a torn last line and write `resumed`.

        Raises:
            TrajectoryError: If another process writes this run, or its record is damaged or was edited.
        """
        folder = run_dir.absolute()
        path = folder / TRAJECTORY
        with translate_os_errors("write", folder):
            path.stat()
            record = cls(folder, RunLock(folder), redact, is_durable=is_durable)
            with record._closed_on_error():
                chain = load_chain(folder)
                if chain.status == "broken":
                    raise TrajectoryError(f"{path} was {chain.describe()}; a run goes on only from its own record")
                record._last_hash = chain.fingerprint if chain.status == "whole" else None
                record._lines = AppendOnlyLines(path, keep_bytes=sum(len(line) + 1 for line in whole_lines(path)))
                record.append(ResumedEvent(at=time.time()), is_durable=True)
        return record

    def append(self, event: Event, *, is_durable: bool = False) -> None:
        """Append one line."""
        if self._lines is None:
            raise TrajectoryError(f"the record in {self.run_dir} is not open")
        with translate_os_errors("write", self.run_dir):
            line = to_line(event, self._redact)
            if self._last_hash is not None:
                line = link(line, self._last_hash)
            is_awaited = is_durable and self._is_durable
            self._lines.append(line, is_durable=is_awaited and not self.is_grouped)
            self._is_synced = self._is_synced and not (is_awaited and self.is_grouped)
        if self._last_hash is not None:
            self._last_hash = hash_line(line)

    def put_image(self, png: bytes, *, is_durable: bool) -> str:
        """Write an image and return its hash."""
        is_awaited = is_durable and self._is_durable
        with translate_os_errors("write", self.run_dir):
            sha256, is_new = self._images.put(png, is_durable=is_awaited and not self.is_grouped)
        if is_new and is_awaited and self.is_grouped:
            self._unsynced.append(self._images.path(sha256))
        return sha256

    def put_file(self, name: str, data: bytes) -> None:
        """Write a file that a task left, redacted, atomically."""
        check_name(name)
        text = self._redact(data.decode("utf-8", "surrogateescape"))
        with translate_os_errors("write", self.run_dir):
            folder = self.run_dir / TASK_FILES
            folder.mkdir(mode=0o700, exist_ok=True)
            check_no_link(folder)
            write_atomically(folder / name, text.encode("utf-8", "surrogateescape"))

    def sync(self) -> None:
        """Wait until all durable writes up to here are on disk: the images first, then the lines that name them."""
        if self._lines is None or self._is_synced:
            return
        unsynced, self._unsynced, self._is_synced = self._unsynced, [], True
        with translate_os_errors("write", self.run_dir):
            for path in unsynced:
                sync_file(path)
            self._lines.sync()

    def close(self) -> None:
        """Close the files and release the lock; safe to call twice."""
        if self._lines is not None:
            self._lines.close()
        self._lock.release()

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.callback(self.close)
            yield
            stack.pop_all()
