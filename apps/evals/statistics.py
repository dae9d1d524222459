"""What the scores of an evaluation say, and how sure that is. Pure functions.

A score is a number in [0, 1] and is never rounded; an episode succeeded when its score is 1. An episode that ended in
an error or a timeout has no score: it counts 0 in every figure named `full`, and is left out of every figure named
`scored`. Episodes of one task (its seeds and repeats) are alike, and so are tasks of one template where a suite
says so: intervals count tasks or templates, not episodes.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import TypeVar

from cua.batch import EpisodeResult
from cua.messages import Usage

LEVEL = 0.95
"""Of all intervals."""
_PRIOR_GROUPS, _PRIOR_SHARE, _PRIOR_SHARE_OF_DIFFERENCES = 3.0, 0.25, 0.1
"""Imagined groups, and their variance as a share of the largest possible one. Set by the coverage that
`benchmarks/coverage.py` measures; without them few groups that happen to agree give an interval of no width."""
_NEAR_END = 20.0
_TRIES = (1, 2, 3, 4, 5, 8, 10, 16, 32, 64, 100)

Key = tuple[str, int | None, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Confidence interval of a figure at `LEVEL`; never of zero width.

    Attributes:
        low: Lower end.
        high: Upper end.
        method: `wilson`, or `clustered` where the variance is estimated from the spread of tasks.
    """

    low: float
    high: float
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """What k tries at the same thing are worth, averaged over all things that were tried at least k times.

    Attributes:
        k: How many tries.
        at_least_one: pass@k: chance that one of k tries succeeds.
        all_of_them: pass^k: chance that all k succeed.
        num_groups: How many things were tried at least k times.
    """

    k: int
    at_least_one: float
    all_of_them: float
    num_groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The figures of some episodes.

    Attributes:
        num_episodes: How many are over.
        num_scored: How many of them have a score.
        num_succeeded: How many have score 1.
        errors: How many ended without a score, by kind.
        mean_full: Mean score, an episode without a score counted 0; None when there are none.
        mean_full_interval: Of `mean_full`.
        mean_scored: Mean score of those that have one; None when none has.
        mean_scored_interval: Of `mean_scored`.
        success_full: Share of all that succeeded.
        success_full_interval: Of `success_full`.
        success_scored: Share of the scored that succeeded.
        num_steps: Steps of the agent, in all.
        duration_s: Seconds, in all.
        input_tokens: In all.
        output_tokens: In all.
        cost_usd: In all; None when a price is unknown.
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
    """Whether a score is full marks."""
    return score is not None and score >= 1.0


def mean_interval(groups: Sequence[Sequence[float]], *, level: float = LEVEL) -> Interval | None:
    """Interval of a mean score; None without any score.

    The interval holds each mean from which the observed one is at most `q` standard errors away, the variance of a
    group's mean taken as a share of the largest possible one, `mean * (1 - mean)`. Independent zeros and ones have the
    whole of it, which makes this Wilson's interval; so have zeros alone and ones alone, counted once a group. For
    other scores the share is estimated from the spread of the groups together with `_PRIOR_GROUPS` imagined groups,
    and `q` is Student's. Measured coverage: `benchmarks/coverage.md`.

    Args:
        groups: Scores in [0, 1] by task; empty groups are ignored. One group alone is taken for independent scores.
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
    """Interval of a mean difference of scores; None without any.

    As `mean_interval`, for `(1 + difference) / 2`. Where nothing differs, the ends are those of Wilson's interval of a
    share of 0 of as many tries as there are groups.

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
    found = mean_interval(halves, level=level) if {v for group in halves for v in group} <= {0.0, 1.0} else None
    found = found or _ends(mean_of(halves), _squared_error(halves, _PRIOR_SHARE_OF_DIFFERENCES, level), "clustered")
    return Interval(low=2 * found.low - 1, high=2 * found.high - 1, method=found.method)


