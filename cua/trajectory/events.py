"""What stands in `trajectory.jsonl`: one event a line, each one small class here.

A step is told by four events, in this order, so that a reader knows after a crash how far it came:
`observed` (before the model is asked), `replied`, `acting` (before anything is done) and `acted`.
Every line also has `event` (its class, the tag of the union), `at` (Unix time in seconds), `agent` and `parent` (who
did it, and for whom) and, last, `prev`: the hash of the line before it (`chain.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args

from pydantic import Discriminator, Field, Tag

from cua.messages import Reply, ToolCall
from cua.run.end import RunResult
from cua.step import Turn
from envs import Action, Observation

SCHEMA_VERSION = 3
"""Goes up when an older reader would misread a newer record. 2: lines are chained, a tool-using run is sealed.
3: a record may hold the lines of several agents."""
CHAINED_SINCE = 2


def _kind(data: Any) -> str | None:
    return data.get("kind") if isinstance(data, dict) else None


def action_kind(action_class: type) -> str:
    """Tag of an action class in JSON: `PressKey` is `press_key`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", action_class.__name__).lower()


if TYPE_CHECKING:
    RecordedAction = Action
else:
    _TAGGED = tuple(Annotated[action_class, Tag(action_kind(action_class))] for action_class in get_args(Action))
    RecordedAction = Annotated[Union[_TAGGED], Discriminator(_kind)]  # noqa: UP007  # of as many as there are
    """An `Action` as it is read back: its class stands in `kind`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """What a run was started with: enough to understand it and to start it again.

    Attributes:
        instruction: What the agent was told; a note `instruction` has it where it came with the task's setup.
        task: `id`, `seed` and `metadata` of the task, as far as it has them.
        env: Kind of environment: `browser`, `desktop`, ...
        env_options: The environment's options that matter to a reader.
        model: Name of the model.
        protocol: Options of the protocol (thinking, number of images, coordinates, ...).
        sampling: Sampling settings.
        limits: Caps of the run.
        versions: Version by package, and of Python.
        settings: All that `--resume` needs to build the same run again (command line, resolved config).
        started_at: Unix time in seconds; 0 lets the writer put the current time in.
        schema_version: Format of this record.
    """

    instruction: str
    task: Mapping[str, Any] = field(default_factory=dict)
    env: str = ""
    env_options: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    protocol: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    started_at: float = 0.0
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """What every line has. `agent` did it; `parent` is the agent that it works for, "" for the run's first one."""

    at: float
    agent: str = "main"
    parent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent(_Line):
    """First line of a record. `run_id` is the name that the run's folder was given."""

    header: RunHeader
    run_id: str = ""
    event: Literal["run"] = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedEvent(_Line):
    """What the model is about to see. `image` is the SHA-256 of the image, its name in `images/`."""

    index: int
    observation: Observation
    image: Annotated[str, Field(pattern=r"^(|[0-9a-f]{64})$")]
    event: Literal["observed"] = "observed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepliedEvent(_Line):
    """The model's whole answer; an index may have several, when one of them could not be read."""

    index: int
    reply: Reply
    event: Literal["replied"] = "replied"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingEvent(_Line):
    """Written and on disk before the first of `actions` is carried out."""

    index: int
    turn: Turn
    actions: tuple[RecordedAction, ...]
    event: Literal["acting"] = "acting"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActedEvent(_Line):
    """A step is finished. `turn` and `actions` stand here only when no equal `acting` line came before."""

    index: int
    error: str | None
    started_at: float
    timings: Mapping[str, float]
    reward: float
    info: Mapping[str, Any]
    turn: Turn | None = None
    actions: tuple[RecordedAction, ...] | None = None
    event: Literal["acted"] = "acted"


Sha256 = Annotated[str, Field(pattern=r"^(|[0-9a-f]{64})$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPart:
    """A part of a message. `image` is the SHA-256 of an image, its name in `images/`."""

    part: Literal["text", "image"]
    text: str = ""
    image: Sha256 = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOutcome:
    """A tool call and what came of it; the fields are those of `CallOutcome` and `ToolResult`."""

    number: int
    call: ToolCall
    parts: tuple[RecordedPart, ...]
    is_error: bool
    display: str | None
    data: Mapping[str, Any]
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedEvent(_Line):
    """A tool-using run goes on with this question; its steps are `replied`, `calling` and `called`.

    Attributes:
        at: Unix time in seconds.
        parts: The question.
        inputs: Files that came with it; those of the first question stand in the header.
    """

    parts: tuple[RecordedPart, ...]
    inputs: tuple[Mapping[str, Any], ...] = ()
    event: Literal["asked"] = "asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallingEvent(_Line):
    """Written and on disk before the first of `calls` is carried out."""

    index: int
    calls: tuple[ToolCall, ...]
    event: Literal["calling"] = "calling"


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledEvent(_Line):
    """A step of a tool-using run is finished."""

    index: int
    outcomes: tuple[RecordedOutcome, ...]
    remark: str | None
    started_at: float
    timings: Mapping[str, float]
    event: Literal["called"] = "called"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(_Line):
    """Something worth knowing that is not a step.

    Attributes:
        at: Unix time in seconds.
        kind: `guard`, `loop`, `parse_error`, `pause`, `redirect`, ...: one word, free.
        text: One line for a person.
        index: The step during which it happened; 0 before the first.
        data: Details (the raw reply of a parse error, the rule of a guard).
    """

    kind: str
    text: str
    index: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)
    event: Literal["note"] = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedEvent(_Line):
    """The run goes on in a new process; what was being done is closed as interrupted."""

    event: Literal["resumed"] = "resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedEvent(_Line):
    """Last line of a record, unless the run is resumed or its files are sealed."""

    result: RunResult
    event: Literal["ended"] = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedEvent(_Line):
    """Behind the end of a tool-using run, when nothing writes to its folder any more.

    Attributes:
        at: Unix time in seconds.
        files: SHA-256 of what lies in `files/`, by name; "" for what is no regular file.
        is_whole: Whether those are all.
    """

    files: Mapping[str, str]
    is_whole: bool
    event: Literal["sealed"] = "sealed"


GuiEvent = ObservedEvent | ActingEvent | ActedEvent
ToolEvent = AskedEvent | CallingEvent | CalledEvent | SealedEvent
Event = RunEvent | RepliedEvent | Note | ResumedEvent | EndedEvent | GuiEvent | ToolEvent
