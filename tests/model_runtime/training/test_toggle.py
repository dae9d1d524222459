import math
from dataclasses import replace
from pathlib import Path

import pytest

from model_runtime.training.toggle import ToggleOptions, TogglePhase, TokenToggle, Try, count_generated, estimate_budget
from tests.model_runtime.training.test_policy_loss import make_rollout, make_sample

LENGTHS = (100, 200, 400, 800, 300, 900, 500, 700)
REWARDS = (1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0)  # mean .625
TRIES = [Try(reward=reward, num_tokens=length) for reward, length in zip(REWARDS, LENGTHS, strict=True)]
OPTIONS = ToggleOptions(iterations=3, min_mean=0.5, percentile=50)


@pytest.mark.parametrize(("percentile", "budget"), [(50, 400.0), (75, 500.0), (100, 800.0), (60, 440.0)])
def test_budget_is_a_percentile_of_the_correct_lengths(percentile: float, budget: float) -> None:
    assert estimate_budget(TRIES, replace(OPTIONS, percentile=percentile)) == pytest.approx(budget)


def test_budget_leaves_out_tries_that_were_cut_off() -> None:
    cut = [replace(each, is_truncated=each.num_tokens <= 200) for each in TRIES]
    assert estimate_budget(cut, OPTIONS) == 500.0
    assert estimate_budget([Try(reward=0.9, num_tokens=7)], OPTIONS) == math.inf
    assert estimate_budget([Try(reward=0.9, num_tokens=7)], replace(OPTIONS, correct=0.8)) == 7.0


def test_limited_rewards() -> None:
    assert TogglePhase(True, 400.0, 0.5).shape_rewards(TRIES) == [1, 1, 1, 0, 0, 0, 0, 0]
    assert TogglePhase(True, 400.0, 0.625).shape_rewards(TRIES) == [1, 1, 1, 0, 0, 0, 0, 0]  # not below
    assert TogglePhase(True, 400.0, 0.7).shape_rewards(TRIES) == list(REWARDS)  # below: not enforced
    assert TogglePhase(False, 400.0, 0.5).shape_rewards(TRIES) == list(REWARDS)
    assert TogglePhase(True, math.inf, 0.5).shape_rewards(TRIES) == list(REWARDS)
    assert TogglePhase(True, 400.0, 0.5).shape_rewards([]) == []


def test_try_that_was_cut_off_below_the_budget_is_excluded() -> None:
    """Above it, it is over the budget however long it would have become; without a reward, it has none either way."""
    tries = [
        Try(reward=1.0, num_tokens=399, is_truncated=True),
        Try(reward=1.0, num_tokens=401, is_truncated=True),
        Try(reward=0.0, num_tokens=10, is_truncated=True),
        Try(reward=1.0, num_tokens=400),
    ]
    assert TogglePhase(True, 400.0, 0.5).shape_rewards(tries) == [None, 0.0, 0.0, 1.0]
    assert TogglePhase(True, math.inf, 0.5).shape_rewards(tries) == [1.0, 1.0, 0.0, 1.0]


def test_phases_alternate_and_stay_as_submitted(tmp_path: Path) -> None:
    toggle = TokenToggle(tmp_path / "budgets.json", OPTIONS)
    toggle.estimate("p", TRIES)
    groups = [toggle.begin_group("p", iteration) for iteration in range(8)]
    assert [group.is_limited for group in groups] == [True] * 3 + [False] * 3 + [True] * 2
    assert groups[2].shape_rewards(TRIES) != groups[3].shape_rewards(TRIES)


def test_budgets_are_estimated_once_and_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "budgets.json"
    first = TokenToggle(path, OPTIONS)
    assert first.estimate("p", TRIES) == 400.0
    assert first.estimate("hard", TRIES[4:6]) == math.inf
    second = TokenToggle(path, replace(OPTIONS, percentile=100))
    assert (second.begin_group("p", 0).budget, second.begin_group("hard", 0).budget) == (400.0, math.inf)
    with pytest.raises(ValueError, match="has been estimated: 400"):
        second.estimate("p", TRIES)
    with pytest.raises(KeyError, match="new"):
        second.begin_group("new", 0)
    assert [file.name for file in tmp_path.iterdir()] == ["budgets.json"]


def test_length_counts_generated_tokens_of_all_branches() -> None:
    rollout = make_rollout("a", 1.0, make_sample([False, True, False, True], 0.5), make_sample([False, True], 0.5))
    assert count_generated(rollout) == 3
