"""Contract between an agent and its environment: the env owns the machine, the task owns the instruction and the score.

Origin of the values of a step and an episode:

- `StepResult.reward` comes from the env: its own measurement in that step (for example by the page of a game), or 0.0
  if it measures nothing. It is recorded and has no further effect.
- `StepResult.terminated` comes from the env: a `Terminate` was executed, or the env has ended the episode.
- `StepResult.truncated` comes from the env: a limit of the env, such as a game's clock, cut the episode off. Limits of
  an agent (steps, time, tokens) are enforced by the agent loop and never appear here.
- The score comes from the task: `Task.evaluate`, called after the episode, whatever ended it. It is the verdict of a
  run and the reward of an episode.

An instruction that is drawn at random (for example by the page) is known only after the task was set up: an agent reads
`Task.instruction` after `reset`; its earlier value only identifies the task for people.
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
from envs.target import ActionCheck, Target

# With the limits below: bounds what foreign tasks put into results and records
_MAX_WARNINGS, _MAX_WARNING_CHARS = 20, 500
_MAX_INFO_CHARS, _MAX_INFO_DEPTH = 4_000, 100
_MAX_OTHER_SCORES = 50
_MAX_SHOWN_CHARS = 80
_MAX_FILES, _MAX_FILES_BYTES = 20, 64 * 2**20


class Env(Protocol):
    """Screen that can be observed and acted on. `envs.check_env` checks this contract.

    One env runs one episode at a time: `reset` may be called again, `close` may be called twice.

    Attributes:
        terminate: `Terminate` action that ended the current episode, or None. `Task.evaluate` reads the agent's answer
            here.
    """

    terminate: Terminate | None

    async def reset(self, task: "Task") -> Observation:
        """Start the environment if needed, restore a clean state, run `task.setup(self)`, and return an observation.

        Raises:
            EnvSetupError: If the environment could not be started.
        """
        ...

    async def step(self, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
        """Execute actions in order and return an observation once the screen has settled.

        The first action that fails ends the step: its error becomes `last_action_error`, and the remaining actions are
        skipped. A `Terminate` sets `terminate` and `terminated`. A cancelled step starts no further action, and the env
        remains usable.

        Args:
            actions: Actions to execute.
            check: Called right before each input that activates something, with its current targets, which an earlier
                action of the same step may have changed. An input that it rejects is not executed and counts as a
                failed action.

        Raises:
            EnvDiedError: If the environment is gone.
        """
        ...

    async def find_targets(self, action: Action) -> tuple[Target, ...]:
        """Return what an action would activate if it were executed now.

        For the mouse this is the element under the pointer; for keys the focused element, the default button of its
        form, or the open dialog. Empty: nothing. `UNKNOWN_TARGET` or a window: the target cannot be determined.
        """
        ...

    async def describe_point(self, x_px: int, y_px: int) -> str | None:
        """Describe what would receive a click at a point, for guards and reports; None if unknown.

        An element if the env knows it (`button "Delete"`, `link "Next" -> https://...`), otherwise the window around it
        (`window "Title"`).
        """
        ...

    async def close(self) -> None:
        """Stop everything that this env started. Does not raise if something is already gone."""
        ...


_VERBS = ("reset", "step", "find_targets", "describe_point", "close")


def check_verbs(env: object, name: str) -> None:
    """Check that an environment has the methods of `Env`; `name` is used in the error.

    Raises:
        EnvSetupError: If a method is missing.
    """
    missing = [verb for verb in _VERBS if not callable(getattr(env, verb, None))]
    if missing:
        raise EnvSetupError(
            f"the environment {name!r} made a {type(env).__name__}, which is not an Env: it has no {missing[0]}(); "
            "envs.check_env says what an Env has to do"
        )


@runtime_checkable
class LiveScreen(Protocol):
    """Optional capability: the screen can be watched between observations."""

    def live_frames(self, max_fps: float) -> AsyncIterator[LiveFrame]:
        """Yield the newest frame whenever the screen changes.

        The iteration continues across resets until it is closed or the env is closed. Secrets that the env masks are
        also masked in frames.

        Args:
            max_fps: Maximum number of frames per second.
        """
        ...


@runtime_checkable
class VersionedScreen(Protocol):
    """Optional capability: observations have a generation, and input decided on an outdated one is refused."""

    def expect(self, generation: Generation) -> None:
        """Set the observation that the next step was decided on.

        If the screen has since been replaced (another tab, another document, a new dialog), the first input of that
        step fails, and its error says why. The env may also refuse a press at a position that looks different now, but
        not twice in a row, so that a region that always changes can be used. Other changes that a document makes to
        itself, and changes by earlier actions of the same step, do not count. `Wait` and `Terminate` are not input.
        Without this call nothing is compared: a person who acts sees the live screen.
        """
        ...


@runtime_checkable
class RequestHolder(Protocol):
    """Optional capability: requests of pages that may change something are checked before they are sent."""

    async def hold_requests(self, check: RequestCheck | None) -> None:
        """Hold requests other than GET, and GET requests for tab documents or with a query, until the episode ends.

        Held requests are dropped when the env is closed, or when `check` is cancelled or fails. A note of the next
        observation says what was dropped and why. `reset` ends the holding.

        Args:
            check: Called for each request. None drops the held requests and later ones that may change something, and
                lets reading requests pass: the run is over, and the task inspects its result.

        Raises:
            EnvSetupError: If requests cannot be held here.
        """
        ...


InputDevice = Literal["mouse", "keyboard"]


@runtime_checkable
class SharedScreen(Protocol):
    """Optional capability: people may use the same screen with their own mouse and keyboard."""

    def user_inputs(self) -> AsyncIterator[InputDevice]:
        """Yield the used device whenever people use their mouse or keyboard.

        Nothing on a screen that only the env uses, or without support by the system. Continues across resets until
        closed.
        """
        ...


MAX_ID_CHARS = 200
MAX_METADATA_BYTES = 65_536
"""Size limit of metadata. An OSWorld task file has about 10 KB, one of WebArena 2 KB."""
MAX_OPTIONS_BYTES = 2**20
"""Size limit of options. Lists of domains can be long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSpec:
    """Environment of a task, as data; `envs.registry.make_env` makes it.

    Attributes:
        name: Registered name: `browser`, `desktop`, or one of another package.
        options: JSON values by name; built-in options are named like the settings (`url`, `viewport`, `allow_domains`).
    """

    name: str
    options: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("the name of an env is empty; expected one such as 'browser'")
        object.__setattr__(self, "options", _checked_json("options of the env", self.options, MAX_OPTIONS_BYTES))

    @property
    def key(self) -> str:
        """Text that is equal for equal specs, to look up kept envs."""
        return json.dumps([self.name, self.options], sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """Identity of a task, as data: recorded, and sufficient to make the task again.

    Attributes:
        id: Name in its suite, `"miniwob/click-button"`; "" for an instruction that a user typed.
        seed: Seed it was drawn with; None if there is nothing to draw.
        env: Environment that it needs; None: the environment of the run.
        metadata: Other JSON values (site, difficulty, revision of the data); recorded, never interpreted.

    Raises:
        ValueError: If the id has several lines or is too long, the seed is not an integer, or the metadata are not JSON
            values or larger than `MAX_METADATA_BYTES`.
    """

    id: str = ""
    seed: int | None = None
    env: EnvSpec | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_task_id(self.id)
        if self.seed is not None and (isinstance(self.seed, bool) or not isinstance(self.seed, int)):
            raise ValueError(f"the seed of a task is a whole number, got {self.seed!r}")
        object.__setattr__(self, "metadata", _checked_json("metadata of the task", self.metadata, MAX_METADATA_BYTES))


def check_task_id(id: object) -> None:
    """Check that a record, a table or a terminal can show an id as it is; "" passes.

    Raises:
        ValueError: If it is not a string, is longer than `MAX_ID_CHARS`, or has a character that is not printable: a
            line end, a control character, half a surrogate pair.
    """
    if not isinstance(id, str) or len(id) > MAX_ID_CHARS or not id.isprintable():
        size = f" ({len(id)} characters)" if isinstance(id, str) else ""
        shown = ascii(id[:80] if isinstance(id, str) else id)
        raise ValueError(
            f"the id of a task is one line of at most {MAX_ID_CHARS} characters that can be printed, got {shown}{size}"
        )


def _checked_json(name: str, value: Mapping[str, object], max_bytes: int) -> dict[str, object]:
    """Return a copy, as it would be loaded from a JSON file.

    Raises:
        ValueError: If the value is not a JSON object, or is too large.
    """
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the {name} must be JSON values: {error}") from error
    if len(text) > max_bytes:
        raise ValueError(f"the {name} take {len(text)} bytes of JSON, at most {max_bytes} are possible")
    copy = json.loads(text)
    if not isinstance(copy, dict):
        raise ValueError(f"the {name} must be a mapping of names to JSON values, got {type(value).__name__}")
    return copy


@dataclass(frozen=True, slots=True)
class TaskVerdict:
    """Result of `Task.evaluate`. Parts other than the score are cut or left out if long or malformed.

    Attributes:
        score: Score in [0, 1]; None if the task cannot determine it. Any real number type is converted to float.
        other_scores: Scores by other rules, by name, in [0, 1].
        info: Further facts on the episode, JSON values; recorded, never interpreted.

    Raises:
        EvaluationError: If the score is neither None nor a real number in [0, 1].
    """

    score: float | None
    other_scores: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    info: Mapping[str, object] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", _parse_score(self.score))
        object.__setattr__(self, "other_scores", _checked_scores(self.other_scores))
        object.__setattr__(self, "info", _checked_info(self.info))


ApprovalCallback = Callable[[str, str], Awaitable[bool]]
"""Callback that answers a question of the guard about a step; returns True to let the step pass."""


class Task:
    """Base class of tasks: how to prepare an environment for an instruction, and how to evaluate the result.

    A subclass has an `instruction` and overrides other members as needed; in a dataclass, fields of these names have
    the defaults below. Other member names are free, but `check_task` rejects names that look like a misspelt member of
    this class.

    Attributes:
        instruction: Text for the agent, read after `setup`; never blank, even before `setup`.
        spec: Identity of the task.
        no_retry_reason: Why it cannot be tried again from the same state, for people; "" if it can.
        approve: Answers questions of the guard in place of a user; None: the task has no simulated user.
        warnings: Problems that are not errors, in order; recorded, even if `setup` or `evaluate` raises.
        files: Contents for the record of the run, by plain file name; recorded, even if `evaluate` raises.
    """

    instruction: str
    spec: TaskSpec = TaskSpec()
    no_retry_reason: str = ""
    approve: ApprovalCallback | None = None
    warnings: Sequence[str] = ()
    files: Mapping[str, bytes] = MappingProxyType({})

    async def setup(self, env: Any) -> None:
        """Prepare the environment (open a page, write files)."""

    async def evaluate(self, env: Any) -> TaskVerdict:
        """Evaluate the state of the environment."""
        return TaskVerdict(None)

    async def teardown(self, env: Any) -> None:
        """Undo what `setup` did outside the env."""


class QuestionTask(Task):
    """Task that an agent with tools can also play: neither the answer nor its evaluation needs a screen.

    Such an agent gets `instruction` without `setup`; neither `setup` nor `teardown` is run for it. `evaluate` gets an
    object with only the attribute `terminate` of an env, and `folder`, the working directory of the agent (None if
    unknown).

    Attributes:
        search: Search backend of the agent, as in the setting `search`; "" for the user's setting.
    """

    search: str = ""

    @property
    def inputs(self) -> Sequence[Path]:
        """Files that are copied into the agent's folder."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionTask(Task):
    """Task with an instruction that a user typed: nothing to prepare, nothing to verify."""

    instruction: str
    spec: TaskSpec = TaskSpec()


_MEMBERS = {name for name in (*dir(QuestionTask), "instruction") if not name.startswith("_")}
_MIN_LIKENESS = 0.9  # of a member's name to one of envs.Task: a misspelling, not another word


def check_task(task: object) -> None:
    """Check that an object of possibly third-party code is a `Task` without misspelt members.

    Raises:
        TypeError: If it does not derive from `Task`, has no instruction, has a spec of another type, or has a member
            whose name is similar to one of `Task`.
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
                f"{kind} has the member {name!r}, which envs.Task does not have; write {near[0]!r} if that is "
                "meant, or begin the name with an underscore"
            )


