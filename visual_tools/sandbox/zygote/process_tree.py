"""Measure the resource use of a process tree (from /proc) and of a folder, and kill a process tree."""

import contextlib
import os
import resource
import signal
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from visual_tools.sandbox.walk import Walk

_PAGE_BYTES = resource.getpagesize()
_TICKS = os.sysconf("SC_CLK_TCK")
_BLOCK_BYTES = 512  # unit of st_blocks on every file system
_GIVE_UP_S = 5.0  # a process in uninterruptible sleep cannot be killed
_PAUSE_S = 0.002  # between two looks at processes that are being killed


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    """Current resource use of a process tree.

    Attributes:
        pids: Processes of the tree.
        num_threads: Threads of all processes.
        rss_bytes: Memory; shared pages count for each process.
        cpu_s: CPU time so far, including ended children.
    """

    pids: tuple[int, ...]
    num_threads: int
    rss_bytes: int
    cpu_s: float


def find_tree(root: int) -> list[int]:
    """Return a process and all its descendants."""
    tree, queue = [], [root]
    while queue:
        pid = queue.pop()
        tree.append(pid)
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                queue += map(int, (task / "children").read_text().split())
    return tree


def read_usage(root: int) -> ResourceUsage:
    """Return the resource use of a process and all its descendants."""
    pids, num_threads, rss_bytes, ticks = [], 0, 0, 0
    for pid in find_tree(root):
        with contextlib.suppress(OSError):
            # The command may contain spaces and brackets. Source: proc(5), fields from 3 (state) on.
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
            num_threads += int(fields[17])
            rss_bytes += int(fields[21]) * _PAGE_BYTES
            pids.append(pid)
    return ResourceUsage(pids=tuple(pids), num_threads=num_threads, rss_bytes=rss_bytes, cpu_s=ticks / _TICKS)


def read_memory(pids: Iterable[int]) -> int:
    """Return the memory of processes in bytes; slow.

    Shared pages are divided among the processes that share them. Where the system does not say how (the memory of
    another user's processes), pages of files do not count, and what a process shares with its parent counts for both.
    """
    total = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            try:
                fields = _read_fields(f"/proc/{pid}/smaps_rollup")
                total += fields.get("Pss", 0)
            except PermissionError:
                fields = _read_fields(f"/proc/{pid}/status")
                total += fields.get("RssAnon", 0) + fields.get("RssShmem", 0)
    return total


def _read_fields(path: str) -> dict[str, int]:
    """Return the sizes in bytes that a file of /proc gives in kB."""
    rows = (line.split() for line in Path(path).read_text(errors="replace").splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3 and row[2] == "kB"}


class FolderMeasurement:
    """Incremental measurement of the contents of a folder; links are not followed.

    Args:
        folder: Path of the folder.
        max_entries: Maximum number of files and folders to measure.

    Attributes:
        num_bytes: Size on disk measured so far; a file with several names counts once.
    """

    def __init__(self, folder: str, *, max_entries: int = 200_000) -> None:
        self.num_bytes = 0
        self._walk = Walk(max_entries=max_entries, unlock=True)
        self._folders = self._walk.below(folder)
        self._seen: set[tuple[int, int]] = set()

    @property
    def num_entries(self) -> int:
        """Number of files, folders and other entries measured so far."""
        return self._walk.num_entries

    def go_on(self, duration_s: float) -> bool:
        """Measure for about this duration; return True if nothing is left to measure."""
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


def find_own_pid(pid: int) -> int:
    """Translate a pid from /proc, which may be of an outer namespace, to the number for signals from this process.

    Raises:
        OSError: If the process has ended.
    """
    return _read_numbers(pid)[len(_read_numbers("self")) - 1]


def _read_numbers(pid: int | str) -> list[int]:
    lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    return [int(number) for line in lines if line.startswith("NSpid:") for number in line.split()[1:]]


def count_wakeups(pids: Iterable[int]) -> int:
    """Return how often the threads of processes were scheduled so far."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                lines = (task / "status").read_text(errors="replace").splitlines()
                total += sum(int(line.split()[1]) for line in lines if "ctxt_switches:" in line)
    return total


def count_sockets(pids: Sequence[int]) -> int:
    """Count the sockets that processes keep alive.

    If the processes have their own network namespace, sockets in transit in messages and queues count too.
    """
    with contextlib.suppress(OSError, IndexError):
        if os.readlink(f"/proc/{pids[-1]}/ns/net") != os.readlink("/proc/self/ns/net"):  # noqa: PTH115
            return int(Path(f"/proc/{pids[-1]}/net/sockstat").read_text().split()[2])
    return sum(link.startswith("socket:") for pid in pids for link in _read_links(pid))


def _read_links(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            with contextlib.suppress(OSError):
                yield os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115


def measure_removed(pids: Iterable[int], devices: Collection[int]) -> int:
    """Return the bytes on these devices of deleted files that are still open or mapped."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                with contextlib.suppress(OSError):
                    about = os.stat(f"/proc/{pid}/fd/{name}")  # noqa: PTH116
                    if about.st_nlink == 0 and about.st_dev in devices and stat.S_ISREG(about.st_mode):
                        sizes[about.st_dev, about.st_ino] = about.st_blocks * _BLOCK_BYTES
            for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
                if line.endswith(" (deleted)"):
                    _count_mapped(line, devices, sizes)
    return sum(sizes.values())


def _count_mapped(line: str, devices: Collection[int], sizes: dict[tuple[int, int], int]) -> None:
    place, _, _, device, inode = line.split()[:5]
    major, minor = (int(part, 16) for part in device.split(":"))
    if os.makedev(major, minor) in devices:
        begin, end = (int(part, 16) for part in place.split("-"))
        sizes.setdefault((os.makedev(major, minor), int(inode)), end - begin)


def kill_below(root: int) -> bool:
    """Send SIGKILL to every descendant of a process, once; return True if there was any."""
    pids = find_tree(root)[1:]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, so that none of them can fork in the meantime
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
    return bool(pids)


def end_below(root: int) -> None:
    """Kill every descendant of this process, which must adopt orphans."""
    until = time.monotonic() + _GIVE_UP_S
    while kill_below(root) and time.monotonic() < until:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(_PAUSE_S)
