"""Limits of a run.

All are checked before each model call, so that none is overshot by more than one call; the time limit also ends
a call of the model, a tool call or a step that is going on (`cua.run.control`).
"""

from dataclasses import dataclass

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
