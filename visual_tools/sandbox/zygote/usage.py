"""What a tree of processes and a folder use, read from /proc and the file system."""

import contextlib
import os
import resource
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from visual_tools.sandbox.walk import Walk

_PAGE_BYTES = resource.getpagesize()
_TICKS = os.sysconf("SC_CLK_TCK")
_BLOCK_BYTES = 512  # of st_blocks, whatever the file system


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a tree of processes uses now.

    Attributes:
        pids: The processes.
        num_threads: Of all of them.
        rss_bytes: Memory, pages that several have counted for each.
        cpu_s: Processor time so far, with that of children that have ended.
    """

    pids: tuple[int, ...]
    num_threads: int
    rss_bytes: int
    cpu_s: float


def find_tree(root: int) -> list[int]:
    """A process and all below it."""
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                queue += map(int, (task / "children").read_text().split())
    return found


def read_usage(root: int) -> Usage:
    """What a process and all below it use."""
    pids, num_threads, rss_bytes, ticks = [], 0, 0, 0
    for pid in find_tree(root):
        with contextlib.suppress(OSError):
            # The command may hold spaces and brackets. Source: proc(5), fields from 3 (state) on.
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
            num_threads += int(fields[17])
            rss_bytes += int(fields[21]) * _PAGE_BYTES
            pids.append(pid)
    return Usage(pids=tuple(pids), num_threads=num_threads, rss_bytes=rss_bytes, cpu_s=ticks / _TICKS)


def read_pss(pids: Iterator[int] | tuple[int, ...]) -> int:
    """Memory of processes in bytes, shared pages divided among those that share them; slow."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


class Measure:
    """What lies in a folder, found out little by little; links are not followed.

    Args:
        folder: Its path.
        max_entries: Of files and folders; at most so many are looked at.

    Attributes:
        num_bytes: On disk, so far; a file with several names counts once.
    """

    def __init__(self, folder: str, *, max_entries: int = 200_000) -> None:
        self.num_bytes = 0
        self._walk = Walk(max_entries=max_entries, unlock=True)
        self._folders = self._walk.below(folder)
        self._seen: set[tuple[int, int]] = set()

    @property
    def num_entries(self) -> int:
        """Files, folders and everything else, so far."""
        return self._walk.num_entries

    def go_on(self, duration_s: float) -> bool:
        """Look for about so long. Whether nothing is left to look at."""
        until = time.monotonic() + duration_s
        with contextlib.suppress(OSError):
            for folder in self._folders:
                self.num_bytes += sum(map(self._count, folder.entries.values()))
                if time.monotonic() > until:
                    return False
        return True

    def _count(self, about: os.stat_result) -> int:
        if about.st_nlink > 1 and not stat.S_ISDIR(about.st_mode):
            identity = about.st_dev, about.st_ino
            if identity in self._seen:
                return 0
            self._seen.add(identity)
        return about.st_blocks * _BLOCK_BYTES
