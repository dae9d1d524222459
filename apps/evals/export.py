"""Export of an evaluation: a log of inspect_ai, its runs in ATIF, and a table of its episodes.

Source: inspect_ai's `inspect_ai.log.EvalLog`, format version 2, as JSON. The package inspect_ai is not required.
"""

import csv
import datetime
import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path

from apps.evals.results import Evaluation, write_whole
from apps.evals.statistics import is_success
from apps.evals.tasks import ending_of
from apps.evals.text import ERRORS, describe_key
from cua.batch.episode import EpisodeResult
from cua.errors import TrajectoryError
from cua.json_text import Json
from cua.trajectory import load_run
from cua.trajectory.atif_export import FILE as TRAJECTORY
from cua.trajectory.atif_export import export_atif
from cua.trajectory.describe import printable
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.runs import summarize

FILE = "inspect.json"
ATIF = "atif"
FORMAT_VERSION = 2
SCORER = "task"
_MAX_INSTRUCTION_CHARS = 20_000  # of a task in the exported file
CSV = "episodes.csv"
COLUMNS = (
    *("task_id", "family", "seed", "repeat", "kind", "score", "ending", "reason", "num_tries", "num_steps"),
    *("duration_s", "input_tokens", "output_tokens", "cost_usd", "instruction", "run"),
)
_FORMULA_STARTS = "=+-@＝＋－＠"
"""First characters of a formula in spreadsheets, including full-width forms; tabs and line ends are replaced first."""


def export_inspect(evaluation: Evaluation, path: Path | None = None) -> Path:
    """Write the log atomically.

    Args:
        evaluation: Evaluation to export.
        path: Path of the file, ending in `.json`; None for `inspect.json` in the evaluation's folder.

    Returns:
        Path of the file.

    Raises:
        TrajectoryError: If it cannot be written.
    """
    text = json.dumps(to_inspect(evaluation), ensure_ascii=False, allow_nan=False, indent=1)
    return write_whole(path or evaluation.folder / FILE, text + "\n")


def export_trajectories(evaluation: Evaluation, folder: Path | None = None) -> tuple[Path, list[str]]:
    """Write the run of each finished episode in ATIF, as `FOLDER/<run>/trajectory.json`.

    Args:
        evaluation: Evaluation to export.
        folder: Folder for the files and the images; None for `atif/` in the evaluation's folder, with references to
            the images of the runs.

    Returns:
        The folder, and one line for each run that was left out.

    Raises:
        TrajectoryError: If the folder cannot be written.
    """
    target, lost = folder or evaluation.folder / ATIF, []
    with translate_os_errors("write", target):
        target.mkdir(parents=True, exist_ok=True)
    for result in evaluation.results:
        run = evaluation.find_run(result)
        if run is None:
            lost.append(f"{describe_key(result.key)}: it has no record")
            continue
        try:
            record = load_run(evaluation.folder / run, images=0)
            export_atif(record, target / record.run_dir.name / TRAJECTORY, copy_images=folder is not None)
        except TrajectoryError as error:
            lost.append(f"{describe_key(result.key)}: {error}")
    return target, lost


def to_inspect(evaluation: Evaluation) -> Json:
    """Return the log. A task and seed is a sample, a repeat an epoch; an episode without a score is a failed sample."""
    plan = evaluation.plan
    ids = [_sample_id(task_id, seed, has_seeds=len(plan.seeds) > 1) for task_id in plan.task_ids for seed in plan.seeds]
    return {
        "version": FORMAT_VERSION,
        "status": {"running": "started", "finished": "success"}.get(evaluation.status, "cancelled"),
        "eval": {
            "eval_id": _id_of(evaluation.folder.name),
            "run_id": _id_of(evaluation.folder.name),
            "created": _time(evaluation.started_at),
            "task": plan.suite_name,
            "task_id": _id_of(plan.suite_name),
            "task_version": plan.revision or 0,
            "task_args": plan.suite_options,
            "dataset": {"name": plan.suite_name, "samples": len(ids), "sample_ids": ids, "shuffled": False},
            "model": plan.model,
            "model_args": {},
            "config": {"epochs": plan.repeats},
            **_revision(evaluation),
            "packages": dict(evaluation.versions),
            "metadata": {"settings": plan.settings, "seeds": plan.seeds, "max_steps": plan.max_steps},
            "scorers": [{"name": SCORER}],
        },
        "plan": {"name": "plan", "steps": []},
        "results": _results(evaluation),
        "stats": {
            "started_at": _time(evaluation.started_at),
            "completed_at": _time(evaluation.ended_at) if evaluation.ended_at else "",
            "model_usage": {
                plan.model: _usage(evaluation.figures.all.input_tokens, evaluation.figures.all.output_tokens)
            },
        },
        "samples": list(_samples(evaluation)),
    }


