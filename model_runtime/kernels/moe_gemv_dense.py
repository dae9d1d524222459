"""Experts in bf16 or fp32 for a few tokens: rows of weights times one row of inputs, at memory speed.

Cut like `moe_gemv_int4`: a program is one warp with 8 rows of the weight, which loops over K with 16 bytes of every row
per lane and adds the lanes up once, after the last step; rows of the gate and of the up projection are in one program.
Loads of a step overlap, 4 kB of weights per warp, and go directly into registers: no weight is used twice.

Floor: a pair reads 88 MB of bf16, one token 705 MB, 164 us at 4.3 TB/s.

Source: one warp for a row of a matrix: Bell and Garland, "Implementing sparse matrix-vector multiplication on
throughput-oriented processors", SC 2009, the vector kernel.

`Product` is shared by both `moe_gemv` files: a checked launch over pairs and blocks of a weight's rows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from model_runtime.kernels.launch import (
    ALIGNMENT,
    KernelCase,
    Launch,
    LaunchError,
    check_contiguous,
    check_dtype,
    check_shape,
    check_unit_stride,
    meta,
)
from model_runtime.kernels.tiles import Tile, find_tile, fit
from model_runtime.ops.registry import DenseExperts


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Product of each pair's row of inputs and its expert's weight.

    Attributes:
        inputs: (R, num_in); pair p has row p // (P / R). Rows may be strided.
        ids: (T, K) int64, P = T * K.
        weights: Kernel arguments of the experts, (E, ...) each; None for one that it must not use.
        out: (P, num_out).
        num_out: Rows of the weight, without those of the up projection.
        num_in: Columns of the weight.
    """

    inputs: Tensor
    ids: Tensor
    weights: Mapping[str, Tensor]
    out: Tensor
    num_out: int
    num_in: int


