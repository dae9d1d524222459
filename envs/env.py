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
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from envs.actions import Action, Terminate
from envs.errors import EnvSetupError, EvaluationError
from envs.observation import Generation, LiveFrame, Observation, StepResult
from envs.page_request import RequestCheck
from envs.score import parse_score
from envs.target import Check, Target

_MAX_WARNINGS, _MAX_WARNING_CHARS = 20, 500
_MAX_INFO_CHARS, _MAX_INFO_DEPTH = 4_000, 100
_MAX_OTHER_SCORES = 50
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


class Task(Protocol):
    """A goal: how to prepare an environment for it and how to tell whether it was reached."""

    @property
    def instruction(self) -> str:
        """What the agent is told, once `setup` has run; never blank, before that neither."""
        ...

    @property
    def spec(self) -> TaskSpec:
        """Which task it is. Read through `spec_of`, so that a task may leave it out."""
        ...

    async def setup(self, env: Any) -> None:
        """Prepare the environment (open a page, write files)."""
        ...

    async def evaluate(self, env: Any) -> float | None:
        """Score in [0, 1] from the state of the environment; None when this task cannot tell."""
        ...

    async def teardown(self, env: Any) -> None:
        """Undo what `setup` did outside the env."""
        ...


class Question(Task, Protocol):
    """A task that an agent with tools can play, too: no screen is needed to find the answer or to judge it.

    Such an agent is given `instruction` as it is without `setup`, which is not run for it, and neither is `teardown`;
    `evaluate` gets an object that has nothing of an env but `terminate`, and `folder`, where the agent has worked (None
    when that is not known). A question may have `inputs`, files that are laid into that folder.
    """

    @property
    def search(self) -> str:
        """What the agent searches, as the setting `search` says it; "" for whatever its user has set."""
        ...


def why_once_of(task: Task) -> str:
    """Return why a task cannot be tried again from the same state, from its `why_once`, if it has any; "" if it can."""
    why: object = getattr(task, "why_once", "")
    return why if isinstance(why, str) else ""


def search_of(task: Task) -> str | None:
    """What an agent with tools searches to answer a task; None: the task is no `Question`."""
    search: object = getattr(task, "search", None)
    return search if isinstance(search, str) else None


def inputs_of(task: Task) -> tuple[Path, ...]:
    """Files that an agent with tools is given with a task, from its `inputs`; most tasks have none."""
    inputs: object = getattr(task, "inputs", ())
    return tuple(one for one in inputs if isinstance(one, Path)) if isinstance(inputs, tuple | list) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionTask:
    """A task that somebody typed: nothing to prepare, nothing to verify."""

    instruction: str
    spec: TaskSpec = TaskSpec()

    async def setup(self, env: Any) -> None:
        """Nothing to prepare."""

    async def evaluate(self, env: Any) -> float | None:
        """No verdict: only the person who typed the instruction knows."""
        return None

    async def teardown(self, env: Any) -> None:
        """Nothing to undo."""


def spec_of(task: Task) -> TaskSpec:
    """Which task it is; an unnamed one when it does not say.

    Raises:
        TypeError: Its `spec` is no `TaskSpec`.
    """
    spec: object = getattr(task, "spec", None)
    if spec is None:
        return TaskSpec()
    if not isinstance(spec, TaskSpec):
        raise TypeError(f"the spec of a task is a TaskSpec, got {type(spec).__name__}")
    return spec


def other_scores_of(task: Task) -> dict[str, float]:
    """By name, what other rules than the task's own give, once `evaluate` has; from its `other_scores`, if it has any.

    Values that `parse_score` does not accept are left out; of many the first are taken, of long names the beginning.
    """
    given: object = getattr(task, "other_scores", None)
    found: dict[str, float] = {}
    for name, value in given.items() if isinstance(given, Mapping) else ():
        with contextlib.suppress(EvaluationError):
            score = parse_score(value)
            found |= {str(name)[:MAX_ID_CHARS]: score} if score is not None and len(found) < _MAX_OTHER_SCORES else {}
    return found


def warnings_of(task: Task) -> list[str]:
    """What went wrong around a task without being an error, in order; from its `warnings`, if it has any.

    Of many the first are taken, and of long ones the beginning.
    """
    given: object = getattr(task, "warnings", None)
    return [str(text)[:_MAX_WARNING_CHARS] for text in given[:_MAX_WARNINGS]] if isinstance(given, list | tuple) else []


def info_of(task: Task) -> dict[str, Any]:
    """What a task tells of its episode besides scores, as JSON values, once `evaluate` has; from its `info`, if any.

    What is not JSON, long, or deeply nested is left out, as is an entry with a long name.
    """
    given: object = getattr(task, "info", None)
    try:
        text = json.dumps(dict(given), allow_nan=False) if isinstance(given, Mapping) else "{}"
    except (TypeError, ValueError, RecursionError):
        return {}
    if len(text) > _MAX_INFO_CHARS or text.count("[") + text.count("{") > _MAX_INFO_DEPTH:
        return {}
    return {name: value for name, value in json.loads(text).items() if len(name) <= MAX_ID_CHARS}


Person = Callable[[str, str], Awaitable[bool]]
"""Answers a question of the guard, given the question and the step that it is about; True lets the step pass."""


def person_of(task: Task) -> Person | None:
    """Return who answers questions of the guard in place of a user, from the task's `approve`, if it has one."""
    approve: Person | None = getattr(task, "approve", None)
    return approve if callable(approve) else None


def files_of(task: Task) -> dict[str, bytes]:
    """Files that a task leaves for the record of the run, by plain name, once `evaluate` has; from its `files`, if any.

    What is no bytes is left out, and what is beyond a number and a size of all of them.
    """
    given: object = getattr(task, "files", None)
    found: dict[str, bytes] = {}
    for name, data in given.items() if isinstance(given, Mapping) else ():
        is_plain = isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}", name) is not None
        fits = len(found) < _MAX_FILES and isinstance(data, bytes)
        if is_plain and fits and len(data) + sum(map(len, found.values())) <= _MAX_FILES_BYTES:
            found[name] = data
    return found
