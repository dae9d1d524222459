"""One episode of a batch: its task, seed and repeat, the factories of its parts, and its result."""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from cua.errors import ConfigError, CuaError, ModelError, TaskError, describe_defect
from cua.json_text import Json, JsonMapping, well_formed
from cua.messages import Usage
from cua.model import Model
from cua.run.budget import CapReachedError
from cua.run.end import End, RunResult
from cua.run.scope import RunScope
from envs import Env, EnvError, EnvSpec, Task, TaskSpec, registry
from envs.foreign import contained, describe_error

EpisodeKind = Literal["scored", "env_error", "model_error", "evaluator_error", "timeout", "stopped"]
"""`scored`: the task gave a score, or the agent reported failure. `timeout`: the episode took too long.
`stopped`: it was interrupted from outside and is unfinished. Errors name their source; none counts as a failure."""

MAX_REASON_CHARS = 2_000  # bounds a line of the log whatever a task raises; the run's record has the whole text


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """Run of an agent at a task, which may take several attempts.

    Attributes:
        task_id: Id of the task in its suite.
        seed: Seed of the task; None if the task is not random.
        repeat: Number of the repeat of the same task and seed, from 0.
        make_task: Creates a new task object.
        make_env: Creates the environment or takes it from a pool; the player closes it.
        make_model: Creates the model or returns a shared one; its creator closes it.
        no_retry_reason: Reason why the episode cannot be retried from the same state after the agent has acted; "" if
            it can.
        exclusive_reason: Reason why no other episode can run at the same time; "" if others can.
    """

    task_id: str
    seed: int | None = None
    repeat: int = 0
    make_task: Callable[[], Task] = field(repr=False)
    make_env: Callable[[], Env | Awaitable[Env]] = field(repr=False)
    make_model: Callable[[], Model] = field(repr=False)
    no_retry_reason: str = field(default="", repr=False)
    exclusive_reason: str = field(default="", repr=False)

    @property
    def key(self) -> tuple[str, int | None, int]:
        """Key that is unique in the batch: task id, seed and repeat."""
        return self.task_id, self.seed, self.repeat


def make_episodes(
    keys: Iterable[tuple[str, int | None, int]],
    *,
    make_task: Callable[[str, int | None], Task],
    take_env: Callable[[EnvSpec], Env | Awaitable[Env]],
    make_model: Callable[[], Model],
    env: EnvSpec | None = None,
) -> tuple[Episode, ...]:
    """Create the episodes of a suite.

    Raises:
        ConfigError: If a task names no environment, and `env` is None. Tasks that cannot be created raise no error.
    """

    def needed(task_id: str, task_spec: TaskSpec) -> EnvSpec:
        if (spec := task_spec.env or env) is None:
            raise ConfigError(f"the task {task_id!r} names no environment; give one, such as --env browser")
        return spec

    def make(task_id: str, seed: int | None, repeat: int) -> Episode:
        task_spec, no_retry_reason = None, ""
        with contextlib.suppress(Exception), contained():
            task = make_task(task_id, seed)  # a damaged task raises again, and is recorded, when it is run
            task_spec, no_retry_reason = task.spec, task.no_retry_reason
        spec = needed(task_id, task_spec) if task_spec is not None else None
        env_reason = registry.no_retry_reason(spec) if spec is not None else ""  # one machine that all episodes share
        return Episode(
            task_id=task_id,
            seed=seed,
            repeat=repeat,
            make_task=lambda: make_task(task_id, seed),
            make_env=lambda: take_env(spec or needed(task_id, make_task(task_id, seed).spec)),
            make_model=make_model,
            no_retry_reason=no_retry_reason or env_reason,
            exclusive_reason=env_reason,
        )

    return tuple(make(*key) for key in keys)


