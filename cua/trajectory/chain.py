"""The chain of a record: each line names the hash of the line before it.

A line that is changed, cut out or put in breaks the chain at the next line. The hash of the last line stands for all
of them: it is the fingerprint of the record. Whoever rewrites every line can make a whole chain again, but not with
the same fingerprint.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

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
    """Follow the chain of a record.

    Args:
        lines: Whole lines, without their ends.
        is_expected: Whether the record says that it has one.
    """
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
