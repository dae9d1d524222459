"""A step of a tool-using run (what the model said, what it called, what came back) and the question that led to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cua.messages import Part, Reply, TextPart, ToolCall, ToolResult
from cua.run.end import RunResult


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTurn:
    """One question of a tool-using run with its steps.

    Attributes:
        question: Images first, then words.
        inputs: The files that came with it, as `RunHeader.settings` lists those of the first question.
        steps: Finished steps, in order.
        result: How the run stood at its end; None while it goes on or when it broke off.
    """

    question: tuple[Part, ...]
    inputs: tuple[Mapping[str, Any], ...] = ()
    steps: tuple[ToolStep, ...] = ()
    result: RunResult | None = None

    @property
    def words(self) -> str:
        """What was asked, without the lines about files."""
        texts = [part.text for part in self.question if isinstance(part, TextPart)]
        return texts[-1] if texts else ""

    @property
    def answer_text(self) -> str:
        """The final reply as the model wrote it, marks and all; "" without an answer."""
        has_answer = self.result is not None and self.result.end.answer is not None
        return self.steps[-1].reply.content if has_answer and self.steps else ""
