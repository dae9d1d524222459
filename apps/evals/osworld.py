"""OSWorld formats of an evaluation of the suite `osworld`: groups, upstream's score, the result tree.

    ACTION_SPACE/OBSERVATION_TYPE/MODEL/DOMAIN/TASK_ID/result.txt, traj.jsonl, step_*.png
    ACTION_SPACE/OBSERVATION_TYPE/MODEL/args.json

Source: `show_result.py` and the Kimi runner of xlang-ai/OSWorld.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from apps.evals.osworld_rule import SUITE
from apps.evals.results import Evaluation, write_whole
from apps.evals.statistics import EpisodeSummary, rescored, summarize
from apps.evals.text import describe_key, describe_share
from cua.batch.episode import EpisodeResult
from cua.errors import TrajectoryError
from cua.json_text import Json
from cua.models.scripted import OracleModel
from cua.trajectory import load_run
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.osworld_export import OSWorldNames, export_osworld
from envs.suites.osworld.local_tasks import load_solutions
from envs.suites.osworld.task_file import DOMAINS, GROUPS

TREE = "osworld"
_MAX_RESULT_BYTES = 1000  # the file holds one number; bounds an untrusted one


def make_oracle() -> OracleModel:
    """Return the model that writes the known solutions of OSWorld's local list."""
    return OracleModel(load_solutions())


def summarize_groups(evaluation: Evaluation) -> dict[str, tuple[EpisodeSummary, EpisodeSummary]]:
    """Return figures by this project's rules and upstream's, of each domain and group with episodes, and of `all`."""
    ours = rescored(
        evaluation.results,
        {result.key: result.other_scores.get("default", result.score) for result in evaluation.results},
    )
    theirs = rescored(evaluation.results, evaluation.upstream_scores)
    groups = {**{domain: (domain,) for domain in DOMAINS}, **GROUPS, "all": DOMAINS}
    summaries = {}
    for name, domains in groups.items():
        pairs = [pair for pair in zip(ours, theirs, strict=True) if f"{pair[0].task_id}/".split("/")[1] in domains]
        if pairs:
            summaries[name] = (summarize(before for before, _ in pairs), summarize(other for _, other in pairs))
    return summaries


def describe_groups(evaluation: Evaluation) -> Iterator[str]:
    """Yield the table of domains and groups, by both rules, line by line."""
    yield f"{'':<20}  episodes  finished     score  finished  upstream  finished"
    for name, (ours, theirs) in summarize_groups(evaluation).items():
        shares = (ours.mean_full, ours.mean_scored, theirs.mean_full, theirs.mean_scored)
        columns = "  ".join(f"{describe_share(share):>8}" for share in shares)
        yield f"{name:<20}  {ours.num_episodes:>8}  {ours.num_scored:>8}  {columns}"
    yield "score: an episode without one counts 0; finished: it is left out; upstream: as the harness would score it"


def export_result_tree(evaluation: Evaluation, folder: Path | None = None) -> tuple[Path, list[str]]:
    """Write the harness's result tree.

    Args:
        evaluation: Evaluation to export.
        folder: Root folder; None for `osworld/` in the evaluation's folder.

    Returns:
        The root folder, and one line for each episode that was left out.

    Raises:
        TrajectoryError: If it is not an evaluation of OSWorld, or the folder cannot be written.
    """
    plan = evaluation.plan
    if plan.suite_name != SUITE:
        raise TrajectoryError(
            f"this evaluation has the suite {plan.suite_name!r}; a result tree of the OSWorld harness needs {SUITE!r}"
        )
    root, lost = folder or evaluation.folder / TREE, []
    for result in evaluation.results:
        run = evaluation.find_run(result)
        names = _names(plan.model, result)
        if run is None or names is None:
            lost.append(f"{describe_key(result.key)}: it has no record")
            continue
        try:
            place = export_osworld(load_run(evaluation.folder / run), root, names)
        except TrajectoryError as error:
            lost.append(f"{describe_key(result.key)}: {error}")
            continue
        if result.score is not None:
            write_whole(place / "result.txt", f"{float(result.score)}\n")
            continue
        with translate_os_errors("write", place):
            (place / "result.txt").unlink(missing_ok=True)
    _save_arguments(evaluation, root)
    return root, lost


def _names(model: str, result: EpisodeResult) -> OSWorldNames | None:
    """Return the folder names of an episode; a repeat is stored under a different model name."""
    parts = result.task_id.split("/")
    name = "".join(char if char.isalnum() or char in "._-" else "_" for char in model).strip(".") or "model"
    if len(parts) != 3:
        return None
    return OSWorldNames(
        domain=parts[1], task_id=parts[2], model=name + (f"-{result.repeat + 1}" if result.repeat else "")
    )


def _save_arguments(evaluation: Evaluation, root: Path) -> None:
    """Write the arguments next to each model's results, with the revision of the task data."""
    plan = evaluation.plan
    values: Json = {
        "model": plan.model,
        "max_steps": plan.max_steps,
        "task_data_revision": plan.revision,
        "suite_options": plan.suite_options,
        "settings": plan.settings,
    }
    for place in root.glob("*/*/*"):
        if place.is_dir():
            write_whole(place / "args.json", json.dumps(values, ensure_ascii=False, indent=1))


def read_result_tree(folder: Path) -> tuple[Mapping[str, float | None], list[str]]:
    """Read the scores of a result tree below one model, written by any program.

    Args:
        folder: Path of `ACTION_SPACE/OBSERVATION_TYPE/MODEL`.

    Returns:
        By `DOMAIN/TASK_ID`, a score in [0, 1] or None if it is missing; and one line for each entry that is
        invalid.

    Raises:
        TrajectoryError: If the folder does not exist.
    """
    if not folder.is_dir():
        raise TrajectoryError(
            f"there is no folder {folder}; expected ACTION_SPACE/OBSERVATION_TYPE/MODEL of a result tree"
        )
    scores: dict[str, float | None] = {}
    odd: list[str] = []
    for place in sorted(folder.glob("*/*")):
        key = f"{place.parent.name}/{place.name}"
        if not place.is_dir():
            continue
        if place.parent.name not in DOMAINS:
            odd.append(f"{key}: OSWorld has no domain {place.parent.name!r}")
            continue
        scores[key], why = _read_score(place / "result.txt")
        odd += [f"{key}: {line}" for line in (why, _why_torn(place / "traj.jsonl")) if line]
    return scores, odd


def _read_score(path: Path) -> tuple[float | None, str]:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_RESULT_BYTES).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"result.txt cannot be read: {error.strerror}"
    try:
        score = {"True": 1.0, "False": 0.0}.get(text)
        score = float(text) if score is None else score
    except ValueError:
        return None, f"result.txt is {text[:40]!r}, expected a number"
    return (score, "") if 0.0 <= score <= 1.0 else (None, f"result.txt is {text[:40]!r}, expected a number from 0 to 1")


def _why_torn(path: Path) -> str:
    """Return the reason why the last line of a trajectory is torn; "" if it is complete or missing."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            size = file.tell()
            file.seek(max(0, size - 1))
            return "traj.jsonl ends within a line" if size and file.read(1) != b"\n" else ""
    except OSError:
        return ""
