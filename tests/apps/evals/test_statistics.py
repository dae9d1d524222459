"""The statistics of evaluations agree with scipy, statsmodels and plain counting, and hold at the edges."""

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from apps.evals.compare import compare, mcnemar_p, permutation_p
from apps.evals.statistics import (
    Interval,
    PassStatistics,
    difference_interval,
    is_success,
    mean_interval,
    mean_of,
    pass_at_k,
    pass_hat_k,
    student_quantile,
    summarize,
    summarize_by,
    summarize_samples,
)
from benchmarks.coverage import differences_of, means_of
from cua.batch import EpisodeResult
from cua.batch.episode import EpisodeKind
from cua.messages import Usage
from tests.tables import table


def result(
    task_id: str, score: float | None, seed: int | None = None, repeat: int = 0, kind: EpisodeKind | None = None
) -> EpisodeResult:
    return EpisodeResult(
        task_id=task_id,
        seed=seed,
        repeat=repeat,
        kind=kind or ("env_error" if score is None else "scored"),
        score=score,
        reason="checked",
        num_steps=2,
        usage=Usage(input_tokens=10, output_tokens=5, cost_usd=0.25),
        duration_s=1.5,
    )


def ends(interval: Interval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.low, interval.high


def wilson(num_succeeded: int, num_samples: int) -> object:
    low, high = proportion_confint(num_succeeded, num_samples, method="wilson")
    return pytest.approx((low, high), abs=1e-12)


def results_of(scores: Sequence[float | None]) -> list[EpisodeResult]:
    return [result(f"task-{number:03}", score) for number, score in enumerate(scores)]


@table(("count", "total"), [(0, 1), (1, 1), (0, 40), (40, 40), (3, 7), (250, 1000), (1, 3)])
@table("level", [0.8, 0.95, 0.99])
def test_wilson_agrees_with_statsmodels_and_scipy(count: int, total: int, level: float) -> None:
    found = mean_interval([[1.0]] * count + [[0.0]] * (total - count), level=level)
    assert found is not None
    low, high = proportion_confint(count, total, alpha=1 - level, method="wilson")
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)
    theirs = stats.binomtest(count, total).proportion_ci(level, method="wilson")
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize(("lost", "won"), [(0, 0), (1, 0), (0, 9), (3, 3), (12, 5), (90, 130)])
def test_mcnemar_agrees_with_statsmodels(lost: int, won: int) -> None:
    table = [[20, lost], [won, 30]]
    expected = mcnemar(table, exact=True).pvalue if lost + won else 1.0
    assert mcnemar_p(lost, won) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("num_groups", [5, 12, 40])
def test_permutation_agrees_with_scipy(num_groups: int) -> None:
    rng = np.random.default_rng(num_groups)
    sums = [float(one) for one in rng.normal(0.4, 1.0, num_groups)]
    found, is_exact = permutation_p(sums, num_resamples=40_000)
    theirs = stats.permutation_test(
        (np.array(sums), np.zeros(num_groups)),
        lambda one, other, axis: (one - other).mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf if is_exact else 40_000,
        rng=rng,
    )
    assert is_exact is (num_groups <= 14)
    assert found == pytest.approx(theirs.pvalue, abs=1e-12 if is_exact else 0.01)


def test_permutation_where_nothing_differs() -> None:
    assert permutation_p([]) == permutation_p([0.0, 0.0]) == (1.0, True)
    assert permutation_p([0.1] * 3)[0] == 2 / 2**3
    assert permutation_p([1.0] * 30, num_resamples=999) == (1 / 1000, False)


@pytest.mark.parametrize(("num_samples", "succeeded"), [(1, 0), (1, 1), (4, 0), (5, 2), (6, 6), (7, 3)])
def test_chances_of_k_samples_agree_with_counting(num_samples: int, succeeded: int) -> None:
    tries = [True] * succeeded + [False] * (num_samples - succeeded)
    for k in range(1, num_samples + 1):
        drawn = list(itertools.combinations(tries, k))
        assert pass_at_k(num_samples, succeeded, k) == pytest.approx(sum(map(any, drawn)) / len(drawn))
        assert pass_hat_k(num_samples, succeeded, k) == pytest.approx(sum(map(all, drawn)) / len(drawn))
    assert pass_at_k(num_samples, succeeded, num_samples + 1) is None
    assert pass_hat_k(num_samples, succeeded, num_samples + 1) is None
    assert pass_at_k(num_samples, succeeded, 0) is None


