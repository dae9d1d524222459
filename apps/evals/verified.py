"""Offline scores of a finished WebArena evaluation by the rules of WebArena-Verified, and files for that package.

Only `task/agent_response.json` and `task/network.har` of each run are read; no site or model is accessed.

    TASK_ID/agent_response.json, TASK_ID/network.har, config.json      input of `webarena-verified eval-tasks`
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from apps.evals.results import Evaluation, write_whole
from apps.evals.statistics import EpisodeSummary, rescored, summarize, summarize_by
from apps.evals.text import describe_interval, describe_key, describe_share
from cua.batch.episode import EpisodeResult
from cua.errors import TrajectoryError
from cua.json_text import Json
from cua.trajectory.run_files import TASK_FILES, read_inside
from envs.errors import EnvError
from envs.suites.webarena.network_trace import AGENT_RESPONSE, MAX_HAR_BYTES, NETWORK, Trace, read_har
from envs.suites.webarena.task_config import placeholder
from envs.suites.webarena.verified import VerifiedTask, VerifiedVerdict, judge
from envs.suites.webarena.verified_tasks import load_verified

SUITES = ("webarena", "webarena-verified")
TREE, RESULTS = "verified", "verified.json"
_MAX_ANSWER_BYTES = 2**20  # bounds memory for an untrusted run
_MAX_REASONS = 20  # printed lines; the file has all


@dataclass(frozen=True, slots=True, kw_only=True)
class RescoredEpisode:
    """Episode scored by these rules.

    Attributes:
        result: Result with the score of the run.
        task: Task of the episode.
        verdict: Verdict by these rules.
    """

    result: EpisodeResult
    task: VerifiedTask
    verdict: VerifiedVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedScores:
    """Scores of an evaluation by these rules.

    Attributes:
        scored: Episodes that could be evaluated.
        lost: Reasons for the others, one line each.
        all: Figures; an episode that could not be evaluated counts as 0 in figures named `full`.
        by_sites: Figures by set of sites.
    """

    scored: tuple[RescoredEpisode, ...]
    lost: tuple[str, ...]
    all: EpisodeSummary
    by_sites: Mapping[str, EpisodeSummary]


def score_verified(evaluation: Evaluation, urls: Mapping[str, str] | None = None) -> VerifiedScores:
    """Score the episodes of an evaluation from the files of their runs.

    Args:
        evaluation: Evaluation of a suite in `SUITES`.
        urls: URLs of the sites, by name; None for the URLs in the runs.

    Raises:
        TrajectoryError: If it is an evaluation of another suite.
    """
    tasks = _tasks_of(evaluation)
    scored, lost = [], []
    ours = [result for result in evaluation.results if _number(result) in tasks]
    for result in ours:
        task = tasks[_number(result)]
        try:
            answer, trace = read_evidence(evaluation, result)
        except TrajectoryError as error:
            lost.append(f"{describe_key(result.key)}: {error}")
            continue
        verdict = judge(task, answer, trace.events, urls or trace.sites)
        scored.append(RescoredEpisode(result=result, task=task, verdict=verdict))
    scores = {entry.result.key: entry.verdict.score for entry in scored}
    results = rescored(ours, {result.key: scores.get(result.key) for result in ours})
    clusters = {result.task_id: str(tasks[_number(result)].template_id) for result in ours}
    return VerifiedScores(
        scored=tuple(scored),
        lost=tuple(lost),
        all=summarize(results, clusters),
        by_sites=summarize_by(results, lambda result: "+".join(sorted(tasks[_number(result)].sites)), clusters),
    )


def read_evidence(evaluation: Evaluation, result: EpisodeResult) -> tuple[str, Trace]:
    """Read the answer and the requests of an episode's run.

    Raises:
        TrajectoryError: If they are missing or cannot be read.
    """
    answer, har = _files_of(evaluation, result)
    try:
        return answer.decode("utf-8", "replace"), read_har(har, NETWORK)
    except EnvError as error:
        raise TrajectoryError(str(error)) from error


def _files_of(evaluation: Evaluation, result: EpisodeResult) -> tuple[bytes, bytes]:
    run = evaluation.find_run(result)
    if run is None:
        raise TrajectoryError("it has no record")
    folder = evaluation.folder / run
    try:
        answer = read_inside(folder, f"{TASK_FILES}/{AGENT_RESPONSE}", max_bytes=_MAX_ANSWER_BYTES)
        return answer, read_inside(folder, f"{TASK_FILES}/{NETWORK}", max_bytes=MAX_HAR_BYTES)
    except OSError as error:
        raise TrajectoryError(
            f"its run has no {AGENT_RESPONSE} and {NETWORK}: {result.reason or result.kind}"
        ) from error


def _tasks_of(evaluation: Evaluation) -> Mapping[int, VerifiedTask]:
    name = evaluation.plan.suite_name
    if name not in SUITES:
        raise TrajectoryError(
            f"this evaluation has the suite {name!r}; WebArena-Verified evaluates {' and '.join(SUITES)}"
        )
    return load_verified()


def _number(result: EpisodeResult) -> int:
    number = result.task_id.rpartition("/")[2]
    return int(number) if number.isdecimal() else -1


def save_scores(evaluation: Evaluation, scores: VerifiedScores) -> Path:
    """Write `verified.json` into the evaluation's folder.

    Raises:
        TrajectoryError: If it cannot be written.
    """
    tasks = [
        {
            "task_id": entry.task.id,
            "repeat": entry.result.repeat,
            "score": entry.verdict.score,
            "outcome": entry.verdict.outcome,
            "evaluators": list(entry.verdict.parts),
            "reasons": list(entry.verdict.reasons),
            "score_in_run": entry.result.score,
        }
        for entry in scores.scored
    ]
    sites = {name: asdict(summary) for name, summary in scores.by_sites.items()}
    content = {"all": asdict(scores.all), "by_sites": sites, "tasks": tasks, "not_judged": list(scores.lost)}
    return write_whole(evaluation.folder / RESULTS, json.dumps(content, ensure_ascii=False, indent=1))


def describe_scores(evaluation: Evaluation, scores: VerifiedScores) -> Iterator[str]:
    """Yield the scores as text, line by line."""
    whole = scores.all
    yield f"{evaluation.plan.suite_name} with {evaluation.plan.model}, by the rules of WebArena-Verified"
    if evaluation.plan.suite_name != "webarena-verified":
        yield "warning: the agent's prompt did not describe the answer format that these rules expect"
    yield f"score    {describe_share(whole.mean_full):>8}  ({describe_interval(whole.mean_full_interval)} at 95 %)"
    errors = sum(entry.verdict.outcome == "error" for entry in scores.scored)
    yield f"{whole.num_succeeded} of {whole.num_episodes} episodes, {errors} that could not be compared"
    width = max([5, *map(len, scores.by_sites)])
    yield ""
    yield f"{'sites':<{width}}  episodes  succeeded    score"
    for name, some in scores.by_sites.items():
        yield f"{name:<{width}}  {some.num_episodes:>8}  {some.num_succeeded:>9}  {describe_share(some.mean_full):>7}"
    missed = [entry for entry in scores.scored if entry.verdict.score < 1]
    for entry in missed[:_MAX_REASONS]:
        yield f"{describe_key(entry.result.key)}: {'; '.join(entry.verdict.reasons)[:300]}"
    if len(missed) > _MAX_REASONS:
        yield f"and {len(missed) - _MAX_REASONS} more; {RESULTS} has all"
    for line in scores.lost:
        yield f"not judged: {line}"


def export_verified(evaluation: Evaluation, folder: Path | None = None) -> tuple[Path, list[str]]:
    """Write the folder that `webarena-verified eval-tasks --output-dir DIR --config DIR/config.json` scores.

    Args:
        evaluation: Evaluation of a suite in `SUITES`.
        folder: Root folder; None for `verified/` in the evaluation's folder.

    Returns:
        The root folder, and one line for each episode that was left out.

    Raises:
        TrajectoryError: If it is an evaluation of another suite, or the folder cannot be written.
    """
    tasks = _tasks_of(evaluation)
    root, lost = folder or evaluation.folder / TREE, []
    urls: dict[str, str] = {}
    for result in evaluation.results:
        if result.repeat or _number(result) not in tasks:
            lost.append(f"{describe_key(result.key)}: the tree has one try at each task of WebArena")
            continue
        try:
            answer, har = _files_of(evaluation, result)
            urls |= read_evidence(evaluation, result)[1].sites
        except TrajectoryError as error:
            lost.append(f"{describe_key(result.key)}: {error}")
            continue
        place = root / str(_number(result))
        write_whole(place / AGENT_RESPONSE, answer)
        write_whole(place / NETWORK, har)
    config: Json = {"environments": {placeholder(name): {"urls": [url]} for name, url in urls.items()}}
    write_whole(root / "config.json", json.dumps(config, indent=1))
    return root, lost