def _separate(groups: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """Groups with a value; the values of a single group one by one."""
    filled = [group for group in groups if group]
    return filled if len(filled) > 1 else [[value] for group in filled for value in group]


def _num_effective(groups: Sequence[Sequence[float]]) -> float:
    """Number of groups of one size that give as sure a mean as these."""
    sizes = [len(group) for group in groups]
    return float(sum(sizes) ** 2 / sum(size * size for size in sizes))


def _squared_error(groups: Sequence[Sequence[float]], prior_share: float, level: float) -> float:
    """Squared half-width of an interval, as a share of the largest possible variance."""
    mean, total, num_groups = mean_of(groups), sum(map(len, groups)), _num_effective(groups)
    squares = math.fsum((math.fsum(group) - len(group) * mean) ** 2 for group in groups) / total**2
    most = mean * (1 - mean)
    seen = min(1.0, squares * num_groups / most) if most > 0 else 1.0
    seen += (1 - seen) * math.exp(-_NEAR_END * num_groups * most)  # few scores far from 0 or 1: as if there were none
    freedom = num_groups - 1 + _PRIOR_GROUPS
    share = ((num_groups - 1) * seen + _PRIOR_GROUPS * prior_share) / freedom
    return student_quantile((1 + level) / 2, freedom) ** 2 * share / num_groups


def _ends(mean: float, squared: float, method: str) -> Interval:
    """Solutions of `(mean - x) ** 2 = squared * x * (1 - x)`."""
    middle = (mean + squared / 2) / (1 + squared)
    half = math.sqrt(squared * mean * (1 - mean) + squared * squared / 4) / (1 + squared)
    low = 0.0 if mean <= 0.0 else max(0.0, middle - half)  # exactly, whatever the rounding
    return Interval(low=low, high=1.0 if mean >= 1.0 else min(1.0, middle + half), method=method)


def student_quantile(p: float, freedom: float) -> float:
    """Quantile of Student's t; within 0.2 % from 3 degrees of freedom on.

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


def pass_at_k(num_tries: int, num_succeeded: int, k: int) -> float | None:
    """Chance that at least one of k tries succeeds, without bias; None when there were fewer than k.

    Source: M. Chen et al., Evaluating large language models trained on code (2021), equation 1.
    """
    if not 1 <= k <= num_tries:
        return None
    return 1.0 - math.comb(num_tries - num_succeeded, k) / math.comb(num_tries, k)


def pass_hat_k(num_tries: int, num_succeeded: int, k: int) -> float | None:
    """Chance that all of k tries succeed, without bias; None when there were fewer than k.

    Source: S. Yao et al., tau-bench (2024), section 3.
    """
    return math.comb(num_succeeded, k) / math.comb(num_tries, k) if 1 <= k <= num_tries else None


def summarize(results: Iterable[EpisodeResult], clusters: Mapping[str, str] | None = None) -> Summary:
    """The figures of some episodes; episodes without a score count as the names of the figures say.

    Args:
        results: Of which episodes.
        clusters: By task id, what its task is drawn together with for intervals; others stand alone.
    """
    results = list(results)
    if not results:
        return Summary(num_episodes=0, num_scored=0, num_succeeded=0)
    scored = [one for one in results if one.score is not None]
    num_succeeded = sum(is_success(one.score) for one in scored)
    full, only_scored = by_task(results, clusters), by_task(scored, clusters)
    successes = [[float(is_success(score)) for score in group] for group in full]
    usage = sum((one.usage for one in results), Usage())
    return Summary(
        num_episodes=len(results),
        num_scored=len(scored),
        num_succeeded=num_succeeded,
        errors=dict(sorted(Counter(one.kind for one in results if one.score is None).items())),
        mean_full=mean_of(full),
        mean_full_interval=mean_interval(full),
        mean_scored=mean_of(only_scored) if scored else None,
        mean_scored_interval=mean_interval(only_scored) if scored else None,
        success_full=num_succeeded / len(results),
        success_full_interval=mean_interval(successes),
        success_scored=num_succeeded / len(scored) if scored else None,
        num_steps=sum(one.num_steps for one in results),
        duration_s=math.fsum(one.duration_s for one in results),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
    )


def summarize_by(
    results: Iterable[EpisodeResult], name: Callable[[EpisodeResult], str], clusters: Mapping[str, str] | None = None
) -> dict[str, Summary]:
    """The figures of each group of episodes, such as a family, in order of their names; as `summarize`."""
    groups: dict[str, list[EpisodeResult]] = {}
    for one in results:
        groups.setdefault(name(one), []).append(one)
    return {key: summarize(groups[key], clusters) for key in sorted(groups)}


def summarize_tasks(
    results: Iterable[EpisodeResult], groups: Mapping[str, str], clusters: Mapping[str, str] | None = None
) -> dict[str, Summary]:
    """The figures of each group of tasks, the groups given by task id; tasks without one are left out."""
    grouped = [one for one in results if one.task_id in groups]
    return summarize_by(grouped, lambda one: groups[one.task_id], clusters)


def rescored(results: Iterable[EpisodeResult], scores: Mapping[Key, float | None]) -> tuple[EpisodeResult, ...]:
    """Episodes with the scores that other rules give them; those that are not named have none."""
    return tuple(replace(one, score=scores.get(one.key)) for one in results)


def count_tries(results: Iterable[EpisodeResult]) -> tuple[Tries, ...]:
    """pass@k and pass^k over the repeats of each task and seed; over the seeds of each task where nothing was repeated.

    An episode without a score counts as one that did not succeed. Empty when everything was tried once.
    """
    results = list(results)
    repeated = len({one.key[:2] for one in results}) < len(results)
    groups = _grouped(results, lambda one: one.key[:2] if repeated else (one.task_id, None))
    counts = [(len(group), sum(is_success(one.score) for one in group)) for group in groups]
    most = max((num_tries for num_tries, _ in counts), default=0)
    if most < 2:
        return ()
    return tuple(_tries_of(counts, k) for k in sorted({*(k for k in _TRIES if k <= most), most}))


def by_task(results: Iterable[EpisodeResult], clusters: Mapping[str, str] | None = None) -> list[list[float]]:
    """Scores by task, or by what tasks are drawn together with; 0 where an episode has none."""
    named = clusters or {}

    def key(one: EpisodeResult) -> tuple[bool, str]:
        cluster = named.get(one.task_id)
        return (False, one.task_id) if cluster is None else (True, cluster)

    return [[one.score or 0.0 for one in group] for group in _grouped(results, key)]


def _grouped(results: Iterable[EpisodeResult], key: Callable[[EpisodeResult], T]) -> list[list[EpisodeResult]]:
    groups: dict[T, list[EpisodeResult]] = {}
    for one in results:
        groups.setdefault(key(one), []).append(one)
    return list(groups.values())


def mean_of(groups: Sequence[Sequence[float]]) -> float:
    """Mean of all values of all groups; there is at least one."""
    return math.fsum(value for group in groups for value in group) / sum(len(group) for group in groups)


def _tries_of(counts: Sequence[tuple[int, int]], k: int) -> Tries:
    one = [p for num_tries, succeeded in counts if (p := pass_at_k(num_tries, succeeded, k)) is not None]
    every = [p for num_tries, succeeded in counts if (p := pass_hat_k(num_tries, succeeded, k)) is not None]
    return Tries(
        k=k,
        at_least_one=math.fsum(one) / len(one),
        all_of_them=math.fsum(every) / len(every),
        num_groups=len(one),
    )
