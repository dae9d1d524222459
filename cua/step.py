"""Steps of a run: observation, reply and actions, or tool calls and results; and the question that led to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cua.json_text import JsonMapping
from cua.messages import Part, Reply, TextPart, ToolCall, ToolResult
from cua.run.end import RunResult
from envs import Action, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Reply parsed by the protocol.

    Attributes:
        thought: Reasoning, or the text under `## Thought`.
        action_text: Text under `## Action`, one sentence for a person.
        code: Code block: pyautogui calls, `computer.wait()` or `computer.terminate(...)`.
    """

    thought: str
    action_text: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Finished step of a GUI run.

    Attributes:
        index: 1-based number over all steps of the run, as the model counts them.
        observation: Observation before the actions.
        reply: Raw reply.
        turn: Reply as parsed by the protocol.
        actions: Executed actions, secrets still as `{{name}}`.
        error: Reason why actions were refused or failed, as the next observation reports it to the model.
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
    """Tool call and its result.

    Attributes:
        number: Number of the call in the whole run, from 0: the `idx` of its id, and the number in citations.
        call: Tool call; its id follows K2.5's convention.
        result: Result of the call.
        duration_s: Duration in seconds.
    """

    number: int
    call: ToolCall
    result: ToolResult
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStep:
    """Finished step of a tool-using run.

    Attributes:
        index: 1-based number.
        reply: Reply, its tool calls with rewritten ids.
        outcomes: One for each of the reply's tool calls, in the same order.
        remark: Message to the model after the results, if any: for example that its answer is unusable.
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
class Exchange:
    """One question of a tool-using run with its steps.

    Attributes:
        question: Parts of the question: images first, then text.
        inputs: Files of the question, in the format of `RunHeader.settings` for the first question.
        steps: Finished steps, in order.
        result: Result of the run at its end; None while it is running or if it was interrupted.
    """

    question: tuple[Part, ...]
    inputs: tuple[JsonMapping, ...] = ()
    steps: tuple[ToolStep, ...] = ()
    result: RunResult | None = None

    @property
    def words(self) -> str:
        """Text of the question, without the lines about files."""
        texts = [part.text for part in self.question if isinstance(part, TextPart)]
        return texts[-1] if texts else ""

    @property
    def answer_text(self) -> str:
        """Final reply as the model wrote it, including marks; "" without an answer."""
        has_answer = self.result is not None and self.result.end.answer is not None
        return self.steps[-1].reply.content if has_answer and self.steps else ""