async def evaluate_task(task: Task, env: object) -> TaskVerdict:
    """Return the verdict of a task, which may be third-party code.

    Raises:
        EvaluationError: If the result is not a `TaskVerdict`. Exceptions of the task propagate.
    """
    verdict: object = await task.evaluate(env)
    if not isinstance(verdict, TaskVerdict):
        raise EvaluationError(
            f"evaluate() returned {_shortened(verdict)}, expected a TaskVerdict, such as TaskVerdict(1.0)"
        )
    return verdict


def checked_warnings(task: Task) -> list[str]:
    """Return the first warnings of a task, each cut to a maximum length."""
    given: object = task.warnings
    return [str(text)[:_MAX_WARNING_CHARS] for text in given[:_MAX_WARNINGS]] if isinstance(given, list | tuple) else []


def checked_files(task: Task) -> dict[str, bytes]:
    """Return the files of a task with plain names and bytes values, up to a maximum number and total size."""
    given: object = task.files
    files: dict[str, bytes] = {}
    for name, data in given.items() if isinstance(given, Mapping) else ():
        is_plain = isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}", name) is not None
        fits = len(files) < _MAX_FILES and isinstance(data, bytes)
        if is_plain and fits and len(data) + sum(map(len, files.values())) <= _MAX_FILES_BYTES:
            files[name] = data
    return files


