"""Number of rollouts that run, from the queue of the engine (back-pressure)."""

import asyncio
from collections.abc import Awaitable, Callable

POLL_S = 2.0
_DECREASE, _INCREASE = 0.75, 1
"""Multiplicative decrease and additive increase (AIMD). A decrease of 0.75 is that of prime-rl,
`orchestrator/concurrency.py`.
"""


class EngineSlots:
    """Number of rollouts that may run: fewer while requests wait in the engine, more while none waits.

    Running rollouts are never ended: after a decrease, the next one waits until enough of them have ended.

    Args:
        least: Minimum, such as the size of a group.
        most: Maximum, and the number at the start.
        max_waiting: Number of requests that may wait without a decrease.
    """

    def __init__(self, least: int, most: int, max_waiting: int = 0) -> None:
        self._least, self._most, self._max_waiting = min(least, most), most, max_waiting
        self.num_slots = most

    def update(self, num_waiting: int, num_running: int) -> None:
        """Adjust the number.

        Args:
            num_waiting: Requests that wait in the engine.
            num_running: Rollouts that run.
        """
        if num_waiting > self._max_waiting and num_running <= self.num_slots:
            self.num_slots = max(int(self.num_slots * _DECREASE), self._least)
        elif num_waiting == 0:
            self.num_slots = min(self.num_slots + _INCREASE, self._most)


async def follow_queue(
    slots: EngineSlots, get_num_waiting: Callable[[], Awaitable[int | None]], get_num_running: Callable[[], int]
) -> None:
    """Adjust slots every `POLL_S` seconds, until cancelled; an engine without a number (None) leaves them."""
    while True:
        num_waiting = await get_num_waiting()
        if num_waiting is not None:
            slots.update(num_waiting, get_num_running())
        await asyncio.sleep(POLL_S)
