"""Serial collapse without the auxiliary rewards of PARL, and none with them, in a smaller search for prompts."""

import numpy as np
from numpy.typing import NDArray

from examples.serial_collapse import BUDGET, ITEMS, Orchestrator, train
from model_runtime.training.parl import ParlReward

SEEDS = (0, 1)


def train_small(weight: float) -> tuple[NDArray[np.float64], list[ParlReward]]:
    """Return the mean of the last iterations of each seed, and the rewards at the end."""
    rewards = [ParlReward(parallel_weight=weight, finish_weight=weight, reference=12) for _ in SEEDS]
    curves = [
        train(reward, seed=seed, iterations=160, num_prompts=32) for reward, seed in zip(rewards, SEEDS, strict=True)
    ]
    return np.stack([curve[-20:].mean(0) for curve in curves]), rewards


def test_auxiliary_rewards_prevent_serial_collapse_and_end() -> None:
    without, _ = train_small(0.0)
    assert (without[:, 0] < 0.6).all(), without  # the orchestrator alone does half of the items
    assert (without[:, 2] < 5.0).all(), without
    found, rewards = train_small(0.3)
    assert (found[:, 0] > 0.9).all(), found
    assert (found[:, 2] > 10.0).all(), found
    assert all(reward.share < 0.5 for reward in rewards)


def test_orchestrator_that_never_starts_sub_agents_does_half_of_the_wide_and_all_of_the_chain() -> None:
    policy = Orchestrator(num_prompts=8)
    policy.actions.detach()[:, :, 0] = 100.0
    played = policy.play(np.random.default_rng(0))
    expected = BUDGET / 4 / ITEMS
    assert np.unique(played.score[played.kinds == 0]).tolist() == [expected[0]]
    assert np.unique(played.score[played.kinds == 1]).tolist() == [expected[1]]
    assert not played.num_spawned.any()
