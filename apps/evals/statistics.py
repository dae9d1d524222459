"""Statistics of the scores of an evaluation, with confidence intervals. Pure functions.

A score is a number in [0, 1] and is never rounded; an episode succeeded if its score is 1. An episode that ended in an
error or a timeout has no score: it counts as 0 in every figure named `full`, and is left out of every figure named
`scored`. Episodes of one task (its seeds and repeats) are correlated, and so are tasks of one template where a suite
declares it: intervals count tasks or templates, not episodes.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import TypeVar

from cua.batch.episode import EpisodeResult
from cua.messages import Usage

LEVEL = 0.95
"""Confidence level of all intervals."""
_PRIOR_GROUPS, _PRIOR_SHARE, _PRIOR_SHARE_OF_DIFFERENCES = 3.0, 0.25, 0.1
"""Number of prior groups, and their variance as a share of the largest possible one. Set by the coverage that
`benchmarks/coverage.py` measures; without them a few groups with equal values give an interval of zero width."""
_NEAR_END = 20.0
_SAMPLE_SIZES = (1, 2, 3, 4, 5, 8, 10, 16, 32, 64, 100)

Key = tuple[str, int | None, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Confidence interval of a figure at `LEVEL`; never of zero width.

    Attributes:
        low: Lower end.
        high: Upper end.
        method: `wilson`, or `clustered` if the variance is estimated from the spread of tasks.
    """

    low: float
    high: float
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PassStatistics:
    """Success of k samples of the same thing, averaged over everything with at least k samples.

    Attributes:
        k: Number of samples.
        at_least_one: pass@k: probability that at least one of k samples succeeds.
        all_of_them: pass^k: probability that all k succeed.
        num_groups: Number of things with at least k samples.
    """

    k: int
    at_least_one: float
    all_of_them: float
    num_groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSummary:
    """Figures of a set of episodes.

    Attributes:
        num_episodes: Number of finished episodes.
        num_scored: Number of episodes with a score.
        num_succeeded: Number of episodes with score 1.
        errors: Number of episodes without a score, by kind.
        mean_full: Mean score, an episode without a score counted as 0; None without episodes.
        mean_full_interval: Interval of `mean_full`.
        mean_scored: Mean score of the scored episodes; None without any.
        mean_scored_interval: Interval of `mean_scored`.
        success_full: Share of all episodes that succeeded.
        success_full_interval: Interval of `success_full`.
        success_scored: Share of the scored episodes that succeeded.
        num_steps: Total steps of the agent.
        duration_s: Total seconds.
        input_tokens: Total input tokens.
        output_tokens: Total output tokens.
        cost_usd: Total cost in US dollars; None if a price is unknown.
    """

    num_episodes: int
    num_scored: int
    num_succeeded: int
    errors: Mapping[str, int] = field(default_factory=dict)
    mean_full: float | None = None
    mean_full_interval: Interval | None = None
    mean_scored: float | None = None
    mean_scored_interval: Interval | None = None
    success_full: float | None = None
    success_full_interval: Interval | None = None
    success_scored: float | None = None
    num_steps: int = 0
    duration_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0


def is_success(score: float | None) -> bool:
    """Return True if the score is 1."""
    return score is not None and score >= 1.0


def mean_interval(groups: Sequence[Sequence[float]], *, level: float = LEVEL) -> Interval | None:
    """Return the interval of a mean score; None without any score.

    The interval contains each mean from which the observed one is at most `q` standard errors away, with the variance
    of a group's mean as a share of the largest possible one, `mean * (1 - mean)`. The share is 1 for independent zeros
    and ones, which gives Wilson's interval, and also for only zeros or only ones, counted once per group. For other
    scores the share is estimated from the spread of the groups together with `_PRIOR_GROUPS` prior groups, and `q` is
    Student's. Measured coverage: `benchmarks/coverage.md`.

    Args:
        groups: Scores in [0, 1] by task; empty groups are ignored. A single group counts as independent scores.
        level: Confidence level.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927);
    E. L. Korn, B. I. Graubard, Confidence intervals for proportions with small expected number of positive counts
    estimated from survey data (1998), for the effective number of groups.
    """
    filled = _separate(groups)
    if not filled:
        return None
    values = {value for group in filled for value in group}
    is_sure = values <= {0.0, 1.0} and (len(values) == 1 or all(len(group) == 1 for group in filled))
    if is_sure:
        z, num_groups = NormalDist().inv_cdf((1 + level) / 2), _num_effective(filled)
        return _ends(mean_of(filled), z * z / num_groups, "wilson")
    return _ends(mean_of(filled), _squared_error(filled, _PRIOR_SHARE, level), "clustered")


