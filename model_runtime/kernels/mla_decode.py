"""Absorbed attention over the paged cache of latents: one program has all heads, and reads each row once for all of
them.

All heads share a row of 576 values: it is the key, and its first 512 are the value. For 64 heads its 1152 bytes take 64
x (576 + 512) multiply-adds, 121 operations a byte; an H200 does 184 in that time. The floor is therefore reading, by a
small margin: no row may be read twice and no score computed twice. Hence a program has 64 rows of queries, whose sums,
64 x 512 in fp32, take half of a multiprocessor's registers: 8 warps hold them, 4 and 16 spill. The queries take 72 KiB
of shared memory, and the rest holds four tiles of 32 keys: three in flight while one is processed. Tiles of 64 keys
would suit the matrix units better, but even two do not fit, and with two no copy would overlap the arithmetic. A
pipeline of 7 stages allocates those four tiles: half of the stages go to the block tables' entries.

Long contexts are cut into pieces (mla_schedule.py), which a second kernel joins in a fixed order. Fewer heads take 16
or 32 rows and the smaller matrix instruction: for 8 heads, 15 operations a byte, only reading counts.

The same kernel does absorbed prefill (mla_prefill.py): keys without block tables, and several queries of few heads in
one program. fp32 operands are for checks: exact, and slow on a GPU.

Source: DeepSeek-V2 report (arXiv 2405.04434), section 2.1.2; Dao 2023 (arXiv 2307.08691), algorithm 1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from model_runtime.kernels.launch import (
    KernelCase,
    Launch,
    LaunchError,
    check_dtype,
    check_shape,
    check_unit_stride,
    meta,
    run,
)
from model_runtime.kernels.mla_schedule import GRAIN, NUM_PROGRAMS, KernelSchedule, make_plan, room_for
from model_runtime.kernels.tiles import Tile, find_tile, next_power
from model_runtime.ops.registry import register

LOG2_E = 1.4426950408889634
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
JOIN_PIECES, JOIN_VALUES = (4, 64), 2048
"""Fewest and most pieces that a program of the join loads at once, and values of all of them: 16 for each thread. Fewer
pieces than are loaded leave threads idle: of 16 pieces at 4 a query three quarters.
"""
FP32_TILE = Tile(block_m=16, block_n=16, num_warps=4, num_stages=2)


@triton.jit
def load_rows(rows, columns, is_row, WIDTH: tl.constexpr):
    """Load WIDTH values from each address; zeros in further columns and where `is_row` is False. None: all rows are
    valid.
    """
    places = rows[:, None] + columns[None, :]
    if is_row is not None:
        values = tl.load(places, mask=is_row[:, None] & (columns < WIDTH)[None, :], other=0.0)
    elif columns.shape[0] > WIDTH:
        values = tl.load(places, mask=(columns < WIDTH)[None, :], other=0.0)
    else:
        values = tl.load(places)
    return values


@triton.jit
def weigh(scores, scale, peak, total):
    """Do one step of the running softmax to base 2: weights, scale of earlier sums, new maximum, new sum of weights.

    Each row must have a finite score in its first step.
    """
    new_peak = tl.maximum(peak, tl.max(scores, 1) * scale)
    weights = tl.exp2(scores * scale - new_peak[:, None])
    shrink = tl.exp2(peak - new_peak)
    return weights, shrink, new_peak, total * shrink + tl.sum(weights, 1)


@triton.jit
def find_rows(
    keys, block_tables, source, start, n, last,
    key_stride, block_stride, table_stride, BLOCK_SIZE: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Return the addresses of the rows of keys start + n; those from `last` on must not be read."""
    if BLOCK_SIZE == 0:
        rows = keys + (source + start).to(tl.int64) * key_stride + n * key_stride
    elif BLOCK_SIZE % BLOCK_N == 0:  # all in one block
        block = tl.load(block_tables + source.to(tl.int64) * table_stride + start // BLOCK_SIZE).to(tl.int64)
        rows = keys + block * block_stride + (start % BLOCK_SIZE + n) * key_stride
    else:
        entries = block_tables + source.to(tl.int64) * table_stride + (start + n) // BLOCK_SIZE
        blocks = tl.load(entries, mask=start + n < last, other=0).to(tl.int64)
        rows = keys + blocks * block_stride + (start + n) % BLOCK_SIZE * key_stride
    return rows


@triton.jit
def attend_latents(
    q, keys, block_tables, items, out, partials, partial_lse, scale,
    q_stride, q_head_stride, key_stride, block_stride, table_stride,
    HEADS: tl.constexpr, TILE_HEADS: tl.constexpr, QUERIES: tl.constexpr, VALUE_DIM: tl.constexpr,
    REST_DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_V: tl.constexpr, BLOCK_R: tl.constexpr,
):  # fmt: skip
    """Compute one item of the plan for TILE_HEADS of the heads.

    q (N, HEADS, VALUE_DIM + REST_DIM), keys (blocks, BLOCK_SIZE, VALUE_DIM + REST_DIM) or, with BLOCK_SIZE 0, (M, 1,
    VALUE_DIM + REST_DIM), block_tables (S, max_blocks) int32, items (I, 8) int32, out (N, HEADS, VALUE_DIM), partials
    (places, QUERIES, HEADS, VALUE_DIM) fp32, partial_lse (places, QUERIES, HEADS) fp32: log2 of each sum of
    exponentials. The scale includes log2(e).
    """
    item = items + tl.program_id(0) * 8
    num_queries = tl.load(item + 1)
    if num_queries == 0:
        return
    query, source, first, last = tl.load(item), tl.load(item + 2), tl.load(item + 3), tl.load(item + 4)
    num_keys, place = tl.load(item + 5), tl.load(item + 6)
    nth, head = tl.arange(0, BLOCK_M) // TILE_HEADS, tl.arange(0, BLOCK_M) % TILE_HEADS + tl.program_id(1) * TILE_HEADS
    is_row = (nth < num_queries) & (head < HEADS)
    value, rest, n = tl.arange(0, BLOCK_V), tl.arange(0, BLOCK_R), tl.arange(0, BLOCK_N)
    q_rows = q + (query + nth).to(tl.int64) * q_stride + head * q_head_stride
    q_value = load_rows(q_rows, value, is_row, VALUE_DIM)
    q_rest = load_rows(q_rows + VALUE_DIM, rest, is_row, REST_DIM)
    end = tl.minimum(num_keys - num_queries + 1 + nth, last)  # (BLOCK_M,) end of the keys that a row sees

    peak = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    sums = tl.zeros((BLOCK_M, BLOCK_V), tl.float32)
    for start in range(first, last, BLOCK_N):
        rows = find_rows(
            keys, block_tables, source, start, n, last, key_stride, block_stride, table_stride, BLOCK_SIZE, BLOCK_N
        )
        # Rows outside the sequence may be NaN, which a weight of zero does not remove: they are not read at all.
        latent = load_rows(rows, value, start + n < last, VALUE_DIM)
        key_rest = load_rows(rows + VALUE_DIM, rest, start + n < last, REST_DIM)
        weights = tl.zeros((BLOCK_M, BLOCK_N), latent.dtype)
        shrink = tl.full((BLOCK_M,), 1.0, tl.float32)
        # Always true. If the compiler sees that the scores feed another product, it gives each group of four warps
        # all 64 rows of them: every score would be computed twice. The sum of two scaled products has the same purpose.
        if BLOCK_M < 64 or start < num_keys:
            scores = tl.dot(q_value, tl.trans(latent), input_precision="ieee") * scale
            scores += tl.dot(q_rest, tl.trans(key_rest), input_precision="ieee") * scale
            scores = tl.where((start + n)[None, :] < end[:, None], scores, float("-inf"))
            shares, shrink, peak, total = weigh(scores, 1.0, peak, total)
            weights = shares.to(latent.dtype)
        sums = tl.dot(weights, latent, sums * shrink[:, None], input_precision="ieee")

    sums = sums / total[:, None]
    is_out = is_row[:, None] & (value < VALUE_DIM)[None, :]
    if place < 0:
        at = (query + nth).to(tl.int64) * HEADS + head
        tl.store(out + at[:, None] * VALUE_DIM + value[None, :], sums.to(out.dtype.element_ty), mask=is_out)
    else:
        at = (place.to(tl.int64) * QUERIES + nth) * HEADS + head
        tl.store(partials + at[:, None] * VALUE_DIM + value[None, :], sums, mask=is_out)
        tl.store(partial_lse + at, peak + tl.log2(total), mask=is_row)


@triton.jit
def join_pieces(
    partials, partial_lse, joins, out,
    HEADS: tl.constexpr, QUERIES: tl.constexpr, VALUE_DIM: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Join the weighted results of the pieces: BLOCK_V values of one query and head. joins (J, 4) int32; see
    `attend_latents`.
    """
    join = joins + tl.program_id(0) * 4
    row = tl.program_id(1)  # of QUERIES x HEADS
    if row // HEADS >= tl.load(join + 1):
        return
    query, first, count = tl.load(join), tl.load(join + 2), tl.load(join + 3)
    value = tl.program_id(2) * BLOCK_V + tl.arange(0, BLOCK_V)
    p = tl.arange(0, BLOCK_P)
    peak = tl.full((1,), float("-inf"), tl.float32)
    total = tl.zeros((1,), tl.float32)
    sums = tl.zeros((1, BLOCK_V), tl.float32)
    for start in range(0, count, BLOCK_P):
        is_piece = start + p < count
        at = (first + start + p).to(tl.int64) * (QUERIES * HEADS) + row
        part = load_rows(partials + at * VALUE_DIM, value, is_piece, VALUE_DIM)
        lse = tl.load(partial_lse + at, mask=is_piece, other=float("-inf"))
        shares, shrink, peak, total = weigh(lse[None, :], 1.0, peak, total)
        sums = sums * shrink[:, None] + tl.sum(tl.trans(shares) * part, 0)[None, :]
    sums = sums / tl.where(total == 0, 1.0, total)[:, None]  # no pieces: zeros
    at = (query.to(tl.int64) * HEADS + row) * VALUE_DIM
    tl.store(out + at + value[None, :], sums.to(out.dtype.element_ty), mask=(value < VALUE_DIM)[None, :])


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Output tensors.

    Attributes:
        out: (N, heads, value_dim).
        partials: (places, queries_per_item, heads, value_dim) fp32.
        partial_lse: (places, queries_per_item, heads) fp32.
    """

    out: Tensor
    partials: Tensor
    partial_lse: Tensor


@register("plan_decode", "triton")
def plan_decode(block_tables: Tensor, seq_lens: Sequence[int], cache: Tensor) -> KernelSchedule:
    """Return the plan of one step, shared by all layers. `make_plan` returns one that can be updated for many steps.

    Args:
        block_tables: (S, max_blocks) int32.
        seq_lens: S lengths including the new token.
        cache: (blocks, block_size, latent_dim) of any layer.
    """
    return make_plan(block_tables, seq_lens)


def mla_decode(q: Tensor, cache: Tensor, plan: KernelSchedule, value_dim: int, scale: float) -> Tensor:
    """Attend like `ops.reference.attention.mla_decode`; rows and heads of q may be strided.

    A reusable plan (`make_plan`) returns zeros for a sequence of length 0.

    Raises:
        LaunchError: If shapes, dtypes or strides do not fit; the text says which.
    """
    return attend(q, cache, plan, value_dim, scale, find_latent_tile("mla_decode", len(q), q.dtype))


def attend(q: Tensor, keys: Tensor, plan: KernelSchedule, value_dim: int, scale: float, tile: Tile) -> Tensor:
    """Attend like `mla_decode`, with a given tile and with keys as in `make_attend`."""
    results = make_results(q, plan, value_dim)
    run(make_attend(q, keys, plan, results, scale, tile))
    run(make_join(plan, results))
    return results.out


def find_latent_tile(kernel: str, num_tokens: int, dtype: torch.dtype) -> Tile:
    """Return the table's tile, or a small one for fp32, where larger ones do not fit in shared memory."""
    return FP32_TILE if dtype == torch.float32 else find_tile(kernel, num_tokens)


def make_results(q: Tensor, plan: KernelSchedule, value_dim: int) -> Results:
    """Allocate the results for q (N, heads, latent_dim)."""
    places = (plan.num_places, plan.queries_per_item, q.shape[1])
    return Results(
        out=q.new_empty(*q.shape[:2], value_dim),
        partials=q.new_empty(*places, value_dim, dtype=torch.float32),
        partial_lse=q.new_empty(places, dtype=torch.float32),
    )


def make_attend(q: Tensor, keys: Tensor, plan: KernelSchedule, results: Results, scale: float, tile: Tile) -> Launch:
    """Return the launch of `attend_latents`.

    Args:
        q: (N, heads, latent_dim).
        keys: (blocks, block_size, latent_dim), or (M, 1, latent_dim) for a plan without block tables.
        plan: Plan with the items.
        results: Result of `make_results`.
        scale: Factor on the scores before the softmax.
        tile: Tile with block_m rows for queries_per_item x heads; if there are more heads, a program has a part of
            them.
    """
    heads, value_dim = results.out.shape[1:]
    _check(q, keys, plan, value_dim, tile)
    tables = plan.block_tables
    tile_heads = min(heads, tile.block_m)
    rest_dim = q.shape[-1] - value_dim
    return Launch(
        kernel=attend_latents,
        grid=(len(plan.items), -(-heads // tile_heads)),
        args={
            "q": q,
            "keys": keys,
            "block_tables": tables,
            "items": plan.items,
            "out": results.out,
            "partials": results.partials,
            "partial_lse": results.partial_lse,
            "scale": scale * LOG2_E,
            "q_stride": q.stride(0),
            "q_head_stride": q.stride(1),
            "key_stride": keys.stride(0 if tables is None else 1),
            "block_stride": keys.stride(0),
            "table_stride": 0 if tables is None else tables.stride(0),
        },
        constexprs={
            "HEADS": heads,
            "TILE_HEADS": tile_heads,
            "QUERIES": plan.queries_per_item,
            "VALUE_DIM": value_dim,
            "REST_DIM": rest_dim,
            "BLOCK_SIZE": 0 if tables is None else keys.shape[1],
            "BLOCK_M": min(tile.block_m, next_power(plan.queries_per_item * tile_heads)),
            "BLOCK_N": tile.block_n,
            "BLOCK_V": next_power(value_dim),
            "BLOCK_R": next_power(rest_dim),
        },
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def make_join(plan: KernelSchedule, results: Results) -> Launch:
    """Return the launch of `join_pieces`; its grid is empty if nothing was cut.

    A program loads about as many pieces at once as a query has, and the more of its values the fewer those are: many
    sequences of few pieces give one program for a row, few sequences of many pieces several, which add in parallel.
    """
    _, queries, heads, value_dim = results.partials.shape
    least, most = JOIN_PIECES
    block_p = min(next_power(plan.num_places // max(len(plan.joins), 1), least), most)
    block_v = min(JOIN_VALUES // block_p, next_power(value_dim))
    return Launch(
        kernel=join_pieces,
        grid=(len(plan.joins), queries * heads, -(-value_dim // block_v)),
        args={
            "partials": results.partials,
            "partial_lse": results.partial_lse,
            "joins": plan.joins,
            "out": results.out,
        },
        constexprs={
            "HEADS": heads,
            "QUERIES": queries,
            "VALUE_DIM": value_dim,
            "BLOCK_P": block_p,
            "BLOCK_V": block_v,
        },
    )


def _check(q: Tensor, keys: Tensor, plan: KernelSchedule, value_dim: int, tile: Tile) -> None:
    tables = plan.block_tables
    check_dtype("q", q, *DTYPES)
    check_dtype("the cache", keys, q.dtype)
    check_shape("q", q, (None if tables is None else len(tables), None, None))
    check_shape("the cache", keys, (None, 1 if tables is None else None, q.shape[-1]))
    check_unit_stride("q", q)
    check_unit_stride("the cache", keys)
    if not 0 < value_dim < q.shape[-1]:
        text = f"of {q.shape[-1]} values the first {value_dim} are the value"
        raise LaunchError(f"{text}; expected some, and some left that are key only")
    if tables is not None:
        check_dtype("the block tables", tables, torch.int32)
        check_unit_stride("the block tables", tables)
    if GRAIN % tile.block_n or plan.queries_per_item * min(q.shape[1], tile.block_m) > tile.block_m:
        text = f"a tile of {tile.block_m} rows and {tile.block_n} keys for {plan.queries_per_item} queries an item"
        raise LaunchError(f"{text}; rows must hold them, keys must divide {GRAIN}")


def release_cases() -> Iterator[KernelCase]:
    """Yield cases from 64 heads on one GPU to 8 on each of eight, with the engine's block size and smaller ones."""
    tables = meta(64, 4096, dtype=torch.int32)
    plan = room_for(tables, 64, NUM_PROGRAMS)
    for heads, block_size in ((64, 64), (64, 16), (32, 64), (16, 64), (8, 64)):
        q = meta(64, heads, 576)
        cache = meta(4096, block_size, 576)
        results = make_results(q, plan, 512)
        launch = make_attend(q, cache, plan, results, 0.1, find_tile("mla_decode", 64))
        name = f"mla_decode.attend {heads} heads, blocks of {block_size}"
        yield KernelCase(name=name, launch=launch, has_wgmma=heads == 64, has_async_copy=True, max_int_to_float=4)
        if block_size == 64:
            yield KernelCase(name=f"mla_decode.join {heads} heads", launch=make_join(plan, results), max_int_to_float=0)
    alone = room_for(meta(1, 4096, dtype=torch.int32), 1, NUM_PROGRAMS)
    join = make_join(alone, make_results(meta(1, 64, 576), alone, 512))
    yield KernelCase(name="mla_decode.join 64 heads, 1 sequence", launch=join, max_int_to_float=0)
