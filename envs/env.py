"""The contract between an agent and its environment: the env owns the machine, the task owns the goal.

Who says what about a step and an episode:

- `StepResult.reward` is the env's: what it measures itself in that step (the page of a game); 0.0 where it measures
  nothing. It is recorded and decides nothing.
- `StepResult.terminated` is the env's: a `Terminate` was carried out, or the env has reached an end of its own.
- `StepResult.truncated` is the env's: it has cut the episode off by a limit of its own, such as a game's clock. Limits
  of an agent (steps, time, tokens) are the loop's, and never show up here.
- The score is the task's: `Task.evaluate`, once the episode is over, whoever ended it. It is the verdict of a run
  and the reward of an episode.

An instruction that the world draws at random (a page that writes its own) is known once the task is set up: an agent
reads `Task.instruction` after `reset`, and what it was before says to people which task it is.
"""

import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

from envs.actions import Action, Terminate
from envs.errors import EnvSetupError, EvaluationError
from envs.observation import Generation, LiveFrame, Observation, StepResult
from envs.page_request import RequestCheck
from envs.target import Check, Target

_MAX_WARNINGS, _MAX_WARNING_CHARS = 20, 500
_MAX_INFO_CHARS, _MAX_INFO_DEPTH = 4_000, 100
_MAX_OTHER_SCORES = 50
_MAX_SHOWN_CHARS = 80
_MAX_FILES, _MAX_FILES_BYTES = 20, 64 * 2**20


class Env(Protocol):
    """A screen that can be looked at and acted on. `envs.check_env` checks this contract.

    One env runs one episode at a time: `reset` may be called again, `close` may be called twice.

    Attributes:
        terminate: The `Terminate` action that ended the current episode, else None.
            `Task.evaluate` reads the agent's answer here.
    """

    terminate: Terminate | None

    async def reset(self, task: "Task") -> Observation:
        """Start the environment if need be, bring it to a clean state, run `task.setup(self)`, and look.

        Raises:
            EnvSetupError: The environment could not be started.
        """
        ...

    async def step(self, actions: Sequence[Action], check: Check | None = None) -> StepResult:
        """Carry out actions in order and look once the screen has settled.

        The first action that fails ends the step: its text is `last_action_error`, the rest is
        not carried out. A `Terminate` sets `terminate` and `terminated`. A step that is cancelled
        begins no further action, and the env can be used on.

        Args:
            actions: What to do.
            check: Asked right before each input that activates something, with what it activates then; an
                earlier action of the same step may have changed that. What it objects to is not carried out
                and counts as an action that failed.

        Raises:
            EnvDiedError: The environment is gone.
        """
        ...

    async def find_targets(self, action: Action) -> tuple[Target, ...]:
        """What an action would activate if it were carried out now.

        The element under the pointer for the mouse; for keys the focused element, the default button of
        its form, the open dialog. Empty: nothing. `UNKNOWN` or a window: something that cannot be told.
        """
        ...

    async def describe_point(self, x_px: int, y_px: int) -> str | None:
        """What would get a click there, for guards and reports; None if unknown.

        An element where the env knows it (`button "Delete"`, `link "Next" -> https://...`), else the
        window around it (`window "Title"`).
        """
        ...

    async def close(self) -> None:
        """Stop everything that this env started. Never raises because something is gone already."""
        ...


_VERBS = ("reset", "step", "find_targets", "describe_point", "close")


def check_verbs(env: object, name: str) -> None:
    """Check that an environment of that name has the methods of `Env`.

    Raises:
        EnvSetupError: One is missing.
    """
    missing = [verb for verb in _VERBS if not callable(getattr(env, verb, None))]
    if missing:
        raise EnvSetupError(
            f"the environment {name!r} made a {type(env).__name__}, which is not an Env: it has no {missing[0]}(); "
            "envs.check_env says what an Env has to do"
        )


