"""One step of a run: what was seen, said and done, or called and answered; and the question that led to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cua.messages import Part, Reply, TextPart, ToolCall, ToolResult
from cua.run.end import RunResult
from envs import Action, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A reply read by the protocol.

    Attributes:
        thought: Reasoning, or the text under `## Thought`.
        action_text: The text under `## Action`, one sentence for a person.
        code: The code block: pyautogui calls, `computer.wait()` or `computer.terminate(...)`.
    """

    thought: str
    action_text: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A finished step.

    Attributes:
        index: 1-based number over all steps of the run, as the model counts them.
        observation: What the model saw before it acted.
        reply: The raw answer.
        turn: The answer as the protocol read it.
        actions: What was carried out, secrets still as `{{name}}`.
        error: Why actions were refused or failed, as the model is told in the next observation.
        started_at: Unix time in seconds.
        timings: Seconds by stage: `model`, `interpret`, `guard`, `act`, `settle`, `observe`, `record`.
    """

    index: int
    observation: Observation
    reply: Reply
    turn: Turn
    actions: tuple[Action, ...] = ()
    error: str | None = None
    started_at: float = 0.0
    timings: Mapping[str, float] = field(default_factory=dict)


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
