"""An evaluation as a table of comma-separated values, one row for each episode that is over."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from apps.evals.results import Evaluation
from apps.evals.tasks import ending_of
from cua.batch import EpisodeResult
from cua.trajectory.describe import printable
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.images import write_atomically

FILE = "episodes.csv"
COLUMNS = (
    *("task_id", "family", "seed", "repeat", "kind", "score", "ending", "reason", "num_tries", "num_steps"),
    *("duration_s", "input_tokens", "output_tokens", "cost_usd", "instruction", "run"),
)
_FORMULA_STARTS = "=+-@＝＋－＠"
"""What makes a spreadsheet compute a text, full-width forms included; tabs and line ends are replaced before."""


def export_csv(evaluation: Evaluation, path: Path | None = None) -> Path:
    """Write the table, whole or not at all.

    Args:
        evaluation: Which one.
        path: The file; None for `episodes.csv` in the evaluation's folder.

    Returns:
        The file.

    Raises:
        TrajectoryError: It cannot be written.
    """
    target = path or evaluation.folder / FILE
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(_rows(evaluation))
    with translate_os_errors("write", target):
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, text.getvalue().encode("utf-8", "replace"))
    return target


def _rows(evaluation: Evaluation) -> Iterator[list[str | float | None]]:
    instructions = {task.task_id: task.instruction for task in evaluation.tasks}
    for one in evaluation.results:
        yield _row(evaluation, one, instructions[one.task_id])


def _row(evaluation: Evaluation, one: EpisodeResult, instruction: str) -> list[str | float | None]:
    values: dict[str, str | float | None] = {
        "task_id": one.task_id,
        "family": evaluation.plan.families.get(one.task_id, ""),
        "seed": one.seed,
        "repeat": one.repeat,
        "kind": one.kind,
        "score": one.score,
        "ending": ending_of(one),
        "reason": one.reason,
        "num_tries": one.num_tries,
        "num_steps": one.num_steps,
        "duration_s": round(one.duration_s, 3),
        "input_tokens": one.usage.input_tokens,
        "output_tokens": one.usage.output_tokens,
        "cost_usd": one.usage.cost_usd,
        "instruction": instruction,
        "run": evaluation.find_run(one) or "",
    }
    return [_plain(value) if isinstance(value, str) else value for value in map(values.__getitem__, COLUMNS)]


def _plain(text: str) -> str:
    """A text without control characters that no spreadsheet takes for a formula."""
    shown = printable(text)
    return f"'{shown}" if shown.lstrip().startswith(tuple(_FORMULA_STARTS)) else shown
