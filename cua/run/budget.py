"""Limits of a run, and what is used of them: by an agent alone, or by a parent and a hundred children.

A call of the model is reserved before it is made and settled by what it used. How much that will be is not known
before, so calls run side by side only while there is room for all of them; towards the end of the budget they run
one after the other. So a limit is overshot by one call at most, however many agents share it, as long as no call
takes more than `_MARGIN` times the largest one before it. Steps and tool calls are counted exactly.

All are checked before each model call, so that none is overshot by more than one call; the time limit also ends
a call of the model, a tool call or a step that is going on (`cua.run.control`).
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from cua.messages import Usage
from cua.run.end import Cap

_NOTHING = Usage()


class CapReachedError(Exception):
    """A limit of ours is used up."""

    def __init__(self, cap: Cap, reason: str) -> None:
        super().__init__(reason)
        self.cap: Cap = cap


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How much a run may use; None means no limit.

    Attributes:
        max_steps: Steps, counted over resumes. Source of 100: report, Appendix E.7.
        max_calls: Tool calls, each of a reply by itself. Source of the word: report, section 5; its step is one call.
        max_time_s: Seconds of work; waiting for a person (pause, approval) does not count.
        max_tokens: Input and output tokens together.
        max_cost_usd: Money, by the price table.
        max_parse_errors: Unusable replies in a row.
        loop_nudge: The same action on the same screen so many times: the model is told.
        loop_cap: The same, and the run ends.
        wait_cap: Steps in a row that only wait while the screen stays the same, and the run ends. Waiting is no
            loop, but it has an end.
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
        """The first limit that is used up, with a line for a person; None while there is room."""
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
    """The line for a person once the time is used up."""
    return f"{time_s:.0f} of {max_time_s:g} s used"


_MARGIN = 2.0


@dataclass(slots=True)
class Reservation:
    """Room for one call of the model.

    Attributes:
        usage: What the call used; set before the reservation ends.
    """

    usage: Usage = field(default_factory=Usage)


class Budget:
    """Counts what is used and holds the limits. For one event loop; not for several threads.

    `check`, `begin_step` and `model_call` raise `CapReachedError` where a limit is used up, here or further up.

    Args:
        caps: The limits; those that are no amounts (parse errors, loops, time) are others' business.
        parent: What this one is a part of: all that is used here counts there too.
        name: What a message calls it, such as `the whole run`.

    Attributes:
        usage: Tokens and money up to now.
        num_steps: Steps begun.
        num_calls: Tool calls begun.
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

    def make_child(self, caps: Caps, name: str = "") -> "Budget":
        """A part of this budget with limits of its own."""
        return Budget(caps, parent=self, name=name)

    def check(self) -> None:
        """Check that there is room for something more."""
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
        """Count tool calls; how many of them may be made, the first ones."""
        rooms = [level.caps.max_calls - level.num_calls for level in self._levels() if level.caps.max_calls is not None]
        granted = max(0, min([num_calls, *rooms]))
        for level in self._levels():
            level.num_calls += granted
        return granted

    @asynccontextmanager
    async def model_call(self) -> AsyncIterator[Reservation]:
        """Room for one call of the model; waits while calls under way may use it all up."""
        self.check()
        while any(level._is_crowded() for level in self._levels()):
            self._settled.clear()
            await self._settled.wait()
            self.check()
        for level in self._levels():
            level._num_open += 1
        reservation = Reservation()
        try:
            yield reservation
        finally:
            for level in self._levels():
                level._settle(reservation.usage)
            self._settled.set()

    def add(self, used: Usage) -> None:
        """Count what was used without room being asked for: the last reply after a limit, an earlier process."""
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
        """Whether one more call beside those under way might overshoot a limit by more than itself."""
        if not self._num_open:
            return False
        if self._num_settled == 0:  # nothing is known of the size of a call
            return self.caps.max_tokens is not None or self.caps.max_cost_usd is not None
        coming = self._num_open * _MARGIN
        tokens, cost_usd = self._largest.total_tokens, self._largest.cost_usd or 0.0
        return _is_short(self.caps.max_tokens, self.usage.total_tokens, coming * tokens) or _is_short(
            self.caps.max_cost_usd, self.usage.cost_usd, coming * cost_usd
        )

    def _error(self, cap: Cap, reason: str) -> CapReachedError:
        return CapReachedError(cap, f"{self._name}: {reason}" if self._name else reason)


def _is_short(most: float | None, used: float | None, coming: float) -> bool:
    """Whether what is coming may use a limit up."""
    return most is not None and used is not None and used + coming >= most