@runtime_checkable
class LiveScreen(Protocol):
    """What an env offers besides when its screen can be watched between observations."""

    def live_frames(self, max_fps: float) -> AsyncIterator[LiveFrame]:
        """The screen as it changes, the newest frame each time; nothing while it stays the same.

        It goes on over resets until it is closed, and ends when the env does. Secrets that the env masks are masked
        in frames too.

        Args:
            max_fps: At most so many a second.
        """
        ...


@runtime_checkable
class VersionedScreen(Protocol):
    """Optional capability: observations have a generation, and input decided on an outdated one is refused."""

    def expect(self, generation: Generation) -> None:
        """Name the observation that the next step was decided on.

        If the screen has become another one since (another tab, another document, a dialog that came up), the first
        input of that step fails, and its text says why. The env may also refuse a press at a place that looks different
        now; not twice in a row, so that a place that always changes can be used. Other changes that a document makes to
        itself, and changes by earlier actions of the same step, do not count. `Wait` and `Terminate` are no input.
        Without this call nothing is compared: a person who acts sees the live screen.
        """
        ...


@runtime_checkable
class RequestHolder(Protocol):
    """Optional capability: requests of pages that may change something are judged before they leave."""

    async def hold_requests(self, check: RequestCheck | None) -> None:
        """Hold back, until the episode ends, what is no GET, and of GETs documents of tabs and addresses with a query.

        What is held when the env is closed, or `check` is cancelled or fails, is dropped. A note of the next
        observation says what was dropped and why. `reset` ends the holding.

        Args:
            check: Asked about each request; None drops what is held, and later changes too, and lets reading requests
                pass: the run is over, and the task looks at its result.

        Raises:
            EnvSetupError: Requests cannot be held here.
        """
        ...


Touch = Literal["mouse", "keyboard"]


@runtime_checkable
class SharedScreen(Protocol):
    """What an env offers besides when people may be at the same screen, with a mouse and a keyboard of their own."""

    def touches(self) -> AsyncIterator[Touch]:
        """Told as they use them; nothing on a screen that is the env's alone, or where the system does not tell.

        It goes on over resets until it is closed.
        """
        ...


