"""Events of a running agent, for a terminal, a JSON stream or a web page, and who follows them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cua.guard import Approver
from cua.messages import Reply, Usage
from cua.run.control import Control
from cua.run.end import RunResult
from cua.step import CallOutcome, Step, ToolStep, Turn
from envs import Action, Env, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentIds:
    """Whose run it is.

    Attributes:
        run_id: The run, with all its agents; the name of its folder. "" for one that is not recorded.
        agent_id: The agent; a run's first one is `main`.
        parent_id: The agent that made this one; "" for the first.
    """

    run_id: str = ""
    agent_id: str = "main"
    parent_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _AgentEvent:
    """What all events have."""

    ids: AgentIds = AgentIds()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(_AgentEvent):
    """The run has its folder and its world is being started."""

    instruction: str
    run_dir: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed(_AgentEvent):
    """The agent looks at a screen."""

    index: int
    observation: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking(_AgentEvent):
    """A piece of the model's answer as it streams in: its reasoning, or its text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(_AgentEvent):
    """The model answered and the answer could be read."""

    index: int
    turn: Turn
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone(_AgentEvent):
    """A step is finished and on disk."""

    step: Step
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsStarted(_AgentEvent):
    """The model called tools and they begin to work."""

    index: int
    reply: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReturned(_AgentEvent):
    """One tool call came back; several may come in any order."""

    index: int
    outcome: CallOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStepDone(_AgentEvent):
    """A step of a tool-using run is finished and on disk."""

    step: ToolStep
    usage: Usage


NoteKind = Literal[
    "parse_error",
    "refused",
    "approved",
    "loop",
    "instruction",
    "redirect",
    "retry",
    "context",
    "cut",
    "secrets",
    "resumed",
    "tools",
    "task",
    "budget",
    "child",
    "person",
    "addressed",
    "take_over",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted(_AgentEvent):
    """Something worth telling that is not a step."""

    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(_AgentEvent):
    """The run is over."""

    result: RunResult


GuiEvent = Observed | Decided | StepDone
ToolEvent = CallsStarted | CallReturned | ToolStepDone
Event = RunStarted | Thinking | Noted | RunEnded | GuiEvent | ToolEvent
Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Who follows a run.

    Attributes:
        listener: Gets an event for all that happens.
        approver: Asks a person about risky steps; without one they are refused.
        on_control: Gets the switches of the run before it starts: pause, stop, redirect.
        on_env: Gets the environment of a GUI run before it starts, to show its screen or to work on it.
    """

    listener: Listener | None = None
    approver: Approver | None = None
    on_control: Callable[[Control], None] | None = None
    on_env: Callable[[Env], None] | None = None
