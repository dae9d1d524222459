"""One step of a tool-using run: what the model said, what it called, what came back."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cua.messages import Reply, ToolCall, ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """A tool call and its result.

    Attributes:
        number: Number of the call over the whole run, from 0: the `idx` of its id, and how an answer cites it.
        call: The call; its id follows K2.5's convention.
        result: What came of it.
        duration_s: Seconds.
    """

    number: int
    call: ToolCall
    result: ToolResult
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStep:
    """A finished step.

    Attributes:
        index: 1-based number.
        reply: The answer, its tool calls with rewritten ids.
        outcomes: One for each of the reply's tool calls, in the same order.
        remark: What the model is told after the results, when there is something to say: that its answer
            cannot be used as it is, for example.
        started_at: Unix time in seconds.
        timings: Seconds by stage: `model`, `tools`, `record`.
    """

    index: int
    reply: Reply
    outcomes: tuple[CallOutcome, ...] = ()
    remark: str | None = None
    started_at: float = 0.0
    timings: Mapping[str, float] = field(default_factory=dict)
