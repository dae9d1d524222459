"""Root mean square norm, with and without a residual: one program per row, one pass, fp32 inside.

A row is read once and stays in registers between its sum of squares and its division. The floor is memory: 2 * N * H
values, with a residual 4 * N * H. For one token of 7168 values that is 57 kB at most, far below the cost of a launch.
The gain is fewer launches: sum and norm are one, where eager torch needs two if it has a fused norm for the device and
nine if it has not, twice in each of 61 layers. A norm alone is one launch in both. The speed relative to torch.compile
has not been measured.

Source: Zhang and Sennrich 2019, arXiv 1910.07467, equation 4.
"""

from collections.abc import Iterator

import torch
import triton
import triton.language as tl
from torch import Tensor

from model_runtime.kernels.launch import KernelCase, Launch, check_dtype, check_shape, check_unit_stride, meta, run
from model_runtime.kernels.tiles import find_tile, next_power

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
MAX_WARPS = 16


@triton.jit
def norm_rows(
    x,  # (N, width) in rows of `stride_x`
    residual,  # (N, width) in rows of `stride_residual`, or None
    weight,  # (width)
    out,  # (N, width)
    total,  # (N, width): x + residual, or None
    width,
    stride_x,
    stride_residual,
    eps,
    BLOCK_N: tl.constexpr,
):
    """Normalize one row. The sum is rounded to its dtype before the norm, as if it had been stored and loaded."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_N)
    mask = columns < width
    factors = tl.load(weight + columns, mask=mask, other=0.0).to(tl.float32)
    values = tl.load(x + row * stride_x + columns, mask=mask, other=0.0).to(tl.float32)
    if residual is not None:
        values += tl.load(residual + row * stride_residual + columns, mask=mask, other=0.0).to(tl.float32)
        rounded = values.to(total.dtype.element_ty)
        tl.store(total + row * width + columns, rounded, mask=mask)
        values = rounded.to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values) / width + eps)
    tl.store(out + row * width + columns, (values * scale * factors).to(out.dtype.element_ty), mask=mask)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Normalize rows like `ops.reference.norm.rms_norm`.

    Raises:
        LaunchError: If shapes, dtypes or strides differ from the reference.
    """
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    run(make_rms_norm(x, weight, eps, out))
    return out


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Add and normalize rows like `ops.reference.norm.add_rms_norm`; rows may be strided.

    Raises:
        LaunchError: If shapes, dtypes or strides differ from the reference.
    """
    out, total = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(2))
    run(make_rms_norm(x, weight, eps, out, residual, total))
    return out, total


def make_rms_norm(
    x: Tensor, weight: Tensor, eps: float, out: Tensor, residual: Tensor | None = None, total: Tensor | None = None
) -> Launch:
    """Return the launch of either operator; `residual` and the output `total` are given together."""
    check_shape("x", x, (None, None))
    check_dtype("x", x, *DTYPES)
    check_unit_stride("x", x)
    width = x.shape[1]
    check_shape("weight", weight, (width,))
    check_dtype("weight", weight, *DTYPES)
    check_unit_stride("weight", weight)
    if residual is not None:
        check_shape("residual", residual, tuple(x.shape))
        check_dtype("residual", residual, x.dtype)
        check_unit_stride("residual", residual)
    block = next_power(width)
    return Launch(
        kernel=norm_rows,
        grid=(len(x),),
        args={
            "x": x,
            "residual": residual,
            "weight": weight,
            "out": out,
            "total": total,
            "width": width,
            "stride_x": x.stride(0),
            "stride_residual": residual.stride(0) if residual is not None else 0,
            "eps": eps,
        },
        constexprs={"BLOCK_N": block},
        num_warps=find_warps(block, len(x)),
    )


def find_warps(block: int, num_rows: int) -> int:
    """Return the number of warps per row, from the columns per warp in the table."""
    return max(1, min(MAX_WARPS, block // find_tile("norm", num_rows).block_n))


def release_cases() -> Iterator[KernelCase]:
    """Yield cases with the hidden width and the queries' latent, a slice of a wider row, for one token and for a
    prompt.
    """
    for tokens in (1, 4096):
        x, residual, out, total = (meta(tokens, 7168) for _ in range(4))
        weight = meta(7168)
        yield KernelCase(name=f"norm.rms_norm 7168 T{tokens}", launch=make_rms_norm(x, weight, 1e-5, out))
        launch = make_rms_norm(x, weight, 1e-5, out, residual, total)
        yield KernelCase(name=f"norm.add_rms_norm 7168 T{tokens}", launch=launch)
        joined, out = (meta(tokens, size) for size in (2112, 1536))
        launch = make_rms_norm(joined[:, :1536], weight[:1536], 1e-6, out)
        yield KernelCase(name=f"norm.rms_norm 1536 T{tokens}", launch=launch)