def test_errors_count_zero_in_the_full_mean_and_nowhere_in_the_scored_one() -> None:
    found = summarize([*results_of([1.0, 0.5, 0.0]), result("broken", None), result("slow", None, kind="timeout")])
    assert (found.num_episodes, found.num_scored, found.num_succeeded) == (5, 3, 1)
    assert found.errors == {"env_error": 1, "timeout": 1}
    assert (found.mean_full, found.mean_scored) == (pytest.approx(0.3), pytest.approx(0.5))
    assert (found.success_full, found.success_scored) == (pytest.approx(0.2), pytest.approx(1 / 3))
    assert ends(found.success_full_interval) == wilson(1, 5)
    assert found.mean_full_interval is not None
    assert found.mean_full_interval.method == "clustered"
    assert (found.num_steps, found.duration_s, found.input_tokens, found.cost_usd) == (10, 7.5, 50, 1.25)


def test_a_price_that_is_unknown_makes_the_sum_unknown() -> None:
    free = EpisodeResult(task_id="a", seed=None, repeat=0, kind="scored", score=1.0, reason="")
    unknown = EpisodeResult(
        task_id="b", seed=None, repeat=0, kind="scored", score=1.0, reason="", usage=Usage(cost_usd=None)
    )
    assert (summarize([free]).cost_usd, summarize([free, unknown]).cost_usd) == (0.0, None)


def test_no_episodes_and_nothing_but_errors() -> None:
    nothing = summarize([])
    assert (nothing.num_episodes, nothing.mean_full, nothing.mean_full_interval, nothing.success_full) == (
        0,
        None,
        None,
        None,
    )
    broken = summarize(results_of([None, None]))
    assert (broken.mean_full, broken.mean_scored, broken.mean_scored_interval) == (0.0, None, None)
    assert ends(broken.mean_full_interval) == wilson(0, 2)
    assert summarize_samples([]) == ()
    compared = compare([], [])
    assert (compared.num_pairs, compared.difference_full, compared.mcnemar_p, compared.permutation_p) == (
        0,
        None,
        None,
        None,
    )


def test_one_task_and_tasks_that_are_all_alike() -> None:
    assert ends(mean_interval([[1.0]])) == wilson(1, 1)
    assert ends(mean_interval([[1.0, 0.0, 1.0]])) == wilson(2, 3)
    assert ends(mean_interval([[1.0] * 5] * 4)) == wilson(4, 4)
    assert mean_interval([[0.5, 0.7]]) == mean_interval([[0.5], [0.7]])
    assert mean_interval([[], []]) is mean_interval([]) is difference_interval([[]]) is None


SCORES = {
    "zeros": lambda rng: 0.0,
    "ones": lambda rng: 1.0,
    "halves": lambda rng: 0.5,
    "binary": lambda rng: float(rng.random() < 0.5),
    "graded": lambda rng: rng.random(),
    "tiny": lambda rng: rng.random() * 1e-12,
}


@table("kind", SCORES)
@table("num_tasks", [1, 2, 3, 10, 400])
def test_an_interval_is_never_of_zero_width_and_holds_the_mean(kind: str, num_tasks: int) -> None:
    rng = random.Random(num_tasks)
    for num_seeds in (1, 2, 5):
        groups = [[SCORES[kind](rng) for _ in range(rng.randint(1, num_seeds))] for _ in range(num_tasks)]
        found, mean = mean_interval(groups), mean_of(groups)
        assert found is not None
        assert 0.0 <= found.low <= mean + 1e-9 and mean - 1e-9 <= found.high <= 1.0
        assert found.high - found.low > 0.05 / num_tasks
        differences = [[other - one for one, other in zip(group, group[::-1], strict=True)] for group in groups]
        paired = difference_interval(differences)
        assert paired is not None
        assert -1.0 <= paired.low < 0.0 < paired.high <= 1.0


def test_two_tasks_half_right_on_both_seeds_are_not_sure_of_one_half() -> None:
    found = mean_interval([[1.0, 0.0], [1.0, 0.0]])
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(0.176, abs=0.001), pytest.approx(0.824, abs=0.001))


@pytest.mark.parametrize("freedom", [3.0, 4.5, 10.0, 400.0])
def test_quantiles_of_student_agree_with_scipy(freedom: float) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=2e-3)


def test_repeats_of_a_task_widen_the_interval() -> None:
    """Ten tasks, each with ten equal repeats: ten pieces of news, not a hundred."""
    repeated = [result(f"task-{n}", float(n % 2), repeat=repeat) for n in range(10) for repeat in range(10)]
    clustered, independent = ends(summarize(repeated).success_full_interval), ends(mean_interval([[0.0, 1.0] * 50]))
    assert clustered[1] - clustered[0] > 2 * (independent[1] - independent[0])


@pytest.mark.long
@pytest.mark.parametrize("num_tasks", [3, 10, 30])
def test_intervals_cover_as_often_as_they_say(num_tasks: int) -> None:
    """The whole grid of populations: `python -m benchmarks.coverage`."""
    for grid, most in ((means_of, 0.975), (differences_of, 0.985)):
        cells = grid(num_tasks, 25)
        assert 0.93 <= np.mean([cell.ours for cell in cells]) <= most


