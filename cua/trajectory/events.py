"""Events in `trajectory.jsonl`: one event per line, each with a small class here.

A step consists of four events in this order, so that a reader knows after a crash how far it came: `observed` (before
the model is called), `replied`, `acting` (before any action is executed) and `acted`. Every line also has `event` (its
class, the tag of the union), `at` (Unix time in seconds), `agent` and `parent` (the agent of the event, and its parent
agent) and, last, `prev`: the hash of the previous line (`chain.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from cua.json_text import JsonMapping
from cua.messages import Reply, ToolCall
from cua.run.end import RunResult
from cua.step import Turn
from envs import Action, Observation

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

SCHEMA_VERSION = 3
"""Version of the format, increased if an older reader would misread a newer record. 2: lines are chained, a
tool-using run is sealed. 3: a record may contain the lines of several agents."""
CHAINED_SINCE = 2

TOOLS_ENV = "tools"
"""`RunHeader.env` of a tool-using run."""

AgentMode = Literal["instant", "thinking", "agent", "swarm"]
"""Mode of a run, as in the Kimi K2.5 report; the first two work on a screen."""


def _kind(data: Any) -> str | None:
    return data.get("kind") if isinstance(data, dict) else None


def action_kind(action_class: type) -> str:
    """Return the tag of an action class in JSON: `PressKey` is `press_key`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", action_class.__name__).lower()


class _ActionByKind:
    """Validation of a recorded action, whose `kind` names its class.

    Like `_HashText`, it is called when a record is read: pydantic takes a quarter of the time of importing the agent,
    and writing a record does not need it.
    """

    def __get_pydantic_core_schema__(self, source: object, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        choices = {action_kind(action_class): handler(action_class) for action_class in get_args(Action)}
        return core_schema.tagged_union_schema(choices, _kind)


class _HashText:
    """Validation of a SHA-256 in hexadecimal, or an empty text."""

    def __get_pydantic_core_schema__(self, source: object, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.str_schema(pattern=r"^(|[0-9a-f]{64})$")


RecordedAction = Annotated[Action, _ActionByKind()]
Sha256 = Annotated[str, _HashText()]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """Configuration of a run: enough to understand it and to start it again.

    Attributes:
        instruction: Instruction of the agent; in a note `instruction` if it came from the task's setup.
        task: `id`, `seed` and `metadata` of the task, where it has them.
        env: Kind of environment: `browser`, `desktop`, ...
        env_options: Options of the environment that matter to a reader.
        model: Name of the model.
        protocol: Options of the protocol (thinking, number of images, coordinates, ...).
        sampling: Sampling settings.
        limits: Limits of the run.
        versions: Versions by package, and of Python.
        settings: All values that `--resume` needs to build the same run again (command line, resolved config).
        started_at: Unix time in seconds; 0 for the current time.
        schema_version: Format of this record.
    """

    instruction: str
    task: JsonMapping = field(default_factory=dict)
    env: str = ""
    env_options: JsonMapping = field(default_factory=dict)
    model: str = ""
    protocol: JsonMapping = field(default_factory=dict)
    sampling: JsonMapping = field(default_factory=dict)
    limits: JsonMapping = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: JsonMapping = field(default_factory=dict)
    started_at: float = 0.0
    schema_version: int = SCHEMA_VERSION

    @property
    def mode(self) -> AgentMode:
        """Mode of the run."""
        if self.env == TOOLS_ENV:
            return "swarm" if self.protocol.get("profile") == "swarm" else "agent"
        return "thinking" if self.protocol.get("thinking", True) else "instant"


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordLine:
    """Fields of every line. `agent` is the agent of the event; `parent` is its parent agent, "" for the first agent."""

    at: float
    agent: str = "main"
    parent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent(_RecordLine):
    """First line of a record. `run_id` is the name of the run's folder when it was made."""

    header: RunHeader
    run_id: str = ""
    event: Literal["run"] = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedEvent(_RecordLine):
    """Next observation for the model. `image` is the SHA-256 of the image, its name in `images/`."""

    index: int
    observation: Observation
    image: Sha256
    event: Literal["observed"] = "observed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepliedEvent(_RecordLine):
    """Complete reply of the model; a step may have several if one of them could not be parsed."""

    index: int
    reply: Reply
    event: Literal["replied"] = "replied"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingEvent(_RecordLine):
    """Actions to be executed; on disk before the first of them."""

    index: int
    turn: Turn
    actions: tuple[RecordedAction, ...]
    event: Literal["acting"] = "acting"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActedEvent(_RecordLine):
    """End of a step. `turn` and `actions` are set only without a preceding equal `acting` line."""

    index: int
    error: str | None
    started_at: float
    timings: Mapping[str, float]
    reward: float
    info: JsonMapping
    turn: Turn | None = None
    actions: tuple[RecordedAction, ...] | None = None
    event: Literal["acted"] = "acted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPart:
    """Part of a message. `image` is the SHA-256 of an image, its name in `images/`."""

    part: Literal["text", "image"]
    text: str = ""
    image: Sha256 = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOutcome:
    """Tool call with its result; the fields are as in `CallOutcome` and `ToolResult`."""

    number: int
    call: ToolCall
    parts: tuple[RecordedPart, ...]
    is_error: bool
    display: str | None
    data: JsonMapping
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedEvent(_RecordLine):
    """Question of a tool-using run; its steps are `replied`, `calling` and `called`.

    Attributes:
        at: Unix time in seconds.
        parts: Parts of the question.
        inputs: Files of the question; the header lists the files of the first question.
    """

    parts: tuple[RecordedPart, ...]
    inputs: tuple[JsonMapping, ...] = ()
    event: Literal["asked"] = "asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallingEvent(_RecordLine):
    """Tool calls to be made; on disk before the first of them."""

    index: int
    calls: tuple[ToolCall, ...]
    event: Literal["calling"] = "calling"


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledEvent(_RecordLine):
    """End of a step of a tool-using run."""

    index: int
    outcomes: tuple[RecordedOutcome, ...]
    remark: str | None
    started_at: float
    timings: Mapping[str, float]
    event: Literal["called"] = "called"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteEvent(_RecordLine):
    """Event that is not a step.

    Attributes:
        at: Unix time in seconds.
        kind: `guard`, `loop`, `parse_error`, `pause`, `redirect`, ...: one word, free.
        text: One line for a person.
        index: Step during which it happened; 0 before the first.
        data: Details (the raw reply of a parse error, the rule of a guard).
    """

    kind: str
    text: str
    index: int = 0
    data: JsonMapping = field(default_factory=dict)
    event: Literal["note"] = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedEvent(_RecordLine):
    """Start of a new process that continues the run; the unfinished step is closed as interrupted."""

    event: Literal["resumed"] = "resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedEvent(_RecordLine):
    """End of the run: the last line, unless the run is resumed or its files are sealed."""

    result: RunResult
    event: Literal["ended"] = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedEvent(_RecordLine):
    """Hashes of the files of a tool-using run, after its end, when its folder does not change any more.

    Attributes:
        at: Unix time in seconds.
        files: SHA-256 of the content of `files/`, by name; "" for an entry that is not a regular file.
        is_whole: True if those are all files.
    """

    files: Mapping[str, str]
    is_whole: bool
    event: Literal["sealed"] = "sealed"


GuiEvent = ObservedEvent | ActingEvent | ActedEvent
ToolEvent = AskedEvent | CallingEvent | CalledEvent | SealedEvent
Event = RunEvent | RepliedEvent | NoteEvent | ResumedEvent | EndedEvent | GuiEvent | ToolEvent
