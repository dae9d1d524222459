"""Operators `prepare_experts` and `experts`: choice of kernels for a layer's routed experts, and each token's weighted
sum.

Up to 8 tokens, nearly every (token, choice) pair has an expert of its own: the expert's weights are read once for one
row, a matrix tile would be nearly empty, and the pairs go through matrix-vector kernels unsorted. Above that, pairs are
sorted by expert and the grouped matmuls read an expert once for all of its rows. In both cases rows are output by pair,
and `combine` adds each token's rows in fixed order.

In the matrix-vector kernels, pairs with the same expert each read it, but at the same time, as pairs are the grid's
first axis: the second read hits L2. `moe_gemv_int4` and `moe_gemv_dense` are for the two kinds of weights. Floor of the
routed part, 384 experts top 8 at 4.3 TB/s: one token 198 MB of INT4, 46 us, or 705 MB of bf16, 164 us; eight tokens 343
us or 1.2 ms.

A program of `combine` takes one token and a part of its rows, 128 bits per thread, so that loads of several choices
overlap. Choices whose expert is held elsewhere cost nothing: their rows, which are not written, are not read. The sum
is in fp32 in the order of the choices, so that the same input gives the same bits. Floor: every row read and every sum
written once: (K + 1) * H * 2 bytes a token, 129 kB; 16384 tokens 2.1 GB, 0.49 ms.

Source: DeepSeek-V3 report (arXiv 2412.19437), section 2.1.2; sums: equation 12.
"""

from collections.abc import Iterator

import torch
import triton
import triton.language as tl
from torch import Tensor

from model_runtime.kernels import moe_dense, moe_gemv_dense, moe_gemv_int4, moe_int4
from model_runtime.kernels.dispatch import dispatch
from model_runtime.kernels.launch import (
    ALIGNMENT,
    KernelCase,
    Launch,
    check_dtype,
    check_shape,
    check_unit_stride,
    meta,
    run,
)
from model_runtime.kernels.repack import HalfSplitExperts, repack
from model_runtime.kernels.tiles import find_tile, fit
from model_runtime.ops.registry import DenseExperts, Experts, register


def gemv_gate_up(x: Tensor, ids: Tensor, experts: DenseExperts | HalfSplitExperts) -> Tensor:
    """Compute the first half of each pair's expert: silu(gate x) * up x.

    Args:
        x: (T, H), bf16 or fp32, for dense experts in their dtype; rows may be strided.
        ids: (T, K) int64; ids outside 0..E-1 are experts held elsewhere.
        experts: Weights of the experts.

    Returns:
        (T * K, I) of x's dtype, choice k of token t in row t * K + k; rows of experts held elsewhere are not written.

    Raises:
        LaunchError: If shapes, dtypes or strides differ.
    """
    act = x.new_empty(ids.numel(), experts.intermediate_size)
    run(make_gate_up(align_rows(x), ids.contiguous(), experts, act))
    return act


def gemv_down(act: Tensor, ids: Tensor, experts: DenseExperts | HalfSplitExperts) -> Tensor:
    """Compute the second half of each pair's expert, not yet weighted.

    Args:
        act: (T * K, I), result of `gemv_gate_up`.
        ids: See `gemv_gate_up`.
        experts: See `gemv_gate_up`.

    Returns:
        (T * K, H) of act's dtype; rows of experts held elsewhere are not written.

    Raises:
        LaunchError: If shapes, dtypes or strides differ.
    """
    partial = act.new_empty(ids.numel(), experts.down.shape[1])
    run(make_down(align_rows(act), ids.contiguous(), experts, partial))
    return partial


def make_gate_up(x: Tensor, ids: Tensor, experts: DenseExperts | HalfSplitExperts, act: Tensor) -> Launch:
    """Return the launch of `gemv_gate_up` into act (T * K, I)."""
    if isinstance(experts, DenseExperts):
        return moe_gemv_dense.make_gate_up(x, ids, experts, act)
    return moe_gemv_int4.make_gate_up(x, ids, experts, act)


def make_down(act: Tensor, ids: Tensor, experts: DenseExperts | HalfSplitExperts, partial: Tensor) -> Launch:
    """Return the launch of `gemv_down` into partial (T * K, H)."""
    if isinstance(experts, DenseExperts):
        return moe_gemv_dense.make_down(act, ids, experts, partial)
    return moe_gemv_int4.make_down(act, ids, experts, partial)


def align_rows(rows: Tensor) -> Tensor:
    """Return rows that kernels can read in units of 128 bits: unchanged if possible, else a copy of these few rows."""
    is_aligned = rows.stride(-1) == 1 and rows.stride(0) * rows.itemsize % ALIGNMENT == 0
    return rows if is_aligned else rows.contiguous()


PreparedExperts = DenseExperts | HalfSplitExperts

MAX_GEMV_TOKENS = 8
"""Maximum number of tokens at which each pair reads its expert separately. At 8 tokens top 8 of 384, 64 pairs use 59.5
experts.
"""

TOKENS_AT_ONCE = 16_384
"""Maximum number of tokens in one slice, which bounds the memory between kernels: at the release's sizes, in bf16, 0.5
GB of inner rows and 1.9 GB of rows by pair.
"""


@register("prepare_experts", "triton")
def prepare_experts(experts: Experts) -> PreparedExperts:
    """Convert loaded experts for `experts`. INT4 is rewritten in place; the caller must not use the argument
    afterwards.

    Raises:
        LaunchError: If the kernels do not support the dtype or the packing.
    """
    if isinstance(experts, DenseExperts):
        check_dtype("gate_up", experts.gate_up, torch.bfloat16, torch.float32)
        check_dtype("down", experts.down, experts.gate_up.dtype)
        return experts
    return repack(experts)


