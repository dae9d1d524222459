import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from cua.rollouts.mismatch import measure_mismatch
from cua.rollouts.samples import PolicySpan, RolloutSample, SampledRollout
from model_runtime.training.policy_loss import (
    PolicyBatch,
    PolicyLossOptions,
    compute_logprobs,
    compute_policy_loss,
    make_policy_batch,
    measure_policy,
)

LOGPROBS = (-1.0, -1.5, -0.9, -0.2, -1.0)
OPTIONS = PolicyLossOptions(min_ratio=math.exp(-0.6), max_ratio=math.exp(0.6), penalty=0.1)
BATCH = PolicyBatch(
    ids=torch.arange(5),
    mask=torch.ones(5, dtype=torch.bool),
    old_logprobs=torch.tensor([-1.0, -2.0, -0.5, -3.0, -1.0], dtype=torch.float64),
    advantages=torch.tensor([0.5, 0.5, 0.5, -0.5, -0.5], dtype=torch.float64),
    lengths=(5,),
    num_tokens=5.0,
)


def find_gradient(logprobs: tuple[float, ...], loss: Callable[[Tensor], Tensor]) -> tuple[float, Tensor]:
    given = torch.tensor(logprobs, dtype=torch.float64, requires_grad=True)
    value = loss(given)
    (gradient,) = torch.autograd.grad(value, given)
    return float(value.detach()), gradient


def test_gradient_by_hand() -> None:
    """Token 4 has a ratio of e^2.8 and a negative advantage: only the penalty acts on it."""
    value, gradient = find_gradient(LOGPROBS, lambda given: compute_policy_loss(given, BATCH, OPTIONS))
    expected = torch.tensor([-0.1, -0.1 * math.exp(0.5) + 0.02, -0.1 * math.exp(-0.4) - 0.016, 0.112, 0.1])
    torch.testing.assert_close(gradient, expected.double())
    assert gradient.tolist() == pytest.approx([-0.1, -0.1449, -0.083, 0.112, 0.1], abs=5e-5)
    assert value == pytest.approx(-0.0669, abs=5e-5)


def test_clamped_ratio_has_the_same_gradient_and_another_value() -> None:
    def clamped(given: Tensor) -> Tensor:
        log_ratios = given - BATCH.old_logprobs
        gains = log_ratios.clamp(-0.6, 0.6).exp() * BATCH.advantages
        return -(gains - 0.1 * log_ratios.square()).mean()

    value, gradient = find_gradient(LOGPROBS, clamped)
    torch.testing.assert_close(
        gradient, find_gradient(LOGPROBS, lambda given: compute_policy_loss(given, BATCH, OPTIONS))[1]
    )
    assert value == pytest.approx(0.1153, abs=5e-5)


def test_ppo_does_not_clip_a_negative_advantage() -> None:
    """The difference that the report names: its bounds hold whatever the sign of the advantage."""

    def ppo(given: Tensor) -> Tensor:
        log_ratios = given - BATCH.old_logprobs
        ratios = log_ratios.exp()
        gains = torch.minimum(ratios * BATCH.advantages, ratios.clamp(*bounds) * BATCH.advantages)
        return -(gains - 0.1 * log_ratios.square()).mean()

    bounds = (OPTIONS.min_ratio, OPTIONS.max_ratio)
    assert find_gradient(LOGPROBS, ppo)[1][3] == pytest.approx(1.7565, abs=5e-5)


@pytest.mark.parametrize("difference", [-500.0, -90.0, 90.0, 500.0])
def test_far_tokens_do_not_overflow_and_are_pulled_back(difference: float) -> None:
    """exp(90) is infinite in fp32, and its gradient times a mask of 0 would be NaN."""
    old = torch.tensor([-500.0, -1.0])
    batch = replace(BATCH, mask=BATCH.mask[:2], old_logprobs=old, advantages=torch.tensor([0.5, 0.5]), num_tokens=2.0)
    given = torch.tensor([-500.0 + difference, -1.0], requires_grad=True)
    compute_policy_loss(given, batch, OPTIONS).backward()  # type: ignore[no-untyped-call]
    assert given.grad is not None
    assert given.grad.tolist() == pytest.approx([0.1 * difference, -0.25], rel=1e-5)


def test_tokens_outside_of_the_mask_have_no_gradient_whatever_their_value() -> None:
    batch = replace(BATCH, mask=torch.tensor([True, False, True, True, False]), num_tokens=3.0)
    given = (-1.0, math.nan, -0.9, -0.2, -math.inf)
    value, gradient = find_gradient(given, lambda logprobs: compute_policy_loss(logprobs, batch, OPTIONS))
    assert math.isfinite(value)
    assert gradient[[1, 4]].tolist() == [0.0, 0.0]
    torch.testing.assert_close(gradient[3], torch.tensor(0.112 * 5 / 3).double())
    with pytest.raises(ValueError, match="not finite"):
        compute_policy_loss(torch.tensor(given), BATCH, OPTIONS)


@pytest.mark.parametrize("bounds", [(0.0, 2.0), (1.1, 2.0), (0.5, 0.9), (-0.6, 0.6)])
def test_bounds_that_would_exclude_an_unchanged_policy_are_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="bounds of the ratio"):
        PolicyLossOptions(min_ratio=bounds[0], max_ratio=bounds[1])


def make_sample(mask: list[bool], weight: float = 1.0, first: int = 0) -> RolloutSample:
    sampled = np.array(mask)
    return RolloutSample(
        ids=np.arange(first, first + len(mask), dtype=np.uint32),
        mask=sampled,
        logprobs=np.where(sampled, -0.5, 0.0).astype(np.float32),
        spans=(PolicySpan(0, len(mask), 3),),
        prompt_length=1,
        weight=weight,
    )


