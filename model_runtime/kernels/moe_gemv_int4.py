"""INT4 experts for a few tokens: rows of half-split weights times one row of inputs, at memory speed.

A program is one warp with 8 rows of the weight, in gate_up also with the same 8 of the up projection, so that SwiGLU is
computed in registers. A lane loads 16 bytes of every row at once, 32 weights of two groups, and sums them; lanes are
added up once, after the last step. K is not split: at 128 registers 16 warps fit a multiprocessor, 2,112 the GPU, and
one token's gate_up has 2,048. Each has 4.6 kB in flight, 71 kB per multiprocessor; 4.3 TB/s at 600 ns need 20 kB.

The limit is then the number of instructions: 46 us at 1.75 GHz are 3.9 a weight. Here a nibble costs one AND and one
multiply-add, all the rest together 0.8. Bits below 2^24, read as fp32, count units of 2^-149: unshifted, nibble q at
bit 4p is exactly q * 2^(4p - 149), mostly a subnormal, which NVIDIA's multiply-add processes at full speed and Triton
does not flush. Inputs are scaled by 2^(80 - 4p) before, sums by 2^69 after the last step. Nibbles are value + 8, so
each sum starts at minus 8 times its inputs. Inputs from 2^48 on become infinite, products below 2^-57 lose digits.

A weight is exactly value * scale. The reference rounds that to the scale's dtype, in bf16 by up to 2^-9 of the weight;
doing the same would take a third more instructions. If the product needs no rounding, as with scales in fp32, both
agree.

Floor: a pair reads 24.8 MB, one token 198 MB, 46 us at 4.3 TB/s.

Source: integers as bits of a float's fraction: Kim et al., "Who Says Elephants Can't Run" (arXiv 2211.10017); speed of
subnormals: NVIDIA's blog, "CUDA Pro Tip: Flush Denormals with Confidence".
"""

from collections.abc import Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from model_runtime.kernels.launch import (
    KernelCase,
    Launch,
    LaunchError,
    check_contiguous,
    check_dtype,
    check_shape,
    meta,
)
from model_runtime.kernels.moe_gemv_dense import Product, make_launch, swiglu
from model_runtime.kernels.repack import BLOCK, GROUP, HalfSplitExperts
from model_runtime.kernels.tiles import Tile, find_tile, fit

UP: tl.constexpr = tl.constexpr(80)
"""Exponent of the power of two that scales inputs, before the bit position of their nibble is subtracted."""

EIGHT: tl.constexpr = tl.constexpr(-8 * 2.0 ** (80 - 149))
"""Factor on the inputs that compensates for the 8 stored with each value, before the final scaling."""

BACK: tl.constexpr = tl.constexpr(2.0 ** (149 - 80))
"""Factor that compensates for the input scaling and the nibbles' unit, at the end."""


