"""Rotary positions: the release's numbers, and angles at the far end of the context."""

import math
from dataclasses import replace

import pytest
import torch

from model_runtime.config import RopeScaling, TextConfig
from model_runtime.model.batch import Rope, find_ramp, find_softmax_scale, make_inv_freq
from model_runtime.ops.reference.norm import rotate

RELEASE = TextConfig()
CPU = torch.device("cpu")


def test_the_release() -> None:
    assert find_ramp(64, 50_000.0, RopeScaling()) == (8, 20)
    assert find_softmax_scale(RELEASE) == pytest.approx(0.1446796, abs=5e-8)
    assert Rope(RELEASE, CPU).amplitude == 1.0


def test_fast_pairs_are_as_trained_and_slow_ones_64_times_slower() -> None:
    found = make_inv_freq(RELEASE)
    trained = [50_000.0 ** (-pair / 32) for pair in range(32)]
    assert found[:9] == trained[:9]
    assert found[20:] == pytest.approx([freq / 64 for freq in trained[20:]], rel=1e-15)
    middle = trained[14]
    assert found[14] == pytest.approx(middle / 2 + middle / 128, rel=1e-15)


def test_without_stretching() -> None:
    plain = replace(RELEASE, rope_scaling=None)
    assert make_inv_freq(plain) == [50_000.0 ** (-2 * pair / 64) for pair in range(32)]
    assert find_softmax_scale(plain) == 192**-0.5


def test_no_room_for_a_ramp() -> None:
    scaling = RopeScaling(beta_fast=32.0, beta_slow=32.0, original_max_position_embeddings=100)
    assert find_ramp(8, 50_000.0, scaling)[0] == 0
    assert all(math.isfinite(freq) for freq in make_inv_freq(replace(RELEASE, rope_scaling=scaling)))


def test_far_positions_lose_nothing() -> None:
    positions = [0, 1, 4096, 131_071, 262_143]
    found = Rope(RELEASE, CPU)(torch.tensor(positions))
    exact = torch.tensor(
        [[complex(math.cos(p * freq), math.sin(p * freq)) for freq in make_inv_freq(RELEASE)] for p in positions],
        dtype=torch.complex128,
    )
    assert (found - exact).abs().max() <= 1e-7
    in_float32 = torch.tensor(positions).float()[:, None] * torch.tensor(make_inv_freq(RELEASE)).float()
    assert (torch.polar(torch.ones_like(in_float32), in_float32) - exact).abs().max() > 5e-3


@pytest.mark.parametrize("heads", [None, 3])
def test_pairs_are_neighbours_and_stay_where_they_are(heads: int | None) -> None:
    x = torch.randn(5, *([] if heads is None else [heads]), 8)
    angles = torch.rand(5, 4)
    found = rotate(x, torch.polar(torch.ones_like(angles), angles))
    cos, sin = (part if heads is None else part[:, None] for part in (angles.cos(), angles.sin()))
    first, second = x[..., 0::2], x[..., 1::2]
    torch.testing.assert_close(found[..., 0::2], first * cos - second * sin)
    torch.testing.assert_close(found[..., 1::2], first * sin + second * cos)


def test_the_dtype_stays() -> None:
    x = torch.randn(2, 8, dtype=torch.bfloat16)
    assert rotate(x, torch.ones(2, 4, dtype=torch.complex64)).dtype == torch.bfloat16


def test_scores_depend_on_the_distance_only() -> None:
    rope = Rope(RELEASE, CPU)
    q, k = torch.randn(1, 64), torch.randn(1, 64)

    def score(at: int, distance: int) -> float:
        return (rotate(q, rope(torch.tensor([at]))) @ rotate(k, rope(torch.tensor([at - distance]))).T).item()

    assert score(200_000, 1000) == pytest.approx(score(1000, 1000), abs=1e-4)
