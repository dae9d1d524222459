import itertools

import pytest
import torch
from torch import Tensor

from model_runtime.kernels import dispatch as module
from model_runtime.kernels.dispatch import Routing, allocate, dispatch, make_dispatch, max_tiles
from model_runtime.kernels.launch import LaunchError, run
from tests.model_runtime.kernels.tools import assert_guards, guarded, poison, poisoned

UNTOUCHED = poison(torch.int32)


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three launches from 33 pairs on, two programs for each block."""
    for name, size in (("SINGLE", 32), ("BLOCK", 32), ("ROWS", 16)):
        monkeypatch.setattr(module, name, size)


def run_poisoned(ids: Tensor, num_experts: int, block_m: int) -> Routing:
    """As `dispatch`, with outputs between guard bands that show what was not written."""
    sizes = allocate(ids.to("meta"), num_experts, block_m)
    names = ("offsets", "pairs", "tile_expert", "tile_start", "num_tiles")
    tensors = {name: poisoned(*getattr(sizes, name).shape, dtype=torch.int32) for name in names}
    routing = Routing(**tensors, block_m=block_m, top_k=ids.shape[1])
    for launch in make_dispatch(guarded(ids), routing):
        run(launch)
    assert_guards(*tensors.values())
    return routing


def check(routing: Routing, ids: Tensor, num_experts: int) -> None:
    """Places and tiles, pair after pair, and nothing beyond them."""
    pairs, offsets, tiles = [], [0], []
    for expert in range(num_experts):
        mine = [pair for pair, id in enumerate(ids.flatten().tolist()) if id == expert]
        tiles += [(expert, offsets[-1] + start) for start in range(0, len(mine), routing.block_m)]
        pairs += mine
        offsets.append(len(pairs))
    assert routing.offsets.tolist() == offsets
    assert routing.pairs.tolist() == pairs + [UNTOUCHED] * (ids.numel() - len(pairs))
    rest = [UNTOUCHED] * (routing.max_tiles - len(tiles))
    assert routing.num_tiles.tolist() == [len(tiles)]
    assert routing.tile_expert.tolist() == [expert for expert, _ in tiles] + rest
    assert routing.tile_start.tolist() == [start for _, start in tiles] + rest


def draw(*shape: int, low: int, high: int) -> Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(7))


CASES = {
    "experts without rows": (draw(7, 2, low=0, high=8), 8, 16),
    "not a multiple of block_m": (draw(33, 3, low=0, high=5), 5, 16),
    "full tiles": (torch.arange(64).view(16, 4) % 4, 4, 16),
    "block_m not of the release": (draw(9, 4, low=0, high=3), 3, 5),
    "all on one expert": (torch.full((40, 2), 3), 6, 16),
    "the same expert twice": (torch.tensor([[1, 1], [0, 1], [1, 0]]), 2, 16),
    "one expert": (torch.zeros(3, 1, dtype=torch.int64), 1, 16),
    "some elsewhere": (draw(20, 4, low=-6, high=12), 6, 16),
    "all elsewhere": (torch.tensor([[-1, 4], [5, 9]]), 4, 16),
    "elsewhere, far": (torch.tensor([[2**32 + 1, -(2**32) + 1], [2**40, 1], [-(2**63), 2**63 - 1]]), 4, 16),
    "no tokens": (torch.empty(0, 8, dtype=torch.int64), 4, 16),
}


@pytest.mark.parametrize("name", CASES)
def test_one_launch(name: str) -> None:
    ids, num_experts, block_m = CASES[name]
    check(run_poisoned(ids, num_experts, block_m), ids, num_experts)


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("name", ["not a multiple of block_m", "full tiles", "all on one expert", "some elsewhere"])
def test_three_launches(name: str) -> None:
    ids, num_experts, block_m = CASES[name]
    assert ids.numel() > module.SINGLE
    check(run_poisoned(ids, num_experts, block_m), ids, num_experts)


@pytest.mark.usefixtures("_small_blocks")
def test_more_blocks_than_the_scan_reads_at_once() -> None:
    ids = draw(53, 10, low=-1, high=7)  # 17 blocks, the last not full
    check(run_poisoned(ids, 6, 16), ids, 6)


def test_384_experts_and_more_pairs_than_one_step_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 512)  # fewer programs, which is quicker here
    ids = torch.stack([torch.randperm(384)[:8] for _ in range(131)])  # 1048 pairs
    check(run_poisoned(ids, 384, 16), ids, 384)


def test_public_function_takes_strided_ids() -> None:
    wide = draw(6, 4, low=-1, high=5)
    routing = dispatch(wide[:, ::2], 4, 16)
    expected = run_poisoned(wide[:, ::2].contiguous(), 4, 16)
    here = int(expected.offsets[-1])
    assert torch.equal(routing.offsets, expected.offsets)
    assert torch.equal(routing.pairs[:here], expected.pairs[:here])
    assert (routing.num_experts, routing.block_m, routing.top_k) == (4, 16, 2)


@pytest.mark.parametrize("block_m", [1, 3, 4])
def test_max_tiles_is_what_the_worst_routing_has(block_m: int) -> None:
    for num_experts in (1, 2, 3):
        for num_pairs in range(9):
            split = itertools.product(range(num_pairs + 1), repeat=num_experts)
            tiles = [sum(-(-count // block_m) for count in counts) for counts in split if sum(counts) == num_pairs]
            assert max_tiles(num_pairs, num_experts, block_m) == max(tiles)


def test_launches_need_nothing_of_the_ids_themselves() -> None:
    for num_tokens, launches in ((1, 1), (512, 1), (513, 3), (16384, 3)):
        ids = torch.empty(num_tokens, 8, dtype=torch.int64, device="meta")
        assert len(make_dispatch(ids, allocate(ids, 384, 64))) == launches


def test_errors() -> None:
    ids = torch.zeros(2, 2, dtype=torch.int64)
    with pytest.raises(LaunchError, match=r"ids has the shape \(4,\), expected \(any, any\)"):
        dispatch(ids.flatten(), 4, 16)
    with pytest.raises(LaunchError, match="ids is int32, expected int64"):
        dispatch(ids.int(), 4, 16)
    for num_experts in (0, module.MAX_EXPERTS + 1):
        with pytest.raises(LaunchError, match=f"{num_experts} experts; dispatch takes 1 to 1023"):
            dispatch(ids, num_experts, 16)
