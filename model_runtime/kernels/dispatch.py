"""Pairs of token and chosen expert, brought into the order of their experts, and cut into tiles.

A pair's key is its expert times the size of its block plus its position, so that keys differ and a pair's place in the
sorted block is how many keys are smaller: comparisons only, no atomics, therefore always the same order. Up to 4096
pairs (512 tokens at top 8) are one block and one launch: programs that compare 32 pairs with all others, and one that
counts pairs by expert and writes what follows from the counts. Beyond, blocks of 1024 are counted, the counts summed
along blocks and experts by one program, and pairs compared within their block: three launches. The host learns nothing
of it: it sizes grids with `max_tiles`, an upper bound.

Floor: 12 bytes a pair, 0.4 us for 16384 tokens at top 8; a launch is longer.
Source: counting sort over blocks, as of radix sorts; within a block enumeration sort (D. Knuth, "The Art of Computer
Programming", volume 3, section 5.2, algorithm C).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from model_runtime.kernels.launch import Case, Launch, LaunchError, check_dtype, check_shape, meta, run
from model_runtime.kernels.tiles import next_power

SINGLE = 4096
"""The most pairs that are one block, and sorted in one launch."""

BLOCK = 1024
"""Pairs of a block where there are more."""

ROWS = 32
"""Pairs that one program finds the places of."""

MAX_EXPERTS = 1023
"""Each has a bin, and those elsewhere one more, all in one program's registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Pairs (token, choice) in the order of their experts. P = num_tokens * top_k; pair p is token p // top_k.

    Attributes:
        offsets: (E + 1,) int32: first place of each expert; offsets[E] counts the pairs whose expert is here.
        pairs: (P,) int32: place -> pair, ascending within one expert; places from offsets[E] on are not to be read.
        tile_expert: (max_tiles,) int32: expert of each tile of block_m places; from num_tiles on not to be read.
        tile_start: (max_tiles,) int32: its first place; it ends with its expert or after block_m places.
        num_tiles: (1,) int32: how many tiles are real.
        block_m: Places of one tile.
        top_k: Choices of one token.
    """

    offsets: Tensor
    pairs: Tensor
    tile_expert: Tensor
    tile_start: Tensor
    num_tiles: Tensor
    block_m: int
    top_k: int

    @property
    def max_tiles(self) -> int:
        """Tiles there can be at most, known to the host: the size of a grid."""
        return self.tile_expert.shape[0]

    @property
    def num_experts(self) -> int:
        """Experts held here."""
        return self.offsets.shape[0] - 1


def max_tiles(num_pairs: int, num_experts: int, block_m: int) -> int:
    """The most tiles that any routing can have: one pair to each expert, the rest to one of them."""
    spread = min(num_experts, num_pairs)
    return spread + (num_pairs - spread) // block_m


def dispatch(ids: Tensor, num_experts: int, block_m: int) -> Routing:
    """Sort pairs by their experts and cut them into tiles; the host waits for nothing.

    Args:
        ids: (T, K) int64; those outside of 0..E-1 are experts held elsewhere and get no place.
        num_experts: Experts held here, E.
        block_m: Places of one tile.

    Returns:
        The routing.

    Raises:
        LaunchError: ids are not (T, K) int64, or there are too many experts.
    """
    routing = allocate(ids, num_experts, block_m)
    for launch in make_dispatch(ids.contiguous(), routing):
        run(launch)
    return routing


def allocate(ids: Tensor, num_experts: int, block_m: int) -> Routing:
    """A routing that nothing has been written to.

    Raises:
        LaunchError: See `dispatch`.
    """
    check_shape("ids", ids, (None, None))
    check_dtype("ids", ids, torch.int64)
    if not 0 < num_experts <= MAX_EXPERTS:
        raise LaunchError(f"{num_experts} experts; dispatch takes 1 to {MAX_EXPERTS}. Hold fewer on one GPU")
    tiles = max_tiles(ids.numel(), num_experts, block_m)
    offsets, pairs, tile_expert, tile_start, num_tiles = (
        torch.empty(size, dtype=torch.int32, device=ids.device)
        for size in (num_experts + 1, ids.numel(), tiles, tiles, 1)
    )
    return Routing(
        offsets=offsets,
        pairs=pairs,
        tile_expert=tile_expert,
        tile_start=tile_start,
        num_tiles=num_tiles,
        block_m=block_m,
        top_k=ids.shape[1],
    )


def make_dispatch(ids: Tensor, routing: Routing) -> list[Launch]:
    """From ids (T, K), contiguous, to everything in `routing`: one launch, or three."""
    if ids.numel() <= SINGLE:
        return [make_single(ids, routing)]
    bins = next_power(routing.num_experts + 1)
    counts = torch.empty(triton.cdiv(ids.numel(), BLOCK), bins, dtype=torch.int32, device=ids.device)
    return [make_count(ids, counts, routing), make_scan(counts, routing), make_place(ids, counts, routing)]


def make_single(ids: Tensor, routing: Routing) -> Launch:
    """Up to SINGLE pairs: everything at once."""
    return Launch(
        kernel=single_kernel,
        grid=(1 + triton.cdiv(ids.numel(), ROWS),),
        args={"ids": ids, "pairs": routing.pairs, "num_pairs": ids.numel(), **_plan(routing)},
        constexprs={"BINS": next_power(routing.num_experts + 1), "BLOCK": SINGLE, "ROWS": ROWS},
        num_warps=8,
    )


def make_count(ids: Tensor, counts: Tensor, routing: Routing) -> Launch:
    """Pairs of each block and expert: counts (blocks, bins)."""
    return Launch(
        kernel=count_kernel,
        grid=(counts.shape[0],),
        args={"ids": ids, "counts": counts, "num_pairs": ids.numel(), "num_experts": routing.num_experts},
        constexprs={"BINS": counts.shape[1], "BLOCK": BLOCK},
        num_warps=8,
    )


def make_scan(counts: Tensor, routing: Routing) -> Launch:
    """Counts to shifts, in place, and to offsets and tiles."""
    return Launch(
        kernel=scan_kernel,
        grid=(1,),
        args={"counts": counts, "num_blocks": counts.shape[0], **_plan(routing)},
        constexprs={"BINS": counts.shape[1]},
        num_warps=8,
    )


def make_place(ids: Tensor, shifts: Tensor, routing: Routing) -> Launch:
    """Pairs to their places."""
    return Launch(
        kernel=place_kernel,
        grid=(shifts.shape[0] * (BLOCK // ROWS),),
        args={
            "ids": ids,
            "shifts": shifts,
            "offsets": routing.offsets,
            "pairs": routing.pairs,
            "num_pairs": ids.numel(),
            "num_experts": routing.num_experts,
        },
        constexprs={"BINS": shifts.shape[1], "BLOCK": BLOCK, "ROWS": ROWS},
        num_warps=4,
    )


def _plan(routing: Routing) -> dict[str, Tensor | int | float | None]:
    """The arguments of `write_plan`."""
    return {
        "offsets": routing.offsets,
        "tile_expert": routing.tile_expert,
        "tile_start": routing.tile_start,
        "num_tiles": routing.num_tiles,
        "num_experts": routing.num_experts,
        "block_m": routing.block_m,
    }


@triton.jit
def read_experts(ids, pair, num_pairs, num_experts):
    """Experts of pairs, int32; `num_experts` for those elsewhere and behind the last pair."""
    expert = tl.load(ids + pair, mask=pair < num_pairs, other=-1)
    return tl.where((expert >= 0) & (expert < num_experts), expert, num_experts).to(tl.int32)


@triton.jit
def count_smaller(ids, pair, expert, start, end, num_experts, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """(ROWS,): how many pairs from `start` to `end` stand before each of these in the order of (expert, pair)."""
    COLUMNS: tl.constexpr = 256
    key = expert * BLOCK + (pair - start)
    smaller = tl.zeros((ROWS, COLUMNS), tl.int32)
    for column in range(start, end, COLUMNS):
        other = column + tl.arange(0, COLUMNS)
        other_key = read_experts(ids, other, end, num_experts) * BLOCK + (other - start)
        smaller += (other_key[None, :] < key[:, None]).to(tl.int32)
    return tl.sum(smaller, 1)


@triton.jit
def write_plan(total, offsets, tile_expert, tile_start, num_tiles, num_experts, block_m, BINS: tl.constexpr):
    """From the pairs of each expert, (BINS,), to offsets (E + 1,), tile_* (max_tiles,) and num_tiles (1,)."""
    expert = tl.arange(0, BINS)
    first = tl.cumsum(total) - total
    tl.store(offsets + expert, first, mask=expert <= num_experts)
    tiles = tl.where(expert < num_experts, (total + block_m - 1) // block_m, 0)
    first_tile = tl.cumsum(tiles) - tiles
    for index in range(tl.max(tiles)):
        tl.store(tile_expert + first_tile + index, expert, mask=index < tiles)
        tl.store(tile_start + first_tile + index, first + index * block_m, mask=index < tiles)
    tl.store(num_tiles, tl.sum(tiles))


@triton.jit
def single_kernel(
    ids, pairs, offsets, tile_expert, tile_start, num_tiles, num_pairs, num_experts, block_m,
    BINS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Ids and pairs (P,), P <= BLOCK. The first program counts and writes the plan, the others find places."""
    program = tl.program_id(0)
    if program == 0:
        CHUNK: tl.constexpr = 1024
        total = tl.zeros((BINS,), tl.int32)
        for start in range(0, num_pairs, CHUNK):
            expert = read_experts(ids, start + tl.arange(0, CHUNK), num_pairs, num_experts)
            total += tl.histogram(expert, BINS)
        write_plan(total, offsets, tile_expert, tile_start, num_tiles, num_experts, block_m, BINS)
    else:
        pair = (program - 1) * ROWS + tl.arange(0, ROWS)
        expert = read_experts(ids, pair, num_pairs, num_experts)
        place = count_smaller(ids, pair, expert, 0, num_pairs, num_experts, BLOCK, ROWS)
        tl.store(pairs + place, pair, mask=expert < num_experts)


