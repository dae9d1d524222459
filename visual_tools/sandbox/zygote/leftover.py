"""What a cell leaves running may go on until the cell's time limit: processes are ended, for threads the kernel is."""

import contextlib
import os
import signal
from collections.abc import Collection

from visual_tools.sandbox.zygote.usage import Usage, count_wakeups, find_own_pid

_LOOK_S = 0.8  # between two counts of how often threads woke up
_NUM_WAKEUPS = 4  # between two looks; a kernel at rest has none
_NUM_ACTIVE = 2  # looks in a row


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