def _checked_scores(given: Mapping[str, float]) -> dict[str, float]:
    scores: dict[str, float] = {}
    for name, value in given.items():
        with contextlib.suppress(EvaluationError):
            score = _parse_score(value)
            scores |= {str(name)[:MAX_ID_CHARS]: score} if score is not None and len(scores) < _MAX_OTHER_SCORES else {}
    return scores


def _checked_info(given: Mapping[str, object]) -> dict[str, object]:
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
    # numpy's bool is not registered as a number; checked by name so that numpy need not be imported
    is_numpy_bool = type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")
    try:
        score = float(value) if isinstance(value, Real | Decimal) or is_numpy_bool else None  # type: ignore[arg-type]
    except (ValueError, OverflowError):  # a signalling NaN, or an integer beyond the range of floats
        score = None
    if score is None or not 0.0 <= score <= 1.0:
        raise EvaluationError(f"evaluate() returned {_shortened(value)}, expected a real number from 0 to 1, or None")
    return score + 0.0  # -0.0 becomes 0.0


def _shortened(value: object) -> str:
    text = ascii(value)
    text = text if len(text) <= _MAX_SHOWN_CHARS else f"{text[: _MAX_SHOWN_CHARS - 3]}..."
    return f"{text} ({type(value).__name__})"
