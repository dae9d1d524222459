"""The folder of an evaluation, and reading such a folder, which may come from a stranger.

    results.json     what was evaluated, with what, how it ended, and the figures; its schema: docs/results.schema.json
    episodes.jsonl   the journal of the batch: each try, and how each episode ended
    runs/            a folder for each run: its record and report.html
    index.html       the page

The figures of `results.json` are for other programs: here they are computed from the episodes each time.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from apps.evals.episodes import check_count, first_error, load_episodes, load_failed_tries
from apps.evals.osworld_rule import SUITE as OSWORLD
from apps.evals.osworld_rule import upstream_scores
from apps.evals.plan import Amount, Checkout, Count, EvalPlan, Line, Share, TaskId, shorten
from apps.evals.players import recorded_player
from apps.evals.statistics import Key, Summary, Tries, count_tries, rescored, summarize, summarize_by, summarize_tasks
from apps.evals.tasks import MAX_INSTRUCTION_CHARS, FailedTry, TaskFigures, describe_failed_try, figures_of
from cua.batch import EpisodeResult
from cua.batch.episode import MAX_REASON_CHARS
from cua.errors import ConfigError, TrajectoryError
from cua.json_text import read_json, well_formed
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.images import write_atomically
from cua.trajectory.run_files import default_runs_dir, read_inside
from cua.trajectory.runs import summarize as summarize_run

RESULTS = "results.json"
PAGE = "index.html"
RUNS = "runs"
VERSION = 1
MAX_RESULTS_BYTES = 64 * 2**20

_KEPT = ("plan", "status", "why_stopped", "started_at", "ended_at", "versions", "checkout", "baselines", "groups")
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
Status = Literal["running", "finished", "unfinished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBaseline:
    """What an agent without skill got on the suite, as the suite says.

    Attributes:
        score: Mean score over all of the suite's episodes.
        num_episodes: How many they were.
        command: What measured it.
    """

    score: Share
    num_episodes: Count
    command: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The statistics.

    Attributes:
        all: Of all episodes that are over.
        by_family: Of those of each family; tasks without one stand under "".
        by_group: Of families together, as the suite groups them; groups without an episode are left out.
        by_label: Of episodes by further groupings of their tasks, by name of the grouping and of the group.
        by_rule: Of all episodes that are over, by other rules than those of their scores: `upstream`, `default`.
        tries: pass@k and pass^k; empty when nothing was tried twice.
        tries_over: What counts as tries of one thing: its `repeats`, or the `seeds` of a task.
    """

    all: Summary
    by_family: dict[Line, Summary]
    by_group: dict[Line, Summary] = field(default_factory=dict)
    by_label: dict[Line, dict[Line, Summary]] = field(default_factory=dict)
    by_rule: dict[Line, Summary] = field(default_factory=dict)
    tries: tuple[Tries, ...] = ()
    tries_over: Literal["repeats", "seeds"] = "repeats"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsFile:
    """The content of `results.json`.

    Attributes:
        version: Of this format.
        plan: What is evaluated.
        status: `running` until the process that runs it ends; `unfinished` when episodes are missing then.
        why_stopped: Why some are missing.
        num_planned: Episodes of the plan.
        started_at: When it began, Unix time in seconds.
        ended_at: When it was written last, Unix time in seconds.
        versions: Of Python, the system, ourselves and the packages that matter.
        checkout: The source that ran; null where it is no git checkout.
        baselines: What agents without skill get, by name: `null`, `fail`, `random`.
        groups: Families that are summed up together, by the name of the sum.
        figures: The statistics over the episodes that are over.
        tasks: The figures of each task.
        failed_tries: Tries that failed or were cut short and after which the episode was played again.
        change_order: By site, the tasks that changed it, in the order in which they had it; empty for other suites.
    """

    version: Literal[1]
    plan: EvalPlan
    status: Status
    why_stopped: Line
    num_planned: Count
    started_at: Amount
    ended_at: Amount
    versions: dict[Line, Line]
    checkout: Checkout | None
    baselines: dict[Line, KnownBaseline]
    figures: Figures
    groups: dict[Line, tuple[Line, ...]] = field(default_factory=dict)
    change_order: dict[Line, tuple[TaskId, ...]] = field(default_factory=dict)
    tasks: tuple[TaskFigures, ...] = ()
    failed_tries: tuple[FailedTry, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """An evaluation as far as it got.

    Attributes:
        folder: Where it lies.
        plan: What is evaluated.
        results: The episodes that are over, in the order of the plan.
        failed_tries: See `ResultsFile`.
        status: See `ResultsFile`.
        why_stopped: See `ResultsFile`.
        started_at: See `ResultsFile`.
        ended_at: See `ResultsFile`.
        versions: See `ResultsFile`.
        checkout: See `ResultsFile`.
        baselines: See `ResultsFile`.
        groups: See `ResultsFile`.
    """

    folder: Path
    plan: EvalPlan
    results: tuple[EpisodeResult, ...] = ()
    failed_tries: tuple[EpisodeResult, ...] = ()
    status: Status = "running"
    why_stopped: str = ""
    started_at: float = 0.0
    ended_at: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    checkout: Checkout | None = None
    baselines: Mapping[str, KnownBaseline] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def num_unfinished(self) -> int:
        """Episodes that are not over."""
        return self.plan.num_episodes - len(self.results)

    @cached_property
    def figures(self) -> Figures:
        """The statistics."""
        families, clusters = self.plan.families, self.clusters
        return Figures(
            all=summarize(self.results, clusters),
            by_family=summarize_by(self.results, lambda one: families.get(one.task_id, ""), clusters),
            by_group=self._by_group(families),
            by_label={name: summarize_tasks(self.results, one, clusters) for name, one in self.plan.labels.items()},
            by_rule=self._by_rule(),
            tries=count_tries(self.results),
            tries_over="repeats" if self.plan.repeats > 1 else "seeds",
        )

    @cached_property
    def tasks(self) -> tuple[TaskFigures, ...]:
        """The figures of each task, in the order of the plan."""
        runs = {one.task_id: run for one in reversed(self.results) if (run := self.find_run(one)) is not None}
        told = {id: summarize_run(self.folder / run).instruction for id, run in runs.items()}
        clipped = {id: well_formed(text[:MAX_INSTRUCTION_CHARS]) for id, text in told.items()}
        return tuple(figures_of(self.plan.task_ids, self.results, clipped))

    @property
    def change_order(self) -> dict[str, tuple[str, ...]]:
        """By site, the tasks that changed it, in the order in which they had it; see `envs.suites.webarena.tasks`."""
        found: dict[str, list[tuple[float, str]]] = {}
        for one in self.results:
            before, at = one.info.get("changes_before"), one.info.get("taken_at")
            if one.info.get("changes_state") is True and isinstance(before, dict) and isinstance(at, int | float):
                for site in before:
                    found.setdefault(str(site), []).append((float(at), one.task_id))
        return {site: tuple(id for _, id in sorted(tasks)) for site, tasks in sorted(found.items())}

    def _by_group(self, families: Mapping[str, str]) -> dict[str, Summary]:
        grouped = {
            name: [one for one in self.results if families.get(one.task_id) in members]
            for name, members in self.groups.items()
        }
        return {name: summarize(some, self.clusters) for name, some in grouped.items() if some}

    @property
    def clusters(self) -> Mapping[str, str]:
        """By task id, what its task is so like that intervals draw them together; empty: each stands alone."""
        return self.plan.labels.get(self.plan.cluster_by, {})

    @property
    def upstream_scores(self) -> dict[Key, float]:
        """The score that OSWorld's harness would write, for each episode that is scored."""
        return upstream_scores(self.plan, self.results, self._is_capped)

    def _is_capped(self, result: EpisodeResult) -> bool:
        run = self.find_run(result)
        return run is not None and summarize_run(self.folder / run).status == "capped"

    def _by_rule(self) -> dict[str, Summary]:
        names = {name for one in self.results for name in one.other_scores}
        scores: dict[str, Mapping[Key, float | None]] = {
            name: {one.key: one.other_scores.get(name, one.score) for one in self.results} for name in names
        }
        if self.plan.suite_name == OSWORLD and self.results:
            scores["upstream"] = self.upstream_scores
        results = dict.fromkeys(scores, self.results)
        if recorded_player(self.plan.agent).scores_parts:
            results = {name: tuple(one for one in self.results if name in one.other_scores) for name in scores}
        return {name: summarize(rescored(results[name], scores[name]), self.clusters) for name in sorted(scores)}

    def find_run(self, result: EpisodeResult) -> str | None:
        """The folder of an episode's run, below the evaluation's; None when it is not there."""
        name = Path(result.run_dir or "").name
        is_there = _RUN_NAME.fullmatch(name) is not None and (self.folder / RUNS / name).is_dir()
        return f"{RUNS}/{name}" if is_there else None

    def find_report(self, result: EpisodeResult) -> str | None:
        """The report of an episode's run, below the evaluation's folder; None when there is none."""
        run, page = self.find_run(result), recorded_player(self.plan.agent).page
        return f"{run}/{page}" if run is not None and (self.folder / run / page).is_file() else None


_RESULTS_FILE: TypeAdapter[ResultsFile] = TypeAdapter(ResultsFile)


def results_schema() -> dict[str, Any]:
    """The JSON schema of `results.json`."""
    return _RESULTS_FILE.json_schema(mode="serialization")


def find_evaluation(what: str) -> Path:
    """The folder of an evaluation.

    Args:
        what: A folder, or, of those in the default folder, `last` or a unique beginning of a name.

    Raises:
        TrajectoryError: None or several fit.
    """
    path = Path(what).expanduser() if not what.startswith("~") or what[1:2] in ("", "/") else Path(what)
    if path.is_dir():
        return path
    root = default_evals_dir()
    names = sorted((entry.parent.name for entry in root.glob(f"*/{RESULTS}")), reverse=True)
    fitting = names[:1] if what == "last" else [name for name in names if what and name.startswith(what)]
    if len(fitting) == 1:
        return root / fitting[0]
    found = f"{len(fitting)} evaluations fit {what!r}" if fitting else f"there is no folder {what!r}"
    raise TrajectoryError(
        f"{found}; expected the folder of an evaluation, or one of {root}: {', '.join(names[:5]) or '-'}"
    )


def default_evals_dir() -> Path:
    """Where evaluations are written: beside the user's runs, or in the folder that was chosen for those."""
    runs = default_runs_dir()
    return runs.parent / "evals" if runs.name == RUNS else runs / "evals"


def save_results(evaluation: Evaluation) -> Path:
    """Write `results.json`, whole or not at all.

    Raises:
        TrajectoryError: It cannot be written.
    """
    text = json.dumps(results_object(evaluation), ensure_ascii=False, allow_nan=False, indent=1)
    return write_whole(evaluation.folder / RESULTS, text + "\n")


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file, whole or not at all, and make its folder; returns its path.

    Raises:
        TrajectoryError: It cannot be written.
    """
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    with translate_os_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    return path


def results_object(evaluation: Evaluation) -> dict[str, Any]:
    """What `results.json` holds, as JSON values."""
    content = ResultsFile(
        version=1,
        num_planned=evaluation.plan.num_episodes,
        figures=evaluation.figures,
        change_order=evaluation.change_order,
        tasks=evaluation.tasks,
        failed_tries=tuple(map(describe_failed_try, evaluation.failed_tries)),
        **{name: getattr(evaluation, name) for name in _KEPT}
        | {"why_stopped": evaluation.why_stopped[:MAX_REASON_CHARS]},
    )
    return asdict(content)


def load_evaluation(folder: Path) -> Evaluation:
    """Read the folder of an evaluation; nothing of it is trusted.

    Raises:
        TrajectoryError: It is no such folder, or something in it is not what it should be; one line says what.
    """
    content = _read_results(folder)
    return Evaluation(
        folder=folder.absolute(),
        results=load_episodes(folder, content.plan),
        failed_tries=load_failed_tries(folder, content.plan),
        **{name: getattr(content, name) for name in _KEPT},
    )


def _read_results(folder: Path) -> ResultsFile:
    path = folder / RESULTS
    try:
        content = _parse_results(read_inside(folder, RESULTS, max_bytes=MAX_RESULTS_BYTES))
    except ValueError as error:
        raise TrajectoryError(f"{path} holds no results of an evaluation: {error}") from None
    except (FileNotFoundError, NotADirectoryError):
        raise TrajectoryError(
            f"there is no {RESULTS} in {folder}; expected the folder of an evaluation, as `cua eval` prints it"
        ) from None
    except OSError as error:
        raise TrajectoryError(f"{path} cannot be read: {error.strerror}") from error
    check_count(content.plan.num_episodes, path)
    return content


def _parse_results(text: bytes) -> ResultsFile:
    """The content of a `results.json`.

    Raises:
        ValueError: Something in it is not what it should be.
    """
    value = read_json(text)
    json.dumps(value, allow_nan=False)
    if not isinstance(value, dict) or value.get("version") != VERSION:
        found = value.get("version") if isinstance(value, dict) else type(value).__name__
        raise ValueError(f"its version is {shorten(found)}, expected {VERSION}")
    try:
        content = _RESULTS_FILE.validate_python(value)
    except ValidationError as error:
        raise ValueError(first_error(error)) from None
    for what, values in (("task", content.plan.task_ids), ("seed", content.plan.seeds)):
        if len(set(values)) < len(values):
            raise ValueError(f"it plans one {what} twice")
    return content


def check_can_be_read(evaluation: Evaluation) -> None:
    """Refuse an evaluation whose results could be written but not read, before anything is played.

    Raises:
        ConfigError: A name, an option or a number of the suite or of the command line is outside the limits of
            `results.json`.
    """
    try:
        _parse_results(json.dumps(results_object(evaluation), ensure_ascii=False, allow_nan=False).encode())
        check_count(evaluation.plan.num_episodes, "the evaluation")
    except UnicodeEncodeError as error:
        found = ascii(error.object[max(0, error.start - 30) : error.end + 10])
        raise ConfigError(
            f"the suite cannot be evaluated: expected text in Unicode, found {found}; rename it"
        ) from None
    except ValueError as error:
        raise ConfigError(f"the suite cannot be evaluated, its results could not be read again: {error}") from None
