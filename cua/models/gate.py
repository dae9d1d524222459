"""One gate in front of a model endpoint, for all agents of this process that use it.

How many calls an endpoint takes at once is not known. The gate finds out as TCP does: each call that works lets a
little more through at a time, each refusal (429, 503) halves it, and a server's `Retry-After` holds everybody back.

Source: AIMD, additive increase and multiplicative decrease; RFC 5681, section 3.1.
"""

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cua.models.retry import Clock, OverloadedError

_DECREASE = 0.5
_JITTER = 0.1
MAX_OPEN = 256
"""Calls under way at once, at most. A server of one's own queues what is too much; hosted ones refuse."""


class EndpointGate:
    """Lets calls through to one endpoint, in the order in which they came. For one event loop.

    Args:
        max_open: Most calls under way at once.
        max_hold_s: Longest time that a server's `Retry-After` holds others back; its own caller may wait longer.
        clock: Time and chance.

    Attributes:
        limit: Calls that may be under way at once now.
        num_open: Calls that are under way.
    """

    def __init__(self, max_open: int = MAX_OPEN, *, max_hold_s: float = 120.0, clock: Clock | None = None) -> None:
        self.limit = float(max_open)
        self.num_open = 0
        self._max_open = max_open
        self._max_hold_s = max_hold_s
        self._clock = clock or Clock()
        self._held_until = 0.0
        self._decreased_at = float("-inf")
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """One try of a call. A refusal inside it is seen and passed on."""
        await self._take_place()
        try:
            await self._wait_while_held()
            started = self._clock.now()
            try:
                yield
            except OverloadedError as error:
                self._refused(started, error.retry_after_s)
                raise
            self.limit = min(self._max_open, self.limit + 1 / self.limit)
        finally:
            self.num_open -= 1
            self._hand_out_places()

    async def _take_place(self) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._hand_out_places()
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it was given one
                self.num_open -= 1
                self._hand_out_places()
            raise

    def _hand_out_places(self) -> None:
        while self._waiting and self.num_open < max(1, int(self.limit)):
            place = self._waiting.popleft()
            if not place.done():
                self.num_open += 1
                place.set_result(None)

    async def _wait_while_held(self) -> None:
        while (held_s := self._held_until - self._clock.now()) > 0:
            await self._clock.sleep(held_s + self._clock.uniform(0.0, _JITTER * held_s))

    def _refused(self, started: float, retry_after_s: float | None) -> None:
        now = self._clock.now()
        if started > self._decreased_at:  # one decrease for all calls that were under way together
            self.limit = max(1.0, min(self.limit, self.num_open) * _DECREASE)
            self._decreased_at = now
        if retry_after_s:
            self._held_until = max(self._held_until, now + min(retry_after_s, self._max_hold_s))


_gates: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, EndpointGate]]" = weakref.WeakKeyDictionary()


def gate_of(base_url: str) -> EndpointGate:
    """The gate of an endpoint on the running event loop; made at the first call."""
    gates = _gates.setdefault(asyncio.get_running_loop(), {})
    return gates.setdefault(base_url, EndpointGate())
