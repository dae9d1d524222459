"""Grouped matmuls of INT4 experts, each beside its definition in float64."""

import re
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model_runtime.kernels.dispatch import Routing, max_tiles
from model_runtime.kernels.launch import Launch, LaunchError, run
from model_runtime.kernels.moe_int4 import down, find_block_m, gate_up, make_down, make_gate_up, release_cases
from model_runtime.kernels.repack import UNPACK, HalfSplitExperts, dequantize
from model_runtime.kernels.tiles import Tile, find_tile
from tests.model_runtime.kernels.tools import assert_guards, guarded, poison, poisoned, relative_error

TILES = (Tile(block_m=32, block_n=32, block_k=64, num_warps=4), Tile(block_m=16, block_n=64, block_k=128, num_warps=2))
"""Several blocks of columns and steps at small sizes; the left operand is once the inputs, once the weights."""

CUT_OFF = 2**-7
"""A step of bf16: the interpreter cuts results off, where a GPU rounds them."""


def make_experts(
    num_experts: int, hidden: int, intermediate: int, dtype: torch.dtype = torch.bfloat16
) -> HalfSplitExperts:
    """Random bytes; what pads a row to whole blocks is random as well, under the scale 0."""

    def make(num_out: int, num_in: int) -> tuple[Tensor, Tensor]:
        num_bytes = -(-num_in // 64) * 32
        packed = torch.randint(0, 256, (num_experts, num_out, num_bytes), dtype=torch.uint8)
        scale = (torch.rand(num_experts, num_bytes // 16, num_out) + 0.5) / (5 * num_in**0.5)
        scale[:, num_in // 32 :] = 0
        return guarded(packed), guarded(scale.to(dtype))

    packed_1, scale_1 = make(2 * intermediate, hidden)
    packed_2, scale_2 = make(hidden, intermediate)
    return HalfSplitExperts(gate_up=packed_1, gate_up_scale=scale_1, down=packed_2, down_scale=scale_2)


def cut(ids: Tensor, num_experts: int, block_m: int = 16) -> Routing:
    """What `dispatch` gives, on the host and between guards; what is not to be read is the largest int."""
    pairs, offsets, tiles = [], [0], []
    for expert in range(num_experts):
        mine = (ids.flatten() == expert).nonzero().flatten().tolist()
        tiles += [(expert, len(pairs) + start) for start in range(0, len(mine), block_m)]
        pairs += mine
        offsets.append(len(pairs))
    room = max_tiles(ids.numel(), num_experts, block_m)

    def fill(values: list[int], size: int) -> Tensor:
        return guarded(torch.tensor(values + [poison(torch.int32)] * (size - len(values)), dtype=torch.int32))

    return Routing(
        offsets=fill(offsets, num_experts + 1),
        pairs=fill(pairs, ids.numel()),
        tile_expert=fill([expert for expert, _ in tiles], room),
        tile_start=fill([start for _, start in tiles], room),
        num_tiles=fill([len(tiles)], 1),
        block_m=block_m,
        top_k=ids.shape[1],
    )


def places(routing: Routing) -> list[tuple[int, int, int]]:
    """(place, pair, expert) of each pair that has a place."""
    bounds = routing.offsets.tolist()
    owners = [expert for expert in range(len(bounds) - 1) for _ in range(bounds[expert], bounds[expert + 1])]
    return [(place, int(routing.pairs[place]), expert) for place, expert in enumerate(owners)]


def exact_gate_up(x: Tensor, routing: Routing, experts: HalfSplitExperts) -> Tensor:
    weight = dequantize(experts.gate_up, experts.gate_up_scale, experts.hidden_size).double()
    exact = torch.full((len(routing.pairs), experts.intermediate_size), torch.nan, dtype=torch.float64)
    for place, pair, expert in places(routing):
        gate, up = (weight[expert] @ x[pair // routing.top_k].double()).chunk(2)
        exact[place] = F.silu(gate) * up
    return exact


def exact_down(act: Tensor, routing: Routing, experts: HalfSplitExperts) -> Tensor:
    weight = dequantize(experts.down, experts.down_scale, experts.intermediate_size).double()
    exact = torch.full((len(routing.pairs), experts.hidden_size), torch.nan, dtype=torch.float64)
    for place, pair, expert in places(routing):
        exact[pair] = weight[expert] @ act[place].double()
    return exact


def check(launch: Launch, output: Tensor, exact: Tensor, tolerance: float) -> None:
    """Run; rows that nobody has stay as they were, nothing beside the output is written."""
    run(launch)
    written = ~exact.isnan()
    assert torch.equal(written, ~output.isnan())
    assert not written.any() or relative_error(output[written], exact[written]) < tolerance
    assert_guards(output)


def check_both(
    x: Tensor, ids: Tensor, experts: HalfSplitExperts, tolerance: float = 1e-6, tile: Tile | None = None
) -> None:
    routing = cut(ids, experts.num_experts, tile.block_m if tile else 16)
    act = poisoned(ids.numel(), experts.intermediate_size, dtype=x.dtype)
    check(make_gate_up(x, routing, experts, act, tile), act, exact_gate_up(x, routing, experts), tolerance)
    partial = poisoned(ids.numel(), experts.hidden_size, dtype=x.dtype)
    check(make_down(act, routing, experts, partial, tile), partial, exact_down(act, routing, experts), tolerance)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


IDS = torch.tensor([[0, 3], [3, 1], [0, 1], [3, 0], [1, 3]])
"""Five tokens, top 2 of 4; nobody wants expert 2."""


@pytest.mark.parametrize(("hidden", "intermediate"), [(64, 32), (96, 160), (192, 64)])
def test_odd_widths_and_an_expert_without_rows(hidden: int, intermediate: int) -> None:
    check_both(guarded(torch.randn(5, hidden)), IDS, make_experts(4, hidden, intermediate))


@pytest.mark.parametrize("tile", TILES)
def test_blocks_of_columns_and_steps_that_do_not_fill_the_last(tile: Tile) -> None:
    check_both(torch.randn(5, 160), IDS, make_experts(4, 160, 96), tile=tile)


def test_all_tokens_on_one_expert_in_more_tiles_than_one() -> None:
    ids = torch.full((37, 1), 1)
    check_both(torch.randn(37, 64), ids, make_experts(3, 64, 32))


def test_pairs_of_experts_held_elsewhere_have_no_row() -> None:
    ids = torch.tensor([[0, -1], [2, 7], [-1, 9], [1, 0]])
    check_both(torch.randn(4, 64), ids, make_experts(3, 64, 32))


def test_nobody_is_here() -> None:
    check_both(torch.randn(2, 64), torch.tensor([[5], [-1]]), make_experts(3, 64, 32))


def test_rows_far_apart() -> None:
    experts, routing = make_experts(4, 64, 32), cut(IDS, 4)
    x = torch.full((5, 200), torch.nan)[:, 8:72].normal_()
    act = poisoned(10, 32)
    check(make_gate_up(x, routing, experts, act), act, exact_gate_up(x, routing, experts), 1e-6)
    far = torch.full((10, 48), torch.nan)[:, :32].normal_()
    partial = poisoned(10, 64)
    check(make_down(far, routing, experts, partial), partial, exact_down(far, routing, experts), 1e-6)


def test_the_least_value_and_scales_of_zero() -> None:
    experts = make_experts(4, 128, 64)
    experts.gate_up[:, ::3] = 0  # -8 in both nibbles
    experts.gate_up_scale[:, 1, ::2] = 0
    experts.down[:] = 0
    experts.down_scale[:, 0] = 0
    check_both(torch.randn(5, 128), IDS, experts)


def test_scales_of_float32() -> None:
    check_both(torch.randn(5, 64), IDS, make_experts(4, 64, 32, torch.float32))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_bf16_rows(dtype: torch.dtype) -> None:
    experts = make_experts(4, 256, 128, dtype)
    weights = (experts.gate_up_scale, experts.down_scale)
    if dtype == torch.float32:  # rounded to the inputs' dtype all the same
        for scale in weights:
            scale.copy_(scale.bfloat16())
    check_both(torch.randn(5, 256).bfloat16(), IDS, experts, CUT_OFF)


def test_weights_are_rounded_as_the_reference_rounds_them() -> None:
    """Rows of the identity show them one by one."""
    experts = make_experts(1, 96, 64)
    routing = cut(torch.zeros(64, 1, dtype=torch.int64), 1)
    shown = down(torch.eye(64), routing, experts)
    assert torch.equal(shown.t(), dequantize(experts.down, experts.down_scale, 64)[0].float())


def test_public_functions_allocate_their_outputs() -> None:
    experts, routing, x = make_experts(4, 64, 32), cut(IDS, 4), torch.randn(5, 64)
    act = gate_up(x, routing, experts)
    assert relative_error(act, exact_gate_up(x, routing, experts)) < 1e-6
    assert relative_error(down(act, routing, experts), exact_down(act, routing, experts)) < 1e-6


def test_experts_beyond_two_billion_bytes() -> None:
    """Offsets in 32 bits would read another expert, or nothing that exists. Untouched pages cost no memory."""
    num_experts, small = 2**20 + 8, make_experts(1, 64, 32)
    tensors = {}
    for name in ("gate_up", "gate_up_scale", "down", "down_scale"):
        one = getattr(small, name)
        tensors[name] = torch.empty(num_experts, *one.shape[1:], dtype=one.dtype)
        tensors[name][-1] = one[0]
    last = HalfSplitExperts(**tensors)
    assert last.gate_up.numel() > 2**31
    x, near = torch.randn(3, 64), cut(torch.zeros(3, 1, dtype=torch.int64), 1)
    offsets = torch.zeros(num_experts + 1, dtype=torch.int32)
    offsets[-1] = 3
    far = replace(near, offsets=offsets, tile_expert=torch.full_like(near.tile_expert, num_experts - 1))
    act = gate_up(x, far, last)
    assert torch.equal(act, gate_up(x, near, small))
    assert torch.equal(down(act, far, last), down(act, near, small))


def test_the_assembly_unpacks_all_bytes() -> None:
    """What the interpreter cannot run, calculated here: each byte at each place, and scales that make it round."""
    value = torch.arange(256)
    places = torch.stack((value, 255 - value, value ^ 90, (7 * value + 3) % 256))  # four bytes of 256 words
    low, high = torch.rand(2, 4, 256).bfloat16() * 3
    words = [join(low[0], low[1]), join(low[2], low[3]), join(high[0], high[1]), join(high[2], high[3])]
    packed = sum(places[place] << 8 * place for place in range(4))
    found = evaluate(UNPACK.value, [packed, *words])
    for place in range(4):
        for plane, (nibble, scale) in enumerate(((places & 15, low), (places >> 4, high))):
            weight = half(found[2 * plane + place // 2], place % 2)
            assert torch.equal(weight, (nibble[place] - 8).bfloat16() * scale[place])


def half(words: Tensor, index: int) -> Tensor:
    """One of the two bf16 in each of 32-bit words."""
    return (words >> 16 * index).to(torch.uint16).view(torch.bfloat16)


def join(first: Tensor, second: Tensor) -> Tensor:
    """Two bf16 to a word."""
    return first.view(torch.uint16).long() | second.view(torch.uint16).long() << 16


def evaluate(text: str, inputs: list[Tensor]) -> list[Tensor]:
    """PTX with four outputs, in words of 32 bits kept in int64. Source: PTX ISA, each instruction's semantics."""
    registers = {f"${index + 4}": value for index, value in enumerate(inputs)}

    def by_halves(operation: str, a: Tensor, b: Tensor) -> Tensor:
        a, b = torch.broadcast_tensors(a, b)
        return join(*(getattr(torch, operation)(half(a, index), half(b, index)) for index in (0, 1)))

    def prmt(a: Tensor, b: Tensor, selector: Tensor) -> Tensor:
        eight = a | b << 32
        picked = [(eight >> 8 * (selector >> 4 * byte & 7) & 255) << 8 * byte for byte in range(4)]
        return picked[0] | picked[1] | picked[2] | picked[3]

    own = {"mov": lambda a: a, "and": torch.bitwise_and, "shr": torch.bitwise_right_shift, "prmt": prmt}
    for name, operands in re.findall(r"^\s*([a-z]+)\.(?:bf16x2|b32) ([^;]+);", text, re.M):
        target, *sources = operands.split(", ")
        values = [registers[o] if o in registers else torch.tensor(int(o, 0)) for o in sources]
        registers[target] = own[name](*values) if name in own else by_halves(name, *values)
    return [registers[f"${index}"] for index in range(4)]


def test_both_kernels_want_the_same_tiles_of_rows() -> None:
    for num_tokens in (9, 512, 513, 1024, 4096, 100_000):
        assert find_block_m(num_tokens) == find_tile("moe_int4.down", num_tokens).block_m


def test_release_cases_are_all_lines_of_the_table() -> None:
    cases = list(release_cases())
    assert len({case.name for case in cases}) == len(cases) == 6
    assert all(case.has_async_copy and case.has_wgmma != case.name.endswith("M16") for case in cases)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"x": torch.zeros(5, 65)}, "x has the shape"),
        ({"x": torch.zeros(5, 64, dtype=torch.float16)}, "inputs is float16, expected bfloat16 or float32"),
        ({"x": torch.zeros(64, 5).t()}, "inputs has the strides"),
        ({"act": torch.zeros(10, 31)}, "act has the shape"),
        ({"act": torch.zeros(10, 32, dtype=torch.bfloat16)}, "act is bfloat16, expected float32"),
        ({"act": torch.zeros(10, 64)[:, :32]}, "expected a contiguous output"),
        ({"tile": Tile(block_m=64)}, "tiles of 16, expected 64"),
        ({"tile": Tile(block_k=32)}, "block_k is 32"),
        ({"num_experts": 5}, "offsets has the shape"),
    ],
)
def test_what_cannot_be_run_is_told(changes: dict[str, object], match: str) -> None:
    experts = make_experts(int(changes.pop("num_experts", 4)), 64, 32)  # type: ignore[call-overload]
    with pytest.raises(LaunchError, match=match):
        make_gate_up(
            **{"x": torch.zeros(5, 64), "act": torch.zeros(10, 32), **changes}, routing=cut(IDS, 4), experts=experts
        )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"down": torch.zeros(4, 64, 32)}, "packed is float32"),
        ({"down": torch.zeros(4, 64, 64, dtype=torch.uint8)[..., ::2]}, "not contiguous"),
        ({"down_scale": torch.zeros(4, 64, 2)}, "scale has the shape"),
        ({"down_scale": torch.zeros(4, 2, 64, dtype=torch.float16)}, "scale is float16"),
    ],
)
def test_experts_that_repack_did_not_make_are_told(changes: dict[str, Tensor], match: str) -> None:
    experts = replace(make_experts(4, 64, 32), **changes)
    with pytest.raises(LaunchError, match=match):
        make_down(torch.zeros(10, 32), cut(IDS, 4), experts, torch.zeros(10, 64))
