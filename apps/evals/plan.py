"""Plan of an evaluation: tasks of a suite, seeds, repeats, and the agent."""

import contextlib
import hashlib
import random
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import Field

from apps.evals.players import find_recorded_kind
from apps.evals.statistics import Key
from cua.errors import ConfigError, name_choices
from cua.json_text import well_formed
from envs import EnvError, EnvSetupError
from envs.foreign import contained, describe_defect
from envs.suite import FAMILY, LABELS, Suite

MAX_FAMILY_CHARS = 100  # with the limit below: bounds what a foreign suite puts into results
MAX_REASON_CHARS = 500
_GIT_TIMEOUT_S = 10  # a network file system may hang; the commit is optional information

Line = Annotated[str, Field(max_length=2_000)]
TaskId = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=0, le=10**15)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalPlan:
    """Plan of an evaluation. Two evaluations with equal plans have the same episodes and the same agent.

    Attributes:
        suite: Name or Python file of the suite, as given.
        suite_name: Name that the suite defines.
        revision: Version of the tasks and their data; the hash of a file without a version.
        suite_options: Arguments of the suite's function.
        task_ids: Selected tasks, in order.
        families: Family by task; tasks without one are left out.
        labels: Further groupings: by name, the group of each task in it.
        cluster_by: Label whose groups are the clusters of intervals; "" if each task is its own cluster.
        agent: Kind of agent: with mouse and keyboard, with tools, a swarm of these, or an author of sites.
        unavailable: Selected tasks that are left out because this machine cannot evaluate them, with the reason.
        seeds: Seeds of each task; null if tasks have no randomness.
        repeats: Number of repeats of each task and seed, which are the samples of pass@k.
        model: Name of the model.
        settings: All other settings of the agent, without secrets.
        max_steps: Step limit of an episode.
        max_time_s: Time limit of an episode in seconds.
    """

    suite: Line
    suite_name: Line
    revision: Line
    suite_options: dict[str, object]
    task_ids: Annotated[list[TaskId], Field(min_length=1, max_length=100_000)]
    families: dict[TaskId, Line]
    seeds: Annotated[list[int | None], Field(min_length=1, max_length=100_000)]
    repeats: Annotated[int, Field(ge=1, le=100_000)]
    model: Line
    settings: dict[str, object]
    max_steps: Count
    max_time_s: Amount | None
    labels: dict[Line, dict[TaskId, Line]] = field(default_factory=dict)
    cluster_by: Line = ""
    agent: Line = "gui"
    unavailable: dict[TaskId, Line] = field(default_factory=dict)

    @property
    def num_episodes(self) -> int:
        """Number of episodes."""
        return len(self.task_ids) * len(self.seeds) * self.repeats

    @property
    def model_label(self) -> str:
        """Name of the model, and of the kind of agent unless it is the usual one."""
        about = find_recorded_kind(self.agent).about
        return f"{self.model}, {about}" if about else self.model


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """State of the source code.

    Attributes:
        commit: Commit that was checked out.
        is_dirty: True if files were changed since.
    """

    commit: Annotated[str, Field(pattern="^[0-9a-f]{40,64}$")]
    is_dirty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selection of a part of a suite.

    Attributes:
        patterns: Globs of task ids, `click-*`; the part after the last `/` of an id may match too. Empty for all tasks.
        limit: Number of first tasks to keep.
        sample: Number of tasks to sample.
        sample_seed: Seed of the sample.
        num_seeds: Number of seeds of each task; None for the suite's seeds.
        repeats: Number of repeats of each task and seed, which are the samples of pass@k.
    """

    patterns: tuple[str, ...] = ()
    limit: int | None = None
    sample: int | None = None
    sample_seed: int = 0
    num_seeds: int | None = None
    repeats: int = 1


def select_tasks(suite: Suite, selection: Selection) -> list[str]:
    """Return the selected tasks, in the suite's order.

    Raises:
        ConfigError: If a pattern matches no task.
    """
    chosen = list(suite.task_ids)
    if selection.patterns:
        fitting: set[str] = set()
        for pattern in selection.patterns:
            matches = {
                id for id in suite.task_ids if fnmatchcase(id, pattern) or fnmatchcase(id.rpartition("/")[2], pattern)
            }
            if not matches:
                raise ConfigError(
                    f"no task of {suite.name!r} matches {pattern!r}.{name_choices(pattern, suite.task_ids)}"
                )
            fitting |= matches
        chosen = [id for id in chosen if id in fitting]
    if selection.sample is not None and selection.sample < len(chosen):
        drawn = set(random.Random(selection.sample_seed).sample(chosen, selection.sample))
        chosen = [id for id in chosen if id in drawn]
    return chosen[: selection.limit]


def select_seeds(suite: Suite, num_seeds: int | None) -> list[int | None]:
    """Return the given number of the suite's seeds, counted on from the largest if needed; None for all of them.

    Raises:
        ConfigError: If the suite has no seeds.
    """
    if num_seeds is None:
        return list(suite.seeds)
    numbers = [seed for seed in suite.seeds if seed is not None]
    if not numbers:
        raise ConfigError(f"the tasks of {suite.name!r} are fixed and have no seeds; use --repeats to repeat each")
    more = range(max(numbers) + 1, max(numbers) + 1 + max(0, num_seeds - len(numbers)))
    return [*numbers, *more][:num_seeds]


def make_plan(
    suite: Suite,
    selection: Selection,
    *,
    path: str,
    options: Mapping[str, object],
    model: str,
    settings: Mapping[str, object],
    max_steps: int,
    max_time_s: float | None,
    player_name: str = "gui",
) -> EvalPlan:
    """Make the plan of an evaluation.

    Args:
        suite: Suite of the tasks.
        selection: Selected part of the suite.
        path: Name or file of the suite.
        options: Arguments of the suite's function.
        model: Name of the model.
        settings: All other settings of the agent as JSON values, without secrets.
        max_steps: Step limit of an episode.
        max_time_s: Time limit of an episode in seconds.
        player_name: Kind of agent, a name of `player_names`.

    Raises:
        ConfigError: If the selection does not match the suite.
    """
    task_ids, seeds = select_tasks(suite, selection), select_seeds(suite, selection.num_seeds)
    metadata_by_task = {id: _metadata_of(suite, id, seeds[0]) for id in task_ids}
    families = {id: _clipped(metadata.get(FAMILY, "")) for id, metadata in metadata_by_task.items()}
    labels: dict[str, dict[str, str]] = {}
    for id, metadata in metadata_by_task.items():
        task_labels = metadata.get(LABELS)
        for name, value in task_labels.items() if isinstance(task_labels, dict) else ():
            labels.setdefault(_clipped(name), {})[id] = _clipped(value)
    return EvalPlan(
        suite=path,
        suite_name=suite.name,
        revision=suite.revision or _hash_of_file(path),
        suite_options=dict(options),
        task_ids=task_ids,
        families={id: family for id, family in families.items() if family},
        seeds=seeds,
        repeats=selection.repeats,
        model=model,
        settings=dict(settings),
        max_steps=max_steps,
        max_time_s=max_time_s,
        labels=labels,
        cluster_by=_clipped(suite.cluster_by),
        agent=player_name,
    )


def _clipped(name: object) -> str:
    """Return the name of a group of tasks, cut to the limits of results."""
    return well_formed(str(name)[:MAX_FAMILY_CHARS])


def _metadata_of(suite: Suite, task_id: str, seed: int | None) -> Mapping[str, object]:
    """Return the metadata of a task; empty for a task that cannot be made, whose episodes record the error."""
    with contextlib.suppress(Exception), contained():
        return suite.make_task(task_id, seed).spec.metadata
    return {}


def _hash_of_file(path: str) -> str:
    """Return the revision of a suite without one: the hash of its file, "" if it is not a file."""
    file = Path(path.partition(":")[0])
    return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()[:16]}" if file.suffix == ".py" else ""


def plan_keys(plan: EvalPlan) -> list[Key]:
    """Return task, seed and repeat of each episode in execution order: every task once before any twice."""
    return [
        (task_id, seed, repeat) for repeat in range(plan.repeats) for seed in plan.seeds for task_id in plan.task_ids
    ]


def find_unavailable(suite: Suite, task_ids: Sequence[str]) -> dict[str, str]:
    """Return the tasks that this machine cannot evaluate, with the reason as one line, from the suite's own check.

    Raises:
        EnvError: If the suite's check fails.
    """
    try:
        with contained():
            unavailable = dict(suite.find_unavailable(tuple(task_ids)))
            reasons = {
                id: well_formed(" ".join(str(unavailable[id]).split())[:MAX_REASON_CHARS])
                for id in task_ids
                if id in unavailable
            }
    except EnvError:
        raise
    except Exception as error:
        raise EnvSetupError(f"the suite {suite.name!r} cannot check its tasks: {describe_defect(error)}") from error
    return {id: reason or "no reason given" for id, reason in reasons.items()}


def leave_out(plan: EvalPlan, unavailable: Mapping[str, str]) -> EvalPlan:
    """Return the plan without the given tasks.

    Raises:
        ConfigError: If no task is left.
    """
    task_ids = [id for id in plan.task_ids if id not in unavailable]
    if not task_ids:
        first = next(iter(unavailable.values()))
        raise ConfigError(f"none of the {len(plan.task_ids)} chosen tasks can be evaluated on this machine: {first}")
    families = {id: name for id, name in plan.families.items() if id not in unavailable}
    return replace(plan, task_ids=task_ids, families=families, unavailable=dict(unavailable))


def find_differences(kept: EvalPlan, current: EvalPlan, *, may_differ: Sequence[str] = ()) -> list[str]:
    """Return the differences between two plans, a few words each.

    Args:
        kept: Plan of a folder.
        current: Plan of a command line.
        may_differ: Settings that are not compared.
    """
    names = ("suite_name", "revision", "suite_options", "model", "agent", "repeats", "max_steps", "max_time_s")
    differences = [
        f"{name.removesuffix('_name')} was {shorten(getattr(kept, name))}, and is now {shorten(getattr(current, name))}"
        for name in names
        if getattr(kept, name) != getattr(current, name)
    ]
    differences += _differing_items("task", kept.task_ids, current.task_ids)
    differences += _differing_items("seed", kept.seeds, current.seeds)
    names_of_settings = sorted({*kept.settings, *current.settings} - set(may_differ))
    for name in names_of_settings:
        old, new = kept.settings.get(name), current.settings.get(name)
        if old != new:
            differences.append(f"the setting {name} was {shorten(old)}, and is now {shorten(new)}")
    return differences


def _differing_items(noun: str, kept: Sequence[object], current: Sequence[object]) -> list[str]:
    if kept == current:
        return []
    odd = [item for item in (*current, *kept) if (item in kept) != (item in current)]
    example = f", for one {noun} {odd[0]!r}" if odd else ", in another order"
    return [f"it had {_count(len(kept), noun)}, and now has {len(current)}{example}"]


def find_checkout(folder: Path) -> Checkout | None:
    """Return the commit of a git checkout; None if the folder is not one, or git is missing."""
    if not (folder / ".git").exists():
        return None
    try:
        commit = _git(folder, "rev-parse", "HEAD").strip()
        is_dirty = bool(_git(folder, "status", "--porcelain", "--untracked-files=no").strip())
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return Checkout(commit=commit, is_dirty=is_dirty) if re.fullmatch("[0-9a-f]{40,64}", commit) else None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "--no-optional-locks", "-C", str(folder), *words],
        capture_output=True,
        check=True,
        timeout=_GIT_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout.decode()


def shorten(value: object) -> str:
    """Return a value as one line of printable ASCII."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
