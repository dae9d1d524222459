"""Sorting of (token, choice) pairs by expert, and cutting of the sorted pairs into tiles.

A pair's key is its expert times the block size plus its position, so that keys are unique and a pair's rank in the
block is the number of smaller keys: only comparisons, no atomics, and therefore always the same order. Up to 4096 pairs
(512 tokens at top 8) are one block and one launch: programs that compare 32 pairs with all others, and one that counts
pairs by expert and writes offsets and tiles. Above that, there are three launches: blocks of 1024 are counted, one
program sums the counts along blocks and experts, and pairs are compared within their block. The host does not read the
result: it sizes grids with `max_tiles`, an upper bound.

Floor: 12 bytes a pair, 0.4 us for 16384 tokens at top 8; a launch is longer.

Source: counting sort over blocks, as in radix sorts; within a block enumeration sort (D. Knuth, "The Art of Computer
Programming", volume 3, section 5.2, algorithm C).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from model_runtime.kernels.launch import KernelCase, Launch, LaunchError, check_dtype, check_shape, meta, run
from model_runtime.kernels.tiles import next_power

SINGLE = 4096
"""Maximum number of pairs that are sorted as one block in one launch."""

BLOCK = 1024
"""Block size in pairs if there are more than SINGLE."""

ROWS = 32
"""Pairs whose ranks one program computes."""

MAX_EXPERTS = 1023
"""Maximum number of experts: each has a bin, and experts held elsewhere share one more, all in one program's
registers.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Pairs (token, choice) sorted by expert. P = num_tokens * top_k; pair p is token p // top_k.

    "Place" is the index of a pair in the sorted order.

    Attributes:
        offsets: (E + 1,) int32: first place of each expert; offsets[E] is the number of pairs whose expert is held
            here.
        pairs: (P,) int32: pair at each place, ascending within one expert; undefined from offsets[E] on.
        tile_expert: (max_tiles,) int32: expert of each tile of block_m places; undefined from num_tiles on.
        tile_start: (max_tiles,) int32: first place of each tile; a tile ends with its expert or after block_m places.
        num_tiles: (1,) int32: number of valid tiles.
        block_m: Places per tile.
        top_k: Choices per token.
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
        """Upper bound of the number of tiles, known to the host: the size of a grid."""
        return self.tile_expert.shape[0]

    @property
    def num_experts(self) -> int:
        """Number of experts held here."""
        return self.offsets.shape[0] - 1


def max_tiles(num_pairs: int, num_experts: int, block_m: int) -> int:
    """Return the largest number of tiles of any routing: one pair for each expert, the rest for one of them."""
    spread = min(num_experts, num_pairs)
    return spread + (num_pairs - spread) // block_m


def dispatch(ids: Tensor, num_experts: int, block_m: int) -> Routing:
    """Sort pairs by expert and cut them into tiles, without synchronizing with the host.

    Args:
        ids: (T, K) int64; ids outside 0..E-1 are experts held elsewhere and get no place.
        num_experts: Number of experts held here, E.
        block_m: Places per tile.

    Returns:
        The routing.

    Raises:
        LaunchError: If ids are not (T, K) int64, or there are too many experts.
    """
    routing = allocate(ids, num_experts, block_m)
    for launch in make_dispatch(ids.contiguous(), routing):
        run(launch)
    return routing