def difference_interval(groups: Sequence[Sequence[float]], *, level: float = LEVEL) -> Interval | None:
    """Return the interval of a mean difference of scores; None without any.

    Computed as in `mean_interval`, for `(1 + difference) / 2`. If nothing differs, the ends equal Wilson's interval
    for a share of 0 with one sample per group.

    Args:
        groups: Differences in [-1, 1] by task; empty groups are ignored.
        level: Confidence level.
    """
    filled = _separate(groups)
    if not filled:
        return None
    halves = [[(1 + value) / 2 for value in group] for group in filled]
    if not any(value for group in filled for value in group):
        zeros = mean_interval([[0.0]] * len(filled), level=level)
        return None if zeros is None else Interval(low=-zeros.high, high=zeros.high, method="wilson")
    interval = mean_interval(halves, level=level) if {v for group in halves for v in group} <= {0.0, 1.0} else None
    interval = interval or _ends(
        mean_of(halves), _squared_error(halves, _PRIOR_SHARE_OF_DIFFERENCES, level), "clustered"
    )
    return Interval(low=2 * interval.low - 1, high=2 * interval.high - 1, method=interval.method)


def _separate(groups: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """Return groups with a value; for a single group, each of its values as a group."""
    filled = [group for group in groups if group]
    return filled if len(filled) > 1 else [[value] for group in filled for value in group]


def _num_effective(groups: Sequence[Sequence[float]]) -> float:
    """Return the number of groups of equal size whose mean has the same variance."""
    sizes = [len(group) for group in groups]
    return float(sum(sizes) ** 2 / sum(size * size for size in sizes))


def _squared_error(groups: Sequence[Sequence[float]], prior_share: float, level: float) -> float:
    """Return the squared half-width of an interval, as a share of the largest possible variance."""
    mean, total, num_groups = mean_of(groups), sum(map(len, groups)), _num_effective(groups)
    squares = math.fsum((math.fsum(group) - len(group) * mean) ** 2 for group in groups) / total**2
    most = mean * (1 - mean)
    seen = min(1.0, squares * num_groups / most) if most > 0 else 1.0
    seen += (1 - seen) * math.exp(-_NEAR_END * num_groups * most)  # few scores far from 0 or 1 count like none
    freedom = num_groups - 1 + _PRIOR_GROUPS
    share = ((num_groups - 1) * seen + _PRIOR_GROUPS * prior_share) / freedom
    return student_quantile((1 + level) / 2, freedom) ** 2 * share / num_groups


def _ends(mean: float, squared: float, method: str) -> Interval:
    """Return the solutions of `(mean - x) ** 2 = squared * x * (1 - x)`."""
    middle = (mean + squared / 2) / (1 + squared)
    half = math.sqrt(squared * mean * (1 - mean) + squared * squared / 4) / (1 + squared)
    low = 0.0 if mean <= 0.0 else max(0.0, middle - half)  # exact despite rounding
    return Interval(low=low, high=1.0 if mean >= 1.0 else min(1.0, middle + half), method=method)


def student_quantile(p: float, freedom: float) -> float:
    """Return the quantile of Student's t; within 0.2 % for at least 3 degrees of freedom.

    Source: M. Abramowitz, I. A. Stegun, Handbook of mathematical functions (1964), 26.7.5.
    """
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, start=1))


def pass_at_k(num_samples: int, num_succeeded: int, k: int) -> float | None:
    """Return an unbiased estimate of the probability that at least one of k samples succeeds; None for fewer samples.

    Source: M. Chen et al., Evaluating large language models trained on code (2021), equation 1.
    """
    if not 1 <= k <= num_samples:
        return None
    return 1.0 - math.comb(num_samples - num_succeeded, k) / math.comb(num_samples, k)


def pass_hat_k(num_samples: int, num_succeeded: int, k: int) -> float | None:
    """Return an unbiased estimate of the probability that all of k samples succeed; None for fewer samples.

    Source: S. Yao et al., tau-bench (2024), section 3.
    """
    return math.comb(num_succeeded, k) / math.comb(num_samples, k) if 1 <= k <= num_samples else None


