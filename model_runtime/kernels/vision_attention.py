"""Attention of the vision tower: rope on queries and keys, then full attention within each item.

A head of 72 values is cut into 64 + 16 columns (the last 8 masked), two dots each way, because Triton's tiles are
powers of two: 80 columns of work for 72, where one tile of 128 would do 78 % too much.

Queries and keys are rotated once, in place, by a launch before. Every block of queries is multiplied by every key of
its item, so in the loop each key would be rotated ceil(length / BLOCK_M) times (85 on a 1080p screenshot) and pass
through registers on its way to the matrix unit, and a query rotated in registers would be read back from shared memory
at every step. Rotated before, both are copied unchanged. The cost on that screenshot: 2/3 of qkv read and written, 99
MB or 23 us a layer at 4.3 TB/s, against 675 us of attention at 790 TFLOP/s.

Floor: 4 * length^2 * 72 flop a head and item; 14.4 TFLOP over 27 layers of the screenshot (10,764 patches), 18.2 ms.

Source: Dao 2023, arXiv 2307.08691, algorithm 1 (one pass with a running maximum); Su et al. 2021, arXiv 2104.09864,
equation 34.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import torch
import triton
import triton.language as tl
from torch import Tensor

from model_runtime.kernels.launch import KernelCase, Launch, LaunchError, check_dtype, check_shape, meta, run
from model_runtime.kernels.tiles import find_tile, next_power
from model_runtime.ops.registry import CuSeqlens

LOG2_E = 1.4426950408889634
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
PLANS_KEPT = 16  # sizes of images repeat within a conversation; a plan is a few small tensors


@triton.jit
def turn(
    x,  # (N, width) in rows of `stride_x`: the queries of all heads side by side, then the keys
    rotations,  # (N, HEAD_DIM) fp32: cosine and sine of each pair
    num_rows,
    width,
    stride_x,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Multiply pairs (2j, 2j + 1) by complex numbers in place. A row is contiguous: no lane is lost to head size 72."""
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64))[:, None]
    columns = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    mask = (rows < num_rows) & (columns < width)
    pairs: tl.constexpr = (BLOCK_M, BLOCK_N // 2, 2)
    values = tl.load(x + rows * stride_x + columns, mask=mask, other=0.0).to(tl.float32)
    turns = tl.load(rotations + rows * HEAD_DIM + columns % HEAD_DIM, mask=mask, other=0.0)
    real, imaginary = tl.split(tl.reshape(values, pairs))
    cos, sin = tl.split(tl.reshape(turns, pairs))
    turned = tl.join(real * cos - imaginary * sin, real * sin + imaginary * cos)
    tl.store(x + rows * stride_x + columns, tl.reshape(turned, (BLOCK_M, BLOCK_N)).to(x.dtype.element_ty), mask=mask)


@triton.jit
def load_rows(
    base, stride, num_rows, FIRST: tl.constexpr, HEAD_DIM: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Load columns FIRST.. of one head, (ROWS, COLUMNS), zeros outside of it; num_rows None: all rows are valid."""
    rows = tl.arange(0, ROWS)[:, None]
    columns = FIRST + tl.arange(0, COLUMNS)[None, :]
    places = base + rows * stride + columns
    if num_rows is not None:
        return tl.load(places, mask=(rows < num_rows) & (columns < HEAD_DIM), other=0.0)
    if FIRST + COLUMNS > HEAD_DIM:
        return tl.load(places, mask=columns < HEAD_DIM, other=0.0)
    return tl.load(places)


@triton.jit
def meet_keys(
    query, query_rest, sums, sums_rest, top, total, keys, stride, num_keys, scale,
    HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, MAIN: tl.constexpr, REST: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Process one block of keys: update weighted sums of values, maximum (as a power of two) and sum of weights."""
    key = load_rows(keys, stride, num_keys, 0, HEAD_DIM, BLOCK_N, MAIN)
    scores = tl.dot(query, tl.trans(key), input_precision="ieee")  # (BLOCK_M, BLOCK_N) fp32
    if REST:
        key_rest = load_rows(keys, stride, num_keys, MAIN, HEAD_DIM, BLOCK_N, REST)
        scores = tl.dot(query_rest, tl.trans(key_rest), scores, input_precision="ieee")
    if num_keys is not None:
        scores = tl.where(tl.arange(0, BLOCK_N)[None, :] < num_keys, scores, float("-inf"))
    new_top = tl.maximum(top, tl.max(scores, 1) * scale)
    weights = tl.exp2(scores * scale - new_top[:, None])
    shrink = tl.exp2(top - new_top)
    total = total * shrink + tl.sum(weights, 1)
    values = keys + HEADS * HEAD_DIM
    value = load_rows(values, stride, num_keys, 0, HEAD_DIM, BLOCK_N, MAIN)
    weights = weights.to(value.dtype)
    sums = tl.dot(weights, value, sums * shrink[:, None], input_precision="ieee")
    if REST:
        value_rest = load_rows(values, stride, num_keys, MAIN, HEAD_DIM, BLOCK_N, REST)
        sums_rest = tl.dot(weights, value_rest, sums_rest * shrink[:, None], input_precision="ieee")
    return sums, sums_rest, new_top, total


@triton.jit
def attend(
    qkv,  # (N, 3 * HEADS, HEAD_DIM) in rows of `stride`, queries and keys already rotated
    out,  # (N, HEADS, HEAD_DIM)
    work,  # (programs, 3) int32: first row of the item, end of the item, first query of the block
    stride,
    scale,  # scale of the scores, times log2(e)
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    MAIN: tl.constexpr,
    REST: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Compute one block of queries of one item and head against all keys of that item."""
    work += tl.program_id(0) * 3
    first, end, start = tl.load(work).to(tl.int64), tl.load(work + 1).to(tl.int64), tl.load(work + 2).to(tl.int64)
    head = tl.program_id(1)
    queries, num_queries = qkv + start * stride + head * HEAD_DIM, (end - start).to(tl.int32)
    query = load_rows(queries, stride, num_queries, 0, HEAD_DIM, BLOCK_M, MAIN)
    query_rest = query
    if REST:
        query_rest = load_rows(queries, stride, num_queries, MAIN, HEAD_DIM, BLOCK_M, REST)
    sums = tl.zeros((BLOCK_M, MAIN), tl.float32)
    sums_rest = tl.zeros((BLOCK_M, REST if REST else 16), tl.float32)
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)

    # The block that may be short comes first: there is nothing to keep in registers yet, and the loop needs no masks.
    keys, num_keys = qkv + first * stride + (HEADS + head) * HEAD_DIM, (end - first).to(tl.int32)
    short = (num_keys - 1) % BLOCK_N + 1
    sums, sums_rest, top, total = meet_keys(
        query, query_rest, sums, sums_rest, top, total, keys, stride, short, scale, HEADS, HEAD_DIM, MAIN, REST, BLOCK_N
    )
    keys += short * stride
    for _ in range(short, num_keys, BLOCK_N):
        sums, sums_rest, top, total = meet_keys(
            query, query_rest, sums, sums_rest, top, total, keys, stride, None, scale,
            HEADS, HEAD_DIM, MAIN, REST, BLOCK_N,
        )  # fmt: skip
        keys += BLOCK_N * stride

    rows, columns = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, MAIN)[None, :]
    places = out + (start * HEADS + head) * HEAD_DIM + rows * (HEADS * HEAD_DIM)
    mask = (rows < num_queries) & (columns < HEAD_DIM)
    tl.store(places + columns, (sums / total[:, None]).to(out.dtype.element_ty), mask=mask)
    if REST:
        columns = MAIN + tl.arange(0, REST)[None, :]
        mask = (rows < num_queries) & (columns < HEAD_DIM)
        tl.store(places + columns, (sums_rest / total[:, None]).to(out.dtype.element_ty), mask=mask)


def vision_attention(qkv: Tensor, rotations: Tensor, cu_seqlens: CuSeqlens) -> Tensor:
    """Attend like `ops.reference.attention.vision_attention`; queries and keys are overwritten.

    Raises:
        LaunchError: If shapes, dtypes or strides differ from the reference.
    """
    out = torch.empty(len(qkv), qkv.shape[1] // 3, qkv.shape[2], dtype=qkv.dtype, device=qkv.device)
    attention = make_attend(qkv, cu_seqlens, out)
    run(make_rotation(qkv, rotations))
    run(attention)
    return out


def make_rotation(qkv: Tensor, rotations: Tensor) -> Launch:
    """Return the launch that rotates queries and keys in place. Arguments: see `vision_attention`."""
    heads, head_dim = check_qkv(qkv)
    check_dtype("rotations", rotations, torch.complex64)
    check_shape("rotations", rotations, (len(qkv), head_dim // 2))
    if not rotations.is_contiguous():
        raise LaunchError(
            f"rotations has the strides {rotations.stride()}; call contiguous() on it once for all layers"
        )
    tile = find_tile("vision_attention.turn", len(qkv))
    width = 2 * heads * head_dim
    return Launch(
        kernel=turn,
        grid=(triton.cdiv(len(qkv), tile.block_m), triton.cdiv(width, tile.block_n)),
        args={
            "x": qkv,
            "rotations": torch.view_as_real(rotations),
            "num_rows": len(qkv),
            "width": width,
            "stride_x": qkv.stride(0),
        },
        constexprs={"HEAD_DIM": head_dim, "BLOCK_M": tile.block_m, "BLOCK_N": tile.block_n},
        num_warps=tile.num_warps,
    )


def make_attend(qkv: Tensor, cu_seqlens: CuSeqlens, out: Tensor) -> Launch:
    """Return the launch that attends, with queries and keys already rotated. Arguments: see `vision_attention`."""
    heads, head_dim = check_qkv(qkv)
    if cu_seqlens.bounds[-1] != len(qkv):
        raise LaunchError(f"cu_seqlens ends at row {cu_seqlens.bounds[-1]}, expected {len(qkv)}, the rows of qkv")
    tile = find_tile("vision_attention", len(qkv))
    main, rest = split_head(head_dim)
    work = plan_work(cu_seqlens.bounds, tile.block_m, qkv.device)
    return Launch(
        kernel=attend,
        grid=(len(work), heads),
        args={"qkv": qkv, "out": out, "work": work, "stride": qkv.stride(0), "scale": head_dim**-0.5 * LOG2_E},
        constexprs={
            "HEADS": heads,
            "HEAD_DIM": head_dim,
            "MAIN": main,
            "REST": rest,
            "BLOCK_M": tile.block_m,
            "BLOCK_N": tile.block_n,
        },
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def check_qkv(qkv: Tensor) -> tuple[int, int]:
    """Return heads and head_dim of a packed tensor.

    Raises:
        LaunchError: If it is not (N, 3 * heads, an even head_dim) with contiguous rows.
    """
    check_shape("qkv", qkv, (None, None, None))
    check_dtype("qkv", qkv, *DTYPES)
    _, parts, head_dim = qkv.shape
    if parts % 3 or head_dim % 2:
        raise LaunchError(f"qkv has the shape {tuple(qkv.shape)}, expected (rows, 3 * heads, an even head_dim)")
    if qkv.stride()[1:] != (head_dim, 1):
        raise LaunchError(f"qkv has the strides {qkv.stride()}, expected (any, {head_dim}, 1): each row in one piece")
    return parts // 3, head_dim


def split_head(head_dim: int) -> tuple[int, int]:
    """Split head_dim into columns of the main dot and of the rest, powers of two from 16 on or no rest (0). 72 is 64
    and 16.
    """
    main = max(16, 1 << (head_dim.bit_length() - 1))
    return main, next_power(head_dim - main) if head_dim > main else 0


@lru_cache(maxsize=PLANS_KEPT)
def plan_work(bounds: tuple[int, ...], block_m: int, device: torch.device) -> Tensor:
    """Return the work of each program, (programs, 3) int32: an item's first row, its end, a block's first query.

    Long items come first, so that short ones fill the last wave. All layers of one pass share one plan.
    """
    items = sorted(pairwise(bounds), key=lambda item: item[0] - item[1])
    blocks = [(first, end, start) for first, end in items for start in range(first, end, block_m)]
    return torch.tensor(blocks, dtype=torch.int32, device=device).view(-1, 3)


def release_cases() -> Iterator[KernelCase]:
    """Yield cases for a small image, a screenshot of 1920 x 1080 (138 x 78 patches), and one of eight ranks' share of
    it.
    """
    for name, num_rows, heads in (("448x448", 32 * 32, 16), ("1080p", 138 * 78, 16), ("1080p, 2 heads", 138 * 78, 2)):
        qkv = meta(num_rows, 3 * heads, 72)
        rotations = meta(num_rows, 36, dtype=torch.complex64)
        out = meta(num_rows, heads, 72)
        launch = make_attend(qkv, CuSeqlens.of_lengths([num_rows]), out)
        yield KernelCase(name=f"vision_attention.attend {name}", launch=launch, has_wgmma=True, has_async_copy=True)
        yield KernelCase(name=f"vision_attention.turn {name}", launch=make_rotation(qkv, rotations))
