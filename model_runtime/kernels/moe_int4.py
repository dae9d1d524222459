"""Experts in INT4 for batches: two grouped matmuls over pairs sorted by expert, on tensor cores.

Gate and up are rows of one matmul, so that an input is loaded once for both. Weights are unpacked in registers and
rounded to bf16 as in the reference: results differ only by the order of sums.

From 64 tokens a tile on, weights go through shared memory into wgmma, and two programs on a multiprocessor alternate:
one unpacks while the other multiplies. wgmma could take weights from registers, but the assembler of Triton 3.6.0
reuses such registers before they are read (triton-lang/triton, pull request 11781). Tiles of 16 tokens are too narrow
for wgmma in the usual orientation: there two warps multiply weights (N, K) by inputs (K, 16), and weights stay in the
registers in which they were unpacked.

Floor: an expert in use is read once, 24.8 MB; all 384 of a layer are 9.5 GB, 2.2 ms at 4.3 TB/s. From about 2,500
tokens on the matmul takes longer. Every tile of tokens unpacks its expert again, two instructions a weight, so tiles
are as tall as the rows that an expert gets.

Source: sorted pairs, one launch for all experts: Gale et al., "MegaBlocks" (arXiv 2211.15841).
"""

from collections.abc import Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from model_runtime.kernels.dispatch import Routing, meta_routing
from model_runtime.kernels.launch import (
    KernelCase,
    Launch,
    LaunchError,
    check_dtype,
    check_shape,
    check_unit_stride,
    is_interpreted,
    meta,
    run,
)
from model_runtime.kernels.repack import BLOCK, HalfSplitExperts, unpack_tile
from model_runtime.kernels.tiles import Tile, find_tile, fit, lines_of

WARP_GROUP = 4
"""Warps that share a wgmma. With fewer, the matmul is mma.sync, which can have its weights in registers."""