def make_rollout(group: str, reward: float | None, *branches: RolloutSample) -> SampledRollout:
    return SampledRollout(rollout="r", group=group, reward=reward, branches=branches or (make_sample([False, True]),))


def test_rollouts_become_a_batch_with_the_plain_mean_of_their_group() -> None:
    stale = make_rollout("a", 0.0, make_sample([False, True, True]).without_loss())
    split = make_rollout("a", 1.0, make_sample([False, True], 0.25, 7), make_sample([False, True, True], 0.75))
    excluded = make_rollout("a", None)
    batch = make_policy_batch([split, stale, excluded, make_rollout("b", 0.3), make_rollout("b", 0.3)])
    assert batch.ids.tolist() == [7, 8, 0, 1, 2, 0, 1, 2, 0, 1, 0, 1]
    assert batch.lengths == (2, 3, 3, 2, 2)
    assert batch.mask.nonzero().flatten().tolist() == [1, 3, 4, 9, 11]
    assert batch.num_tokens == 5  # those of the group without variance included
    expected = [0.125] * 2 + [0.375] * 3 + [-0.5] * 3 + [0.0] * 4
    assert batch.advantages.tolist() == pytest.approx(expected)  # half of the range, no standard deviation
    torch.testing.assert_close(batch.old_logprobs, torch.where(batch.mask, -0.5, 0.0))


def test_batches_without_anything_to_train_are_refused() -> None:
    with pytest.raises(ValueError, match="no rollout has a reward"):
        make_policy_batch([make_rollout("a", None)])
    with pytest.raises(ValueError, match="no token to train"):
        make_policy_batch([make_rollout("a", 1.0, make_sample([False, False]))])


@dataclass
class Sum:
    """All-reduce with another process that has the given number of tokens."""

    other: float
    rank: int = 0
    size: int = 2

    def all_reduce(self, tensor: Tensor) -> Tensor:
        return tensor + self.other

    def all_gather(self, tensor: Tensor, dim: int = -1) -> Tensor:
        raise NotImplementedError


def test_averaged_gradients_of_two_processes_equal_those_of_one() -> None:
    """One N for all: three tokens here and one there, not the mean of two means."""
    here = [make_rollout("a", 1.0, make_sample([False, True, True])), make_rollout("a", 0.0)]
    there = [make_rollout("b", 1.0)]

    def loss(batch: PolicyBatch) -> Tensor:
        return compute_policy_loss(batch.old_logprobs + 0.1, batch, OPTIONS)

    parts = loss(make_policy_batch(here, Sum(1.0))), loss(make_policy_batch(there, Sum(3.0)))
    torch.testing.assert_close((parts[0] + parts[1]) / 2, loss(make_policy_batch(here + there)))


def test_metrics_equal_those_of_the_rollouts_check() -> None:
    given, start = torch.tensor(LOGPROBS), torch.tensor([-1.0, -1.4, -0.9, -0.2, -1.0])
    entropies = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    batch = replace(BATCH, mask=torch.tensor([True, True, False, True, True]), num_tokens=4.0)
    found = measure_policy(given, batch, OPTIONS, entropies=entropies, start_logprobs=start)
    expected = measure_mismatch(
        batch.old_logprobs.float().numpy(), given.numpy(), batch.mask.numpy(), log_bounds=(-0.6, 0.6)
    )
    for name in ("share_below", "share_above", "abs_p99", "k1", "k3"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-5), name
    assert (found.share_below, found.share_above) == (0.0, 0.25)
    assert found.entropy == 3.0
    assert found.kl_to_start == pytest.approx((math.exp(0.1) - 1.1) / 4, rel=1e-4)


def test_divergences_are_estimated_without_bias() -> None:
    """Exact sums over a distribution of three tokens instead of samples."""
    old, new = torch.tensor([0.5, 0.3, 0.2]).log(), torch.tensor([0.4, 0.4, 0.2]).log()
    ids = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)
    batch = replace(BATCH, mask=torch.ones(10, dtype=torch.bool), old_logprobs=old[ids], num_tokens=10.0)
    found = measure_policy(new[ids], batch, OPTIONS)
    exact = float((old.exp() * (old - new)).sum())
    assert (found.k1, found.k3) == pytest.approx((exact, exact), rel=1e-5)
    assert (found.entropy, found.kl_to_start) == (None, None)


def test_logprobs_by_chunks_equal_those_of_the_whole() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(7, 4, generator=generator, dtype=torch.bfloat16).requires_grad_()
    head = torch.randn(11, 4, generator=generator, dtype=torch.bfloat16)
    targets = torch.tensor([0, 3, 10, 5, 5, 1, 2])
    logprobs, entropies = compute_logprobs(hidden, targets, lambda x: x @ head.T, temperature=0.7, max_rows=3)
    whole = ((hidden @ head.T).float() / 0.7).log_softmax(-1)
    expected_logprobs = whole[torch.arange(7), targets]
    torch.testing.assert_close(logprobs, expected_logprobs)
    torch.testing.assert_close(entropies, -(whole.exp() * whole).sum(-1).detach())
    assert logprobs.dtype == torch.float32
    assert not entropies.requires_grad
    (found,) = torch.autograd.grad(logprobs.sum(), hidden)
    (expected,) = torch.autograd.grad(expected_logprobs.sum(), hidden)
    torch.testing.assert_close(found, expected)
