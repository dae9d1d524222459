"""What is evaluated: tasks of a suite, seeds, repeats, and the agent that tries them."""

import contextlib
import hashlib
import random
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from apps.evals.players import recorded_player
from apps.evals.statistics import Key
from cua.errors import ConfigError, name_choices
from cua.json_text import well_formed
from envs import EnvError, EnvSetupError
from envs.foreign import contained, describe_defect
from envs.suite import FAMILY, LABELS, Suite

MAX_FAMILY_CHARS = 100
MAX_REASON_CHARS = 500
_GIT_TIMEOUT_S = 10

Line = Annotated[str, Field(max_length=2_000)]
TaskId = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=0, le=10**15)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalPlan:
    """What is evaluated. Two evaluations of one plan are the same episodes with the same agent.

    Attributes:
        suite: As it was named: a name, or a Python file.
        suite_name: As the suite names itself.
        revision: Version of the tasks and their data; of a file without one, its hash.
        suite_options: What its function was called with.
        task_ids: The tasks that were chosen, in order.
        families: Family by task; tasks without one are left out.
        labels: Further groupings: by name, the group of each task that has one.
        cluster_by: The label whose tasks intervals draw together; "": each task stands alone.
        agent: What kind of agent plays: by mouse and keyboard, with tools, a swarm of these, or an author of sites.
        unavailable: Chosen tasks that were left out because they cannot be evaluated on this machine, with the reason.
        seeds: What each task is drawn with; null when there is nothing to draw.
        repeats: Times that each task and seed is tried.
        model: Name of the model.
        settings: All other settings of the agent, without secrets.
        max_steps: Steps of an episode.
        max_time_s: Seconds of an episode.
    """

    suite: Line
    suite_name: Line
    revision: Line
    suite_options: dict[str, Any]
    task_ids: Annotated[list[TaskId], Field(min_length=1, max_length=100_000)]
    families: dict[TaskId, Line]
    seeds: Annotated[list[int | None], Field(min_length=1, max_length=100_000)]
    repeats: Annotated[int, Field(ge=1, le=100_000)]
    model: Line
    settings: dict[str, Any]
    max_steps: Count
    max_time_s: Amount | None
    labels: dict[Line, dict[TaskId, Line]] = field(default_factory=dict)
    cluster_by: Line = ""
    agent: Line = "gui"
    unavailable: dict[TaskId, Line] = field(default_factory=dict)

    @property
    def num_episodes(self) -> int:
        """How many there are."""
        return len(self.task_ids) * len(self.seeds) * self.repeats

    @property
    def player(self) -> str:
        """The model, and what kind of agent it plays as unless that goes without saying."""
        about = recorded_player(self.agent).about
        return f"{self.model}, {about}" if about else self.model


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The state of the source that ran.

    Attributes:
        commit: The commit that was checked out.
        is_dirty: Whether files were changed since.
    """

    commit: Annotated[str, Field(pattern="^[0-9a-f]{40,64}$")]
    is_dirty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which part of a suite.

    Attributes:
        patterns: Globs of task ids, `click-*`; what follows the last `/` of an id may fit as well. Empty: all tasks.
        limit: The first so many of them.
        sample: So many of them, drawn.
        sample_seed: What they are drawn with.
        num_seeds: Seeds of each task; None: those of the suite.
        repeats: Times that each task and seed is tried.
    """

    patterns: tuple[str, ...] = ()
    limit: int | None = None
    sample: int | None = None
    sample_seed: int = 0
    num_seeds: int | None = None
    repeats: int = 1


def select_tasks(suite: Suite, selection: Selection) -> list[str]:
    """The chosen tasks, in the suite's order.

    Raises:
        ConfigError: A pattern fits no task.
    """
    chosen = list(suite.task_ids)
    if selection.patterns:
        fitting: set[str] = set()
        for pattern in selection.patterns:
            found = {
                id for id in suite.task_ids if fnmatchcase(id, pattern) or fnmatchcase(id.rpartition("/")[2], pattern)
            }
            if not found:
                raise ConfigError(f"no task of {suite.name!r} fits {pattern!r}.{name_choices(pattern, suite.task_ids)}")
            fitting |= found
        chosen = [id for id in chosen if id in fitting]
    if selection.sample is not None and selection.sample < len(chosen):
        drawn = set(random.Random(selection.sample_seed).sample(chosen, selection.sample))
        chosen = [id for id in chosen if id in drawn]
    return chosen[: selection.limit]


def select_seeds(suite: Suite, num_seeds: int | None) -> list[int | None]:
    """The suite's seeds, or so many of them; further ones count on from the largest.

    Raises:
        ConfigError: There is nothing to draw in this suite.
    """
    if num_seeds is None:
        return list(suite.seeds)
    numbers = [seed for seed in suite.seeds if seed is not None]
    if not numbers:
        raise ConfigError(
            f"the tasks of {suite.name!r} are not drawn, so they have no seeds; --repeats tries each again"
        )
    more = range(max(numbers) + 1, max(numbers) + 1 + max(0, num_seeds - len(numbers)))
    return [*numbers, *more][:num_seeds]