def summarize(results: Iterable[EpisodeResult], clusters: Mapping[str, str] | None = None) -> EpisodeSummary:
    """Return the figures of a set of episodes; the names of the figures define how missing scores count.

    Args:
        results: The episodes.
        clusters: By task id, the cluster of the task for intervals; other tasks are their own cluster.
    """
    results = list(results)
    if not results:
        return EpisodeSummary(num_episodes=0, num_scored=0, num_succeeded=0)
    scored = [result for result in results if result.score is not None]
    num_succeeded = sum(is_success(result.score) for result in scored)
    full, only_scored = by_task(results, clusters), by_task(scored, clusters)
    successes = [[float(is_success(score)) for score in group] for group in full]
    usage = sum((result.usage for result in results), Usage())
    return EpisodeSummary(
        num_episodes=len(results),
        num_scored=len(scored),
        num_succeeded=num_succeeded,
        errors=dict(sorted(Counter(result.kind for result in results if result.score is None).items())),
        mean_full=mean_of(full),
        mean_full_interval=mean_interval(full),
        mean_scored=mean_of(only_scored) if scored else None,
        mean_scored_interval=mean_interval(only_scored) if scored else None,
        success_full=num_succeeded / len(results),
        success_full_interval=mean_interval(successes),
        success_scored=num_succeeded / len(scored) if scored else None,
        num_steps=sum(result.num_steps for result in results),
        duration_s=math.fsum(result.duration_s for result in results),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
    )


def summarize_by(
    results: Iterable[EpisodeResult], name: Callable[[EpisodeResult], str], clusters: Mapping[str, str] | None = None
) -> dict[str, EpisodeSummary]:
    """Return the figures of each group of episodes, such as a family, in order of their names, as `summarize`."""
    groups: dict[str, list[EpisodeResult]] = {}
    for result in results:
        groups.setdefault(name(result), []).append(result)
    return {key: summarize(groups[key], clusters) for key in sorted(groups)}


def summarize_tasks(
    results: Iterable[EpisodeResult], groups: Mapping[str, str], clusters: Mapping[str, str] | None = None
) -> dict[str, EpisodeSummary]:
    """Return the figures of each group of tasks, given by task id; tasks without a group are left out."""
    grouped = [result for result in results if result.task_id in groups]
    return summarize_by(grouped, lambda result: groups[result.task_id], clusters)


def rescored(results: Iterable[EpisodeResult], scores: Mapping[Key, float | None]) -> tuple[EpisodeResult, ...]:
    """Return the episodes with scores of other rules; episodes that are not in `scores` have none."""
    return tuple(replace(result, score=scores.get(result.key)) for result in results)


def summarize_samples(results: Iterable[EpisodeResult]) -> tuple[PassStatistics, ...]:
    """Return pass@k and pass^k over the repeats of each task and seed; without repeats, over the seeds of each task.

    An episode without a score counts as failed. Empty if everything has one sample.
    """
    results = list(results)
    repeated = len({result.key[:2] for result in results}) < len(results)
    groups = _grouped(results, lambda result: result.key[:2] if repeated else (result.task_id, None))
    counts = [(len(group), sum(is_success(result.score) for result in group)) for group in groups]
    most = max((num_samples for num_samples, _ in counts), default=0)
    if most < 2:
        return ()
    return tuple(_pass_statistics(counts, k) for k in sorted({*(k for k in _SAMPLE_SIZES if k <= most), most}))


def by_task(results: Iterable[EpisodeResult], clusters: Mapping[str, str] | None = None) -> list[list[float]]:
    """Group scores by task or cluster; 0 for an episode without a score."""
    named = clusters or {}

    def key(result: EpisodeResult) -> tuple[bool, str]:
        cluster = named.get(result.task_id)
        return (False, result.task_id) if cluster is None else (True, cluster)

    return [[result.score or 0.0 for result in group] for group in _grouped(results, key)]


def _grouped(results: Iterable[EpisodeResult], key: Callable[[EpisodeResult], T]) -> list[list[EpisodeResult]]:
    groups: dict[T, list[EpisodeResult]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return list(groups.values())


def mean_of(groups: Sequence[Sequence[float]]) -> float:
    """Return the mean of all values of all groups; at least one is required."""
    return math.fsum(value for group in groups for value in group) / sum(len(group) for group in groups)


def _pass_statistics(counts: Sequence[tuple[int, int]], k: int) -> PassStatistics:
    at_least_one = [p for num_samples, succeeded in counts if (p := pass_at_k(num_samples, succeeded, k)) is not None]
    every = [p for num_samples, succeeded in counts if (p := pass_hat_k(num_samples, succeeded, k)) is not None]
    return PassStatistics(
        k=k,
        at_least_one=math.fsum(at_least_one) / len(at_least_one),
        all_of_them=math.fsum(every) / len(every),
        num_groups=len(at_least_one),
    )
