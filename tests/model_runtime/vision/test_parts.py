"""Each part of the tower against its formula."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model_runtime.ops import CuSeqlens
from model_runtime.ops.reference.attention import find_runs, pool, rotate, vision_attention
from model_runtime.vision.tower import Rope2D, make_groups, make_patches, make_sinusoid
from tests.model_runtime.vision.test_parity import make_tower
from tests.model_runtime.vision.weights import TINY, make_item, make_weights

CPU = torch.device("cpu")


def test_patches_lie_in_raster_order() -> None:
    frames = torch.from_numpy(make_item(2, 4, 6).frames)
    patches = make_patches(frames, 14)
    assert patches.shape == (2 * 4 * 6, 14 * 14 * 3)
    frame, row, column = 1, 2, 5
    expected = frames[frame, 14 * row : 14 * (row + 1), 14 * column : 14 * (column + 1)]
    assert torch.equal(patches[(frame * 4 + row) * 6 + column].view(14, 14, 3), expected)


def test_black_is_minus_one_and_white_is_one() -> None:
    tower = make_tower()
    for value, level in ((0, -1.0), (255, 1.0)):
        item = make_item(1, 2, 2)
        item.frames[:] = value
        stored = make_weights(TINY).tensors
        expected = level * stored["vision_tower.patch_embed.proj.weight"].flatten(1).sum(1)
        expected = expected + stored["vision_tower.patch_embed.proj.bias"]
        assert torch.allclose(tower.patch_embed([item]), expected.expand(4, -1), atol=1e-5)


@pytest.mark.parametrize("head_dim", [72, 8])
def test_rotary_pairs_take_turns(head_dim: int) -> None:
    h, w, frames = 3, 5, 2
    qk = torch.randn(frames * h * w, 4, head_dim, generator=torch.Generator().manual_seed(0))
    expected = qk.clone().double()
    for row in range(frames * h * w):
        y, x = row // w % h, row % w
        for pair in range(head_dim // 2):
            angle = (y if pair % 2 else x) * 10_000 ** (-4 * (pair // 2) / head_dim)
            a, b = qk[row, :, 2 * pair].double(), qk[row, :, 2 * pair + 1].double()
            expected[row, :, 2 * pair] = a * math.cos(angle) - b * math.sin(angle)
            expected[row, :, 2 * pair + 1] = a * math.sin(angle) + b * math.cos(angle)
    turns = Rope2D(head_dim, CPU).make([(frames, h, w)])
    half = qk.bfloat16()
    rotate(qk, turns)
    assert torch.allclose(qk.double(), expected, atol=1e-5)
    rotate(half, turns)
    assert torch.allclose(half.double(), expected, atol=0.03)


def test_rotation_is_in_place_also_of_a_part_of_the_rows() -> None:
    """The tower turns queries and keys where the linear layer left them, beside the values."""
    qkv = torch.randn(600, 6, 8)
    before = qkv.clone()
    turns = Rope2D(8, CPU).make([(1, 20, 30)])
    rotate(qkv[:, :4], turns)
    alone = before[:, :4].contiguous()
    rotate(alone, turns)
    assert torch.equal(qkv[:, 4:], before[:, 4:])
    assert torch.equal(qkv[:, :4], alone)
    assert not torch.equal(qkv[:, :4], before[:, :4])


def test_the_sinusoid_of_frames() -> None:
    found = make_sinusoid(4, 1152, CPU)
    frequencies = 10_000.0 ** (-np.arange(576) / 576)
    angles = np.arange(4)[:, None] * frequencies
    expected = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    assert np.allclose(found, expected, atol=1e-6)
    assert found[0].tolist() == [0.0] * 576 + [1.0] * 576


def test_one_frame_has_no_time() -> None:
    tower = make_tower()
    table = make_weights(TINY).tensors["vision_tower.patch_embed.pos_emb.weight"].flatten(0, 1)
    image, chunk = torch.zeros(36, 144), torch.zeros(72, 144)
    image = tower.position(image, [(1, 6, 6)])
    chunk = tower.position(chunk, [(2, 6, 6)])
    assert torch.equal(image, table)
    times = make_sinusoid(2, 144, CPU)
    assert torch.allclose(chunk.view(2, 36, 144) - table, times[:, None].expand(-1, 36, -1), atol=1e-6)


def cubic(distance: float) -> float:
    """Keys' kernel with a = -0.75."""
    a, x = -0.75, abs(distance)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def weights_of(size: int, table_size: int) -> np.ndarray:
    """(size, table_size): how much each cell of the table counts for each place."""
    weights = np.zeros((size, table_size))
    for place in range(size):
        center = (place + 0.5) * table_size / size - 0.5
        for cell in range(math.floor(center) - 1, math.floor(center) + 3):
            weights[place, min(max(cell, 0), table_size - 1)] += cubic(center - cell)
    return weights


