import pytest

from model_runtime.training.parl import ParlReward, count_critical_steps, find_finish_rate, find_parallel_reward

STAGES: list[tuple[int, list[int]]] = [(1, []), (1, [4, 7, 3]), (1, []), (1, [5, 5]), (1, [])]


def test_critical_steps_count_the_longest_sub_agent_of_each_stage() -> None:
    assert count_critical_steps(STAGES) == 17
    assert sum(own + sum(children) for own, children in STAGES) == 29
    assert count_critical_steps([]) == 0


def test_reward_of_an_episode() -> None:
    assert [find_parallel_reward(number) for number in (0, 2, 8, 20)] == [0.0, 0.25, 1.0, 1.0]
    assert [find_finish_rate(*pair) for pair in ((0, 0), (0, 3), (1, 4))] == [0.0, 0.0, 0.25]
    reward = ParlReward(parallel_weight=0.4, finish_weight=0.2)
    assert reward.compute(0.5, num_spawned=4, num_finished=3) == pytest.approx(0.5 + 0.4 * 0.5 + 0.2 * 0.75)
    reward.share = 0.0
    assert reward.compute(0.5, num_spawned=4, num_finished=3) == 0.5


def test_weights_fall_with_progress_and_not_with_time() -> None:
    reward = ParlReward(decay=0.9)
    for _ in range(1_000):
        reward.update(0.25)
    assert reward.share == 1.0
    assert reward.finish_mean == pytest.approx(0.25)
    shares = []
    for _ in range(60):
        reward.update(1.0)
        shares.append(reward.share)
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == pytest.approx((0.8 - 0.325) / 0.5)
    assert shares[-1] == 0.0


def test_weights_do_not_rise_again() -> None:
    reward = ParlReward(decay=0.0)
    reward.update(0.55)
    assert reward.share == pytest.approx(0.5)
    reward.update(0.0)
    assert reward.share == pytest.approx(0.5)
    reward.update(0.7)
    assert reward.share == pytest.approx(0.2)