def test_by_family() -> None:
    found = summarize_by(results_of([1.0, 0.0, None]), lambda one: "even" if one.task_id[-1] in "02" else "odd")
    assert {name: (one.num_episodes, one.mean_full) for name, one in found.items()} == {
        "even": (2, 0.5),
        "odd": (1, 0.0),
    }


def test_tries_over_repeats_else_over_seeds() -> None:
    repeats = [result("a", 1.0, 7), result("a", None, 7, 1), result("b", 1.0, 7), result("b", 1.0, 7, 1)]
    assert summarize_samples(repeats) == (
        PassStatistics(k=1, at_least_one=0.75, all_of_them=0.75, num_groups=2),
        PassStatistics(k=2, at_least_one=1.0, all_of_them=0.5, num_groups=2),
    )
    seeds = [result("a", 1.0, 1), result("a", 0.9, 2), result("b", 1.0, 1)]
    assert summarize_samples(seeds)[-1] == PassStatistics(k=2, at_least_one=1.0, all_of_them=0.0, num_groups=1)
    assert summarize_samples(results_of([1.0, 0.0])) == ()


def test_a_comparison_pairs_by_task_seed_and_repeat() -> None:
    before = [result("a", 1.0, 1), result("a", 0.0, 2), result("b", 0.5, 1), result("c", None, 1), result("d", 1.0, 1)]
    after = [result("b", 0.75, 1), result("a", 0.0, 1), result("a", 1.0, 2), result("c", 1.0, 1), result("e", 1.0, 1)]
    found = compare(before, after)
    assert (found.num_pairs, found.num_scored_pairs, found.num_only_before, found.num_only_after) == (4, 3, 1, 1)
    assert found.difference_full == pytest.approx((-1 + 1 + 0.25 + 1) / 4)
    assert found.difference_scored == pytest.approx(0.25 / 3)
    assert [(flip.key, flip.before, flip.after) for flip in found.flips] == [
        (("a", 1, 0), 1.0, 0.0),
        (("a", 2, 0), 0.0, 1.0),
    ]
    assert (found.mcnemar_p, found.permutation_p, found.is_permutation_exact) == (1.0, 1.0, True)


def test_a_clear_difference_is_told() -> None:
    found = compare(results_of([0.0] * 60), results_of([1.0] * 50 + [0.0] * 10))
    assert found.difference_full == found.difference_scored == pytest.approx(50 / 60)
    assert found.difference_full_interval is not None
    assert 0.7 < found.difference_full_interval.low < 50 / 60 < found.difference_full_interval.high < 0.95
    assert found.mcnemar_p == pytest.approx(2 / 2**50)
    assert found.permutation_p == pytest.approx(1 / 10_001)
    same = compare(results_of([0.3, 1.0]), results_of([0.3, 1.0]))
    assert (same.difference_full, same.mcnemar_p, same.permutation_p, same.flips) == (0.0, 1.0, 1.0, ())


@pytest.mark.parametrize(
    ("score", "expected"), [(1.0, True), (0.999999, False), (0.0, False), (None, False), (1, True)]
)
def test_success_is_full_marks(score: float | None, expected: bool) -> None:
    assert is_success(score) is expected


def test_thousands_of_episodes_stay_quick_and_small() -> None:
    found = summarize([result(f"task-{n}", n % 3 / 2) for n in range(5000)])
    assert found.mean_full == pytest.approx(0.5, abs=0.001)
    assert found.mean_full_interval is not None
    assert math.isclose(found.mean_full_interval.high - found.mean_full_interval.low, 0.0226, abs_tol=0.002)


def test_tasks_of_one_template_count_as_one_piece_of_news() -> None:
    """Five templates of ten equal tasks, all of three of them won: by tasks that is sure, by templates it is not."""
    before, after = results_of([0.0] * 50), results_of([float(number // 10 < 3) for number in range(50)])
    clusters = {one.task_id: str(number // 10) for number, one in enumerate(before)}
    alone, together = compare(before, after), compare(before, after, clusters)
    assert alone.difference_full == together.difference_full == pytest.approx(0.6)
    assert alone.difference_full_interval is not None and together.difference_full_interval is not None
    assert together.difference_full_interval.low < 0.3 < alone.difference_full_interval.low
    assert alone.permutation_p is not None and alone.permutation_p < 0.001
    assert (together.permutation_p, together.is_permutation_exact) == (2 / 2**3, True)
    some = {one.task_id: "x" for one in before[:10]}
    assert compare(before, after, some).permutation_p == compare(after, before, some).permutation_p