def allocate(ids: Tensor, num_experts: int, block_m: int) -> Routing:
    """Allocate an uninitialized routing.

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
    """Return the launches, one or three, that compute `routing` from contiguous ids (T, K)."""
    if ids.numel() <= SINGLE:
        return [make_single(ids, routing)]
    bins = next_power(routing.num_experts + 1)
    counts = torch.empty(triton.cdiv(ids.numel(), BLOCK), bins, dtype=torch.int32, device=ids.device)
    return [make_count(ids, counts, routing), make_scan(counts, routing), make_place(ids, counts, routing)]


def make_single(ids: Tensor, routing: Routing) -> Launch:
    """Return the launch that does everything at once for up to SINGLE pairs."""
    return Launch(
        kernel=single_kernel,
        grid=(1 + triton.cdiv(ids.numel(), ROWS),),
        args={"ids": ids, "pairs": routing.pairs, "num_pairs": ids.numel(), **_plan(routing)},
        constexprs={"BINS": next_power(routing.num_experts + 1), "BLOCK": SINGLE, "ROWS": ROWS},
        num_warps=8,
    )


def make_count(ids: Tensor, counts: Tensor, routing: Routing) -> Launch:
    """Return the launch that counts the pairs of each block and expert: counts (blocks, bins)."""
    return Launch(
        kernel=count_kernel,
        grid=(counts.shape[0],),
        args={"ids": ids, "counts": counts, "num_pairs": ids.numel(), "num_experts": routing.num_experts},
        constexprs={"BINS": counts.shape[1], "BLOCK": BLOCK},
        num_warps=8,
    )


def make_scan(counts: Tensor, routing: Routing) -> Launch:
    """Return the launch that converts counts to shifts in place, and writes offsets and tiles."""
    return Launch(
        kernel=scan_kernel,
        grid=(1,),
        args={"counts": counts, "num_blocks": counts.shape[0], **_plan(routing)},
        constexprs={"BINS": counts.shape[1]},
        num_warps=8,
    )


def make_place(ids: Tensor, shifts: Tensor, routing: Routing) -> Launch:
    """Return the launch that writes each pair to its place."""
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
    """Return the arguments of `write_plan`."""
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
    """Load the experts of pairs, int32; `num_experts` for experts held elsewhere and after the last pair."""
    expert = tl.load(ids + pair, mask=pair < num_pairs, other=-1)
    return tl.where((expert >= 0) & (expert < num_experts), expert, num_experts).to(tl.int32)


@triton.jit
def count_smaller(ids, pair, expert, start, end, num_experts, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Count, for each of these pairs, the pairs from `start` to `end` that precede it in the order (expert, pair):
    (ROWS,).
    """
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
    """Write offsets (E + 1,), tile_* (max_tiles,) and num_tiles (1,) from the number of pairs of each expert,
    (BINS,).
    """
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
    """Sort pairs: ids and pairs (P,), P <= BLOCK. The first program counts and writes the plan, the others compute
    places.
    """
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
    """Count pairs by expert: ids (P,) to counts (blocks, BINS), one program per block."""
    block = tl.program_id(0)
    expert = read_experts(ids, block * BLOCK + tl.arange(0, BLOCK), num_pairs, num_experts)
    tl.store(counts + block * BINS + tl.arange(0, BINS), tl.histogram(expert, BINS))


@triton.jit
def scan_kernel(
    counts, offsets, tile_expert, tile_start, num_tiles, num_blocks, num_experts, block_m, BINS: tl.constexpr
):
    """Replace counts (blocks, BINS) by shifts: the expert's pairs in earlier blocks, minus the pairs of smaller experts
    in this block. One program.
    """
    BLOCKS: tl.constexpr = 16 if BINS <= 512 else 8  # in one pass, so that the loads overlap
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
    """Write pairs to their places: ids and pairs (P,), shifts (blocks, BINS), offsets (E + 1,), BLOCK // ROWS programs
    per block.
    """
    block = tl.program_id(0) // (BLOCK // ROWS)
    start = block * BLOCK
    pair = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    expert = read_experts(ids, pair, num_pairs, num_experts)
    end = tl.minimum(start + BLOCK, num_pairs)
    place = count_smaller(ids, pair, expert, start, end, num_experts, BLOCK, ROWS)
    place += tl.load(shifts + block * BINS + expert) + tl.load(offsets + expert)
    tl.store(pairs + place, pair, mask=expert < num_experts)


def meta_routing(num_pairs: int, num_experts: int, block_m: int, top_k: int) -> Routing:
    """Return a routing on the meta device, for launches that are compiled and never run."""
    tiles = max_tiles(num_pairs, num_experts, block_m)
    sizes = {"offsets": num_experts + 1, "pairs": num_pairs, "tile_expert": tiles, "tile_start": tiles, "num_tiles": 1}
    indices = {name: meta(size, dtype=torch.int32) for name, size in sizes.items()}
    return Routing(**indices, block_m=block_m, top_k=top_k)


def release_cases() -> Iterator[KernelCase]:
    """Yield cases with 384 experts top 8 in one launch and in three, and with 48 experts, an eighth of them."""
    for num_tokens, num_experts in ((1, 384), (512, 384), (16384, 384), (512, 48), (16384, 48)):
        ids = meta(num_tokens, 8, dtype=torch.int64)
        for launch in make_dispatch(ids, allocate(ids, num_experts, 16)):
            step = launch.name.removesuffix("_kernel")
            yield KernelCase(name=f"dispatch.{step} T{num_tokens} E{num_experts}", launch=launch)