@triton.jit
def count_kernel(ids, counts, num_pairs, num_experts, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """Ids (P,) -> counts (blocks, BINS): one program for each block."""
    block = tl.program_id(0)
    expert = read_experts(ids, block * BLOCK + tl.arange(0, BLOCK), num_pairs, num_experts)
    tl.store(counts + block * BINS + tl.arange(0, BINS), tl.histogram(expert, BINS))


@triton.jit
def scan_kernel(
    counts, offsets, tile_expert, tile_start, num_tiles, num_blocks, num_experts, block_m, BINS: tl.constexpr
):
    """Counts (blocks, BINS) -> in place the shifts: pairs of the expert in earlier blocks, less those of this block
    that stand before the expert. One program.
    """
    BLOCKS: tl.constexpr = 16 if BINS <= 512 else 8  # at once, so that their loads are under way together
    bins = tl.arange(0, BINS)[None, :]
    total = tl.zeros((BINS,), tl.int32)
    for start in range(0, num_blocks, BLOCKS):
        block = start + tl.arange(0, BLOCKS)[:, None]
        count = tl.load(counts + block * BINS + bins, mask=block < num_blocks, other=0)
        earlier = total[None, :] + tl.cumsum(count, 0) - count
        before = tl.cumsum(count, 1) - count
        tl.store(counts + block * BINS + bins, earlier - before, mask=block < num_blocks)
        total += tl.sum(count, 0)
    write_plan(total, offsets, tile_expert, tile_start, num_tiles, num_experts, block_m, BINS)


@triton.jit
def place_kernel(
    ids, shifts, offsets, pairs, num_pairs, num_experts, BINS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr
):
    """Ids and pairs (P,), shifts (blocks, BINS), offsets (E + 1,): BLOCK // ROWS programs for each block."""
    block = tl.program_id(0) // (BLOCK // ROWS)
    start = block * BLOCK
    pair = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    expert = read_experts(ids, pair, num_pairs, num_experts)
    end = tl.minimum(start + BLOCK, num_pairs)
    place = count_smaller(ids, pair, expert, start, end, num_experts, BLOCK, ROWS)
    place += tl.load(shifts + block * BINS + expert) + tl.load(offsets + expert)
    tl.store(pairs + place, pair, mask=expert < num_experts)


def meta_routing(num_pairs: int, num_experts: int, block_m: int, top_k: int) -> Routing:
    """A routing without memory, for launches that are compiled and never run."""
    tiles = max_tiles(num_pairs, num_experts, block_m)
    sizes = {"offsets": num_experts + 1, "pairs": num_pairs, "tile_expert": tiles, "tile_start": tiles, "num_tiles": 1}
    indices = {name: meta(size, dtype=torch.int32) for name, size in sizes.items()}
    return Routing(**indices, block_m=block_m, top_k=top_k)


def release_cases() -> Iterator[Case]:
    """384 experts top 8 in one launch and in three, and 48 experts, an eighth of them."""
    for num_tokens, num_experts in ((1, 384), (512, 384), (16384, 384), (512, 48), (16384, 48)):
        ids = meta(num_tokens, 8, dtype=torch.int64)
        for launch in make_dispatch(ids, allocate(ids, num_experts, 16)):
            step = launch.name.removesuffix("_kernel")
            yield Case(name=f"dispatch.{step} T{num_tokens} E{num_experts}", launch=launch)
