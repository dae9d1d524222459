"""The page of a comparison: one self-contained HTML file, laid out and protected as the page of an evaluation."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from apps.evals.compare import Comparison
from apps.evals.results import Evaluation
from apps.evals.statistics import Interval, Key, is_success
from apps.evals.tasks import ENDINGS, ending_of
from apps.evals.text import describe_interval, describe_key, describe_p, describe_points, describe_share
from cua.batch import EpisodeResult
from cua.trajectory.describe import describe_cost, describe_tokens, printable
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.report.shell import PageTemplate

_PAGE = PageTemplate(package="apps.evals", template="compare.html", script="page.js", style="page.css")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two evaluations."""

    letter: str
    name: str
    folder: str
    score: str
    interval: str
    facts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCell:
    """One episode in both; `kind` is `good` (won), `bad` (lost), `part` (another score), `same` or `err`."""

    kind: str
    text: str
    title: str
    hrefs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """One task in both; `outcomes` are words that the page filters by."""

    name: str
    instruction: str
    family: str
    before: float
    after: float
    outcomes: str
    cells: tuple[PairCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """What the template lays out."""

    difference: str
    mean: float | None
    interval: Interval | None
    interval_text: str
    sides: tuple[Side, Side]
    warning: str
    facts: tuple[tuple[str, str, str], ...]
    tasks: tuple[PairRow, ...]


def write_comparison(comparison: Comparison, before: Evaluation, after: Evaluation, path: Path) -> Path:
    """Write the page, whole or not at all.

    Raises:
        TrajectoryError: It cannot be written.
    """
    with translate_os_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
    return _PAGE.write(path, page=comparison_view(comparison, before, after, path.absolute().parent))


def comparison_view(comparison: Comparison, before: Evaluation, after: Evaluation, folder: Path) -> ComparisonView:
    """Everything that the page shows.

    Args:
        comparison: The figures.
        before: A.
        after: B.
        folder: Where the page will lie; links are relative to it.
    """
    is_alike = (before.plan.suite_name, before.plan.revision) == (after.plan.suite_name, after.plan.revision)
    return ComparisonView(
        difference=describe_points(comparison.difference_full),
        mean=comparison.difference_full,
        interval=comparison.difference_full_interval,
        interval_text=describe_points_interval(comparison.difference_full_interval),
        sides=(_side("A", before), _side("B", after)),
        warning="" if is_alike else "They are not of the same revision of the same suite.",
        facts=tuple(_facts(comparison)),
        tasks=tuple(_rows(before, after, folder)),
    )


def describe_points_interval(interval: Interval | None) -> str:
    """`-3.1 to +8.0 points`; a dash for none."""
    return f"{100 * interval.low:+.1f} to {100 * interval.high:+.1f} points" if interval else "-"


def _side(letter: str, evaluation: Evaluation) -> Side:
    whole, errors = evaluation.figures.all, sum(evaluation.figures.all.errors.values())
    tokens = describe_tokens(whole.input_tokens + whole.output_tokens)
    facts = f"{whole.num_episodes} episodes, {errors} errors, {tokens} tokens, {describe_cost(whole.cost_usd)}"
    return Side(
        letter=letter,
        name=f"{evaluation.plan.suite_name} with {evaluation.plan.player}",
        folder=evaluation.folder.name,
        score=describe_share(whole.mean_full),
        interval=describe_interval(whole.mean_full_interval),
        facts=facts,
    )


def _facts(comparison: Comparison) -> Iterator[tuple[str, str, str]]:
    """Name, value and small print of the figures."""
    won = sum(is_success(flip.after) for flip in comparison.flips)
    alone = [("A", comparison.num_only_before), ("B", comparison.num_only_after)]
    more = ", ".join(f"{count} only in {which}" for which, count in alone if count)
    yield "Episodes in both", str(comparison.num_pairs), more or "none in one of them only"
    yield "Scored in both", str(comparison.num_scored_pairs), describe_points(comparison.difference_scored)
    yield "Won", str(won), "successes that A did not have"
    yield "Lost", str(len(comparison.flips) - won), "successes that B does not have"
    how = "exact" if comparison.is_permutation_exact else "drawn"
    yield "p of the scores", describe_p(comparison.permutation_p), f"tasks swapped, {how}"
    yield "p of the successes", describe_p(comparison.mcnemar_p), "McNemar, exact; episodes independent"


def _rows(before: Evaluation, after: Evaluation, folder: Path) -> Iterator[PairRow]:
    first, second = ({one.key: one for one in evaluation.results} for evaluation in (before, after))
    keys: dict[str, list[Key]] = {}
    for one in after.results:
        if one.key in first:
            keys.setdefault(one.task_id, []).append(one.key)
    instructions = {task.task_id: task.instruction for task in (*before.tasks, *after.tasks)}
    for task_id, found in keys.items():
        cells = tuple(
            _cell(first[key], second[key], _links(before, after, first[key], second[key], folder)) for key in found
        )
        yield PairRow(
            name=task_id,
            instruction=printable(instructions[task_id]),
            family=after.plan.families.get(task_id, "-"),
            before=_mean(first, found),
            after=_mean(second, found),
            outcomes=" ".join(dict.fromkeys(cell.kind for cell in cells)),
            cells=cells,
        )


def _mean(results: Mapping[Key, EpisodeResult], keys: list[Key]) -> float:
    return sum(results[key].score or 0.0 for key in keys) / len(keys)


def _cell(before: EpisodeResult, after: EpisodeResult, hrefs: tuple[tuple[str, str], ...]) -> PairCell:
    if before.score is None or after.score is None:
        kind = "err"
    elif is_success(before.score) != is_success(after.score):
        kind = "good" if is_success(after.score) else "bad"
    else:
        kind = "same" if before.score == after.score else "part"
    ends = "\n".join(f"{which}: {ENDINGS[ending_of(one)]}" for which, one in (("A", before), ("B", after)))
    return PairCell(
        kind=kind,
        text=f"{_short(before)} → {_short(after)}",
        title=f"{printable(describe_key(after.key))}\n{ends}",
        hrefs=hrefs,
    )


def _short(result: EpisodeResult) -> str:
    return "error" if result.score is None else f"{result.score:.2f}".rstrip("0").rstrip(".")


def _links(
    before: Evaluation, after: Evaluation, first: EpisodeResult, second: EpisodeResult, folder: Path
) -> tuple[tuple[str, str], ...]:
    found = (("A", before, before.find_report(first)), ("B", after, after.find_report(second)))
    return tuple(
        (which, quote(Path(os.path.relpath(evaluation.folder / report, folder)).as_posix()))
        for which, evaluation, report in found
        if report is not None
    )
