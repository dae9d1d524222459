"""The grouped matmuls of dense experts beside float64, pair by pair."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model_runtime.kernels import moe_dense
from model_runtime.kernels.dispatch import Routing, max_tiles
from model_runtime.kernels.launch import LaunchError, run
from model_runtime.kernels.tiles import find_tile
from model_runtime.ops.registry import DenseExperts
from tests.model_runtime.kernels.tools import assert_guards, guarded, poisoned, relative_error


def make_experts(num_experts: int, hidden: int, inter: int, dtype: torch.dtype = torch.float32) -> DenseExperts:
    gate_up = torch.randn(num_experts, 2 * inter, hidden) / hidden**0.5
    down = torch.randn(num_experts, hidden, inter) / inter**0.5
    return DenseExperts(gate_up=guarded(gate_up.to(dtype)), down=guarded(down.to(dtype)))


def sort(ids: Tensor, num_experts: int, block_m: int, spare: int = 2) -> Routing:
    """What `dispatch` gives, by loops; what must not be read is poisoned."""
    flat = ids.flatten().tolist()
    offsets, pairs, tiles = [0], [], []
    for expert in range(num_experts):
        mine = [pair for pair, chosen in enumerate(flat) if chosen == expert]
        tiles += [(expert, len(pairs) + start) for start in range(0, len(mine), block_m)]
        pairs += mine
        offsets.append(len(pairs))
    length = min(len(tiles) + spare, max_tiles(len(flat), num_experts, block_m))

    def ints(values: list[int], count: int) -> Tensor:
        out = poisoned(count, dtype=torch.int32)
        out[: len(values)] = torch.tensor(values, dtype=torch.int32)
        return out

    return Routing(
        offsets=ints(offsets, num_experts + 1),
        pairs=ints(pairs, len(flat)),
        tile_expert=ints([expert for expert, _ in tiles], length),
        tile_start=ints([start for _, start in tiles], length),
        num_tiles=ints([len(tiles)], 1),
        block_m=block_m,
        top_k=ids.shape[1],
    )


def choose(num_tokens: int, num_experts: int, top_k: int) -> Tensor:
    return torch.rand(num_tokens, num_experts).topk(top_k).indices


def exact_act(x: Tensor, routing: Routing, experts: DenseExperts) -> Tensor:
    """(places in use, I) in float64."""
    rows = []
    for expert, (start, end) in enumerate(
        zip(routing.offsets[:-1].tolist(), routing.offsets[1:].tolist(), strict=True)
    ):
        tokens = routing.pairs[start:end].long() // routing.top_k
        gate, up = (x[tokens].double() @ experts.gate_up[expert].double().T).chunk(2, dim=-1)
        rows.append(F.silu(gate) * up)
    return torch.cat(rows)


def exact_partial(act: Tensor, routing: Routing, experts: DenseExperts) -> Tensor:
    """(P, H) in float64, NaN where nothing is written."""
    out = torch.full((len(act), experts.down.shape[1]), torch.nan, dtype=torch.float64)
    for expert, (start, end) in enumerate(
        zip(routing.offsets[:-1].tolist(), routing.offsets[1:].tolist(), strict=True)
    ):
        out[routing.pairs[start:end].long()] = act[start:end].double() @ experts.down[expert].double().T
    return out


def check(x: Tensor, routing: Routing, experts: DenseExperts, tolerance: float, programs: int | None = None) -> None:
    """Both kernels into poisoned memory: right where pairs are here, untouched elsewhere."""
    used = int(routing.offsets[-1])
    act = poisoned(len(routing.pairs), experts.intermediate_size, dtype=x.dtype)
    partial = poisoned(len(routing.pairs), x.shape[1], dtype=x.dtype)
    launches = moe_dense.make_gate_up(x, routing, experts, act), moe_dense.make_down(act, routing, experts, partial)
    for launch in launches:
        run(launch if programs is None else replace(launch, grid=(programs,)))
    assert act[used:].isnan().all()
    assert relative_error(act[:used], exact_act(x, routing, experts)) <= tolerance
    exact = exact_partial(act, routing, experts)
    written = ~exact.isnan()
    assert torch.equal(written, ~partial.isnan())
    assert relative_error(partial[written], exact[written]) <= tolerance
    assert_guards(act, partial)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_tokens", "hidden", "inter", "num_experts", "top_k", "block_m"),
    [
        (9, 64, 32, 8, 2, 16),
        (33, 96, 40, 5, 3, 16),  # widths that no block divides, the inner one even below one step
        (21, 72, 48, 3, 2, 64),
        (40, 64, 32, 2, 2, 32),
    ],
)
def test_matches_float64(num_tokens: int, hidden: int, inter: int, num_experts: int, top_k: int, block_m: int) -> None:
    torch.manual_seed(num_tokens)
    experts = make_experts(num_experts, hidden, inter)
    routing = sort(choose(num_tokens, num_experts, top_k), num_experts, block_m)
    check(guarded(torch.randn(num_tokens, hidden)), routing, experts, 1e-6)


def test_bfloat16() -> None:
    torch.manual_seed(0)
    experts = make_experts(4, 160, 72, torch.bfloat16)
    routing = sort(choose(30, 4, 2), 4, 16)
    check(guarded(torch.randn(30, 160).bfloat16()), routing, experts, 5e-3)


def test_few_programs_loop_over_all_the_work() -> None:
    torch.manual_seed(1)
    experts = make_experts(3, 64, 48)
    routing = sort(choose(50, 3, 2), 3, 16)
    check(torch.randn(50, 64), routing, experts, 1e-6, programs=3)


def test_more_programs_than_work() -> None:
    torch.manual_seed(2)
    routing = sort(torch.full((9, 1), 1), 3, 16)
    check(torch.randn(9, 64), routing, make_experts(3, 64, 32), 1e-6, programs=7)


def test_all_tokens_on_one_expert_and_groups_of_its_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moe_dense, "GROUP_M", 2)  # five tiles: two groups of two, and one of one
    torch.manual_seed(3)
    routing = sort(torch.full((70, 1), 2), 4, 16)
    check(torch.randn(70, 96), routing, make_experts(4, 96, 32), 1e-6)


def test_pairs_held_elsewhere_are_neither_read_nor_written() -> None:
    torch.manual_seed(4)
    ids = choose(20, 9, 3) - 3  # -3 to 5, of which 0 to 2 are here
    check(torch.randn(20, 64), sort(ids, 3, 16), make_experts(3, 64, 32), 1e-6)
    routing = sort(torch.full((5, 2), -1), 3, 16)
    act = moe_dense.gate_up(torch.randn(5, 64), routing, make_experts(3, 64, 32))
    assert act.shape == (10, 32)


def test_rows_may_be_strided() -> None:
    torch.manual_seed(5)
    x = torch.randn(12, 3, 64)[:, 1]
    check(x, sort(choose(12, 4, 2), 4, 16), make_experts(4, 64, 32), 1e-6)


def test_one_result_whatever_the_order_of_programs() -> None:
    torch.manual_seed(6)
    experts, x = make_experts(4, 64, 32), torch.randn(20, 64)
    routing = sort(choose(20, 4, 2), 4, 16)
    act = moe_dense.gate_up(x, routing, experts)
    other = torch.empty_like(act)
    run(replace(moe_dense.make_gate_up(x, routing, experts, other), grid=(2,)))
    assert torch.equal(act, other)


def test_memory_for_descriptors_is_offered_before_each_start(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[object] = []
    monkeypatch.setattr(moe_dense.triton, "set_allocator", log.append)
    monkeypatch.setattr(moe_dense, "run", lambda launch: log.append(launch.name))
    experts, routing = make_experts(3, 64, 32), sort(choose(9, 3, 2), 3, 16)
    moe_dense.down(moe_dense.gate_up(torch.randn(9, 64), routing, experts), routing, experts)
    assert log == [moe_dense._allocate, "gate_up_kernel", moe_dense._allocate, "down_kernel"]


def test_no_tokens() -> None:
    routing = sort(torch.zeros(0, 2, dtype=torch.int64), 3, 16)
    experts = make_experts(3, 64, 32)
    act = moe_dense.gate_up(torch.randn(0, 64), routing, experts)
    assert moe_dense.down(act, routing, experts).shape == (0, 64)


@pytest.mark.parametrize(
    ("num_tokens", "block_m"), [(9, 16), (512, 16), (513, 64), (4096, 64), (4097, 128), (99_999, 128)]
)
def test_both_kernels_want_the_same_rows(num_tokens: int, block_m: int) -> None:
    assert moe_dense.find_block_m(num_tokens) == block_m
    assert find_tile("moe_dense.down", num_tokens).block_m == block_m


def test_the_grid_fills_the_chip_and_no_more() -> None:
    grids = {case.name: case.launch.grid for case in moe_dense.release_cases()}
    assert grids["moe_dense.gate_up M128"] == (132,)
    assert grids["moe_dense.gate_up M16"] == (3 * 132,)
    experts = make_experts(2, 64, 32)
    routing = sort(choose(9, 2, 1), 2, 16, spare=0)
    assert moe_dense.make_gate_up(torch.randn(9, 64), routing, experts, torch.empty(9, 32)).grid == (2,)


def test_what_it_cannot_do_is_said() -> None:
    experts, x = make_experts(3, 64, 32), torch.randn(9, 64)
    routing = sort(choose(9, 3, 2), 3, 16)
    half = replace(experts, gate_up=experts.gate_up.half(), down=experts.down.half())
    odd = make_experts(3, 64, 30)
    cases: list[tuple[str, Tensor, DenseExperts]] = [
        ("rows is float16, expected bfloat16 or float32", x.half(), half),
        ("gate_up is float32, expected bfloat16", x.bfloat16(), experts),
        (r"x has the shape \(9, 60\), expected \(any, 64\)", x[:, :60], experts),
        ("x has the strides", torch.randn(64, 9).T, experts),
        (r"gate_up has the shape \(3, 60, 64\), expected \(3, 64, 64\)", x, replace(experts, gate_up=odd.gate_up)),
        ("rows of down are 120 bytes apart, expected a multiple of 16", x, odd),
        (r"pass its contiguous\(\)", x, replace(experts, down=experts.down.mT.contiguous().mT)),
    ]
    for text, rows, given in cases:
        with pytest.raises(LaunchError, match=text):
            moe_dense.gate_up(rows, routing, given)
    with pytest.raises(LaunchError, match=r"act has the shape \(17, 32\), expected \(18, 32\)"):
        moe_dense.down(torch.randn(17, 32), routing, experts)
    with pytest.raises(LaunchError, match="act has the strides"):
        moe_dense.down(torch.randn(32, 18).T, routing, experts)
    with pytest.raises(LaunchError, match="rows of act are 132 bytes apart"):
        moe_dense.down(torch.randn(18, 33)[:, :32], routing, experts)
    with pytest.raises(LaunchError, match="partial has the shape"):
        moe_dense.make_down(torch.randn(18, 32), routing, experts, torch.empty(18, 60))
