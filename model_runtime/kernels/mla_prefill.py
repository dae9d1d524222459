"""Causal attention of concatenated prompts; each sequence's queries are its last tokens.

Plain: 128 queries of one head against blocks of 64 keys, scores and sums in registers. Keys of 192 values are cut into
128 + 64 columns, two products, because Triton's tiles are powers of two: one of 256 would do a third more. Blocks that
every query sees entirely need no masks, blocks that none sees are skipped. The blocks of one head are neighbours in the
grid, so that its keys and values, 10 MB at 16k tokens, come from the L2 cache after the first read; the longest blocks
start first, so that the last ones to finish are short. Floor: 2 x 320 operations for each head, query and key that it
sees, 7.0 ms a layer at 16k tokens and 64 heads.

Absorbed: few queries against a long context, as when a conversation continues after a cached prefix. All heads share
the keys, which is decoding with several tokens per sequence, so the kernel of mla_decode.py is used: a program has one
query of 64 heads, or eight of 8, and contexts are cut if there are too few queries to fill the GPU. Each query reads
the context, at 121 operations a byte from L2, once per program.

Source: Dao 2023 (arXiv 2307.08691), algorithm 1; DeepSeek-V2 report (arXiv 2405.04434), section 2.1.2.
"""

from collections.abc import Iterator
from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from model_runtime.kernels.launch import (
    ALIGNMENT,
    KernelCase,
    Launch,
    LaunchError,
    check_dtype,
    check_shape,
    check_unit_stride,
    meta,
    run,
)
from model_runtime.kernels.mla_decode import (
    DTYPES,
    FP32_TILE,
    LOG2_E,
    attend,
    find_latent_tile,
    load_rows,
    make_attend,
    make_results,
    weigh,
)
from model_runtime.kernels.mla_schedule import KernelSchedule, QuerySpan, plan_spans, to_rows
from model_runtime.kernels.tiles import Tile, find_tile, next_power
from model_runtime.ops.reference.attention import mla_prefill as reference
from model_runtime.ops.registry import CuSeqlens

PLANS_KEPT = 16
"""Number of cached plans on the device: all layers of a step use the same ones."""


