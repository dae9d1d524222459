"""The files that a run's code has written, with their hashes, as the record seals them at the end."""

import os
from collections.abc import Iterator
from pathlib import Path

from cua.errors import TrajectoryError
from cua.trajectory.events import SealedEvent
from cua.trajectory.run_files import MAX_DEPTH, hash_inside

FILES = "files"
MAX_FILES = 5000
MAX_BYTES = 4 * 2**30
"""Of all files together; twice what a working folder may hold."""
NO_FILE = ""
"""Stands for what is no regular file, such as a link, instead of a hash."""


def hash_files(run_dir: Path) -> tuple[dict[str, str], bool]:
    """The files of a run's working folder.

    Returns:
        SHA-256 by name relative to the folder; and whether that is all, for there may be too many.
    """
    hashes: dict[str, str] = {}
    hasher = _Hasher(run_dir)
    for name in _names(run_dir / FILES):
        if name is None or len(hashes) == MAX_FILES:
            return hashes, False
        hashes[name] = hasher.hash(name)
    return hashes, True


def changed_files(run_dir: Path, sealed: SealedEvent) -> Iterator[str]:
    """What is not as the record sealed it, in words."""
    if sealed.is_whole:
        now, is_whole = hash_files(run_dir)
        for name in sorted(now.keys() - sealed.files.keys()):
            yield f"{FILES}/{name} was not there when the run ended"
        if not is_whole:
            yield f"{FILES}/ holds more than when the run ended"
    else:
        hasher = _Hasher(run_dir)
        now = {name: hasher.hash(name) for name in list(sealed.files)[:MAX_FILES]}
    for name, sha256 in sealed.files.items():
        if now.get(name) != sha256:
            yield f"{FILES}/{name} is not what it was when the run ended"


class _Hasher:
    """Hashes files up to a size of all together, which a folder of holes would make endless."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._num_left = MAX_BYTES

    def hash(self, name: str) -> str:
        try:
            sha256, size_bytes = hash_inside(self._run_dir, f"{FILES}/{name}", max_bytes=self._num_left)
        except (OSError, TrajectoryError):
            return NO_FILE
        self._num_left -= size_bytes
        return sha256


def _names(folder: Path) -> Iterator[str | None]:
    """Names of all files, links not followed; None where something cannot be named or lies too deep."""
    queue = [(folder, "")]
    while queue:
        here, prefix = queue.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            name = prefix + entry.name
            if not _is_utf8(name):
                yield None
            elif not entry.is_dir(follow_symlinks=False):
                yield name
            elif name.count("/") + 2 >= MAX_DEPTH:
                yield None
            else:
                queue.append((here / entry.name, f"{name}/"))


def _is_utf8(name: str) -> bool:
    return not any(0xD800 <= ord(char) <= 0xDFFF for char in name)