def make_launch(kernel: object, product: Product, num_rows: int, tile: Tile) -> Launch:
    """Return the launch, after the checks that do not depend on the kind of weights.

    Args:
        kernel: Kernel that takes inputs, ids, out, stride, num_experts, the weights, PER_ROW, N, K, BLOCK_N and
            BLOCK_K.
        product: The product.
        num_rows: Expected number of rows of the inputs.
        tile: Tile with the rows of the weight and the step along the sum.

    Raises:
        LaunchError: If shapes, dtypes or strides differ.
    """
    _check(product, num_rows)
    inputs, num_pairs = product.inputs, product.ids.numel()
    return Launch(
        kernel=kernel,
        grid=(num_pairs, triton.cdiv(product.num_out, tile.block_n)),
        args={
            "inputs": inputs,
            "ids": product.ids,
            **product.weights,
            "out": product.out,
            "stride": inputs.stride(0) if num_rows > 1 else product.num_in,
            "num_experts": next(iter(product.weights.values())).shape[0],
        },
        constexprs={
            "PER_ROW": num_pairs // max(num_rows, 1),
            "N": product.num_out,
            "K": product.num_in,
            "BLOCK_N": tile.block_n,
            "BLOCK_K": tile.block_k,
        },
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def _check(product: Product, num_rows: int) -> None:
    inputs, ids, out = product.inputs, product.ids, product.out
    check_shape("ids", ids, (None, None))
    check_dtype("ids", ids, torch.int64)
    check_shape("inputs", inputs, (num_rows, product.num_in))
    check_dtype("inputs", inputs, torch.bfloat16, torch.float32)
    check_unit_stride("inputs", inputs)
    check_shape("out", out, (ids.numel(), product.num_out))
    check_dtype("out", out, inputs.dtype)
    if num_rows > 1 and inputs.stride(0) * inputs.itemsize % ALIGNMENT:
        text = f"rows {inputs.stride(0) * inputs.itemsize} bytes apart, expected a multiple of {ALIGNMENT}"
        raise LaunchError(f"inputs has {text}; pass its contiguous()")
    for name, tensor in {"ids": ids, "out": out, **product.weights}.items():
        check_contiguous(name, tensor)


@triton.jit
def swiglu(gate, up):
    """Return silu(gate) * up in fp32."""
    return gate / (1 + tl.exp(-gate)) * up


@triton.jit
def gate_up_kernel(
    inputs,  # (T, K), rows stride apart
    ids,  # (T * PER_ROW,)
    weight,  # (E, 2N, K): the gate's rows, then the up projection's
    out,  # (T * PER_ROW, N)
    stride,
    num_experts,
    PER_ROW: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    LANE: tl.constexpr,
):
    """Compute BLOCK_N values of silu(gate x) * up x for one pair."""
    pair = tl.program_id(0)
    expert = tl.load(ids + pair)
    if (expert >= 0) & (expert < num_experts):
        x = inputs + (pair // PER_ROW).to(tl.int64) * stride
        row = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
        weight += expert * (2 * N * K)
        gate = dot_rows(x, weight, row, N, K, BLOCK_N, BLOCK_K, LANE)
        up = dot_rows(x, weight + N * K, row, N, K, BLOCK_N, BLOCK_K, LANE)
        tl.store(out + pair.to(tl.int64) * N + row, swiglu(gate, up).to(out.dtype.element_ty), row < N)


@triton.jit
def down_kernel(
    inputs,  # (P / PER_ROW, K), rows stride apart
    ids,  # (P,)
    weight,  # (E, N, K)
    out,  # (P, N)
    stride,
    num_experts,
    PER_ROW: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    LANE: tl.constexpr,
):
    """Compute BLOCK_N values of down x for one pair."""
    pair = tl.program_id(0)
    expert = tl.load(ids + pair)
    if (expert >= 0) & (expert < num_experts):
        x = inputs + (pair // PER_ROW).to(tl.int64) * stride
        row = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
        weight += expert * (N * K)
        value = dot_rows(x, weight, row, N, K, BLOCK_N, BLOCK_K, LANE)
        tl.store(out + pair.to(tl.int64) * N + row, value.to(out.dtype.element_ty), row < N)


@triton.jit
def dot_rows(
    x,  # (K,)
    weight,  # (N, K)
    row,  # (BLOCK_N,)
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    LANE: tl.constexpr,
):
    """Multiply rows by x: (BLOCK_N,) fp32. LANE neighbours along K are one load of one lane, which adds them up."""
    EVEN: tl.constexpr = K % BLOCK_K == 0
    if N % BLOCK_N:
        row = tl.minimum(row, N - 1)  # rows after the last are not stored
    k = tl.arange(0, BLOCK_K)[None, :]
    x += k
    weight += row[:, None] * K + k
    total = tl.zeros((BLOCK_N, BLOCK_K // LANE), tl.float32)
    for start in tl.range(0, K, BLOCK_K):
        is_inside = k < K - start
        weights = tl.load(weight + start) if EVEN else tl.load(weight + start, is_inside, 0.0)
        inputs = tl.load(x + start) if EVEN else tl.load(x + start, is_inside, 0.0)
        product = weights.to(tl.float32) * inputs.to(tl.float32)
        total += tl.sum(tl.reshape(product, (BLOCK_N, BLOCK_K // LANE, LANE)), 2)
    return tl.sum(total, 1)


def make_gate_up(x: Tensor, ids: Tensor, experts: DenseExperts, act: Tensor, tile: Tile | None = None) -> Launch:
    """Return the launch that computes each pair's silu(gate x) * up x.

    Args:
        x: (T, H), bf16 or fp32; rows may be strided by multiples of 16 bytes.
        ids: (T, K) int64; ids outside 0..E-1 are experts held elsewhere.
        experts: Experts of x's dtype.
        act: (T * K, I); rows of experts held elsewhere are not written.
        tile: Tile; None for the table's.

    Raises:
        LaunchError: If shapes, dtypes or strides differ.
    """
    num_experts, hidden, inter = experts.down.shape
    check_shape("gate_up", experts.gate_up, (num_experts, 2 * inter, hidden))
    weights = {"weight": experts.gate_up}
    product = Product(inputs=x, ids=ids, weights=weights, out=act, num_out=inter, num_in=hidden)
    return _make(gate_up_kernel, product, len(ids), tile)


def make_down(act: Tensor, ids: Tensor, experts: DenseExperts, partial: Tensor, tile: Tile | None = None) -> Launch:
    """Return the launch that computes each pair's down projection of act.

    Args:
        act: (T * K, I), bf16 or fp32; rows may be strided by multiples of 16 bytes.
        ids: (T, K) int64, as for `make_gate_up`.
        experts: Experts of act's dtype.
        partial: (T * K, H); rows of experts held elsewhere are not written.
        tile: Tile; None for the table's.

    Raises:
        LaunchError: If shapes, dtypes or strides differ.
    """
    _, hidden, inter = experts.down.shape
    weights = {"weight": experts.down}
    product = Product(inputs=act, ids=ids, weights=weights, out=partial, num_out=hidden, num_in=inter)
    return _make(down_kernel, product, ids.numel(), tile)


def _make(kernel: Any, product: Product, num_rows: int, tile: Tile | None) -> Launch:
    name, weight = kernel.__name__.removesuffix("_kernel"), product.weights["weight"]
    check_dtype(name, weight, product.inputs.dtype)
    tile = fit(tile or find_tile(f"moe_gemv_dense.{name}", len(product.ids)), n=product.num_out, k=product.num_in)
    launch = make_launch(kernel, product, num_rows, tile)
    return replace(launch, constexprs={**launch.constexprs, "LANE": ALIGNMENT // weight.itemsize})


def release_cases() -> Iterator[KernelCase]:
    """Yield cases with one token; more tokens change only the grid. fp32 is for tests of the whole model."""
    num_experts, hidden, inter, top_k = 384, 7168, 2048, 8

    ids = meta(1, top_k, dtype=torch.int64)
    for dtype in (torch.bfloat16, torch.float32):
        experts = DenseExperts(
            gate_up=meta(num_experts, 2 * inter, hidden, dtype=dtype),
            down=meta(num_experts, hidden, inter, dtype=dtype),
        )
        x, act, partial = (meta(rows, width, dtype=dtype) for rows, width in ((1, hidden), (8, inter), (8, hidden)))
        for launch in (make_gate_up(x, ids, experts, act), make_down(act, ids, experts, partial)):
            name = f"moe_gemv_dense.{launch.name.removesuffix('_kernel')} {str(dtype).removeprefix('torch.')}"
            yield KernelCase(
                name=name, launch=launch, max_int_to_float=0, max_registers=128 if dtype == torch.bfloat16 else 255
            )
