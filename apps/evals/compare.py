"""Comparison of two evaluations of the same tasks: difference, statistical significance, and changed episodes.

As numbers (`compare`), as text, and as a page: one self-contained HTML file with the layout and security policy of the
page of an evaluation.
"""

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from apps.evals.results import Evaluation
from apps.evals.statistics import Interval, Key, difference_interval, is_success, mean_of
from apps.evals.tasks import ENDINGS, ending_of
from apps.evals.text import describe_interval, describe_key, describe_share
from cua.batch.episode import EpisodeResult
from cua.trajectory.describe import describe_cost, describe_tokens, printable
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.report.shell import PageTemplate

NUM_RESAMPLES = 10_000  # standard error of p: 0.005 at p = 0.5, 0.001 at p = 0.01
_CHUNK = 1 << 21  # permutations at a time; bounds memory
MAX_EXACT_GROUPS = 14
"""Number of groups up to which all 2^n swaps are counted; above it, `NUM_RESAMPLES` of them are sampled."""
_MAX_FLIPS = 40  # printed lines; --json lists all
_PAGE = PageTemplate(package="apps.evals", template="compare.html", script="page.js", style="page.css")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """Episode whose success differs between two evaluations.

    Attributes:
        key: Task, seed and repeat.
        before: Score in the first one.
        after: Score in the second one.
    """

    key: Key
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Comparison of two evaluations by episode.

    Attributes:
        num_pairs: Number of episodes that both have, scored or not.
        num_scored_pairs: Number of pairs with a score on both sides; only these determine the p values.
        num_only_before: Number of episodes that only the first one has.
        num_only_after: Number of episodes that only the second one has.
        difference_full: Second minus first, mean score over all pairs, a missing score counted as 0.
        difference_full_interval: Interval of `difference_full`.
        difference_scored: Second minus first, mean score over the scored pairs.
        difference_scored_interval: Interval of `difference_scored`.
        mcnemar_p: Two-sided exact p of the successes, assuming independent pairs; None without pairs.
        permutation_p: Two-sided p of the scores, with tasks or clusters swapped as a whole; None without pairs.
        is_permutation_exact: True if all swaps were counted.
        flips: Lost and won successes, in order of task, seed and repeat.
    """

    num_pairs: int
    num_scored_pairs: int
    num_only_before: int
    num_only_after: int
    difference_full: float | None
    difference_full_interval: Interval | None
    difference_scored: float | None
    difference_scored_interval: Interval | None
    mcnemar_p: float | None
    permutation_p: float | None
    is_permutation_exact: bool
    flips: tuple[Flip, ...]


def compare(
    before: Iterable[EpisodeResult],
    after: Iterable[EpisodeResult],
    clusters: Mapping[str, str] | None = None,
    *,
    num_resamples: int = NUM_RESAMPLES,
) -> Comparison:
    """Compare two evaluations, paired by task, seed and repeat.

    Args:
        before: Episodes of the first one.
        after: Episodes of the second one.
        clusters: By task id, the cluster in which the task is sampled and swapped; other tasks are their own cluster.
        num_resamples: Number of swaps that are sampled for the p value.
    """
    first, second = ({result.key: result.score for result in results} for results in (before, after))
    keys = sorted(first.keys() & second.keys(), key=_order)
    pairs = [(key, first[key], second[key]) for key in keys]
    scored = [(key, score_a, score_b) for key, score_a, score_b in pairs if score_a is not None and score_b is not None]
    full = _differences([(key, score_a or 0.0, score_b or 0.0) for key, score_a, score_b in pairs], clusters or {})
    differences = _differences(scored, clusters or {})
    flips = tuple(
        Flip(key=key, before=score_a, after=score_b)
        for key, score_a, score_b in scored
        if is_success(score_a) != is_success(score_b)
    )
    num_won = sum(is_success(flip.after) for flip in flips)
    p, is_exact = permutation_p([math.fsum(group) for group in differences], num_resamples=num_resamples)
    return Comparison(
        num_pairs=len(pairs),
        num_scored_pairs=len(scored),
        num_only_before=len(first.keys() - second.keys()),
        num_only_after=len(second.keys() - first.keys()),
        difference_full=mean_of(full) if full else None,
        difference_full_interval=difference_interval(full),
        difference_scored=mean_of(differences) if differences else None,
        difference_scored_interval=difference_interval(differences),
        mcnemar_p=mcnemar_p(len(flips) - num_won, num_won) if scored else None,
        permutation_p=p if scored else None,
        is_permutation_exact=is_exact,
        flips=flips,
    )


def mcnemar_p(num_lost: int, num_won: int) -> float:
    """Return the two-sided exact p of the numbers of changes, if both directions are equally likely.

    Source: Q. McNemar (1947); exact form: a binomial test of the changes, A. Agresti, Categorical data analysis, 11.1.
    """
    total = num_lost + num_won
    tail = sum(math.comb(total, few) for few in range(min(num_lost, num_won) + 1))
    return min(1.0, tail / 2 ** (total - 1) if total else 1.0)


def permutation_p(sums: Sequence[float], *, num_resamples: int = NUM_RESAMPLES, seed: int = 0) -> tuple[float, bool]:
    """Return the two-sided p of a sum of differences, if their signs are random.

    Args:
        sums: Sum of the differences of each group; a group is swapped as a whole.
        num_resamples: Number of sampled swaps if there are too many to count all.
        seed: Seed of the sampling.

    Returns:
        The p, and True if all swaps were counted. The observed one is added to the sampled ones, so that p is never 0.

    Source: R. A. Fisher's test; B. Phipson, G. K. Smyth, Permutation p-values should never be zero (2010).
    """
    moving = np.array([value for value in sums if value], dtype=np.float64)
    if not len(moving):
        return 1.0, True
    least = abs(math.fsum(moving)) - 1e-12 * float(np.abs(moving).sum())
    if len(moving) <= MAX_EXACT_GROUPS:
        ways = (np.arange(2 ** len(moving))[:, None] >> np.arange(len(moving))) & 1
        return float(np.mean(np.abs(_swapped(ways) @ moving) >= least)), True
    rng = np.random.default_rng(seed)
    rows, num_as_far = max(1, _CHUNK // len(moving)), 0
    for start in range(0, num_resamples, rows):
        drawn = rng.integers(0, 2, (min(rows, num_resamples - start), len(moving)))
        num_as_far += int(np.count_nonzero(np.abs(_swapped(drawn) @ moving) >= least))
    return (num_as_far + 1) / (num_resamples + 1), False


def _swapped(ways: NDArray[np.int64]) -> NDArray[np.float64]:
    """Convert bits to signs, 1.0 or -1.0."""
    return np.where(ways, -1.0, 1.0)


def _differences(pairs: Sequence[tuple[Key, float, float]], clusters: Mapping[str, str]) -> list[list[float]]:
    """Return second minus first, by task or by cluster of tasks, in the order of their first keys."""
    groups: dict[tuple[bool, str], list[float]] = {}
    for (task_id, _, _), first, other in pairs:
        name = (True, clusters[task_id]) if task_id in clusters else (False, task_id)
        groups.setdefault(name, []).append(other - first)
    return list(groups.values())


def _order(key: Key) -> tuple[str, bool, int, int]:
    """Return the sort key of an episode key; a missing seed sorts first."""
    task_id, seed, repeat = key
    return task_id, seed is not None, seed or 0, repeat


def describe_comparison(comparison: Comparison, before: Evaluation, after: Evaluation) -> Iterator[str]:
    """Yield the changes between two evaluations, line by line."""
    yield f"A: {_named(before)}"
    yield f"B: {_named(after)}"
    if before.plan.suite_name != after.plan.suite_name or before.plan.revision != after.plan.revision:
        yield "warning: they are not of the same revision of the same suite"
    alone = [
        f"{count} only in {which}"
        for which, count in (("A", comparison.num_only_before), ("B", comparison.num_only_after))
        if count
    ]
    unscored = comparison.num_pairs - comparison.num_scored_pairs
    without = [f"{unscored} without a score in one of them"] if unscored else []
    yield f"{comparison.num_pairs} episodes in both" + "".join(f", {more}" for more in (*without, *alone))
    if not comparison.num_pairs:
        return
    yield ""
    yield _difference(
        "B - A, mean score, no score counted 0", comparison.difference_full, comparison.difference_full_interval
    )
    yield _difference(
        "B - A, mean score where both have one", comparison.difference_scored, comparison.difference_scored_interval
    )
    if comparison.mcnemar_p is not None and comparison.permutation_p is not None:
        how = "exact" if comparison.is_permutation_exact else "drawn"
        groups = f"{after.plan.cluster_by}s" if after.clusters else "tasks"
        yield f"p of the scores, {groups} swapped ({how}): {_describe_p(comparison.permutation_p)}"
        p = _describe_p(comparison.mcnemar_p)
        yield f"p of the successes, episodes taken for independent (McNemar, exact): {p}"
    yield ""
    yield from _flips(comparison, before, after)


def _flips(comparison: Comparison, before: Evaluation, after: Evaluation) -> Iterator[str]:
    first, second = ({result.key: result for result in evaluation.results} for evaluation in (before, after))
    won = sum(flip.after > flip.before for flip in comparison.flips)
    yield f"{len(comparison.flips)} flips: {won} won, {len(comparison.flips) - won} lost"
    for flip in comparison.flips[:_MAX_FLIPS]:
        mark = "+" if flip.after > flip.before else "-"
        yield f"  {mark} {describe_key(flip.key)}: {flip.before:g} -> {flip.after:g}"
        for which, evaluation, result in (("A", before, first[flip.key]), ("B", after, second[flip.key])):
            run = evaluation.find_report(result) or evaluation.find_run(result)
            if run is not None:
                yield f"      {which}: {evaluation.folder / run}"
    if len(comparison.flips) > _MAX_FLIPS:
        yield f"  and {len(comparison.flips) - _MAX_FLIPS} more; --json lists all"


def _named(evaluation: Evaluation) -> str:
    score = describe_share(evaluation.figures.all.mean_full)
    return f"{evaluation.plan.suite_name} with {evaluation.plan.model_label}, {score} ({evaluation.folder})"


def _difference(label: str, difference: float | None, interval: Interval | None) -> str:
    if difference is None:
        return f"{label}: -"
    ends = f" ({100 * interval.low:+.1f} to {100 * interval.high:+.1f} at 95 %)" if interval else ""
    return f"{label}: {_describe_points(difference)}{ends}"


def _describe_points(difference: float | None) -> str:
    """Return a text like `+3.1 points`; a dash for None."""
    return "-" if difference is None else f"{100 * difference:+.1f} points"


def _describe_p(p: float | None) -> str:
    """Return a p value as text; a dash for None."""
    return "-" if p is None else f"{p:.2g}" if p >= 1e-4 else "< 0.0001"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedEvaluation:
    """One of the two evaluations on the page."""

    letter: str
    name: str
    folder: str
    score: str
    interval: str
    facts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCell:
    """Cell of an episode in both; `kind` is `good` (won), `bad` (lost), `part` (another score), `same` or `err`."""

    kind: str
    text: str
    title: str
    hrefs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """Row of a task in both; `outcomes` are the words of the page's filter."""

    name: str
    instruction: str
    family: str
    before: float
    after: float
    outcomes: str
    cells: tuple[PairCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """Values for the template."""

    difference: str
    mean: float | None
    interval: Interval | None
    interval_text: str
    sides: tuple[ComparedEvaluation, ComparedEvaluation]
    warning: str
    facts: tuple[tuple[str, str, str], ...]
    tasks: tuple[PairRow, ...]


def write_comparison(comparison: Comparison, before: Evaluation, after: Evaluation, path: Path) -> Path:
    """Write the page atomically.

    Raises:
        TrajectoryError: If it cannot be written.
    """
    with translate_os_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
    return _PAGE.write(path, page=comparison_view(comparison, before, after, path.absolute().parent))


def comparison_view(comparison: Comparison, before: Evaluation, after: Evaluation, folder: Path) -> ComparisonView:
    """Return all values for the page.

    Args:
        comparison: Figures of the comparison.
        before: Evaluation A.
        after: Evaluation B.
        folder: Folder of the page; links are relative to it.
    """
    is_alike = (before.plan.suite_name, before.plan.revision) == (after.plan.suite_name, after.plan.revision)
    return ComparisonView(
        difference=_describe_points(comparison.difference_full),
        mean=comparison.difference_full,
        interval=comparison.difference_full_interval,
        interval_text=_describe_points_interval(comparison.difference_full_interval),
        sides=(_side("A", before), _side("B", after)),
        warning="" if is_alike else "They are not of the same revision of the same suite.",
        facts=tuple(_facts(comparison)),
        tasks=tuple(_rows(before, after, folder)),
    )


def _describe_points_interval(interval: Interval | None) -> str:
    """Return a text like `-3.1 to +8.0 points`; a dash for None."""
    return f"{100 * interval.low:+.1f} to {100 * interval.high:+.1f} points" if interval else "-"


def _side(letter: str, evaluation: Evaluation) -> ComparedEvaluation:
    whole, errors = evaluation.figures.all, sum(evaluation.figures.all.errors.values())
    tokens = describe_tokens(whole.input_tokens + whole.output_tokens)
    facts = f"{whole.num_episodes} episodes, {errors} errors, {tokens} tokens, {describe_cost(whole.cost_usd)}"
    return ComparedEvaluation(
        letter=letter,
        name=f"{evaluation.plan.suite_name} with {evaluation.plan.model_label}",
        folder=evaluation.folder.name,
        score=describe_share(whole.mean_full),
        interval=describe_interval(whole.mean_full_interval),
        facts=facts,
    )


def _facts(comparison: Comparison) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and details of the figures."""
    won = sum(is_success(flip.after) for flip in comparison.flips)
    alone = [("A", comparison.num_only_before), ("B", comparison.num_only_after)]
    more = ", ".join(f"{count} only in {which}" for which, count in alone if count)
    yield "Episodes in both", str(comparison.num_pairs), more or "none in one of them only"
    yield "Scored in both", str(comparison.num_scored_pairs), _describe_points(comparison.difference_scored)
    yield "Won", str(won), "successes that A did not have"
    yield "Lost", str(len(comparison.flips) - won), "successes that B does not have"
    how = "exact" if comparison.is_permutation_exact else "drawn"
    yield "p of the scores", _describe_p(comparison.permutation_p), f"tasks swapped, {how}"
    yield "p of the successes", _describe_p(comparison.mcnemar_p), "McNemar, exact; episodes independent"


def _rows(before: Evaluation, after: Evaluation, folder: Path) -> Iterator[PairRow]:
    first, second = ({result.key: result for result in evaluation.results} for evaluation in (before, after))
    keys: dict[str, list[Key]] = {}
    for result in after.results:
        if result.key in first:
            keys.setdefault(result.task_id, []).append(result.key)
    instructions = {task.task_id: task.instruction for task in (*before.tasks, *after.tasks)}
    for task_id, task_keys in keys.items():
        cells = tuple(
            _cell(first[key], second[key], _links(before, after, first[key], second[key], folder)) for key in task_keys
        )
        yield PairRow(
            name=task_id,
            instruction=printable(instructions[task_id]),
            family=after.plan.families.get(task_id, "-"),
            before=_mean(first, task_keys),
            after=_mean(second, task_keys),
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
    ends = "\n".join(f"{which}: {ENDINGS[ending_of(result)]}" for which, result in (("A", before), ("B", after)))
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
    evaluations = (("A", before, before.find_report(first)), ("B", after, after.find_report(second)))
    return tuple(
        (which, quote(Path(os.path.relpath(evaluation.folder / report, folder)).as_posix()))
        for which, evaluation, report in evaluations
        if report is not None
    )
