"""The table of tasks on the page of an evaluation, as plain values that a template lays out."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from apps.evals.results import Evaluation
from apps.evals.statistics import Key, is_success
from apps.evals.tasks import ENDINGS, ending_of
from apps.evals.text import describe_key, describe_share
from cua.batch import EpisodeResult
from cua.trajectory.describe import describe_cost, describe_duration, describe_tokens, printable

_MAX_REASON_CHARS = 300
_MARKS = {"env_error": "env", "model_error": "model", "evaluator_error": "eval", "timeout": "time"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One episode. `kind` is `good`, `part` (some score), `bad`, `err` (no score) or `open` (not over)."""

    kind: str
    text: str
    title: str
    label: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """One task and its episodes; `outcomes` are words that the page filters by."""

    name: str
    instruction: str
    family: str
    score: str
    steps: str
    time: str
    tokens: str
    cost: str
    endings: str
    sort_score: str
    sort_steps: str
    sort_time: str
    sort_tokens: str
    sort_cost: str
    outcomes: str
    cells: tuple[Cell, ...]


def make_cell(evaluation: Evaluation, result: EpisodeResult) -> Cell:
    """The cell of an episode that is over."""
    label = describe_key(result.key)
    report = evaluation.find_report(result)
    score = result.score
    kind = "err" if score is None else "good" if is_success(score) else "part" if score > 0 else "bad"
    text = (
        _MARKS.get(result.kind, "?")
        if score is None
        else f"{score:.2f}".removeprefix("0")
        if kind == "part"
        else f"{score:g}"
    )
    took = f"{result.num_steps} steps, {describe_duration(result.duration_s)}"
    tried = f", try {result.num_tries}" if result.num_tries > 1 else ""
    return Cell(
        kind=kind,
        text=text,
        title=f"{printable(label)}\n{ENDINGS[ending_of(result)]}, {took}{tried}\n{clipped(result.reason)}",
        label=label,
        href=quote(report) if report else "",
    )


def task_rows(evaluation: Evaluation, cells: dict[Key, Cell], errors: dict[str, str]) -> Iterator[TaskRow]:
    """A row for each task.

    Args:
        evaluation: Which one.
        cells: Of the episodes that are over.
        errors: By label of a cell, the word that its error is filtered by.
    """
    plan = evaluation.plan
    for task in evaluation.tasks:
        keys = [(task.task_id, seed, repeat) for seed in plan.seeds for repeat in range(plan.repeats)]
        shown = tuple(cells.get(key) or _open(key) for key in keys)
        count, is_begun = task.num_episodes or 1, task.num_episodes > 0
        tokens = task.input_tokens + task.output_tokens
        words = [*_outcomes(shown), *task.endings, *dict.fromkeys(errors[c.label] for c in shown if c.label in errors)]
        yield TaskRow(
            name=task.task_id,
            instruction=printable(task.instruction),
            family=plan.families.get(task.task_id, "-"),
            score=describe_share(task.score) if is_begun else "",
            steps=f"{task.num_steps / count:.1f}" if is_begun else "",
            time=describe_duration(task.duration_s / count) if is_begun else "",
            tokens=describe_tokens(tokens) if is_begun else "",
            cost=describe_cost(task.cost_usd) if is_begun else "",
            endings=", ".join(_counted(ENDINGS[name], number, count) for name, number in task.endings.items()),
            sort_score=f"{-1 if task.score is None else task.score:.6f}",
            sort_steps=f"{task.num_steps / count:.3f}",
            sort_time=f"{task.duration_s / count:.3f}",
            sort_tokens=str(tokens),
            sort_cost=f"{task.cost_usd or 0.0:.6f}",
            outcomes=" ".join(words),
            cells=shown,
        )


def _counted(ending: str, number: int, count: int) -> str:
    return ending if count == 1 else f"{ending} {number}"


def _outcomes(cells: Sequence[Cell]) -> Iterator[str]:
    kinds = Counter(cell.kind for cell in cells)
    over = len(cells) - kinds["open"]
    if over:
        yield "good" if kinds["good"] == over else "mixed" if kinds["good"] else "bad"
    yield from (kind for kind in ("err", "open") if kinds[kind])


def _open(key: Key) -> Cell:
    label = describe_key(key)
    return Cell(kind="open", text="·", title=f"{printable(label)}\nnot over", label=label, href="")


def clipped(text: str) -> str:
    """The beginning of a foreign text, on one line without control characters."""
    text = printable(text)
    return text if len(text) <= _MAX_REASON_CHARS else f"{text[:_MAX_REASON_CHARS]}…"
