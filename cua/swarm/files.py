"""Files of a child's folder that are sent between two machines, in chunks of bounded size.

Chunks are kept next to the folder until all changes of a step have arrived, so a machine that is lost meanwhile changes
nothing.
"""

import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MAX_FOLDER_BYTES = 2**30
"""Limit of the files that a child may return; files beyond it are not sent, and are removed when the child ends."""
CHUNK_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class FileChunk:
    """Part of a changed file.

    Attributes:
        name: Name of the file in the folder.
        data: Bytes that follow the previous chunk of the file; None for a removed file.
    """

    name: str
    data: bytes | None


Chunks = Sequence[FileChunk]


class FolderChanges:
    """Changes in a folder since the last check, by size and time of each file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, tuple[int, int]] = {}

    def skip(self) -> None:
        """Treat the current files as known."""
        self._seen = self._look()

    def take(self) -> Iterator[list[FileChunk]]:
        """Yield the files that are new, changed or removed, as groups of chunks of at most `CHUNK_BYTES` together."""
        before, self._seen = self._seen, self._look()
        group = [FileChunk(name, None) for name in before if name not in self._seen]
        room = CHUNK_BYTES
        for name in [name for name, stamp in self._seen.items() if before.get(name) != stamp]:
            with suppress(OSError), (self._folder / name).open("rb") as file:
                data = file.read(room)
                group.append(FileChunk(name, data))
                while len(data) == room:
                    yield group
                    room, data = CHUNK_BYTES, file.read(CHUNK_BYTES)
                    group = [FileChunk(name, data)]
                room -= len(data)
        if group:
            yield group

    def _look(self) -> dict[str, tuple[int, int]]:
        stamps: dict[str, tuple[int, int]] = {}
        room = MAX_FOLDER_BYTES
        for folder, folders, names in os.walk(self._folder):
            folders.sort()
            for path in (Path(folder) / name for name in sorted(names)):
                with suppress(OSError):
                    status = path.lstat()
                    room -= status.st_size
                    if path.is_file() and not path.is_symlink() and room >= 0:
                        stamps[str(path.relative_to(self._folder))] = status.st_size, status.st_mtime_ns
        return stamps


class FolderReceiver:
    """Writer of changes into a folder; names that lead out of it or through a link are skipped."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._incoming = folder, folder.with_name(f"{folder.name}.incoming")
        self._names: dict[str, Path | None] = {}
        self._numbers = itertools.count()
        self.discard()

    def add(self, chunks: Chunks) -> None:
        """Keep chunks until `commit`."""
        for chunk in chunks:
            path = self._names.get(chunk.name)
            if chunk.data is None:
                self._names[chunk.name] = None
                continue
            if path is None:
                self._incoming.mkdir(exist_ok=True)
                path = self._names[chunk.name] = self._incoming / str(next(self._numbers))
            with suppress(OSError), path.open("ab") as file:
                file.write(chunk.data)

    def commit(self) -> None:
        """Apply all changes since the last call."""
        for name, source in self._names.items():
            path = self._folder / name
            if not path.parent.resolve().is_relative_to(self._folder.resolve()) or path.is_symlink():
                continue
            with suppress(OSError):
                if source is None:
                    path.unlink(missing_ok=True)
                else:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    source.replace(path)
        self.discard()

    def discard(self) -> None:
        """Forget changes that are not applied."""
        self._names = {}
        shutil.rmtree(self._incoming, ignore_errors=True)
