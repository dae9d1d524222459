"""What a running agent tells whoever watches: a terminal, a JSON stream, a web page."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cua.messages import Reply, Usage
from cua.run.end import RunResult
from cua.step import Step, Turn
from cua.tool_step import CallOutcome, ToolStep
from envs import Action, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The run has its folder and its world is being started."""

    instruction: str
    run_dir: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The agent looks at a screen."""

    index: int
    observation: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """A piece of the model's answer as it streams in: its reasoning, or its text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The model answered and the answer could be read."""

    index: int
    turn: Turn
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone:
    """A step is finished and on disk."""

    step: Step
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsStarted:
    """The model called tools and they begin to work."""

    index: int
    reply: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReturned:
    """One tool call came back; several may come in any order."""

    index: int
    outcome: CallOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStepDone:
    """A step of a tool-using run is finished and on disk."""

    step: ToolStep
    usage: Usage


NoteKind = Literal["parse_error", "refused", "approved", "loop", "redirect", "retry", "context", "cut", "secrets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Something worth telling that is not a step."""

    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The run is over."""

    result: RunResult


GuiEvent = Observed | Decided | StepDone
ToolEvent = CallsStarted | CallReturned | ToolStepDone
Event = RunStarted | Thinking | Noted | RunEnded | GuiEvent | ToolEvent
Listener = Callable[[Event], None]