def _results(evaluation: Evaluation) -> Json:
    whole = evaluation.figures.all
    values = {
        "mean_full": whole.mean_full,
        "mean_scored": whole.mean_scored,
        "success_full": whole.success_full,
        "success_scored": whole.success_scored,
    }
    metrics = {name: {"name": name, "value": value} for name, value in values.items() if value is not None}
    if whole.mean_full_interval is not None and "mean_full" in metrics:
        interval = whole.mean_full_interval
        metrics["mean_full"]["metadata"] = {"low": interval.low, "high": interval.high, "method": interval.method}
    score = {"name": SCORER, "scorer": SCORER, "metrics": metrics}
    counts = {"scored_samples": whole.num_scored, "unscored_samples": whole.num_episodes - whole.num_scored}
    return {
        "total_samples": evaluation.plan.num_episodes,
        "completed_samples": whole.num_scored,
        "scores": [score | counts],
        "metadata": {"errors": dict(whole.errors)},
    }


def _samples(evaluation: Evaluation) -> Iterator[Json]:
    plan = evaluation.plan
    for result in evaluation.results:
        run = evaluation.find_run(result)
        sample = {
            "id": _sample_id(result.task_id, result.seed, has_seeds=len(plan.seeds) > 1),
            "epoch": result.repeat + 1,
            "input": _instruction(evaluation, run) or result.task_id,
            "target": "1",
            "metadata": {
                "task_id": result.task_id,
                "seed": result.seed,
                "family": plan.families.get(result.task_id),
                "kind": result.kind,
                "num_steps": result.num_steps,
                "num_tries": result.num_tries,
                "run": run,
            },
            "model_usage": {plan.model: _usage(result.usage.input_tokens, result.usage.output_tokens)},
            "total_time": result.duration_s,
            "uuid": _id_of(f"{evaluation.folder.name} {result.key}"),
        }
        yield sample | _outcome(result, plan.max_time_s)


def _outcome(result: EpisodeResult, max_time_s: float | None) -> Json:
    if result.score is not None:
        metadata = {"success": is_success(result.score)}
        return {"scores": {SCORER: {"value": result.score, "explanation": result.reason, "metadata": metadata}}}
    if result.kind == "timeout" and max_time_s is not None:
        return {"limit": {"type": "time", "limit": max_time_s, "reason": result.reason}}
    message = f"{ERRORS.get(result.kind, result.kind)}: {result.reason}"
    return {"error": {"message": message, "traceback": message, "traceback_ansi": message}}


def _instruction(evaluation: Evaluation, run: str | None) -> str:
    return summarize(evaluation.folder / run).instruction[:_MAX_INSTRUCTION_CHARS] if run is not None else ""


def _sample_id(task_id: str, seed: int | None, *, has_seeds: bool) -> str:
    return f"{task_id}#{seed}" if has_seeds else task_id


def _revision(evaluation: Evaluation) -> Json:
    checkout = evaluation.checkout
    return (
        {"revision": {"type": "git", "origin": "", "commit": checkout.commit, "dirty": checkout.is_dirty}}
        if checkout
        else {}
    )


def _usage(input_tokens: int, output_tokens: int) -> dict[str, int]:
    total = input_tokens + output_tokens
    return {"input_tokens": input_tokens, "output_tokens": output_tokens, "total_tokens": total}


def _time(unix_s: float) -> str:
    return datetime.datetime.fromtimestamp(min(unix_s, 253_402_300_799.0), datetime.UTC).isoformat()


def _id_of(text: str) -> str:
    """Return a short id derived from a text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:22]


def export_csv(evaluation: Evaluation, path: Path | None = None) -> Path:
    """Write a table of comma-separated values, one row for each finished episode, atomically.

    Args:
        evaluation: Evaluation to export.
        path: Path of the file; None for `episodes.csv` in the evaluation's folder.

    Returns:
        Path of the file.

    Raises:
        TrajectoryError: If it cannot be written.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(_table(evaluation))
    return write_whole(path or evaluation.folder / CSV, text.getvalue())


def _table(evaluation: Evaluation) -> Iterator[list[str | float | None]]:
    instructions = {task.task_id: task.instruction for task in evaluation.tasks}
    for result in evaluation.results:
        yield _row(evaluation, result, instructions[result.task_id])


def _row(evaluation: Evaluation, result: EpisodeResult, instruction: str) -> list[str | float | None]:
    values: dict[str, str | float | None] = {
        "task_id": result.task_id,
        "family": evaluation.plan.families.get(result.task_id, ""),
        "seed": result.seed,
        "repeat": result.repeat,
        "kind": result.kind,
        "score": result.score,
        "ending": ending_of(result),
        "reason": result.reason,
        "num_tries": result.num_tries,
        "num_steps": result.num_steps,
        "duration_s": round(result.duration_s, 3),
        "input_tokens": result.usage.input_tokens,
        "output_tokens": result.usage.output_tokens,
        "cost_usd": result.usage.cost_usd,
        "instruction": instruction,
        "run": evaluation.find_run(result) or "",
    }
    return [_plain(value) if isinstance(value, str) else value for value in map(values.__getitem__, COLUMNS)]


def _plain(text: str) -> str:
    """Return a text without control characters that spreadsheets do not interpret as a formula."""
    shown = printable(text)
    return f"'{shown}" if shown.lstrip().startswith(tuple(_FORMULA_STARTS)) else shown