def run_experts(hidden: Tensor, weights: Tensor, ids: Tensor, experts: PreparedExperts) -> Tensor:
    """Run experts like `ops.reference.moe.run_experts`, with the result of `prepare_experts`, without synchronizing
    with the host.

    Raises:
        LaunchError: If shapes or dtypes do not fit.
    """
    check_dtype("hidden", hidden, torch.bfloat16, torch.float32)
    check_shape("ids", ids, (len(hidden), None))
    if len(hidden) == 0:
        return torch.empty_like(hidden, memory_format=torch.contiguous_format)
    tensors = (hidden, weights, ids)
    slices = zip(*(tensor.contiguous().split(TOKENS_AT_ONCE) for tensor in tensors), strict=True)
    parts = [
        combine(_run_pairs(x, chosen, experts), shares, chosen, experts.num_experts) for x, shares, chosen in slices
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _run_pairs(hidden: Tensor, ids: Tensor, experts: PreparedExperts) -> Tensor:
    """Compute each pair's row, not yet weighted: (N, H), (N, K) -> (N * K, H)."""
    if len(hidden) <= MAX_GEMV_TOKENS and not _must_round(hidden, experts):
        return gemv_down(gemv_gate_up(hidden, ids, experts), ids, experts)
    if isinstance(experts, DenseExperts):
        routing = dispatch(ids, experts.num_experts, moe_dense.find_block_m(len(hidden)))
        return moe_dense.down(moe_dense.gate_up(hidden, routing, experts), routing, experts)
    routing = dispatch(ids, experts.num_experts, moe_int4.find_block_m(len(hidden)))
    return moe_int4.down(moe_int4.gate_up(hidden, routing, experts), routing, experts)


def _must_round(hidden: Tensor, experts: PreparedExperts) -> bool:
    """Return True if value * scale has to be rounded to the scale's dtype, as in the grouped kernels and the reference.

    The matrix-vector kernels do not round it, which costs less and makes no difference after the rounding of bf16 rows.
    In fp32, which is for checks, it would be visible: a difference of 3e-3 between 8 tokens and 9.
    """
    if isinstance(experts, DenseExperts):
        return False
    return hidden.dtype == torch.float32 and experts.gate_up_scale.dtype != torch.float32


def combine(partial: Tensor, weights: Tensor, ids: Tensor, num_experts: int) -> Tensor:
    """Sum weight * row over a token's choices, in their order.

    Args:
        partial: (T * K, H), bf16 or fp32, rows may be strided: choice k of token t in row t * K + k.
        weights: (T, K) fp32.
        ids: (T, K) int64; rows with an id outside 0..num_experts-1 are not read and add nothing.
        num_experts: Number of experts held here.

    Returns:
        (T, H) of partial's dtype.

    Raises:
        LaunchError: If shapes or dtypes differ.
    """
    out = partial.new_empty(ids.shape[0], partial.shape[-1])
    run(make_combine(partial, weights.contiguous(), ids.contiguous(), out, num_experts))
    return out


def make_combine(partial: Tensor, weights: Tensor, ids: Tensor, out: Tensor, num_experts: int) -> Launch:
    """Check and return the launch; weights, ids and out (T, H) are contiguous."""
    check_shape("ids", ids, (None, None))
    num_tokens, top_k = ids.shape
    check_shape("weights", weights, (num_tokens, top_k))
    check_shape("partial", partial, (num_tokens * top_k, None))
    check_dtype("ids", ids, torch.int64)
    check_dtype("weights", weights, torch.float32)
    check_dtype("partial", partial, torch.bfloat16, torch.float32)
    check_unit_stride("partial", partial)
    width = partial.shape[1]
    tile = fit(find_tile("combine", num_tokens), n=width, k=1)
    return Launch(
        kernel=combine_kernel,
        grid=(num_tokens, triton.cdiv(width, tile.block_n)),
        args={
            "partial": partial,
            "weights": weights,
            "ids": ids,
            "out": out,
            "stride_p": partial.stride(0),
            "width": width,
            "num_experts": num_experts,
        },
        constexprs={"TOP_K": top_k, "BLOCK": tile.block_n},
        num_warps=tile.num_warps,
    )


@triton.jit
def combine_kernel(partial, weights, ids, out, stride_p, width, num_experts, TOP_K: tl.constexpr, BLOCK: tl.constexpr):
    """Sum rows: partial (T * TOP_K, width), weights and ids (T, TOP_K), out (T, width)."""
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for choice in tl.static_range(TOP_K):
        pair = token * TOP_K + choice
        expert = tl.load(ids + pair)
        is_here = (expert >= 0) & (expert < num_experts)
        weight = tl.load(weights + pair, mask=is_here, other=0.0)
        end = tl.where(is_here, width, 0)  # in the interpreter, a mask of one flag and a block has a wrong type
        row = tl.load(partial + pair * stride_p + column, mask=column < end, other=0.0)
        total += weight * row.to(tl.float32)
    tl.store(out + token * width + column, total.to(out.dtype.element_ty), mask=column < width)


def release_cases() -> Iterator[KernelCase]:
    """Yield cases with top 8 of 384 and hidden 7168; fp32 is for tests of the whole model."""
    for num_tokens, dtype in ((1, torch.bfloat16), (16384, torch.bfloat16), (16384, torch.float32)):
        partial, out = (meta(rows, 7168, dtype=dtype) for rows in (num_tokens * 8, num_tokens))
        weights = torch.empty(num_tokens, 8, device="meta")
        launch = make_combine(partial, weights, weights.long(), out, 384)
        yield KernelCase(name=f"combine T{num_tokens} {str(dtype).removeprefix('torch.')}", launch=launch)