@triton.jit
def meet_keys(
    query, query_rest, sums, peak, total, k_rows, v_rows, is_key, end, scale,
    KEY_DIM: tl.constexpr, REST_DIM: tl.constexpr, VALUE_DIM: tl.constexpr,
    BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Process one block of keys: update sums, peak and total. is_key None: each query sees each of these keys."""
    key = load_rows(k_rows, tl.arange(0, BLOCK_K), is_key, KEY_DIM)
    scores = tl.dot(query, tl.trans(key), input_precision="ieee")  # (BLOCK_M, BLOCK_N) fp32
    if REST_DIM:
        key_rest = load_rows(k_rows + KEY_DIM, tl.arange(0, BLOCK_R), is_key, REST_DIM)
        scores = tl.dot(query_rest, tl.trans(key_rest), scores, input_precision="ieee")
    if is_key is not None:
        scores = tl.where(tl.arange(0, scores.shape[1])[None, :] < end[:, None], scores, float("-inf"))
    weights, shrink, peak, total = weigh(scores, scale, peak, total)
    value = load_rows(v_rows, tl.arange(0, BLOCK_V), is_key, VALUE_DIM)
    sums = tl.dot(weights.to(value.dtype), value, sums * shrink[:, None], input_precision="ieee")
    return sums, peak, total


@triton.jit
def attend_prompt(
    q, k, v, items, out, scale,
    q_stride, q_head_stride, k_stride, k_head_stride, v_stride, v_head_stride, out_stride,
    KEY_DIM: tl.constexpr, REST_DIM: tl.constexpr, VALUE_DIM: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Compute one block of queries of one sequence and head against the keys that they see.

    q (N, heads, KEY_DIM + REST_DIM), k (M, heads, KEY_DIM + REST_DIM), v (M, heads, VALUE_DIM), out (N, heads,
    VALUE_DIM), items (I, 4) int32: first query, number of queries, first key, number of keys that the last query sees.
    The scale includes log2(e).
    """
    item = items + tl.program_id(0) * 4
    query, num_queries, source, num_keys = tl.load(item), tl.load(item + 1), tl.load(item + 2), tl.load(item + 3)
    head = tl.program_id(1).to(tl.int64)
    m, n = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    q_rows = q + head * q_head_stride + (query + m).to(tl.int64) * q_stride
    q_first = load_rows(q_rows, tl.arange(0, BLOCK_K), m < num_queries, KEY_DIM)
    q_rest = q_first
    if REST_DIM:
        q_rest = load_rows(q_rows + KEY_DIM, tl.arange(0, BLOCK_R), m < num_queries, REST_DIM)
    k += head * k_head_stride
    v += head * v_head_stride
    peak = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    sums = tl.zeros((BLOCK_M, BLOCK_V), tl.float32)
    end = num_keys - num_queries + 1 + m  # (BLOCK_M,) end of the keys that a query sees
    seen_by_all = (num_keys - num_queries + 1) // BLOCK_N * BLOCK_N
    for start in range(0, seen_by_all, BLOCK_N):
        row = (source + start).to(tl.int64)
        k_rows, v_rows = k + row * k_stride + n * k_stride, v + row * v_stride + n * v_stride
        sums, peak, total = meet_keys(
            q_first, q_rest, sums, peak, total, k_rows, v_rows, None, None, scale,
            KEY_DIM, REST_DIM, VALUE_DIM, BLOCK_K, BLOCK_R, BLOCK_V,
        )  # fmt: skip
    for start in range(seen_by_all, num_keys, BLOCK_N):
        row = (source + start).to(tl.int64)
        k_rows, v_rows = k + row * k_stride + n * k_stride, v + row * v_stride + n * v_stride
        sums, peak, total = meet_keys(
            q_first, q_rest, sums, peak, total, k_rows, v_rows, n < num_keys - start, end - start, scale,
            KEY_DIM, REST_DIM, VALUE_DIM, BLOCK_K, BLOCK_R, BLOCK_V,
        )  # fmt: skip
    value = tl.arange(0, BLOCK_V)
    out_rows = out + head * VALUE_DIM + (query + m).to(tl.int64) * out_stride
    mask = (m < num_queries)[:, None] & (value < VALUE_DIM)[None, :]
    tl.store(out_rows[:, None] + value[None, :], (sums / total[:, None]).to(out.dtype.element_ty), mask=mask)


def mla_prefill(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: CuSeqlens, cu_seqlens_k: CuSeqlens, scale: float
) -> Tensor:
    """Attend like `ops.reference.attention.mla_prefill`; rows and heads may be strided, and `scale` must be positive.

    Keys shared by all heads use a kernel only if the values are their first columns, as in the cache; otherwise the
    reference is called. Values that are not aligned to 16 bytes, for example after keys of an odd width, are copied.

    Raises:
        LaunchError: If shapes, dtypes, strides or bounds do not fit; the text says which.
    """
    check_bounds(q, k, cu_seqlens_q, cu_seqlens_k)
    bounds = (cu_seqlens_q.bounds, cu_seqlens_k.bounds)
    if is_part(v, k):
        tile = find_latent_tile("mla_prefill.absorbed", len(q), q.dtype)
        plan = plan_absorbed(*bounds, max(1, tile.block_m // q.shape[1]), q.device)
        return attend(q, k, plan, v.shape[2], scale, tile)
    if k.shape[1] != q.shape[1]:
        return reference(q, k, v, cu_seqlens_q, cu_seqlens_k, scale)
    if v.data_ptr() % ALIGNMENT:
        v = v.clone()
    out = q.new_empty(*q.shape[:2], v.shape[2])
    tile = FP32_TILE if q.dtype == torch.float32 else find_tile("mla_prefill.plain", cu_seqlens_q.max_len)
    run(make_plain(q, k, v, plan_plain(*bounds, tile.block_m, q.device), out, scale, tile))
    return out


def is_part(v: Tensor, k: Tensor) -> bool:
    """Return True if values (M, 1, value_dim) are the first columns of keys (M, 1, key_dim), in the same memory."""
    return k.shape[1] == 1 and v.shape[2] < k.shape[2] and v.stride() == k.stride() and v.data_ptr() == k.data_ptr()


def check_bounds(q: Tensor, k: Tensor, cu_seqlens_q: CuSeqlens, cu_seqlens_k: CuSeqlens) -> None:
    """Check that bounds match the tensors' rows, and that each query sees at least its own key.

    Raises:
        LaunchError: If they do not.
    """
    ends, rows = (cu_seqlens_q.bounds[-1], cu_seqlens_k.bounds[-1]), (len(q), len(k))
    if ends != rows:
        raise LaunchError(f"sequences end at (queries, keys) {ends}, expected as many as there are rows: {rows}")
    pairs = zip(cu_seqlens_q.spans(), cu_seqlens_k.spans(), strict=True)
    for seq, ((q_start, q_end), (k_start, k_end)) in enumerate(pairs):
        if q_end - q_start > k_end - k_start:
            text = f"sequence {seq} has {q_end - q_start} queries and {k_end - k_start} keys"
            raise LaunchError(f"{text}; expected no more queries than keys, of which theirs are the last")


def find_spans(bounds_q: tuple[int, ...], bounds_k: tuple[int, ...], num_queries: int) -> list[QuerySpan]:
    """Return blocks of at most `num_queries` neighbouring queries, with the keys that the last query of each sees."""
    spans = []
    for q_start, q_end, k_start, k_end in zip(bounds_q, bounds_q[1:], bounds_k, bounds_k[1:], strict=False):
        for start in range(q_start, q_end, num_queries):
            end = min(start + num_queries, q_end)
            spans.append(QuerySpan(start, end - start, k_start, k_end - k_start - (q_end - end)))
    return spans


@lru_cache(maxsize=PLANS_KEPT)
def plan_plain(bounds_q: tuple[int, ...], bounds_k: tuple[int, ...], num_queries: int, device: torch.device) -> Tensor:
    """Return the items of `attend_prompt`, sorted by descending number of keys."""
    spans = sorted(find_spans(bounds_q, bounds_k, num_queries), key=lambda span: -span.num_keys)
    rows = [(span.query, span.num_queries, span.source, span.num_keys) for span in spans]
    return to_rows(rows, 4, len(rows), device).to(device, non_blocking=True)


@lru_cache(maxsize=PLANS_KEPT)
def plan_absorbed(
    bounds_q: tuple[int, ...], bounds_k: tuple[int, ...], num_queries: int, device: torch.device
) -> KernelSchedule:
    """Return a plan with items of `num_queries` queries each, cut if there are too few items."""
    return plan_spans(find_spans(bounds_q, bounds_k, num_queries), device)


def make_plain(q: Tensor, k: Tensor, v: Tensor, items: Tensor, out: Tensor, scale: float, tile: Tile) -> Launch:
    """Return the launch of `attend_prompt`, which documents the shapes; `items` are of `plan_plain` with the tile's
    block_m.
    """
    _, heads, key_dim = q.shape
    value_dim = v.shape[2]
    for name, tensor, width in (("k", k, key_dim), ("v", v, value_dim)):
        check_shape(name, tensor, (len(k), heads, width))
        check_dtype(name, tensor, q.dtype)
        check_unit_stride(name, tensor)
    check_dtype("q", q, *DTYPES)
    check_unit_stride("q", q)
    first = max(16, 1 << (key_dim.bit_length() - 1))  # columns of the first product
    return Launch(
        kernel=attend_prompt,
        grid=(len(items), heads),
        args={
            "q": q,
            "k": k,
            "v": v,
            "items": items,
            "out": out,
            "scale": scale * LOG2_E,
            "q_stride": q.stride(0),
            "q_head_stride": q.stride(1),
            "k_stride": k.stride(0),
            "k_head_stride": k.stride(1),
            "v_stride": v.stride(0),
            "v_head_stride": v.stride(1),
            "out_stride": out.stride(0),
        },
        constexprs={
            "KEY_DIM": min(first, key_dim),
            "REST_DIM": max(0, key_dim - first),
            "VALUE_DIM": value_dim,
            "BLOCK_M": tile.block_m,
            "BLOCK_N": tile.block_n,
            "BLOCK_K": first,
            "BLOCK_R": next_power(key_dim - first),
            "BLOCK_V": next_power(value_dim),
        },
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def release_cases() -> Iterator[KernelCase]:
    """Yield cases for a long and a short prompt with 64 heads, and for 16 queries after a long prefix, with 64 heads
    down to 8 on each of eight GPUs.
    """
    for tokens in (8192, 64):
        q, k = meta(2, tokens, 64, 192)
        out, v = meta(2, tokens, 64, 128)
        tile = find_tile("mla_prefill.plain", tokens)
        items = meta(-(-tokens // tile.block_m), 4, dtype=torch.int32)
        launch = make_plain(q, k, v, items, out, 0.1, tile)
        name = f"mla_prefill.plain M{tile.block_m}"
        yield KernelCase(name=name, launch=launch, has_wgmma=True, has_async_copy=True, max_int_to_float=0)
    for heads in (64, 32, 16, 8):
        q = meta(16, heads, 576)
        k = meta(65_536, 1, 576)
        tile = find_tile("mla_prefill.absorbed", 16)
        plan = plan_absorbed((0, 16), (0, 65_536), tile.block_m // heads, q.device)
        launch = make_attend(q, k, plan, make_results(q, plan, 512), 0.1, tile)
        name = f"mla_prefill.absorbed {heads} heads"
        yield KernelCase(name=name, launch=launch, has_wgmma=True, has_async_copy=True, max_int_to_float=4)
