"""Experts for a few tokens: each pair of token and choice reads its expert by itself, matrix times vector.

At 8 tokens, top 8 of 384, 64 pairs meet 59.5 experts: nearly every pair has one to itself, so nothing is sorted and no
tile of a matmul is filled. Pairs that do share an expert read it once each, but at the same time, as pairs are the
grid's first axis: the second finds it in L2. `moe_gemv_int4` and `moe_gemv_dense` are for the two kinds of weights.

Floor at 4.3 TB/s: one token 198 MB of INT4, 46 us, or 705 MB of bf16, 164 us; eight tokens 343 us or 1.2 ms.
Source: DeepSeek-V3 report (arXiv 2412.19437), section 2.1.2.
"""

from torch import Tensor

from model_runtime.kernels import moe_gemv_dense, moe_gemv_int4
from model_runtime.kernels.launch import ALIGNMENT, Launch, run
from model_runtime.kernels.repack import HalfSplitExperts
from model_runtime.ops.types import DenseExperts


def gemv_gate_up(x: Tensor, ids: Tensor, experts: DenseExperts | HalfSplitExperts) -> Tensor:
    """The first half of each pair's expert: silu(gate x) * up x.

    Args:
        x: (T, H), bf16 or fp32, of the experts' dtype where these are dense; rows may be strided.
        ids: (T, K) int64; those outside of 0..E-1 are experts held elsewhere.
        experts: Their weights.

    Returns:
        (T * K, I) of x's dtype, choice k of token t in row t * K + k; rows of experts held elsewhere are not written.

    Raises:
        LaunchError: Shapes, dtypes or strides are others.
    """
    act = x.new_empty(ids.numel(), experts.intermediate_size)
    run(make_gate_up(align_rows(x), ids.contiguous(), experts, act))
    return act


def gemv_down(act: Tensor, ids: Tensor, experts: DenseExperts | HalfSplitExperts) -> Tensor:
    """The second half of each pair's expert, not yet weighted.

    Args:
        act: (T * K, I) of `gemv_gate_up`.
        ids: As there.
        experts: As there.

    Returns:
        (T * K, H) of act's dtype; rows of experts held elsewhere are not written.

    Raises:
        LaunchError: Shapes, dtypes or strides are others.
    """
    partial = act.new_empty(ids.numel(), experts.down.shape[1])
    run(make_down(align_rows(act), ids.contiguous(), experts, partial))
    return partial


def make_gate_up(x: Tensor, ids: Tensor, experts: DenseExperts | HalfSplitExperts, act: Tensor) -> Launch:
    """The launch of `gemv_gate_up` into act (T * K, I)."""
    if isinstance(experts, DenseExperts):
        return moe_gemv_dense.make_gate_up(x, ids, experts, act)
    return moe_gemv_int4.make_gate_up(x, ids, experts, act)


def make_down(act: Tensor, ids: Tensor, experts: DenseExperts | HalfSplitExperts, partial: Tensor) -> Launch:
    """The launch of `gemv_down` into partial (T * K, H)."""
    if isinstance(experts, DenseExperts):
        return moe_gemv_dense.make_down(act, ids, experts, partial)
    return moe_gemv_int4.make_down(act, ids, experts, partial)


def align_rows(rows: Tensor) -> Tensor:
    """The same where kernels can read 128 bits at once, else a copy; it has few rows."""
    is_aligned = rows.stride(-1) == 1 and rows.stride(0) * rows.itemsize % ALIGNMENT == 0
    return rows if is_aligned else rows.contiguous()
