"""What shows that a record was edited: lines that name the line before them, and hashes of the files that code wrote.

A line that is changed, cut out or put in breaks the chain at the next line. The hash of the last line stands for all
of them: it is the fingerprint of the record. Whoever rewrites every line can make a whole chain again, but not with
the same fingerprint.
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
class Chain:
    """What the chain of a record tells.

    Attributes:
        status: `none`: written by an earlier version, so that changes cannot be seen.
        fingerprint: Hash of the last line; "" when the chain is broken, for then it stands for nothing.
        broken_at: Number of the first line that does not follow from the one before it.
    """

    status: ChainStatus = "none"
    fingerprint: str = ""
    broken_at: int | None = None

    def describe(self) -> str:
        """In words, for a person."""
        match self.status:
            case "whole":
                return f"unbroken, fingerprint {self.fingerprint}"
            case "none":
                return "carries no chain (an earlier version wrote it): changes of its lines cannot be seen"
            case "broken":
                return f"changed: line {self.broken_at} does not follow from the line before it"


def hash_line(line: bytes) -> str:
    """The hash of a line, its line end left out."""
    return hashlib.sha256(line.removesuffix(b"\n")).hexdigest()[:HASH_CHARS]


def link(line: bytes, previous: str) -> bytes:
    """A line, its end included, that also names the hash of the line before it; "" for the first one."""
    return line.removesuffix(b"}\n") + b',"prev":"' + previous.encode() + b'"}\n'


def check_chain(lines: Sequence[bytes], *, is_expected: bool) -> Chain:
    """Follow the chain of a record."""
    fingerprint = hash_line(lines[-1]) if lines else ""
    links = [match[1].decode() if (match := _LINK.search(line)) else None for line in lines]
    if not is_expected and not any(found is not None for found in links):
        return Chain(status="none", fingerprint=fingerprint)
    previous = ""
    for number, (line, found) in enumerate(zip(lines, links, strict=True), start=1):
        if found != previous:
            return Chain(status="broken", broken_at=number)
        previous = hash_line(line)
    return Chain(status="whole", fingerprint=fingerprint)


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
            if well_formed(name) != name:
                yield None
            elif not entry.is_dir(follow_symlinks=False):
                yield name
            elif name.count("/") + 2 >= MAX_DEPTH:
                yield None
            else:
                queue.append((here / entry.name, f"{name}/"))
