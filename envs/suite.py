"""Suite: tasks that are evaluated together; each try makes a new task."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from envs.env import Env, EnvSpec, Task, check_task, check_task_id

FAMILY = "family"
"""Metadata key of a task by which results are grouped, such as `"click"` or `"cross-site"`."""
LABELS = "labels"
"""Metadata key of a task with further groupings by name: `{"template": "279"}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Recorded result of an agent without any skill.

    Attributes:
        score: Mean score over all episodes, in [0, 1].
        num_episodes: Number of episodes.
        command: Command that measured it.
    """

    score: float
    num_episodes: int
    command: str


def _none_unavailable(task_ids: Sequence[str]) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Tasks that are evaluated together.

    Attributes:
        name: Name in `cua eval`.
        about: One line for a person.
        task_ids: Ids of all tasks, in order; the spec of the task that `make_task` returns has the same id.
        make_task: Makes a task from its id and a seed; fast, starts nothing. Its spec has id, seed, env and, as
            metadata, the `family`.
        make_env: Factory of its environments; None: they are made by name by `envs.registry`.
        seeds: Default seeds of each task; `(None,)` if there is nothing to draw.
        revision: Version of the tasks and their data; results of different revisions are not compared.
        max_steps: Default limit of steps per episode.
        max_time_s: Default time limit per episode.
        steps_option: Option that words the tasks as plain steps, such as `"wording=steps"`, for agents that follow
            nothing else; empty: there is none, or it is already set.
        groups: Families that are aggregated, by the name of the aggregate, as a benchmark publishes its score.
        cluster_by: Label of similar tasks that are resampled together for confidence intervals; "": each task
            separately.
        baselines: By name: `null` (does nothing), `fail` (claims failure at once), `random` (acts anywhere).
        left_out: Tasks that are missing and why, for a person; usually empty.
        find_unavailable: Called once with the chosen task ids before anything starts; returns a reason, in one clause,
            for each task that cannot be evaluated on this machine (an evaluator or a program is missing). Takes seconds
            at most, calls no model, and raises `EnvSetupError` if it cannot determine them.
        agents: Kinds of agents that can play it, the default first: `gui` (mouse and keyboard in an env), and, if each
            task is a `Question`, `tools` (one agent that calls tools) and `swarm` (an orchestrator and sub-agents);
            `web` (an author of sites, in rounds), if each task is a site to build; or a name of the entry point group
            `k25.players`.
        approve: Default approval mode: `yolo`, no questions, since the suite was chosen to be acted on; or `auto`, as
            for a user's own task, if the questions are measured (see `envs.Task.approve`).
    """

    name: str
    about: str
    task_ids: tuple[str, ...]
    make_task: Callable[[str, int | None], Task]
    make_env: Callable[[EnvSpec], Env] | None = None
    seeds: tuple[int | None, ...] = (None,)
    revision: str = ""
    max_steps: int = 100
    max_time_s: float = 600.0
    steps_option: str = ""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cluster_by: str = ""
    baselines: Mapping[str, Baseline] = field(default_factory=dict)
    left_out: str = ""
    find_unavailable: Callable[[Sequence[str]], Mapping[str, str]] = _none_unavailable
    agents: tuple[str, ...] = ("gui",)
    approve: Literal["auto", "yolo"] = "yolo"

    def __post_init__(self) -> None:
        if not self.task_ids or not self.seeds:
            raise ValueError(f"the suite {self.name!r} has no {'seeds' if self.task_ids else 'tasks'}")
        for name, given in (("id", self.task_ids), ("seed", self.seeds)):
            if len(set(given)) < len(given):
                raise ValueError(f"the suite {self.name!r} has one {name} twice; each task and seed counts once")
        for id in self.task_ids:
            check_task_id(id)
        if "" in self.task_ids:
            raise ValueError(f"the suite {self.name!r} has a task without an id")


def suite_of(name: str, tasks: Iterable[Task]) -> Suite:
    """Make a suite of existing task objects that can be tried again: they keep no state of an episode.

    Raises:
        TypeError: If one of them is not a `Task`; see `envs.env.check_task`.
        ValueError: If `tasks` is empty, a task has no id, two share id and seed, or a seed is missing.
    """
    tasks_by_key: dict[tuple[str, int | None], Task] = {}
    for task in tasks:
        check_task(task)
        spec = task.spec
        if not spec.id or (spec.id, spec.seed) in tasks_by_key:
            raise ValueError(f"it has a task without an id, or two of one id and seed ({spec.id!r}, {spec.seed})")
        tasks_by_key[spec.id, spec.seed] = task
    ids, seeds = (
        tuple(dict.fromkeys(id for id, _ in tasks_by_key)),
        tuple(dict.fromkeys(seed for _, seed in tasks_by_key)),
    )
    missing = [(id, seed) for id in ids for seed in seeds if (id, seed) not in tasks_by_key]
    if missing:
        raise ValueError(f"its tasks have different seeds: there is no {missing[0][0]!r} with seed {missing[0][1]}")
    return Suite(
        name=name,
        about=f"{len(ids)} tasks",
        task_ids=ids,
        make_task=lambda task_id, seed: tasks_by_key[task_id, seed],
        seeds=seeds,
    )