class Player(Protocol):
    """Callable that runs one episode, including the creation and closing of its parts."""

    async def __call__(self, episode: Episode, scope: RunScope) -> RunResult:
        """Run the episode within the limits of `scope`, a child of the batch's scope.

        Raises:
            Exception: Errors of known classes (`EnvError`, `ModelError`, ...) are classified by class; any other
                exception counts as an error of the task's own code.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeResult:
    """Result of an episode, or of one attempt at it.

    Attributes:
        task_id: Task id of the episode.
        seed: Seed of the episode.
        repeat: Repeat number of the episode.
        kind: See `EpisodeKind`.
        score: Score in [0, 1], never rounded to success or failure; None unless `scored`.
        reason: One line for a person.
        num_tries: Number of attempts, including this one and the attempts of a killed process.
        num_steps: Steps of the agent in this attempt.
        usage: Tokens and cost of this attempt.
        duration_s: Seconds of this attempt.
        run_dir: Folder of its record, relative to the batch's folder if it is inside it; None if nothing was recorded.
        ending: End of the agent's run (see `ending_of`); "" if it has no end.
        is_retryable: True if another attempt may succeed after an error. An agent's failure is never retried.
        other_scores: Scores by other rules, by name, if the task gives them.
        info: Further information of the task about its episode.
    """

    task_id: str
    seed: int | None
    repeat: int
    kind: EpisodeKind
    score: float | None
    reason: str
    num_tries: int = 1
    num_steps: int = 0
    usage: Usage = field(default_factory=Usage)
    duration_s: float = 0.0
    run_dir: str | None = None
    ending: str = ""
    is_retryable: bool = False
    other_scores: Mapping[str, float] = field(default_factory=dict)
    info: JsonMapping = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int | None, int]:
        """Key of its episode."""
        return self.task_id, self.seed, self.repeat

    def to_json(self) -> Json:
        """Return a line of the episode log: the reason is truncated and has no lone surrogates."""
        usage = {"input_tokens": self.usage.input_tokens, "output_tokens": self.usage.output_tokens}
        shown = {name: getattr(self, name) for name in self.__slots__ if name != "usage"}
        reason = well_formed(self.reason[:MAX_REASON_CHARS])
        return {**shown, "reason": reason, **usage, "cost_usd": self.usage.cost_usd}


def ending_of(end: End) -> str:
    """Return a word for the end of a run: `succeeded`, `claimed_success`, `gave_up`, `env_ended`, `steps_limit`, ..."""
    if end.status == "capped":
        return f"{end.cap}_limit"
    if end.status != "failed":
        return end.status
    if end.claim is not None:
        return "gave_up" if end.claim == "failure" else "claimed_success"
    return "failed" if end.score is None else "env_ended"


def classify_end(end: End) -> tuple[EpisodeKind, float | None]:
    """Return the kind and the score of an episode for the end of its run."""
    if end.status == "stopped":
        return "stopped", None
    if end.status == "error":
        kinds: dict[str | None, EpisodeKind] = {"model": "model_error", "task": "evaluator_error"}
        return kinds.get(end.source, "env_error"), None
    if end.status == "capped" and end.cap == "time":
        return "timeout", None
    if end.source == "env":  # a limit was reached, and then the environment could not be evaluated
        return "env_error", None
    if end.score is not None:
        return ("scored", end.score) if 0.0 <= end.score <= 1.0 else ("evaluator_error", None)
    if end.status == "failed":  # the agent gave up, or its conversation grew too long
        return "scored", 0.0
    return "evaluator_error", None


def classify_error(error: Exception) -> tuple[EpisodeKind, str, bool]:
    """Return the kind of an episode that raised an exception, a line for a person, and True if it can be retried."""
    kind: EpisodeKind = "evaluator_error"
    if isinstance(error, CapReachedError) and error.cap == "time":
        kind = "timeout"
    elif isinstance(error, ModelError):
        kind = "model_error"
    elif isinstance(error, EnvError):
        kind = "env_error"
    is_retryable = kind in ("env_error", "model_error") and bool(getattr(error, "retryable", False))
    if isinstance(error, TaskError):
        return kind, str(error), is_retryable  # it names the error and its location
    is_known = isinstance(error, EnvError | CuaError | CapReachedError)
    return kind, describe_error(error) if is_known else describe_defect(error), is_retryable