@triton.jit
def gate_up_kernel(
    inputs,  # (T, K), rows stride apart
    ids,  # (T * PER_ROW,)
    words,  # (E, 2N, bytes / 8): the gate's rows, then the up projection's
    scale,  # (E, groups, 2N)
    out,  # (T * PER_ROW, N)
    stride,
    num_experts,
    PER_ROW: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute BLOCK_N values of silu(gate x) * up x for one pair."""
    pair = tl.program_id(0)
    expert = tl.load(ids + pair)
    if (expert >= 0) & (expert < num_experts):
        x = inputs + (pair // PER_ROW).to(tl.int64) * stride
        first = tl.program_id(1) * BLOCK_N
        gate = dot_rows(x, words, scale, expert, first, 2 * N, K, BLOCK_N, BLOCK_K)
        up = dot_rows(x, words, scale, expert, first + N, 2 * N, K, BLOCK_N, BLOCK_K)
        value = swiglu(gate, up).to(out.dtype.element_ty)
        tl.store(out + pair.to(tl.int64) * N + first + tl.arange(0, BLOCK_N), value)


@triton.jit
def down_kernel(
    inputs,  # (P / PER_ROW, K), rows stride apart
    ids,  # (P,)
    words,  # (E, N, bytes / 8)
    scale,  # (E, groups, N)
    out,  # (P, N)
    stride,
    num_experts,
    PER_ROW: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute BLOCK_N values of down x for one pair."""
    pair = tl.program_id(0)
    expert = tl.load(ids + pair)
    if (expert >= 0) & (expert < num_experts):
        x = inputs + (pair // PER_ROW).to(tl.int64) * stride
        first = tl.program_id(1) * BLOCK_N
        value = dot_rows(x, words, scale, expert, first, N, K, BLOCK_N, BLOCK_K).to(out.dtype.element_ty)
        tl.store(out + pair.to(tl.int64) * N + first + tl.arange(0, BLOCK_N), value)


@triton.jit
def dot_rows(
    x,  # (K,)
    words,  # (E, ALL, WIDTH)
    scale,  # (E, WIDTH / 2, ALL)
    expert,
    first,
    ALL: tl.constexpr,
    K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Multiply one expert's rows first .. first + BLOCK_N - 1 by x: (BLOCK_N,) fp32.

    A lane's 16 bytes are half of the 32 bytes of a block of 64 inputs: inputs 0 .. 15 or 16 .. 31 of both its groups.
    """
    LANES: tl.constexpr = BLOCK_K // 32
    WIDTH: tl.constexpr = (K + 63) // 64 * 4
    EVEN: tl.constexpr = K % BLOCK_K == 0
    row = (first + tl.arange(0, BLOCK_N))[:, None]
    eight = tl.arange(0, 2 * LANES)[None, :]
    group = tl.arange(0, LANES)[None, :] // 2 * 2
    words += expert * (ALL * WIDTH) + (row * WIDTH + eight)
    scale += expert * (ALL * (WIDTH // 2)) + (group * ALL + row)
    total = tl.zeros((BLOCK_N, LANES), tl.float32)
    for start in tl.range(0, K, BLOCK_K):
        packed = words + start // 16
        low_scale = scale + start // 32 * ALL
        high_scale = low_scale + ALL
        if EVEN:
            packed = tl.load(packed)
            low_scale = tl.load(low_scale)
            high_scale = tl.load(high_scale)
        else:
            packed = tl.load(packed, eight < WIDTH - start // 16, 0)
            low_scale = tl.load(low_scale, group < WIDTH // 2 - start // 32, 0.0)
            high_scale = tl.load(high_scale, group < WIDTH // 2 - start // 32, 0.0)
        a, b = tl.split(tl.reshape(packed, (BLOCK_N, LANES, 2)))
        total = tl.fma(dot_plane(x, start, a, b, K, EVEN, 0), low_scale.to(tl.float32), total)
        total = tl.fma(dot_plane(x, start, a, b, K, EVEN, 1), high_scale.to(tl.float32), total)
    return tl.sum(total, 1) * BACK


@triton.jit
def dot_plane(x, start, a, b, K: tl.constexpr, EVEN: tl.constexpr, PLANE: tl.constexpr):
    """Multiply the low (PLANE 0) or high (1) nibbles of each lane's 16 bytes by their inputs: (BLOCK_N, LANES)."""
    x0, x1, first = load_eight(x, start + 32 * PLANE, a.shape[1], K, EVEN)
    x2, x3, second = load_eight(x, start + 32 * PLANE + 8, a.shape[1], K, EVEN)
    total = dot_word(a.to(tl.int32), x0, (first + second) * EIGHT, PLANE)
    total = dot_word((a >> 32).to(tl.int32), x1, total, PLANE)
    total = dot_word(b.to(tl.int32), x2, total, PLANE)
    return dot_word((b >> 32).to(tl.int32), x3, total, PLANE)


@triton.jit
def dot_word(word, x, total, PLANE: tl.constexpr):
    """Add one nibble of each byte times its input; nibbles of the last byte, above bit 23, are shifted down to the
    third's.
    """
    FIRST: tl.constexpr = 2.0 ** (UP - 4 * PLANE)
    NIBBLE: tl.constexpr = 15 << 4 * PLANE
    total = tl.fma((word & NIBBLE).to(tl.float32, bitcast=True), x[0] * FIRST, total)
    total = tl.fma((word & NIBBLE << 8).to(tl.float32, bitcast=True), x[1] * (FIRST / 2**8), total)
    total = tl.fma((word & NIBBLE << 16).to(tl.float32, bitcast=True), x[2] * (FIRST / 2**16), total)
    return tl.fma(((word >> 8) & NIBBLE << 16).to(tl.float32, bitcast=True), x[3] * (FIRST / 2**16), total)


@triton.jit
def load_eight(x, start, LANES: tl.constexpr, K: tl.constexpr, EVEN: tl.constexpr):
    """Load eight inputs of each lane in fp32: the inputs of one word, of the next, and their sum, all (1, LANES)."""
    if x.dtype.element_ty == tl.bfloat16:  # 16 bytes
        eight = load_run(x, start, 8, LANES, K, EVEN)
        even, odd = tl.split(tl.reshape(eight, (1, LANES, 4, 2)))
        even_0, even_2 = tl.split(tl.reshape(even, (1, LANES, 2, 2)))
        odd_1, odd_3 = tl.split(tl.reshape(odd, (1, LANES, 2, 2)))
        x0, x4 = tl.split(even_0)
        x1, x5 = tl.split(odd_1)
        x2, x6 = tl.split(even_2)
        x3, x7 = tl.split(odd_3)
    else:
        even, odd = tl.split(tl.reshape(load_run(x, start, 4, LANES, K, EVEN), (1, LANES, 2, 2)))
        x0, x2 = tl.split(even)
        x1, x3 = tl.split(odd)
        even, odd = tl.split(tl.reshape(load_run(x, start + 4, 4, LANES, K, EVEN), (1, LANES, 2, 2)))
        x4, x6 = tl.split(even)
        x5, x7 = tl.split(odd)
    return (x0, x1, x2, x3), (x4, x5, x6, x7), ((x0 + x1) + (x2 + x3)) + ((x4 + x5) + (x6 + x7))


@triton.jit
def load_run(x, start, LENGTH: tl.constexpr, LANES: tl.constexpr, K: tl.constexpr, EVEN: tl.constexpr):
    """Load LENGTH neighbours of each lane, one lane after the other: (1, LANES * LENGTH) fp32."""
    i = tl.arange(0, LENGTH * LANES)[None, :]
    k = start + i // (2 * LENGTH) * 64 + i // LENGTH % 2 * 16 + i % LENGTH
    values = tl.load(x + k) if EVEN else tl.load(x + k, k < K, 0.0)
    return values.to(tl.float32)


def make_gate_up(x: Tensor, ids: Tensor, experts: HalfSplitExperts, act: Tensor, tile: Tile | None = None) -> Launch:
    """Return the launch of each pair's silu(gate x) * up x; arguments and errors as in
    `moe_gemv_dense.make_gate_up`.
    """
    size = (experts.intermediate_size, experts.hidden_size)
    weights = _check_weights("gate_up", experts.gate_up, experts.gate_up_scale, (2 * size[0], size[1]))
    product = Product(inputs=x, ids=ids, weights=weights, out=act, num_out=size[0], num_in=size[1])
    return _make(gate_up_kernel, product, len(ids), tile)


def make_down(act: Tensor, ids: Tensor, experts: HalfSplitExperts, partial: Tensor, tile: Tile | None = None) -> Launch:
    """Return the launch of each pair's down projection; arguments and errors as in `moe_gemv_dense.make_down`."""
    size = (experts.hidden_size, experts.intermediate_size)
    weights = _check_weights("down", experts.down, experts.down_scale, size)
    product = Product(inputs=act, ids=ids, weights=weights, out=partial, num_out=size[0], num_in=size[1])
    return _make(down_kernel, product, ids.numel(), tile)


def _check_weights(name: str, packed: Tensor, scale: Tensor, size: tuple[int, int]) -> dict[str, Tensor]:
    """Check weights and return the kernel's arguments; eight bytes become one int64."""
    (num_out, num_in), num_experts = size, packed.shape[0]
    if num_in % GROUP:
        raise LaunchError(f"{name} has {num_in} inputs, expected a multiple of {GROUP}. Use the kernels 'torch'")
    blocks = -(-num_in // BLOCK)
    check_dtype(name, packed, torch.uint8)
    check_dtype(f"{name}_scale", scale, torch.bfloat16, torch.float16, torch.float32)
    check_shape(name, packed, (num_experts, num_out, blocks * GROUP))
    check_shape(f"{name}_scale", scale, (num_experts, 2 * blocks, num_out))
    check_contiguous(name, packed)
    return {"words": packed.view(torch.int64), "scale": scale}


def _make(kernel: Any, product: Product, num_rows: int, tile: Tile | None) -> Launch:
    name = kernel.__name__.removesuffix("_kernel")
    tile = tile or find_tile(f"moe_gemv_int4.{name}", len(product.ids))
    tile = fit(tile, n=product.num_out, k=max(product.num_in, BLOCK))
    if product.num_out % tile.block_n or tile.block_k < BLOCK:
        text = f"{product.num_out} outputs in blocks of {tile.block_n}, steps of {tile.block_k}"
        raise LaunchError(f"{name} would have {text}; blocks must divide outputs, steps be at least {BLOCK}")
    return make_launch(kernel, product, num_rows, tile)


def release_cases() -> Iterator[KernelCase]:
    """Yield cases with one token; more tokens change only the grid. fp32 is for tests of the whole model."""
    num_experts, hidden, inter, top_k = 384, 7168, 2048, 8

    experts = HalfSplitExperts(
        gate_up=meta(num_experts, 2 * inter, hidden // 2, dtype=torch.uint8),
        gate_up_scale=meta(num_experts, hidden // GROUP, 2 * inter),
        down=meta(num_experts, hidden, inter // 2, dtype=torch.uint8),
        down_scale=meta(num_experts, inter // GROUP, hidden),
    )
    ids = meta(1, top_k, dtype=torch.int64)
    for dtype in (torch.bfloat16, torch.float32):
        x, act, partial = (meta(rows, width, dtype=dtype) for rows, width in ((1, hidden), (8, inter), (8, hidden)))
        for launch in (make_gate_up(x, ids, experts, act), make_down(act, ids, experts, partial)):
            name = f"moe_gemv_int4.{launch.name.removesuffix('_kernel')} {str(dtype).removeprefix('torch.')}"
            yield KernelCase(name=name, launch=launch, max_int_to_float=0, max_registers=128)
