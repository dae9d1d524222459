"""One episode of a batch: which task, seed and repeat it is, how it is made, and how it ended."""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from cua.errors import ConfigError
from cua.json_text import well_formed
from cua.messages import Usage
from cua.model import Model
from cua.run.end import End, RunResult
from cua.run.scope import RunScope
from envs import Env, EnvSpec, Task, TaskSpec, registry
from envs.foreign import contained

EpisodeKind = Literal["scored", "env_error", "model_error", "evaluator_error", "timeout", "stopped"]
"""`scored`: the task gave a score, or the agent failed by its own word. `timeout`: the episode took too long.
`stopped`: it was cut short from outside and is unfinished. The errors say whose they are; none counts as a failure."""

MAX_REASON_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One try of an agent at a task.

    Attributes:
        task_id: Its name in its suite.
        seed: What the task is drawn with; None when there is nothing to draw.
        repeat: Number of the repeat of the same task and seed, from 0.
        make_task: Makes the task anew.
        make_env: Makes the environment, or takes it out of a pool; whoever plays the episode closes it.
        make_model: Makes the model, or gives one that many share; whoever made it closes it.
        why_once: Why it cannot be played again from the same state once the agent has acted; "" if it can.
        why_alone: Why no other episode can be played at the same time; "" if others can.
    """

    task_id: str
    seed: int | None = None
    repeat: int = 0
    make_task: Callable[[], Task] = field(repr=False)
    make_env: Callable[[], Env | Awaitable[Env]] = field(repr=False)
    make_model: Callable[[], Model] = field(repr=False)
    why_once: str = field(default="", repr=False)
    why_alone: str = field(default="", repr=False)

    @property
    def key(self) -> tuple[str, int | None, int]:
        """Unlike that of any other episode of the batch."""
        return self.task_id, self.seed, self.repeat


def make_episodes(
    keys: Iterable[tuple[str, int | None, int]],
    *,
    make_task: Callable[[str, int | None], Task],
    take_env: Callable[[EnvSpec], Env | Awaitable[Env]],
    make_model: Callable[[], Model],
    env: EnvSpec | None = None,
) -> tuple[Episode, ...]:
    """The episodes of a suite.

    Raises:
        ConfigError: A task names no environment, and `env` is None. A task that cannot be made is not an error here.
    """

    def needed(task_id: str, given: TaskSpec) -> EnvSpec:
        if (spec := given.env or env) is None:
            raise ConfigError(f"the task {task_id!r} names no environment; give one, such as --env browser")
        return spec

    def make(task_id: str, seed: int | None, repeat: int) -> Episode:
        given, why_once = None, ""
        with contextlib.suppress(Exception), contained():
            task = make_task(task_id, seed)  # a damaged task raises again, and is recorded, when it is played
            given, why_once = task.spec, task.why_once
        spec = needed(task_id, given) if given is not None else None
        kept = registry.why_once(spec) if spec is not None else ""  # one machine, which all episodes share
        return Episode(
            task_id=task_id,
            seed=seed,
            repeat=repeat,
            make_task=lambda: make_task(task_id, seed),
            make_env=lambda: take_env(spec or needed(task_id, make_task(task_id, seed).spec)),
            make_model=make_model,
            why_once=why_once or kept,
            why_alone=kept,
        )

    return tuple(make(*key) for key in keys)


class Player(Protocol):
    """Plays one episode from making its parts to closing them."""

    async def __call__(self, episode: Episode, scope: RunScope) -> RunResult:
        """Play it within the limits of `scope`, a child of the batch's.

        Raises:
            Exception: What it raises is taken for a fault of the task's own code, errors of the closed set
                (`EnvError`, `ModelError`, ...) for what they are.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeResult:
    """How an episode ended, or one try at it.

    Attributes:
        task_id: As in `Episode`.
        seed: As in `Episode`.
        repeat: As in `Episode`.
        kind: See `EpisodeKind`.
        score: In [0, 1], never rounded to success or failure; None but for `scored`.
        reason: One line for a person.
        num_tries: Tries up to and with this one, those of a killed process included.
        num_steps: Steps of the agent in this try.
        usage: Tokens and money of this try.
        duration_s: Seconds of this try.
        run_dir: Folder of its record, relative to the batch's where it lies in there; None when nothing was recorded.
        ending: How the agent's run ended (see `ending_of`); "" when it has no end.
        is_retryable: For errors: whether another try may help. An agent's failure is never tried again.
        other_scores: By name, the score by other rules, where the task tells such.
        info: What else the task tells of its episode.
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
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int | None, int]:
        """That of its episode."""
        return self.task_id, self.seed, self.repeat

    def to_json(self) -> dict[str, Any]:
        """As one line of the journal holds it: the reason is clipped, and has no half of a surrogate pair."""
        usage = {"input_tokens": self.usage.input_tokens, "output_tokens": self.usage.output_tokens}
        shown = {name: getattr(self, name) for name in self.__slots__ if name != "usage"}
        reason = well_formed(self.reason[:MAX_REASON_CHARS])
        return {**shown, "reason": reason, **usage, "cost_usd": self.usage.cost_usd}


def ending_of(end: End) -> str:
    """One word for how a run ended: `succeeded`, `claimed_success`, `gave_up`, `env_ended`, `steps_limit`, ..."""
    if end.status == "capped":
        return f"{end.cap}_limit"
    if end.status != "failed":
        return end.status
    if end.claim is not None:
        return "gave_up" if end.claim == "failure" else "claimed_success"
    return "failed" if end.score is None else "env_ended"


def judge_end(end: End) -> tuple[EpisodeKind, float | None]:
    """The kind and the score of an episode whose run ended so."""
    if end.status == "stopped":
        return "stopped", None
    if end.status == "error":
        kinds: dict[str | None, EpisodeKind] = {"model": "model_error", "task": "evaluator_error"}
        return kinds.get(end.source, "env_error"), None
    if end.status == "capped" and end.cap == "time":
        return "timeout", None
    if end.source == "env":  # a limit was reached, and then the env could not be asked
        return "env_error", None
    if end.score is not None:
        return ("scored", end.score) if 0.0 <= end.score <= 1.0 else ("evaluator_error", None)
    if end.status == "failed":  # the agent gave up, or its conversation grew too long
        return "scored", 0.0
    return "evaluator_error", None
