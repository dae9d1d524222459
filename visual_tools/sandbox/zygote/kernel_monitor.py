"""One kernel as the zygote watches it: its processes, what it uses, what its cells leave running, how it is ended."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Collection, Sequence
from typing import Any

from visual_tools.sandbox.zygote.plan import KernelSpec
from visual_tools.sandbox.zygote.process_tree import (
    Measure,
    Usage,
    count_sockets,
    count_wakeups,
    find_own_pid,
    kill_below,
    measure_removed,
    read_pss,
    read_usage,
)

_LOOK_S = 0.8  # between two counts of how often threads woke up
_NUM_WAKEUPS = 4  # between two looks; a kernel at rest has none
_NUM_ACTIVE = 2  # looks in a row
_IDLE_S = 0.8  # between two looks at a kernel that runs no cell
_NUM_SOCKETS = 512  # each holds some 200 kB at most, which no other limit counts
_DISK_SLICE_S = 0.01  # of looking into folders, at one look
_MAX_FIRST_FILES = 500_000  # that may be there before the first cell
_DISK_SLACK_BYTES, _DISK_SLACK_FILES = 16 * 2**20, 1000


class Leftover:
    """Watches a kernel between cells.

    Attributes:
        num_ended: Processes that were ended and are not told yet.
    """

    def __init__(self) -> None:
        self.num_ended = 0
        self._own: frozenset[int] = frozenset()
        self._until = float("inf")
        self._limit_s = 0.0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._next_look, self._wakeups, self._num_active = 0.0, -1, 0
        self._ended: set[int] = set()  # they may still be there, as nobody has asked how they ended

    def begin_cell(self, pids: Collection[int], now: float, limit_s: float) -> None:
        """A cell begins.

        Args:
            pids: Processes of the kernel now; those of the first call are its own and may stay.
            now: On the monotonic clock.
            limit_s: Seconds that the cell may take.
        """
        self._own = self._own or frozenset(pids)
        self._until, self._limit_s = now + limit_s, limit_s
        self._begin_anew()

    def look(self, usage: Usage, now: float) -> str:
        """Between cells: end processes whose time is over; says why the kernel has to end, "" when it has not."""
        if now < self._until or now < self._next_look:
            return ""
        self._next_look = now + _LOOK_S
        for pid in usage.pids:
            if pid not in self._own and pid not in self._ended:
                self._ended.add(pid)
                with contextlib.suppress(OSError):
                    os.kill(find_own_pid(pid), signal.SIGKILL)
                    self.num_ended += 1
        before, self._wakeups = self._wakeups, count_wakeups(self._own)
        is_active = before >= 0 and self._wakeups - before > _NUM_WAKEUPS
        self._num_active = self._num_active + 1 if is_active else 0
        if self._num_active < _NUM_ACTIVE:
            return ""
        return f"threads or tasks of a cell ran on after its time limit of {self._limit_s:g} s"


class KernelMonitor:
    """A kernel that is being made or runs.

    Args:
        spec: What it may use.
        child: Process that was forked for it; its parent is the zygote.
        report: Pipe from it.
        folders: What it may write on this machine's disks, as the zygote sees it.
        is_outside: No PID namespace ends its processes with the first one.

    Attributes:
        report: Pipe from it; -1 when that is closed.
        is_busy: Whether a cell runs; set it with `set_busy`.
    """

    def __init__(
        self, spec: KernelSpec, child: int, report: int, folders: Sequence[str], *, is_outside: bool = False
    ) -> None:
        self.report = report
        self.is_busy = False
        self._spec = spec
        self._folders = folders
        self._is_outside = is_outside
        self._pid: int | None = None  # process 1 of the kernel, once it is known
        self._child = child
        self._host_pid: int | None = None
        self._text = b""
        self._base_rss = -1
        self._next_look = 0.0
        self._disk_bytes, self._num_files = spec.limits.disk_bytes, spec.limits.num_files
        self._has_measured = False
        self._measures: list[Measure] = []
        self._is_killed = False
        self._leftover = Leftover()

    def read_reports(self) -> list[dict[str, Any]]:
        """What the kernel's process has said since."""
        data = os.read(self.report, 1 << 16)
        if not data:
            self.close()
        *lines, self._text = (self._text + data).split(b"\n")
        messages = [json.loads(line) for line in lines]
        for message in messages:
            self._pid = message.get("pid", self._pid)
            self._host_pid = message.get("host_pid", self._host_pid)
        return messages

    def is_waiting_for(self, pid: int) -> bool:
        """Whether this process, which has ended, may have named another one that it left behind."""
        return self.report >= 0 and self._pid is None and pid == self._child

    def is_end(self, pid: int) -> bool:
        """Whether the end of this process is the end of the kernel."""
        return pid == (self._pid or self._child)

    def kill(self) -> None:
        """End every process of it."""
        self._is_killed = True
        if self._is_outside:  # its init ends what is left, and then itself
            kill_below(self._child)
            return
        for pid in {self._pid or self._child, self._child}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def set_busy(self, is_busy: bool, limit_s: float = 0.0) -> int:
        """Note that a cell begins or has ended.

        Args:
            is_busy: It begins.
            limit_s: Seconds that it may take.

        Returns:
            Processes that earlier cells left behind and that were ended since this was asked.
        """
        self.is_busy = is_busy
        if is_busy and self._host_pid is not None:
            usage = read_usage(self._host_pid)
            self._base_rss = usage.rss_bytes if self._base_rss < 0 else self._base_rss
            self._leftover.begin_cell(usage.pids, time.monotonic(), limit_s)
        num_ended, self._leftover.num_ended = self._leftover.num_ended, 0
        return num_ended

    def close(self) -> None:
        """Give back the pipe."""
        if self.report >= 0:
            os.close(self.report)
            self.report = -1

    def look(self, now: float) -> str:
        """Which limit is exceeded, in words; "" when none is."""
        if self._host_pid is None or self._is_killed or (now < self._next_look and not self.is_busy):
            return ""
        self._next_look = now + _IDLE_S
        limits, usage = self._spec.limits, read_usage(self._host_pid)
        if usage.cpu_s > limits.cpu_s:
            return f"it had used {limits.cpu_s:g} s of processor time, which is its limit"
        if usage.num_threads > limits.num_processes + 2:
            return f"it had more than {limits.num_processes} processes and threads"
        if usage.rss_bytes - self._base_rss > limits.memory_bytes and self._uses_more(usage, limits.memory_bytes):
            return f"its processes used more than {limits.memory_bytes >> 20} MB of memory"
        if count_sockets(usage.pids) > _NUM_SOCKETS:
            return f"it had more than {_NUM_SOCKETS} sockets"
        return self._look_at_disk(usage) or ("" if self.is_busy else self._leftover.look(usage, now))

    def _uses_more(self, usage: Usage, memory_bytes: int) -> bool:
        try:
            return read_pss(usage.pids) > memory_bytes
        except PermissionError:  # it hides itself: what it shares with others counts for it alone
            return True

    def _look_at_disk(self, usage: Usage) -> str:
        """Measure a little more of its folders; what was there from the beginning is not counted against it."""
        if not self._folders:
            return ""
        if not self._measures:
            most = self._num_files + 1 if self._has_measured else _MAX_FIRST_FILES
            self._measures = [Measure(folder, max_entries=most) for folder in self._folders]
        if not all(measure.go_on(_DISK_SLICE_S) for measure in self._measures):
            return ""
        has_bytes = sum(measure.num_bytes for measure in self._measures)
        has_bytes += measure_removed(usage.pids, {os.stat(folder).st_dev for folder in self._folders})  # noqa: PTH116
        has_files = sum(measure.num_entries for measure in self._measures)
        self._measures = []
        if not self._has_measured:
            self._has_measured = True
            self._disk_bytes = max(self._disk_bytes, has_bytes + _DISK_SLACK_BYTES)
            self._num_files = max(self._num_files, has_files + _DISK_SLACK_FILES)
        if has_files > self._num_files:
            return f"its folder held more than {self._num_files} files and folders"
        if has_bytes > self._disk_bytes:
            return f"its folder held more than {self._disk_bytes >> 20} MB"
        return ""
