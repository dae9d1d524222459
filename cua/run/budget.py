"""Limits of a run and the amounts used, for a single agent or a parent with a hundred children.

A model call reserves budget before it starts and is settled with its actual usage. The usage is not known in advance,
so calls run concurrently only while the budget is sufficient for all of them; near the limit they run one after
the other. So a limit is exceeded by at most one call, for any number of agents that share it, provided that no call
uses more than `_MARGIN` times the largest one before it. Steps and tool calls are counted exactly.

All limits are checked before each model call, so that none is exceeded by more than one call; the time limit also ends
a running model call, tool call or step (`cua.run.control`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from cua.messages import Usage
from cua.run.end import Cap

_NOTHING = Usage()


class CapReachedError(Exception):
    """Raised when a limit is reached."""

    def __init__(self, cap: Cap, reason: str) -> None:
        super().__init__(reason)
        self.cap: Cap = cap


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Limits of a run; None means no limit.

    Attributes:
        max_steps: Steps, including those before a resume. Source of 100: report, Appendix E.7.
        max_calls: Tool calls, each counted separately. Source of the term: report, section 5, where a step is one call.
        max_time_s: Seconds of work; waiting for a person (pause, approval) does not count.
        max_tokens: Input and output tokens together.
        max_cost_usd: Cost in US dollars, by the price table.
        max_parse_errors: Consecutive unusable replies.
        loop_nudge: Number of repetitions of the same action on the same screen after which the model is warned.
        loop_cap: Number of repetitions of the same action on the same screen after which the run ends.
        wait_cap: Number of consecutive steps that only wait on an unchanged screen after which the run ends. Waiting
            does not count as a loop.
    """

    max_steps: int | None = 100
    max_calls: int | None = None
    max_time_s: float | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    max_parse_errors: int = 5
    loop_nudge: int = 3
    loop_cap: int = 6
    wait_cap: int = 60

    def reached(
        self, *, num_steps: int = 0, num_calls: int = 0, time_s: float = 0.0, usage: Usage = _NOTHING
    ) -> tuple[Cap, str] | None:
        """Return the first limit that is reached, with a message for a person; None if none is reached."""
        if self.max_steps is not None and num_steps >= self.max_steps:
            return "steps", f"{num_steps} of {self.max_steps} steps used"
        if self.max_calls is not None and num_calls >= self.max_calls:
            return "calls", f"{num_calls} of {self.max_calls} tool calls used"
        if self.max_time_s is not None and time_s >= self.max_time_s:
            return "time", describe_time(time_s, self.max_time_s)
        if self.max_tokens is not None and usage.total_tokens >= self.max_tokens:
            return "tokens", f"{usage.total_tokens} of {self.max_tokens} tokens used"
        return self._cost_reached(usage)

    def _cost_reached(self, usage: Usage) -> tuple[Cap, str] | None:
        if self.max_cost_usd is None:
            return None
        if usage.cost_usd is None:
            return "cost", (
                f"a cost limit of {self.max_cost_usd:g} USD is set but the model's price is not known; "
                "name a price table with --prices FILE, or drop --max-cost and use --max-tokens"
            )
        if usage.cost_usd >= self.max_cost_usd:
            return "cost", f"{usage.cost_usd:.4f} of {self.max_cost_usd:g} USD used"
        return None


def describe_time(time_s: float, max_time_s: float) -> str:
    """Return the message for a reached time limit."""
    return f"{time_s:.0f} of {max_time_s:g} s used"


_MARGIN = 2.0
_LEASED_SHARE = 0.05
_NO_LIMIT = 2**31


@dataclass(slots=True)
class Reservation:
    """Budget reserved for one model call.

    Attributes:
        usage: Usage of the call; set before the reservation ends.
    """

    usage: Usage = field(default_factory=Usage)