def make_plan(
    suite: Suite,
    selection: Selection,
    *,
    path: str,
    options: Mapping[str, Any],
    model: str,
    settings: Mapping[str, Any],
    max_steps: int,
    max_time_s: float | None,
    agent: str = "gui",
) -> EvalPlan:
    """The plan of an evaluation.

    Args:
        suite: Where the tasks come from.
        selection: Which of them.
        path: Its name or file.
        options: What its function was called with.
        model: Name of the model.
        settings: All other settings of the agent as JSON values, without secrets.
        max_steps: Steps of an episode.
        max_time_s: Seconds of an episode.
        agent: Kind of agent.

    Raises:
        ConfigError: The selection does not fit the suite.
    """
    task_ids, seeds = select_tasks(suite, selection), select_seeds(suite, selection.num_seeds)
    told = {id: _metadata_of(suite, id, seeds[0]) for id in task_ids}
    families = {id: _clipped(one.get(FAMILY, "")) for id, one in told.items()}
    labels: dict[str, dict[str, str]] = {}
    for id, one in told.items():
        given = one.get(LABELS)
        for name, value in given.items() if isinstance(given, dict) else ():
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
        agent=agent,
    )


def _clipped(name: object) -> str:
    """The name of a group of tasks as results can hold it."""
    return well_formed(str(name)[:MAX_FAMILY_CHARS])


def _metadata_of(suite: Suite, task_id: str, seed: int | None) -> Mapping[str, Any]:
    """Metadata of a task; empty for one that cannot be made, whose episodes record the error."""
    with contextlib.suppress(Exception), contained():
        return suite.make_task(task_id, seed).spec.metadata
    return {}


def _hash_of_file(path: str) -> str:
    """The revision of a suite that has none: the hash of its file, "" where it is no file."""
    file = Path(path.partition(":")[0])
    return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()[:16]}" if file.suffix == ".py" else ""


def plan_keys(plan: EvalPlan) -> list[Key]:
    """Task, seed and repeat of each episode, in the order in which they are run: every task once before any twice."""
    return [
        (task_id, seed, repeat) for repeat in range(plan.repeats) for seed in plan.seeds for task_id in plan.task_ids
    ]


def find_unavailable(suite: Suite, task_ids: Sequence[str]) -> dict[str, str]:
    """The tasks that cannot be evaluated on this machine, with the reason as one line; the suite's own code is asked.

    Raises:
        EnvError: The suite cannot find out.
    """
    try:
        with contained():
            found = dict(suite.find_unavailable(tuple(task_ids)))
            reasons = {
                id: well_formed(" ".join(str(found[id]).split())[:MAX_REASON_CHARS]) for id in task_ids if id in found
            }
    except EnvError:
        raise
    except Exception as error:
        told = f"the suite {suite.name!r} cannot check its tasks: {describe_defect(error)}"
        raise EnvSetupError(told) from error
    return {id: reason or "no reason given" for id, reason in reasons.items()}


def leave_out(plan: EvalPlan, unavailable: Mapping[str, str]) -> EvalPlan:
    """The plan without these tasks.

    Raises:
        ConfigError: No task is left.
    """
    task_ids = [id for id in plan.task_ids if id not in unavailable]
    if not task_ids:
        first = next(iter(unavailable.values()))
        raise ConfigError(f"none of the {len(plan.task_ids)} chosen tasks can be evaluated on this machine: {first}")
    families = {id: name for id, name in plan.families.items() if id not in unavailable}
    return replace(plan, task_ids=task_ids, families=families, unavailable=dict(unavailable))


def find_differences(kept: EvalPlan, given: EvalPlan, *, may_differ: Sequence[str] = ()) -> list[str]:
    """What keeps two plans from being the same, a few words each.

    Args:
        kept: That of a folder.
        given: That of a command line.
        may_differ: Settings that do not count.
    """
    names = ("suite_name", "revision", "suite_options", "model", "agent", "repeats", "max_steps", "max_time_s")
    found = [
        f"{name.removesuffix('_name')} is {shorten(getattr(kept, name))} there and {shorten(getattr(given, name))} here"
        for name in names
        if getattr(kept, name) != getattr(given, name)
    ]
    found += _differing_items("task", kept.task_ids, given.task_ids)
    found += _differing_items("seed", kept.seeds, given.seeds)
    names_of_settings = sorted({*kept.settings, *given.settings} - set(may_differ))
    for name in names_of_settings:
        old, new = kept.settings.get(name), given.settings.get(name)
        if old != new:
            found.append(f"the setting {name} is {shorten(old)} there and {shorten(new)} here")
    return found


def _differing_items(what: str, kept: Sequence[object], given: Sequence[object]) -> list[str]:
    if kept == given:
        return []
    odd = [one for one in (*given, *kept) if (one in kept) != (one in given)]
    example = f", for one {what} {odd[0]!r}" if odd else ", in another order"
    return [f"it has {_count(len(kept), what)} there and {len(given)} here{example}"]


def find_checkout(folder: Path) -> Checkout | None:
    """The commit of a git checkout; None where there is none, or no git."""
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
    """A value as one line of printable ASCII."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
