"""Two evaluations of the same tasks: how far apart they are, how sure that is, and which episodes flipped."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.evals.statistics import Interval, Key, difference_interval, is_success, mean_of
from cua.batch import EpisodeResult

NUM_RESAMPLES = 10_000
_CHUNK = 1 << 21
MAX_EXACT_GROUPS = 14
"""Up to so many groups, all 2^n ways to swap them are counted; above, `NUM_RESAMPLES` of them are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """An episode whose success differs between two evaluations.

    Attributes:
        key: Task, seed and repeat.
        before: Its score in the first one.
        after: Its score in the second one.
    """

    key: Key
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two evaluations, episode by episode.

    Attributes:
        num_pairs: Episodes that both have, scored or not.
        num_scored_pairs: Those of them that have a score on both sides; only these decide about the p values.
        num_only_before: Episodes that only the first one has.
        num_only_after: Episodes that only the second one has.
        difference_full: Second minus first, mean score over all pairs, no score counted 0.
        difference_full_interval: Of `difference_full`.
        difference_scored: Second minus first, mean score over the scored pairs.
        difference_scored_interval: Of `difference_scored`.
        mcnemar_p: Two-sided exact p of the successes, all pairs taken for independent; None when there are none.
        permutation_p: Two-sided p of the scores, tasks or clusters of them swapped as a whole; None for none.
        is_permutation_exact: Whether all ways to swap were counted.
        flips: Successes lost and won, in order of task, seed and repeat.
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
    """Two evaluations, paired by task, seed and repeat.

    Args:
        before: The first one's episodes.
        after: The second one's.
        clusters: By task id, what its task is drawn and swapped together with; others stand alone.
        num_resamples: Ways to swap groups that are drawn for the p value.
    """
    first, second = ({one.key: one.score for one in results} for results in (before, after))
    keys = sorted(first.keys() & second.keys(), key=_order)
    pairs = [(key, first[key], second[key]) for key in keys]
    scored = [(key, one, other) for key, one, other in pairs if one is not None and other is not None]
    full = _differences([(key, one or 0.0, other or 0.0) for key, one, other in pairs], clusters or {})
    differences = _differences(scored, clusters or {})
    flips = tuple(
        Flip(key=key, before=one, after=other) for key, one, other in scored if is_success(one) != is_success(other)
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
    """Two-sided exact p of as many changes either way, when each way is as likely.

    Source: Q. McNemar (1947); exact form: a binomial test of the changes, A. Agresti, Categorical data analysis, 11.1.
    """
    total = num_lost + num_won
    tail = sum(math.comb(total, few) for few in range(min(num_lost, num_won) + 1))
    return min(1.0, tail / 2 ** (total - 1) if total else 1.0)


def permutation_p(sums: Sequence[float], *, num_resamples: int = NUM_RESAMPLES, seed: int = 0) -> tuple[float, bool]:
    """Two-sided p of a sum of differences whose signs might as well be the other way round.

    Args:
        sums: Sum of the differences of each group; a group is swapped as a whole.
        num_resamples: Ways to swap that are drawn when there are too many to count them all.
        seed: The same one gives the same p.

    Returns:
        The p, and whether all ways were counted. Drawn ones count the observed one in, so that p is never 0.

    Source: R. A. Fisher's test; B. Phipson, G. K. Smyth, Permutation p-values should never be zero (2010).
    """
    moving = np.array([one for one in sums if one], dtype=np.float64)
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
    """Signs, 1.0 or -1.0, from bits."""
    return np.where(ways, -1.0, 1.0)


def _differences(pairs: Sequence[tuple[Key, float, float]], clusters: Mapping[str, str]) -> list[list[float]]:
    """Second minus first, by task or by cluster of tasks; in order of the first of their keys."""
    groups: dict[tuple[bool, str], list[float]] = {}
    for (task_id, _, _), one, other in pairs:
        name = (True, clusters[task_id]) if task_id in clusters else (False, task_id)
        groups.setdefault(name, []).append(other - one)
    return list(groups.values())


def _order(key: Key) -> tuple[str, bool, int, int]:
    """Sorts keys, a missing seed first."""
    task_id, seed, repeat = key
    return task_id, seed is not None, seed or 0, repeat
