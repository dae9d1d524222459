"""Events of a running agent for a terminal, a JSON stream or a web page, and the callbacks that receive them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cua.guard.guard import Approver
from cua.messages import Reply, Usage
from cua.run.control import Control
from cua.run.end import RunResult
from cua.step import CallOutcome, Step, ToolStep, Turn
from envs import Action, Env, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentIds:
    """Ids of the run and agent of an event.

    Attributes:
        run_id: Id of the run with all its agents; the name of its folder. "" for a run that is not recorded.
        agent_id: Id of the agent; the first one of a run is `main`.
        parent_id: Id of the agent that created this one; "" for the first.
    """

    run_id: str = ""
    agent_id: str = "main"
    parent_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _AgentEvent:
    """Base class of all events."""

    ids: AgentIds = AgentIds()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(_AgentEvent):
    """Start of a run: its folder exists, and its environment is being started."""

    instruction: str
    run_dir: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed(_AgentEvent):
    """Observation of a screen by the agent."""

    index: int
    observation: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking(_AgentEvent):
    """Streamed piece of the model's reply: its reasoning, or its text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(_AgentEvent):
    """Parsed reply of the model."""

    index: int
    turn: Turn
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone(_AgentEvent):
    """Finished step, recorded on disk."""

    step: Step
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsStarted(_AgentEvent):
    """Tool calls of a reply, which start to run."""

    index: int
    reply: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReturned(_AgentEvent):
    """Result of one tool call; calls may return in any order."""

    index: int
    outcome: CallOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStepDone(_AgentEvent):
    """Finished step of a tool-using run, recorded on disk."""

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
    "tokens",
    "tools",
    "task",
    "budget",
    "child",
    "person",
    "addressed",
    "take_over",
]
"""Kind of a note. `cut`: a stop or a limit ended a step; `task`: warning of the task; `person`: a person used the
screen; `addressed`: a result addresses the agent; `take_over`: a form that a person should fill in; `tokens`: the
server returns no token ids, or does not continue from them; `tools`: notes on tools, such as servers that ended;
`budget`: a large share of a limit is used; `child`: a sub-agent began or ended.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted(_AgentEvent):
    """Notable event that is not a step."""

    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(_AgentEvent):
    """End of a run."""

    result: RunResult


GuiEvent = Observed | Decided | StepDone
ToolEvent = CallsStarted | CallReturned | ToolStepDone
Event = RunStarted | Thinking | Noted | RunEnded | GuiEvent | ToolEvent
Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Callbacks that follow a run.

    Attributes:
        listener: Called with every event.
        approver: Asks a person about risky steps; without it they are refused.
        on_control: Called with the control of the run before it starts, for pause, stop and redirect.
        on_env: Called with the environment of a GUI run before it starts, to display its screen or to use it.
    """

    listener: Listener | None = None
    approver: Approver | None = None
    on_control: Callable[[Control], None] | None = None
    on_env: Callable[[Env], None] | None = None
