"""Folder of an evaluation; one that is loaded may come from an untrusted source.

    results.json     plan, versions, status and figures of the evaluation; its schema: docs/results.schema.json
    episodes.jsonl   log of the batch: each attempt, and the end of each episode
    runs/            a folder for each run: its record and report.html
    index.html       the page

The figures in `results.json` are for other programs: this program computes them from the episodes each time.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from apps.evals.episodes import check_count, first_error, load_episodes, load_failed_attempts
from apps.evals.osworld_rule import SUITE as OSWORLD
from apps.evals.osworld_rule import upstream_scores
from apps.evals.plan import Amount, Checkout, Count, EvalPlan, Line, Share, TaskId, shorten
from apps.evals.players import find_recorded_kind
from apps.evals.statistics import (
    EpisodeSummary,
    Key,
    PassStatistics,
    rescored,
    summarize,
    summarize_by,
    summarize_samples,
    summarize_tasks,
)
from apps.evals.tasks import MAX_INSTRUCTION_CHARS, FailedAttempt, TaskFigures, describe_failed_attempt, figures_of
from cua.batch.episode import MAX_REASON_CHARS, EpisodeResult
from cua.errors import ConfigError, TrajectoryError
from cua.json_text import Json, read_json, well_formed
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.images import write_atomically
from cua.trajectory.run_files import default_runs_dir, read_inside
from cua.trajectory.runs import summarize as summarize_run

RESULTS = "results.json"
PAGE = "index.html"
RUNS = "runs"
VERSION = 1
MAX_RESULTS_BYTES = 64 * 2**20  # bounds memory for a file from an untrusted source

_KEPT = ("plan", "status", "why_stopped", "started_at", "ended_at", "versions", "checkout", "baselines", "groups")
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
Status = Literal["running", "finished", "unfinished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBaseline:
    """Result of an agent without skill, as stated by the suite.

    Attributes:
        score: Mean score over all of the suite's episodes.
        num_episodes: Number of these episodes.
        command: Command that measured it.
    """

    score: Share
    num_episodes: Count
    command: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationFigures:
    """Statistics of an evaluation.

    Attributes:
        all: Figures of all finished episodes.
        by_family: Figures of each family; tasks without a family are under "".
        by_group: Figures of the suite's groups of families; groups without an episode are left out.
        by_label: Figures by further groupings of the tasks, by name of the grouping and of the group.
        by_rule: Figures of all finished episodes, with scores of other rules: `upstream`, `default`.
        tries: pass@k and pass^k; empty if everything has one sample.
        tries_over: Unit that counts as a sample: `repeats` of a task and seed, or `seeds` of a task.
    """

    all: EpisodeSummary
    by_family: dict[Line, EpisodeSummary]
    by_group: dict[Line, EpisodeSummary] = field(default_factory=dict)
    by_label: dict[Line, dict[Line, EpisodeSummary]] = field(default_factory=dict)
    by_rule: dict[Line, EpisodeSummary] = field(default_factory=dict)
    tries: tuple[PassStatistics, ...] = ()
    tries_over: Literal["repeats", "seeds"] = "repeats"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsFile:
    """Content of `results.json`.

    Attributes:
        version: Version of this format.
        plan: Plan of the evaluation.
        status: `running` until the process that runs it ends; then `unfinished` if episodes are missing.
        why_stopped: Reason why episodes are missing.
        num_planned: Number of episodes in the plan.
        started_at: Start of the evaluation, Unix time in seconds.
        ended_at: Time of the last write, Unix time in seconds.
        versions: Versions of Python, the system, this program and the packages that matter.
        checkout: Commit of the source; null if it is not a git checkout.
        baselines: Results of agents without skill, by name: `null`, `fail`, `random`.
        groups: Groups of families that are summarized together, by name of the group.
        figures: Statistics of the finished episodes.
        tasks: Figures of each task.
        failed_tries: Failed or interrupted attempts after which the episode was played again.
        change_order: By site, the tasks that changed it, in chronological order; empty for other suites.
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
    figures: EvaluationFigures
    groups: dict[Line, tuple[Line, ...]] = field(default_factory=dict)
    change_order: dict[Line, tuple[TaskId, ...]] = field(default_factory=dict)
    tasks: tuple[TaskFigures, ...] = ()
    failed_tries: tuple[FailedAttempt, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Evaluation with its results up to now.

    Attributes:
        folder: Folder of the evaluation.
        plan: Plan of the evaluation.
        results: Finished episodes, in the order of the plan.
        failed_attempts: Failed or interrupted attempts after which the episode was played again.
        status: `running` until the process that runs it ends; then `unfinished` if episodes are missing.
        why_stopped: Reason why episodes are missing.
        started_at: Start of the evaluation, Unix time in seconds.
        ended_at: Time of the last write, Unix time in seconds.
        versions: Versions of Python, the system, this program and the packages that matter.
        checkout: Commit of the source; None if it is not a git checkout.
        baselines: Results of agents without skill, by name: `null`, `fail`, `random`.
        groups: Groups of families that are summarized together, by name of the group.
    """

    folder: Path
    plan: EvalPlan
    results: tuple[EpisodeResult, ...] = ()
    failed_attempts: tuple[EpisodeResult, ...] = ()
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
        """Number of unfinished episodes."""
        return self.plan.num_episodes - len(self.results)

    @cached_property
    def figures(self) -> EvaluationFigures:
        """Statistics of the finished episodes."""
        families, clusters = self.plan.families, self.clusters
        return EvaluationFigures(
            all=summarize(self.results, clusters),
            by_family=summarize_by(self.results, lambda result: families.get(result.task_id, ""), clusters),
            by_group=self._by_group(families),
            by_label={
                name: summarize_tasks(self.results, groups, clusters) for name, groups in self.plan.labels.items()
            },
            by_rule=self._by_rule(),
            tries=summarize_samples(self.results),
            tries_over="repeats" if self.plan.repeats > 1 else "seeds",
        )

    @cached_property
    def tasks(self) -> tuple[TaskFigures, ...]:
        """Figures of each task, in the order of the plan."""
        runs = {result.task_id: run for result in reversed(self.results) if (run := self.find_run(result)) is not None}
        instructions = {id: summarize_run(self.folder / run).instruction for id, run in runs.items()}
        clipped = {id: well_formed(text[:MAX_INSTRUCTION_CHARS]) for id, text in instructions.items()}
        return tuple(figures_of(self.plan.task_ids, self.results, clipped))

    @property
    def change_order(self) -> dict[str, tuple[str, ...]]:
        """Tasks that changed each site, by site, in chronological order; see `envs.suites.webarena.tasks`."""
        changes: dict[str, list[tuple[float, str]]] = {}
        for result in self.results:
            before, at = result.info.get("changes_before"), result.info.get("taken_at")
            if result.info.get("changes_state") is True and isinstance(before, dict) and isinstance(at, int | float):
                for site in before:
                    changes.setdefault(str(site), []).append((float(at), result.task_id))
        return {site: tuple(id for _, id in sorted(tasks)) for site, tasks in sorted(changes.items())}

    def _by_group(self, families: Mapping[str, str]) -> dict[str, EpisodeSummary]:
        grouped = {
            name: [result for result in self.results if families.get(result.task_id) in members]
            for name, members in self.groups.items()
        }
        return {name: summarize(some, self.clusters) for name, some in grouped.items() if some}

    @property
    def clusters(self) -> Mapping[str, str]:
        """Cluster by task id, from which intervals sample; if empty, each task is its own cluster."""
        return self.plan.labels.get(self.plan.cluster_by, {})

    @property
    def upstream_scores(self) -> dict[Key, float]:
        """Score that OSWorld's harness would write, for each scored episode."""
        return upstream_scores(self.plan, self.results, self._is_capped)

    def _is_capped(self, result: EpisodeResult) -> bool:
        run = self.find_run(result)
        return run is not None and summarize_run(self.folder / run).status == "capped"

    def _by_rule(self) -> dict[str, EpisodeSummary]:
        names = {name for result in self.results for name in result.other_scores}
        scores: dict[str, Mapping[Key, float | None]] = {
            name: {result.key: result.other_scores.get(name, result.score) for result in self.results} for name in names
        }
        if self.plan.suite_name == OSWORLD and self.results:
            scores["upstream"] = self.upstream_scores
        results = dict.fromkeys(scores, self.results)
        if find_recorded_kind(self.plan.agent).scores_parts:
            results = {name: tuple(result for result in self.results if name in result.other_scores) for name in scores}
        return {name: summarize(rescored(results[name], scores[name]), self.clusters) for name in sorted(scores)}

    def find_run(self, result: EpisodeResult) -> str | None:
        """Return the folder of an episode's run, relative to the evaluation's; None if it does not exist."""
        name = Path(result.run_dir or "").name
        is_there = _RUN_NAME.fullmatch(name) is not None and (self.folder / RUNS / name).is_dir()
        return f"{RUNS}/{name}" if is_there else None

    def find_report(self, result: EpisodeResult) -> str | None:
        """Return the report of an episode's run, relative to the evaluation's folder; None if it does not exist."""
        run, report = self.find_run(result), find_recorded_kind(self.plan.agent).report_file
        return f"{run}/{report}" if run is not None and (self.folder / run / report).is_file() else None


_RESULTS_FILE: TypeAdapter[ResultsFile] = TypeAdapter(ResultsFile)


def results_schema() -> Json:
    """Return the JSON schema of `results.json`."""
    return _RESULTS_FILE.json_schema(mode="serialization")


def find_evaluation(name: str) -> Path:
    """Return the folder of an evaluation.

    Args:
        name: A folder, or `last` or the unique beginning of a name in the default folder.

    Raises:
        TrajectoryError: If none or several match.
    """
    path = Path(name).expanduser() if not name.startswith("~") or name[1:2] in ("", "/") else Path(name)
    if path.is_dir():
        return path
    root = default_evals_dir()
    names = sorted((entry.parent.name for entry in root.glob(f"*/{RESULTS}")), reverse=True)
    matches = names[:1] if name == "last" else [known for known in names if name and known.startswith(name)]
    if len(matches) == 1:
        return root / matches[0]
    problem = f"{len(matches)} evaluations match {name!r}" if matches else f"there is no folder {name!r}"
    raise TrajectoryError(
        f"{problem}; expected the folder of an evaluation, or one of {root}: {', '.join(names[:5]) or '-'}"
    )


def default_evals_dir() -> Path:
    """Return the default folder of evaluations: next to the user's runs, or inside the configured folder."""
    runs = default_runs_dir()
    return runs.parent / "evals" if runs.name == RUNS else runs / "evals"


def save_results(evaluation: Evaluation) -> Path:
    """Write `results.json` atomically.

    Raises:
        TrajectoryError: If it cannot be written.
    """
    text = json.dumps(results_object(evaluation), ensure_ascii=False, allow_nan=False, indent=1)
    return write_whole(evaluation.folder / RESULTS, text + "\n")


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file atomically, and make its folder; return its path.

    Raises:
        TrajectoryError: If it cannot be written.
    """
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    with translate_os_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    return path


def results_object(evaluation: Evaluation) -> Json:
    """Return the content of `results.json` as JSON values."""
    content = ResultsFile(
        version=1,
        num_planned=evaluation.plan.num_episodes,
        figures=evaluation.figures,
        change_order=evaluation.change_order,
        tasks=evaluation.tasks,
        failed_tries=tuple(map(describe_failed_attempt, evaluation.failed_attempts)),
        **{name: getattr(evaluation, name) for name in _KEPT}
        | {"why_stopped": evaluation.why_stopped[:MAX_REASON_CHARS]},
    )
    return asdict(content)


def load_evaluation(folder: Path) -> Evaluation:
    """Load the folder of an evaluation; its content is untrusted.

    Raises:
        TrajectoryError: If it is not an evaluation, or its content is invalid; the message is one line.
    """
    content = _read_results(folder)
    return Evaluation(
        folder=folder.absolute(),
        results=load_episodes(folder, content.plan),
        failed_attempts=load_failed_attempts(folder, content.plan),
        **{name: getattr(content, name) for name in _KEPT},
    )


def _read_results(folder: Path) -> ResultsFile:
    path = folder / RESULTS
    try:
        content = _parse_results(read_inside(folder, RESULTS, max_bytes=MAX_RESULTS_BYTES))
    except ValueError as error:
        raise TrajectoryError(f"{path} is not a results file of an evaluation: {error}") from None
    except (FileNotFoundError, NotADirectoryError):
        raise TrajectoryError(
            f"there is no {RESULTS} in {folder}; expected the folder of an evaluation, as printed by `cua eval`"
        ) from None
    except OSError as error:
        raise TrajectoryError(f"{path} cannot be read: {error.strerror}") from error
    check_count(content.plan.num_episodes, path)
    return content


def _parse_results(text: bytes) -> ResultsFile:
    """Parse the content of a `results.json`.

    Raises:
        ValueError: If it is invalid.
    """
    value = read_json(text)
    json.dumps(value, allow_nan=False)
    if not isinstance(value, dict) or value.get("version") != VERSION:
        version = value.get("version") if isinstance(value, dict) else type(value).__name__
        raise ValueError(f"its version is {shorten(version)}, expected {VERSION}")
    try:
        content = _RESULTS_FILE.validate_python(value)
    except ValidationError as error:
        raise ValueError(first_error(error)) from None
    for kind, values in (("task", content.plan.task_ids), ("seed", content.plan.seeds)):
        if len(set(values)) < len(values):
            raise ValueError(f"it lists a {kind} twice")
    return content


def check_can_be_read(evaluation: Evaluation) -> None:
    """Check that the results could be read again, before anything is played.

    Raises:
        ConfigError: If a name, an option or a number of the suite or of the command line is outside the limits of
            `results.json`.
    """
    try:
        _parse_results(json.dumps(results_object(evaluation), ensure_ascii=False, allow_nan=False).encode())
        check_count(evaluation.plan.num_episodes, "the evaluation")
    except UnicodeEncodeError as error:
        context = ascii(error.object[max(0, error.start - 30) : error.end + 10])
        raise ConfigError(
            f"the suite cannot be evaluated: expected text in Unicode, found {context}; rename it"
        ) from None
    except ValueError as error:
        raise ConfigError(f"the suite cannot be evaluated, its results could not be read back: {error}") from None
