"""Detection of edits in a record: each line has the hash of the previous line, and files of the code are hashed.

A line that is changed, removed or inserted breaks the chain at the next line. The hash of the last line depends on all
of them: it is the fingerprint of the record. Rewriting every line can make a valid chain again, but with another
fingerprint.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cua.errors import TrajectoryError
from cua.json_text import well_formed
from cua.trajectory.events import SealedEvent
from cua.trajectory.run_files import MAX_DEPTH, hash_inside

HASH_CHARS = 32
"""Hex digits of a line's hash: 128 bits of SHA-256."""

ChainStatus = Literal["whole", "none", "broken"]
_LINK = re.compile(rb'"prev":"([0-9a-f]{32}|)"\}$')


@dataclass(frozen=True, slots=True, kw_only=True)
class HashChain:
    """Result of checking the chain of a record.

    Attributes:
        status: `none` for a record of an earlier version, in which changes cannot be detected.
        fingerprint: Hash of the last line; "" if the chain is broken.
        broken_at: Number of the first line that does not match the previous one.
    """

    status: ChainStatus = "none"
    fingerprint: str = ""
    broken_at: int | None = None

    def describe(self) -> str:
        """Return a description for a person."""
        match self.status:
            case "whole":
                return f"unbroken, fingerprint {self.fingerprint}"
            case "none":
                return "carries no chain (an earlier version wrote it): changes of its lines cannot be seen"
            case "broken":
                return f"changed: line {self.broken_at} does not follow from the line before it"


def hash_line(line: bytes) -> str:
    """Return the hash of a line without its line end."""
    return hashlib.sha256(line.removesuffix(b"\n")).hexdigest()[:HASH_CHARS]


def link(line: bytes, previous: str) -> bytes:
    """Return a line, including its end, with the hash of the previous line; "" for the first one."""
    return line.removesuffix(b"}\n") + b',"prev":"' + previous.encode() + b'"}\n'


def check_chain(lines: Sequence[bytes], *, is_expected: bool) -> HashChain:
    """Check the chain of a record."""
    fingerprint = hash_line(lines[-1]) if lines else ""
    links = [match[1].decode() if (match := _LINK.search(line)) else None for line in lines]
    if not is_expected and not any(link is not None for link in links):
        return HashChain(status="none", fingerprint=fingerprint)
    previous = ""
    for number, (line, link) in enumerate(zip(lines, links, strict=True), start=1):
        if link != previous:
            return HashChain(status="broken", broken_at=number)
        previous = hash_line(line)
    return HashChain(status="whole", fingerprint=fingerprint)


FILES = "files"
MAX_FILES = 5000
MAX_BYTES = 4 * 2**30
"""Limit of all files together; twice the size limit of a working folder."""
NO_FILE = ""
"""Replaces the hash of an entry that is not a regular file, such as a link."""


def hash_files(run_dir: Path) -> tuple[dict[str, str], bool]:
    """Hash the files of a run's working folder.

    Returns:
        SHA-256 by name relative to the folder; and True if that is all of them, as their number is limited.
    """
    hashes: dict[str, str] = {}
    hasher = _Hasher(run_dir)
    for name in _names(run_dir / FILES):
        if name is None or len(hashes) == MAX_FILES:
            return hashes, False
        hashes[name] = hasher.hash(name)
    return hashes, True


def changed_files(run_dir: Path, sealed: SealedEvent) -> Iterator[str]:
    """Yield descriptions of the differences between the files and their sealed hashes."""
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
    """Hasher with a limit on the total size, because sparse files could be huge."""

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
    """Yield names of all files without following links; None for an invalid name or a path that is too deep."""
    queue = [(folder, "")]
    while queue:
        here, prefix = queue.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            name = prefix + entry.name
            if well_formed(name) != name:
                yield None
            elif not entry.is_dir(follow_symlinks=False):
                yield name
            elif name.count("/") + 2 >= MAX_DEPTH:
                yield None
            else:
                queue.append((here / entry.name, f"{name}/"))