@pytest.mark.parametrize(("h", "w"), [(2, 4), (6, 4), (10, 6), (14, 22)])
def test_the_table_is_resampled_bicubically(h: int, w: int) -> None:
    table = make_weights(TINY).tensors["vision_tower.patch_embed.pos_emb.weight"].numpy()
    expected = np.einsum("hi,wj,ijc->hwc", weights_of(h, 6), weights_of(w, 6), table)
    assert np.allclose(make_tower().position.spatial(h, w).view(h, w, -1), expected, atol=1e-5)


@pytest.mark.parametrize("table", [(4, 10), (10, 4)])
def test_a_table_that_is_not_square_is_resampled_side_by_side(table: tuple[int, int]) -> None:
    """By the formula: transformers takes the height of its table for both sides."""
    config = replace(TINY, init_pos_emb_height=table[0], init_pos_emb_width=table[1])
    tower = make_tower(config)
    values = make_weights(config).tensors["vision_tower.patch_embed.pos_emb.weight"].numpy()
    for h, w in ((6, 4), (4, 10), (10, 4)):
        expected = np.einsum("hi,wj,ijc->hwc", weights_of(h, table[0]), weights_of(w, table[1]), values)
        assert np.allclose(tower.position.spatial(h, w).view(h, w, -1), expected, atol=1e-5)


def test_positions_kept_from_other_calls_do_not_change() -> None:
    tower = make_tower()
    items = [make_item(4, 4, 6), make_item(1, 4, 6)]
    first = tower(items)
    assert tower.position._kept.cache_info().hits > 0
    assert all(map(torch.equal, first, tower(items)))
    tower.load(make_weights(TINY, seed=1))
    fresh = make_tower()
    fresh.load(make_weights(TINY, seed=1))
    assert all(map(torch.equal, tower(items), fresh(items)))


def test_pooling() -> None:
    frames = torch.arange(2 * 4 * 2).float().view(2, 4, 2)  # 2 frames of 4 x 2 patches, one value each
    found = pool((frames * torch.tensor([1.0, 3.0])[:, None, None]).reshape(16, 1), (2, 4, 2), (2, 2))
    mean = (frames[0] + 3 * frames[1]) / 2
    assert found[..., 0].tolist() == [mean[:2].flatten().tolist(), mean[2:].flatten().tolist()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_stays_within_items(dtype: torch.dtype) -> None:
    lengths = [3, 3, 1, 7, 7, 7, 2]
    bounds = np.cumsum([0, *lengths]).tolist()
    q, k, v = torch.randn(3, bounds[-1], 2, 72, generator=torch.Generator().manual_seed(0)).to(dtype)
    still = torch.ones(bounds[-1], 36, dtype=torch.complex64)
    found = vision_attention(torch.cat([q, k, v], dim=1), still, CuSeqlens(bounds))
    assert (found.shape, found.dtype) == (q.shape, dtype)
    for start, end in pairwise(bounds):
        scores = torch.einsum("qhd,khd->hqk", q[start:end].float(), k[start:end].float()) / math.sqrt(72)
        expected = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v[start:end].float())
        assert torch.allclose(found[start:end].float(), expected, atol=1e-5 if dtype == torch.float32 else 0.02)


def test_runs_of_equal_lengths() -> None:
    assert list(find_runs([0, 3, 6, 7, 14])) == [(0, 2, 3), (6, 1, 1), (7, 1, 7)]
    assert list(find_runs([0])) == []


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 50), max_size=20), st.integers(1, 100))
def test_groups_hold_every_item_once_within_the_limit(sizes: list[int], limit: int) -> None:
    groups = make_groups(sizes, limit)
    assert sorted(index for group in groups for index in group) == list(range(len(sizes)))
    assert all(len(group) == 1 or sum(sizes[index] for index in group) <= limit for group in groups)
    flat = [sizes[index] for group in groups for index in group]
    assert flat == sorted(flat)