class Budget:
    """Usage counters with limits. Must be used on one event loop; not thread-safe.

    `check`, `begin_step` and `model_call` raise `CapReachedError` if a limit of this budget or of a parent is reached.

    Args:
        caps: Limits; those on parse errors, loops and time are checked elsewhere.
        parent: Parent budget; all usage of this budget counts there too.
        name: Name in messages, such as `the whole run`.

    Attributes:
        usage: Tokens and cost so far.
        num_steps: Number of started steps.
        num_calls: Number of started tool calls.
        recalls: Called when a model call has to wait, for all budgets of a run: holders of a lease return its rest.
    """

    def __init__(
        self,
        caps: Caps,
        *,
        parent: "Budget | None" = None,
        name: str = "",
    ) -> None:
        self.caps = caps
        self.usage = Usage()
        self.num_steps = self.num_calls = 0
        self._parent = parent
        self._name = name
        self._num_open = self._num_settled = 0
        self._largest = Usage()
        self._settled: asyncio.Event = asyncio.Event() if parent is None else parent._settled
        self.recalls: set[Callable[[], None]] = set() if parent is None else parent.recalls

    def make_child(self, caps: Caps, name: str = "") -> "Budget":
        """Return a child of this budget with its own limits."""
        return Budget(caps, parent=self, name=name)

    def check(self) -> None:
        """Check that no limit on tool calls, tokens or cost is reached."""
        for level in self._levels():
            reached = level.caps.reached(num_calls=level.num_calls, usage=level.usage)
            if reached:
                raise level._error(*reached)

    def begin_step(self) -> None:
        """Count a step."""
        for level in self._levels():
            reached = level.caps.reached(num_steps=level.num_steps, num_calls=level.num_calls, usage=level.usage)
            if reached:
                raise level._error(*reached)
        for level in self._levels():
            level.num_steps += 1

    def take_calls(self, num_calls: int) -> int:
        """Count tool calls and return how many of them, from the first, are allowed."""
        rooms = [level.caps.max_calls - level.num_calls for level in self._levels() if level.caps.max_calls is not None]
        granted = max(0, min([num_calls, *rooms]))
        for level in self._levels():
            level.num_calls += granted
        return granted

    @asynccontextmanager
    async def model_call(self) -> AsyncIterator[Reservation]:
        """Reserve budget for one model call; waits while running calls may use up the budget."""
        await self._reserve()
        reservation = Reservation()
        try:
            yield reservation
        finally:
            self.settle(reservation.usage)

    async def lease(self, most: int) -> int:
        """Reserve up to `most` model calls, and count their steps, for an agent in another process.

        It is given more than one only while that is a small part of what is left. Each call must be settled with
        `settle` or returned with `give_back`.
        """
        self.begin_step()
        await self._reserve()
        num_more = max(0, min([most - 1, *(level._num_spare() for level in self._levels())]))
        for level in self._levels():
            level._num_open, level.num_steps = level._num_open + num_more, level.num_steps + num_more
        return 1 + num_more

    def settle(self, used: Usage) -> None:
        """Count the usage of a reserved model call."""
        for level in self._levels():
            level._settle(used)
        self._settled.set()

    def give_back(self, num_calls: int) -> None:
        """Return leased model calls that were not made."""
        for level in self._levels():
            level._num_open, level.num_steps = level._num_open - num_calls, level.num_steps - num_calls
        self._settled.set()

    async def _reserve(self) -> None:
        self.check()
        while any(level._is_crowded() for level in self._levels()):
            self._settled.clear()
            for recall in tuple(self.recalls):
                recall()
            await self._settled.wait()
            self.check()
        for level in self._levels():
            level._num_open += 1

    def add(self, used: Usage) -> None:
        """Count usage without a reservation: the last reply after a limit, an earlier process."""
        for level in self._levels():
            level.usage += used

    def _levels(self) -> Iterator["Budget"]:
        level: Budget | None = self
        while level is not None:
            yield level
            level = level._parent

    def _settle(self, used: Usage) -> None:
        self._num_open, self._num_settled = self._num_open - 1, self._num_settled + 1
        self.usage += used
        largest = self._largest
        self._largest = Usage(
            input_tokens=max(largest.total_tokens, used.total_tokens),
            cost_usd=max(largest.cost_usd or 0.0, used.cost_usd or 0.0),
        )

    def _is_crowded(self) -> bool:
        """Return True if one more concurrent call might exceed a limit by more than its own usage."""
        if not self._num_open:
            return False
        if self._num_settled == 0:  # the usage of a call is not known yet
            return self.caps.max_tokens is not None or self.caps.max_cost_usd is not None
        coming = self._num_open * _MARGIN
        tokens, cost_usd = self._largest.total_tokens, self._largest.cost_usd or 0.0
        return _is_short(self.caps.max_tokens, self.usage.total_tokens, coming * tokens) or _is_short(
            self.caps.max_cost_usd, self.usage.cost_usd, coming * cost_usd
        )

    def _num_spare(self) -> int:
        """Return the number of calls that are `_LEASED_SHARE` of what all limits leave."""
        each, caps = self._largest, self.caps
        sizes = (
            (caps.max_steps, self.num_steps, 1.0),
            (caps.max_tokens, self.usage.total_tokens, _MARGIN * each.total_tokens),
            (caps.max_cost_usd, self.usage.cost_usd or 0.0, _MARGIN * (each.cost_usd or 0.0)),
        )
        rooms = [(most - used) / size - self._num_open if size else 0 for most, used, size in sizes if most is not None]
        return int(_LEASED_SHARE * min(rooms)) if rooms else _NO_LIMIT

    def _error(self, cap: Cap, reason: str) -> CapReachedError:
        return CapReachedError(cap, f"{self._name}: {reason}" if self._name else reason)


def _is_short(most: float | None, used: float | None, coming: float) -> bool:
    """Return True if the expected usage may reach a limit."""
    return most is not None and used is not None and used + coming >= most