@triton.jit
def gate_up_kernel(
    x,  # (T, K), rows x_stride apart
    packed,  # (E, 2 * N, BYTES) uint8
    scale,  # (E, BYTES / 16, 2 * N)
    act,  # (P, N): at each place silu(gate) * up
    pairs,
    offsets,
    tile_expert,
    tile_start,
    num_tiles,
    x_stride,
    TOP_K: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BYTES: tl.constexpr,
    IN_BF16: tl.constexpr,
    WEIGHT_LEFT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute silu(gate x) * up x for a tile of places and a block of columns."""
    blocks_n: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    # Columns run fastest: neighbouring programs share a tile's inputs, and an expert's next tile runs while its
    # weights are still in L2. With tokens fastest, all inputs would be loaded once for each block of columns.
    tile = tl.program_id(0) // blocks_n
    if tile >= tl.load(num_tiles):
        return
    expert = tl.load(tile_expert + tile).to(tl.int64)
    place = tl.load(tile_start + tile) + tl.arange(0, BLOCK_M)
    real = place < tl.load(offsets + expert + 1)
    token = tl.load(pairs + place, mask=real, other=0) // TOP_K
    # The gate's rows and, below them, the same rows of the up projection: one matmul, split at the end.
    first = (tl.program_id(0) % blocks_n) * BLOCK_N
    row = tl.arange(0, 2 * BLOCK_N)
    ok = first + row % BLOCK_N < N
    row = first + row % BLOCK_N + row // BLOCK_N * N
    rows = x + token.to(tl.int64)[:, None] * x_stride
    both = _multiply(
        rows, real, packed, scale, expert, row, ok, 2 * N, K, BYTES, N % BLOCK_N == 0, IN_BF16, WEIGHT_LEFT, BLOCK_K
    )
    gate, up = tl.split(tl.permute(tl.reshape(both, (BLOCK_M, 2, BLOCK_N)), (0, 2, 1)))
    value = gate / (1.0 + tl.exp(-gate)) * up
    n = first + tl.arange(0, BLOCK_N)
    target = act + place.to(tl.int64)[:, None] * N + n[None, :]
    tl.store(target, value.to(act.dtype.element_ty), mask=real[:, None] & (n < N)[None, :])


@triton.jit
def down_kernel(
    act,  # (P, K), rows act_stride apart
    packed,  # (E, N, BYTES) uint8
    scale,  # (E, BYTES / 16, N)
    partial,  # (P, N): for each pair
    pairs,
    offsets,
    tile_expert,
    tile_start,
    num_tiles,
    act_stride,
    N: tl.constexpr,
    K: tl.constexpr,
    BYTES: tl.constexpr,
    IN_BF16: tl.constexpr,
    WEIGHT_LEFT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute `down` for a tile of places and a block of columns, and write the rows to their pairs."""
    blocks_n: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    tile = tl.program_id(0) // blocks_n
    if tile >= tl.load(num_tiles):
        return
    expert = tl.load(tile_expert + tile).to(tl.int64)
    place = tl.load(tile_start + tile) + tl.arange(0, BLOCK_M)
    real = place < tl.load(offsets + expert + 1)
    n = (tl.program_id(0) % blocks_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = act + place.to(tl.int64)[:, None] * act_stride
    total = _multiply(
        rows, real, packed, scale, expert, n, n < N, N, K, BYTES, N % BLOCK_N == 0, IN_BF16, WEIGHT_LEFT, BLOCK_K
    )
    pair = tl.load(pairs + place, mask=real, other=0)
    target = partial + pair.to(tl.int64)[:, None] * N + n[None, :]
    tl.store(target, total.to(partial.dtype.element_ty), mask=real[:, None] & (n < N)[None, :])


@triton.jit
def _multiply(
    rows,
    real,
    packed,
    scale,
    expert,
    n,
    ok,
    N: tl.constexpr,
    K: tl.constexpr,
    BYTES: tl.constexpr,
    EVEN_N: tl.constexpr,
    IN_BF16: tl.constexpr,
    WEIGHT_LEFT: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Multiply those `rows` of inputs that are `real` by an expert's rows n, where `ok`: (BLOCK_M, BLOCK_N) fp32."""
    BLOCK_M: tl.constexpr = rows.shape[0]
    BLOCK_N: tl.constexpr = n.shape[0]
    k = tl.arange(0, BLOCK_K)
    byte = tl.arange(0, BLOCK_K // 2)
    group = tl.arange(0, BLOCK_K // 32)
    rows += k[None, :]
    packed += expert * (N * BYTES) + n[:, None] * BYTES + byte[None, :]
    scale += expert * (N * (BYTES // 16)) + group[:, None] * N + n[None, :]
    total = tl.zeros((BLOCK_N, BLOCK_M) if WEIGHT_LEFT else (BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, 2 * BYTES, BLOCK_K):
        if EVEN_N & (K % BLOCK_K == 0):
            inputs = tl.load(rows + start, mask=real[:, None], other=0.0)
            bytes_ = tl.load(packed + start // 2)
            scales = tl.load(scale + start // 32 * N)
        else:
            inputs = tl.load(rows + start, mask=real[:, None] & (start + k < K)[None, :], other=0.0)
            bytes_ = tl.load(packed + start // 2, mask=ok[:, None] & (start // 2 + byte < BYTES)[None, :], other=0)
            scales = tl.load(
                scale + start // 32 * N, mask=(start // 32 + group < BYTES // 16)[:, None] & ok[None, :], other=0.0
            )
        weight = unpack_tile(bytes_, scales, inputs.dtype, IN_BF16, BLOCK_N, BLOCK_K)
        if WEIGHT_LEFT:
            total = tl.dot(weight, tl.trans(inputs), total, input_precision="ieee")
        else:
            total = tl.dot(inputs, tl.trans(weight), total, input_precision="ieee")
    return tl.trans(total) if WEIGHT_LEFT else total


def find_block_m(num_tokens: int) -> int:
    """Return the places of one tile for this number of tokens, as `dispatch` requires."""
    return find_tile("moe_int4.gate_up", num_tokens).block_m


def gate_up(x: Tensor, routing: Routing, experts: HalfSplitExperts) -> Tensor:
    """Compute silu(gate x) * up x of each pair.

    Args:
        x: (T, H) bf16 or fp32, rows may be strided.
        routing: Routing of its T * top_k pairs, cut by `find_block_m(T)`.
        experts: E experts.

    Returns:
        (P, I) in the order of places; rows without a place are not written.
    """
    act = x.new_empty(len(routing.pairs), experts.intermediate_size)
    run(make_gate_up(x, routing, experts, act))
    return act


def down(act: Tensor, routing: Routing, experts: HalfSplitExperts) -> Tensor:
    """Compute the second matmul of each pair, not weighted: act (P, I) of `gate_up` to (P, H), row by pair.

    Rows of pairs without a place are not written.
    """
    partial = act.new_empty(len(act), experts.hidden_size)
    run(make_down(act, routing, experts, partial))
    return partial


def make_gate_up(
    x: Tensor, routing: Routing, experts: HalfSplitExperts, act: Tensor, tile: Tile | None = None
) -> Launch:
    """Return the launch of `gate_up`; `tile` is the table's by default.

    Raises:
        LaunchError: If the kernel does not support the shapes, dtypes, strides or the routing's tiles.
    """
    num_pairs = len(routing.pairs)
    check_shape("x", x, (num_pairs // routing.top_k, experts.hidden_size))
    check_shape("act", act, (num_pairs, experts.intermediate_size))
    tile = tile or find_tile("moe_int4.gate_up", len(x))
    tile = fit(tile, n=experts.intermediate_size, k=2 * experts.gate_up.shape[2])
    args, constexprs = _share(x, routing, experts.gate_up, experts.gate_up_scale, tile)
    return Launch(
        kernel=gate_up_kernel,
        grid=(routing.max_tiles * triton.cdiv(experts.intermediate_size, tile.block_n),),
        args={"x": x, "act": _check_output("act", act, x), "x_stride": x.stride(0), **args},
        constexprs={"TOP_K": routing.top_k, "N": experts.intermediate_size, **constexprs},
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def make_down(
    act: Tensor, routing: Routing, experts: HalfSplitExperts, partial: Tensor, tile: Tile | None = None
) -> Launch:
    """Return the launch of `down`; `tile` is the table's by default.

    Raises:
        LaunchError: If the kernel does not support the shapes, dtypes, strides or the routing's tiles.
    """
    num_pairs = len(routing.pairs)
    check_shape("act", act, (num_pairs, experts.intermediate_size))
    check_shape("partial", partial, (num_pairs, experts.hidden_size))
    tile = tile or find_tile("moe_int4.down", num_pairs // routing.top_k)
    tile = fit(tile, n=experts.hidden_size, k=2 * experts.down.shape[2])
    args, constexprs = _share(act, routing, experts.down, experts.down_scale, tile)
    return Launch(
        kernel=down_kernel,
        grid=(routing.max_tiles * triton.cdiv(experts.hidden_size, tile.block_n),),
        args={"act": act, "partial": _check_output("partial", partial, act), "act_stride": act.stride(0), **args},
        constexprs={"N": experts.hidden_size, **constexprs},
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def _share(
    inputs: Tensor, routing: Routing, packed: Tensor, scale: Tensor, tile: Tile
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Check and return the arguments and constants that both kernels have in common."""
    num_experts, num_rows, num_bytes = packed.shape
    check_dtype("inputs", inputs, torch.bfloat16, torch.float32)
    check_unit_stride("inputs", inputs)
    check_dtype("packed", packed, torch.uint8)
    check_dtype("scale", scale, torch.bfloat16, torch.float32)
    check_shape("scale", scale, (num_experts, num_bytes // 16, num_rows))
    check_shape("offsets", routing.offsets, (num_experts + 1,))
    if not (packed.is_contiguous() and scale.is_contiguous()):
        raise LaunchError("experts are not contiguous; pass them as repack() returns them")
    if tile.block_m != routing.block_m:
        text = f"pairs are cut into tiles of {routing.block_m}, expected {tile.block_m}"
        raise LaunchError(f"{text}: call dispatch with moe_int4.find_block_m")
    if tile.block_k % BLOCK:
        raise LaunchError(f"a tile's block_k is {tile.block_k}, expected a multiple of {BLOCK}")
    is_bf16 = inputs.dtype == scale.dtype == torch.bfloat16
    constexprs = {
        "K": inputs.shape[1],
        "BYTES": num_bytes,
        "IN_BF16": is_bf16 and not is_interpreted(gate_up_kernel),
        "WEIGHT_LEFT": tile.num_warps < WARP_GROUP,
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "BLOCK_K": tile.block_k,
    }
    names = ("pairs", "offsets", "tile_expert", "tile_start", "num_tiles")
    return {"packed": packed, "scale": scale, **{name: getattr(routing, name) for name in names}}, constexprs


def _check_output(name: str, output: Tensor, inputs: Tensor) -> Tensor:
    check_dtype(name, output, inputs.dtype)
    if not output.is_contiguous():
        raise LaunchError(f"{name} has the strides {output.stride()}, expected a contiguous output")
    return output


def release_cases() -> Iterator[KernelCase]:
    """Yield a case for each line of the table, at its maximum number of tokens."""
    for name in ("gate_up", "down"):
        for line in lines_of(f"moe_int4.{name}"):
            yield make_case(name, line.max_tokens or 16_384, line.tile)


def make_case(name: str, num_tokens: int, tile: Tile) -> KernelCase:
    """Return a case of `gate_up` or `down` at the release's sizes: 384 experts, top 8, 7168 and 2048 wide."""
    experts = HalfSplitExperts(
        gate_up=meta(384, 4096, 3584, dtype=torch.uint8),
        gate_up_scale=meta(384, 224, 4096),
        down=meta(384, 7168, 1024, dtype=torch.uint8),
        down_scale=meta(384, 64, 7168),
    )
    num_pairs = 8 * num_tokens
    routing = meta_routing(num_pairs, 384, tile.block_m, 8)
    inner, wide = meta(num_pairs, 2048), meta(num_pairs, 7168)
    if name == "gate_up":
        launch = make_gate_up(meta(num_tokens, 7168), routing, experts, inner, tile)
    else:
        launch = make_down(inner, routing, experts, wide, tile)
    return KernelCase(
        name=f"moe_int4.{name} M{tile.block_m}",
        launch=launch,
        has_wgmma=tile.block_m >= 64,
        has_async_copy=True,
        max_int_to_float=0,
    )
