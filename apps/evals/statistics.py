"""What the scores of an evaluation say, and how sure that is. Pure functions.

A score is a number in [0, 1] and is never rounded; an episode succeeded when its score is 1. An episode that ended in
an error or a timeout has no score: it counts 0 in every figure named `full`, and is left out of every figure named
`scored`. Episodes of one task (its seeds and repeats) are alike, and so are tasks of one template where a suite
says so: where there are several of them, intervals come from tasks or templates drawn anew (a bootstrap by clusters)
instead of from a formula for independent tries.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import TypeVar

import numpy as np

from cua.batch import EpisodeResult
from cua.messages import Usage

LEVEL = 0.95
"""Of all intervals."""
NUM_RESAMPLES = 10_000
_TRIES = (1, 2, 3, 4, 5, 8, 10, 16, 32, 64, 100)
CHUNK = 1 << 21

Key = tuple[str, int | None, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Where a figure lies at `LEVEL`.

    Attributes:
        low: Lower end.
        high: Upper end.
        method: `wilson`, or `bootstrap` (by tasks where a task has several episodes).
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


def wilson_interval(num_succeeded: int, num_tries: int, level: float = LEVEL) -> Interval | None:
    """Interval of a share of independent tries; None without any try.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    """
    if num_tries == 0:
        return None
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, scale = num_succeeded / num_tries, 1 + z * z / num_tries
    middle = (share + z * z / (2 * num_tries)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / num_tries + z * z / (4 * num_tries**2))
    low = 0.0 if num_succeeded == 0 else middle - half  # exactly, whatever the rounding
    return Interval(low=low, high=1.0 if num_succeeded == num_tries else middle + half, method="wilson")


def bootstrap_interval(
    groups: Sequence[Sequence[float]], *, level: float = LEVEL, num_resamples: int = NUM_RESAMPLES, seed: int = 0
) -> Interval | None:
    """Percentile interval of a mean, whole groups of values drawn with replacement; None for fewer than two groups.

    Args:
        groups: Values that belong together, such as those of one task; none of them empty.
        level: Share of the resampled means that lie inside.
        num_resamples: How often the groups are drawn.
        seed: The same one gives the same interval.

    Source: A. C. Davison, D. V. Hinkley, Bootstrap methods and their application (1997), sections 3.8 and 5.3.
    """
    if len(groups) < 2:
        return None
    sums = np.array([math.fsum(group) for group in groups])
    sizes = np.array([len(group) for group in groups], dtype=np.float64)
    rng = np.random.default_rng(seed)
    rows = max(1, CHUNK // len(groups))
    means = []
    for start in range(0, num_resamples, rows):
        drawn = rng.integers(0, len(groups), (min(rows, num_resamples - start), len(groups)))
        means.append(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1))
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return Interval(low=float(low), high=float(high), method="bootstrap")


def mean_interval(groups: Sequence[Sequence[float]], *, num_resamples: int = NUM_RESAMPLES) -> Interval | None:
    """Interval of a mean score: Wilson's for independent zeros and ones, else a bootstrap by groups.

    Where all values are zeros, or all are ones, nothing is learnt from drawing the groups anew; they get Wilson's
    interval of as many tries as there are groups.

    Args:
        groups: Scores in [0, 1] by task; empty ones are left out.
        num_resamples: See `bootstrap_interval`.
    """
    filled = [group for group in groups if group]
    values = [value for group in filled for value in group]
    is_binary = all(value in (0.0, 1.0) for value in values)
    if is_binary and (len(filled) < 2 or len(values) == len(filled)):
        return wilson_interval(round(sum(values)), len(values))
    if is_binary and len(set(values)) == 1:
        return wilson_interval(round(values[0]) * len(filled), len(filled))
    return bootstrap_interval(filled if len(filled) > 1 else [[one] for one in values], num_resamples=num_resamples)


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
