"""The tower beside transformers' own, on the same random weights."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from model_runtime.config import VisionConfig
from model_runtime.media import MediaItem
from model_runtime.vision import VisionTower
from tests.model_runtime.vision.weights import TINY, Peer, make_item, make_weights

GRIDS = {
    "square": (1, 4, 4),
    "wide": (1, 4, 10),
    "tall": (1, 14, 2),
    "the table's own size": (1, 6, 6),
    "smallest": (1, 2, 2),
    "larger than the table": (1, 18, 26),
    "chunk of 2": (2, 4, 6),
    "chunk of 3": (3, 6, 4),
    "chunk of 4": (4, 4, 4),
    "chunk of 4 in the table's size": (4, 6, 6),
}


def make_tower(config: VisionConfig = TINY, dtype: torch.dtype = torch.float32, **options: int) -> VisionTower:
    tower = VisionTower(config, dtype=dtype, **options)
    tower.load(make_weights(config))
    return tower


def difference(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return (a.float() - b.float()).abs().max().item()


@pytest.fixture(scope="module")
def peer() -> Peer:
    return Peer(TINY, make_weights(TINY))


@pytest.fixture(scope="module")
def tower() -> VisionTower:
    return make_tower()


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS.keys())
def test_one_item(peer: Peer, tower: VisionTower, grid: tuple[int, int, int]) -> None:
    item = make_item(*grid)
    [ours] = tower([item])
    theirs = peer(item)
    assert theirs.std() > 0.3
    assert difference(ours, theirs) <= 1e-4


def mixed() -> list[MediaItem]:
    """Every grid above, some twice, in no order."""
    items = [make_item(*grid, seed=seed) for seed in (1, 2) for grid in GRIDS.values()]
    return items[::2] + items[1::2]


def test_a_mix_in_one_call_is_each_alone(peer: Peer, tower: VisionTower) -> None:
    items = mixed()
    together = tower(items)
    assert len(together) == len(items)
    for item, ours in zip(items, together, strict=True):
        assert difference(ours, tower([item])[0]) <= 1e-5
        assert difference(ours, peer(item)) <= 1e-4


@pytest.mark.parametrize("limit", [1, 60, 500])
def test_passes_of_any_size_give_the_same(tower: VisionTower, limit: int) -> None:
    small = make_tower(max_patches_per_pass=limit)
    items = mixed()
    assert max(map(difference, small(items), tower(items))) <= 1e-5


def test_heads_of_another_width() -> None:
    config = replace(TINY, hidden_size=32, num_attention_heads=4, mm_hidden_size=32, num_hidden_layers=3)
    peer = Peer(config, make_weights(config))
    item = make_item(3, 8, 4)
    assert difference(make_tower(config)([item])[0], peer(item)) <= 1e-4


def test_bfloat16_is_as_near_to_fp32_as_the_peer_is(peer: Peer) -> None:
    tower, half_peer = make_tower(dtype=torch.bfloat16), Peer(TINY, make_weights(TINY), torch.bfloat16)
    item = make_item(4, 6, 8)
    exact = peer(item)
    [ours] = tower([item])
    assert ours.dtype == torch.bfloat16
    assert 0 < difference(ours, exact) <= 1.5 * difference(half_peer(item), exact)


def test_no_items(tower: VisionTower) -> None:
    assert tower([]) == []