MAX_ID_CHARS = 200
MAX_METADATA_BYTES = 65_536
"""An OSWorld task file has some 10 KB, one of WebArena 2 KB."""
MAX_OPTIONS_BYTES = 2**20
"""Lists of domains can be long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSpec:
    """Which environment a task runs in, as data; `envs.registry.make_env` makes it.

    Attributes:
        name: As it is registered: `browser`, `desktop`, or one of another package.
        options: By name, JSON values; ours are named like the settings (`url`, `viewport`, `allow_domains`).
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("the name of an env is empty; expected one such as 'browser'")
        object.__setattr__(self, "options", _checked_json("options of the env", self.options, MAX_OPTIONS_BYTES))

    @property
    def key(self) -> str:
        """Equal for equal specs, so that envs can be kept by it."""
        return json.dumps([self.name, self.options], sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """Which task it is, as data: what a record says of it, and what it takes to make it again.

    Attributes:
        id: Its name in its suite, `"miniwob/click-button"`; "" for an instruction that somebody typed.
        seed: What it was drawn with; None when there is nothing to draw.
        env: The environment that it needs; None: whichever the run has.
        metadata: Anything else, JSON values (site, difficulty, revision of the data); recorded, never interpreted.

    Raises:
        ValueError: An id of several lines or too long, a seed that is no whole number, something that JSON has no
            word for, or more of it than `MAX_METADATA_BYTES`.
    """

    id: str = ""
    seed: int | None = None
    env: EnvSpec | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_task_id(self.id)
        if self.seed is not None and (isinstance(self.seed, bool) or not isinstance(self.seed, int)):
            raise ValueError(f"the seed of a task is a whole number, got {self.seed!r}")
        object.__setattr__(self, "metadata", _checked_json("metadata of the task", self.metadata, MAX_METADATA_BYTES))


def check_task_id(id: object) -> None:
    """Refuse an id that a record, a table or a terminal cannot show as it is; "" passes.

    Raises:
        ValueError: It is no text, has more than `MAX_ID_CHARS` characters, or one that cannot be printed: a line end,
            a control character, half a surrogate pair.
    """
    if not isinstance(id, str) or len(id) > MAX_ID_CHARS or not id.isprintable():
        size = f" ({len(id)} characters)" if isinstance(id, str) else ""
        shown = ascii(id[:80] if isinstance(id, str) else id)
        raise ValueError(
            f"the id of a task is one line of at most {MAX_ID_CHARS} characters that can be printed, got {shown}{size}"
        )


def _checked_json(what: str, value: Mapping[str, Any], max_bytes: int) -> dict[str, Any]:
    """A copy of its own, as it comes back from a file.

    Raises:
        ValueError: Not an object of JSON, or too large.
    """
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the {what} must be JSON values: {error}") from error
    if len(text) > max_bytes:
        raise ValueError(f"the {what} take {len(text)} bytes of JSON, at most {max_bytes} are possible")
    copy = json.loads(text)
    if not isinstance(copy, dict):
        raise ValueError(f"the {what} must be a mapping of names to JSON values, got {type(value).__name__}")
    return copy


@dataclass(frozen=True, slots=True)
class TaskVerdict:
    """Result of `Task.evaluate`. Long or malformed parts besides the score are cut or left out.

    Attributes:
        score: In [0, 1]; None when the task cannot tell. Real numbers of any type are accepted and converted to float.
        other_scores: By name, the score that other rules give, in [0, 1].
        info: Further facts on the episode, JSON values; recorded, never interpreted.

    Raises:
        EvaluationError: The score is neither None nor a real number in [0, 1].
    """

    score: float | None
    other_scores: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    info: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", _parse_score(self.score))
        object.__setattr__(self, "other_scores", _checked_scores(self.other_scores))
        object.__setattr__(self, "info", _checked_info(self.info))


Person = Callable[[str, str], Awaitable[bool]]
"""Answers a question of the guard, given the question and the step that it is about; True lets the step pass."""


class Task:
    """Base class of tasks: how to prepare an environment for a goal, and how to tell whether it was reached.

    A subclass has an `instruction`, and overrides what it needs of the rest; in a dataclass, fields of these names have
    the defaults below. Names of further members are free, but `check_task` refuses those that look like a misspelt
    member of this class.

    Attributes:
        instruction: Given to the agent, read once `setup` has run; never blank, also before.
        spec: Which task it is.
        why_once: Why it cannot be tried again from the same state, for people; "" if it can.
        approve: Answers questions of the guard in place of a user; None: the task brings no such person.
        warnings: What went wrong without being an error, in order; recorded, also when `setup` or `evaluate` raise.
        files: For the record of the run, by plain name; recorded, also when `evaluate` raises.
    """

    instruction: str
    spec: TaskSpec = TaskSpec()
    why_once: str = ""
    approve: Person | None = None
    warnings: Sequence[str] = ()
    files: Mapping[str, bytes] = MappingProxyType({})

    async def setup(self, env: Any) -> None:
        """Prepare the environment (open a page, write files)."""

    async def evaluate(self, env: Any) -> TaskVerdict:
        """Judge the state of the environment."""
        return TaskVerdict(None)

    async def teardown(self, env: Any) -> None:
        """Undo what `setup` did outside the env."""


class Question(Task):
    """A task that an agent with tools can play, too: no screen is needed to find the answer or to judge it.

    Such an agent is given `instruction` as it is without `setup`, which is not run for it, and neither is `teardown`;
    `evaluate` gets an object that has nothing of an env but `terminate`, and `folder`, where the agent has worked (None
    when that is not known).

    Attributes:
        search: Where the agent searches, as in the setting `search`; "" for whatever its user has set.
    """

    search: str = ""

    @property
    def inputs(self) -> Sequence[Path]:
        """Files that are laid into the agent's folder."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionTask(Task):
    """A task that somebody typed: nothing to prepare, nothing to verify."""

    instruction: str
    spec: TaskSpec = TaskSpec()


_MEMBERS = {name for name in (*dir(Question), "instruction") if not name.startswith("_")}
_MIN_LIKENESS = 0.9


def check_task(task: object) -> None:
    """Check that an object, which others may have made, is a `Task`, and that none of its members is misspelt.

    Raises:
        TypeError: It does not derive from `Task`, has no instruction, a spec of another type, or a member whose name
            differs from one of `Task` by little.
    """
    kind = type(task).__name__
    if not isinstance(task, Task):
        raise TypeError(
            f"{kind} is not an envs.Task; derive it, as in `class {kind}(envs.Task)`, and return an envs.TaskVerdict "
            "from evaluate(), as in `TaskVerdict(score, other_scores=..., info=...)`"
        )
    names = [name for name in dir(task) if not name.startswith("_")]
    if "instruction" not in names:
        raise TypeError(f"{kind} has no instruction; expected a text")
    if not isinstance(task.spec, TaskSpec):
        raise TypeError(f"the spec of a task is a TaskSpec, got {type(task.spec).__name__}")
    for name in set(names) - _MEMBERS:
        if near := get_close_matches(name.lower(), _MEMBERS, 1, _MIN_LIKENESS):
            raise TypeError(
                f"{kind} has the member {name!r}, which means nothing to an envs.Task; write {near[0]!r} if that is "
                "meant, or begin the name with an underscore"
            )


async def evaluate_task(task: Task, env: Any) -> TaskVerdict:
    """Await the verdict of a task, which others may have written.

    Raises:
        EvaluationError: It is not a `TaskVerdict`; besides, whatever the task raises.
    """
    found: object = await task.evaluate(env)
    if not isinstance(found, TaskVerdict):
        raise EvaluationError(f"evaluate() returned {_shown(found)}, expected a TaskVerdict, such as TaskVerdict(1.0)")
    return found


def checked_warnings(task: Task) -> list[str]:
    """Warnings of a task within bounds: of many the first, of long ones the beginning."""
    given: object = task.warnings
    return [str(text)[:_MAX_WARNING_CHARS] for text in given[:_MAX_WARNINGS]] if isinstance(given, list | tuple) else []


def checked_files(task: Task) -> dict[str, bytes]:
    """Files of a task within bounds: names that are plain, values that are bytes, up to a number and a total size."""
    given: object = task.files
    found: dict[str, bytes] = {}
    for name, data in given.items() if isinstance(given, Mapping) else ():
        is_plain = isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}", name) is not None
        fits = len(found) < _MAX_FILES and isinstance(data, bytes)
        if is_plain and fits and len(data) + sum(map(len, found.values())) <= _MAX_FILES_BYTES:
            found[name] = data
    return found


def _checked_scores(given: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in given.items():
        with contextlib.suppress(EvaluationError):
            score = _parse_score(value)
            found |= {str(name)[:MAX_ID_CHARS]: score} if score is not None and len(found) < _MAX_OTHER_SCORES else {}
    return found


def _checked_info(given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        text = json.dumps(dict(given), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return {}
    if len(text) > _MAX_INFO_CHARS or text.count("[") + text.count("{") > _MAX_INFO_DEPTH:
        return {}
    return {name: value for name, value in json.loads(text).items() if len(name) <= MAX_ID_CHARS}


def _parse_score(value: object) -> float | None:
    if value is None:
        return None
    # numpy's bool is not registered as a number; numpy itself need not be loaded
    is_numpy_bool = type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")
    try:
        score = float(value) if isinstance(value, Real | Decimal) or is_numpy_bool else None  # type: ignore[arg-type]
    except (ValueError, OverflowError):  # a signalling NaN, or an integer beyond the range of floats
        score = None
    if score is None or not 0.0 <= score <= 1.0:
        raise EvaluationError(f"evaluate() returned {_shown(value)}, expected a real number from 0 to 1, or None")
    return score + 0.0  # -0.0 becomes 0.0


def _shown(value: object) -> str:
    text = ascii(value)
    text = text if len(text) <= _MAX_SHOWN_CHARS else f"{text[: _MAX_SHOWN_CHARS - 3]}..."
    return f"{text} ({type(value).__name__})"
