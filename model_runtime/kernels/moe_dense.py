"""Experts in the model's own dtype for many tokens: two grouped matmuls over tiles of rows of one expert.

The first gathers its rows, multiplies them by a block of the gate's columns and the same block of the up projection's
in one program, and writes silu(gate) * up: the product of width 2I never reaches memory. The second reads rows in
sorted order and scatters its own to their pairs; the sum over a token's experts is left to `combine`. fp8 activations
are not supported.

Weights come through TMA: a layer's experts are one matrix of E * N rows, so that one descriptor, made on the device
when a program starts, is enough for all of its work. Gathered rows come through cp.async, as TMA supports row gathers
only from Blackwell on. Programs are persistent and loop over their work; tiles of one expert that share a block of
columns are neighbours in time, so that weights come from memory once and after that from L2.

Floor of both, for 384 experts of 7168 x 2048, top 8: 33.8 GB of bf16 weights once all are in use, 7.9 ms at 4.3 TB/s;
0.72 TFLOP for 1,024 tokens, which at 790 TFLOP/s takes longer from about 8,800 tokens on.

Source: grouped matmuls, MegaBlocks (arXiv 2211.15841), section 5; order of blocks, Triton's tutorial on matmul.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
import triton
import triton.language as tl
from torch import Tensor

from model_runtime.kernels.dispatch import Routing, meta_routing
from model_runtime.kernels.launch import (
    ALIGNMENT,
    MAX_SHARED_BYTES,
    KernelCase,
    Launch,
    LaunchError,
    check_contiguous,
    check_dtype,
    check_shape,
    check_unit_stride,
    meta,
    run,
)
from model_runtime.kernels.tiles import Tile, find_tile, fit
from model_runtime.ops.registry import DenseExperts

MULTIPROCESSORS = 132
"""Multiprocessors of an H100 or H200. A GPU with fewer runs the remaining programs afterwards."""

WARPS_AT_ONCE = 16
"""Concurrent warps of one multiprocessor, at 128 registers per thread."""

WGMMA_ROWS = 64
"""Minimum number of rows at which Triton reads both operands from shared memory; its pipeline then keeps one more
buffer.
"""

GROUP_M = 16
"""Tiles of one expert that go through the blocks of columns together. 132 programs are 16 tiles of 128 rows times 8
blocks of 128 + 128 columns: about as many bytes of rows as of weights.
"""


@triton.jit
def find_work(work, n_blocks, offsets, tile_expert, tile_start, BLOCK_M: tl.constexpr, GROUP_M: tl.constexpr):
    """Return expert, first place, end of the expert's places, and block of columns of a work item."""
    near = work // n_blocks  # a tile of the same expert: each expert has (its tiles) * n_blocks consecutive work items
    expert = tl.load(tile_expert + near)
    first = tl.load(offsets + expert)
    end = tl.load(offsets + expert + 1)
    tiles_before = near - (tl.load(tile_start + near) - first) // BLOCK_M
    piece = work - tiles_before * n_blocks
    group = piece // (GROUP_M * n_blocks) * GROUP_M
    size = tl.minimum(tl.cdiv(end - first, BLOCK_M) - group, GROUP_M)
    piece -= group * n_blocks
    return expert, first + (group + piece % size) * BLOCK_M, end, piece // size


@triton.jit
def gate_up_kernel(
    x,  # (T, H), rows stride_x apart
    gate_up,  # (E, 2I, H): the gate's rows, then the up projection's
    act,  # (P, I), row by place
    pairs,  # (P,)
    offsets,  # (E + 1,)
    tile_expert,  # (max_tiles,)
    tile_start,  # (max_tiles,)
    num_tiles,  # (1,)
    stride_x,
    num_experts,
    hidden,
    inter,
    TOP_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """Compute silu(gate) * up, rows by place."""
    weights = tl.make_tensor_descriptor(gate_up, [num_experts * 2 * inter, hidden], [hidden, 1], [BLOCK_N, BLOCK_K])
    n_blocks = tl.cdiv(inter, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    for work in tl.range(tl.program_id(0), tl.load(num_tiles) * n_blocks, tl.num_programs(0)):
        expert, start, end, block = find_work(work, n_blocks, offsets, tile_expert, tile_start, BLOCK_M, GROUP_M)
        places = start + tl.arange(0, BLOCK_M)
        is_real = places < end
        tokens = tl.load(pairs + places, is_real, 0) // TOP_K
        rows = x + tokens.to(tl.int64)[:, None] * stride_x + k[None, :]  # (M, K)
        top = expert * 2 * inter + block * BLOCK_N
        gate = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        up = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start_k in tl.range(0, hidden, BLOCK_K):
            a = tl.load(rows + start_k, is_real[:, None] & (k < hidden - start_k)[None, :], 0.0)
            gate = tl.dot(a, weights.load([top, start_k]).T, gate, input_precision="ieee")
            up = tl.dot(a, weights.load([top + inter, start_k]).T, up, input_precision="ieee")
        columns = block * BLOCK_N + tl.arange(0, BLOCK_N)
        out = act + places.to(tl.int64)[:, None] * inter + columns[None, :]
        value = gate / (1 + tl.exp(-gate)) * up
        tl.store(out, value.to(act.dtype.element_ty), is_real[:, None] & (columns < inter)[None, :])


@triton.jit
def down_kernel(
    act,  # (P, I), row by place, rows stride_act apart
    down,  # (E, H, I)
    partial,  # (P, H), row by pair
    pairs,  # (P,)
    offsets,  # (E + 1,)
    tile_expert,  # (max_tiles,)
    tile_start,  # (max_tiles,)
    num_tiles,  # (1,)
    stride_act,
    num_pairs,
    num_experts,
    hidden,
    inter,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """Compute the down projection, rows by pair."""
    rows = tl.make_tensor_descriptor(act, [num_pairs, inter], [stride_act, 1], [BLOCK_M, BLOCK_K])
    weights = tl.make_tensor_descriptor(down, [num_experts * hidden, inter], [inter, 1], [BLOCK_N, BLOCK_K])
    n_blocks = tl.cdiv(hidden, BLOCK_N)
    for work in tl.range(tl.program_id(0), tl.load(num_tiles) * n_blocks, tl.num_programs(0)):
        expert, start, end, block = find_work(work, n_blocks, offsets, tile_expert, tile_start, BLOCK_M, GROUP_M)
        top = expert * hidden + block * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start_k in tl.range(0, inter, BLOCK_K):
            a = rows.load([start, start_k])  # rows of the next expert are also loaded and not stored
            total = tl.dot(a, weights.load([top, start_k]).T, total, input_precision="ieee")
        places = start + tl.arange(0, BLOCK_M)
        is_real = places < end
        pair = tl.load(pairs + places, is_real, 0).to(tl.int64)
        columns = block * BLOCK_N + tl.arange(0, BLOCK_N)
        out = partial + pair[:, None] * hidden + columns[None, :]
        tl.store(out, total.to(partial.dtype.element_ty), is_real[:, None] & (columns < hidden)[None, :])


def find_block_m(num_tokens: int) -> int:
    """Return the rows of a tile for this number of tokens, as `dispatch` requires."""
    return find_tile("moe_dense.gate_up", num_tokens).block_m


def gate_up(x: Tensor, routing: Routing, experts: DenseExperts) -> Tensor:
    """Compute the first half of an expert for each pair: silu(gate x) * up x.

    Args:
        x: (T, H), bf16 or fp32; rows may be strided.
        routing: Routing of these tokens.
        experts: Experts of x's dtype.

    Returns:
        (P, I), row by place; rows of places without an expert held here are not written.
    """
    act = x.new_empty(len(routing.pairs), experts.intermediate_size)
    _run(make_gate_up(x, routing, experts, act))
    return act


def down(act: Tensor, routing: Routing, experts: DenseExperts) -> Tensor:
    """Compute the second half, not yet weighted: act (P, I) of `gate_up` to (P, H), row by pair.

    Rows of pairs whose expert is held elsewhere are not written.
    """
    partial = act.new_empty(len(routing.pairs), experts.down.shape[1])
    _run(make_down(act, routing, experts, partial))
    return partial


def make_gate_up(x: Tensor, routing: Routing, experts: DenseExperts, act: Tensor) -> Launch:
    """Return the launch of `gate_up` into act (P, I).

    Raises:
        LaunchError: If shapes, dtypes or strides do not fit.
    """
    _, hidden, inter = _check_experts(experts, x)
    check_shape("x", x, (None, hidden))
    check_unit_stride("x", x)
    check_shape("act", act, (x.shape[0] * routing.top_k, inter))
    tile = _find_tile("moe_dense.gate_up", x, x.shape[0], routing, n=inter, k=hidden)
    return Launch(
        kernel=gate_up_kernel,
        grid=_find_grid(tile, routing, inter, tile.block_m + 2 * tile.block_n, x.itemsize),
        args={"x": x, "gate_up": experts.gate_up, "act": act, "stride_x": x.stride(0), **_share(routing, experts)},
        constexprs={"TOP_K": routing.top_k, **_blocks(tile)},
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def make_down(act: Tensor, routing: Routing, experts: DenseExperts, partial: Tensor) -> Launch:
    """Return the launch of `down` into partial (P, H).

    Raises:
        LaunchError: If shapes, dtypes or strides do not fit.
    """
    _, hidden, inter = _check_experts(experts, act)
    check_shape("act", act, (len(routing.pairs), inter))
    check_unit_stride("act", act)
    _check_tma("act", act)
    check_shape("partial", partial, (len(act), hidden))
    tile = _find_tile("moe_dense.down", act, len(act) // routing.top_k, routing, n=hidden, k=inter)
    tensors = {"act": act, "down": experts.down, "partial": partial}
    return Launch(
        kernel=down_kernel,
        grid=_find_grid(tile, routing, hidden, tile.block_m + tile.block_n, act.itemsize),
        args={**tensors, "stride_act": act.stride(0), "num_pairs": len(act), **_share(routing, experts)},
        constexprs=_blocks(tile),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def release_cases() -> Iterator[KernelCase]:
    """Yield a case for each line of the table at the release's sizes in bf16, and the same tiles as reduced for
    fp32.
    """
    for num_tokens in (512, 4096, 16384):
        for dtype in (torch.bfloat16, torch.float32):
            yield from _release_cases(num_tokens, dtype)


def _release_cases(num_tokens: int, dtype: torch.dtype) -> Iterator[KernelCase]:
    num_experts, hidden, inter, top_k, block_m = 384, 7168, 2048, 8, find_block_m(num_tokens)

    def empty(*shape: int, dtype: torch.dtype = dtype) -> Tensor:
        return meta(*shape, dtype=dtype)

    experts = DenseExperts(gate_up=empty(num_experts, 2 * inter, hidden), down=empty(num_experts, hidden, inter))
    pairs = num_tokens * top_k
    routing = meta_routing(pairs, num_experts, block_m, top_k)
    act = empty(pairs, inter)
    for launch in (
        make_gate_up(empty(num_tokens, hidden), routing, experts, act),
        make_down(act, routing, experts, empty(pairs, hidden)),
    ):
        name = f"moe_dense.{launch.name.removesuffix('_kernel')} M{block_m}{'' if dtype == torch.bfloat16 else ' fp32'}"
        has_wgmma = block_m >= 64 and dtype == torch.bfloat16
        yield KernelCase(name=name, launch=launch, has_wgmma=has_wgmma, has_async_copy=True, max_int_to_float=8)


def _check_experts(experts: DenseExperts, rows: Tensor) -> tuple[int, int, int]:
    """Check experts and return their number, hidden size and inner width."""
    num_experts, hidden, inter = experts.down.shape
    check_shape("gate_up", experts.gate_up, (num_experts, 2 * inter, hidden))
    check_dtype("rows", rows, torch.bfloat16, torch.float32)
    for name, weight in (("gate_up", experts.gate_up), ("down", experts.down)):
        check_dtype(name, weight, rows.dtype)
        check_contiguous(name, weight)
        _check_tma(name, weight)
    return num_experts, hidden, inter


def _check_tma(name: str, tensor: Tensor) -> None:
    if (stride := tensor.stride(-2) * tensor.itemsize) % ALIGNMENT:
        raise LaunchError(f"rows of {name} are {stride} bytes apart, expected a multiple of {ALIGNMENT}")


def _find_tile(name: str, rows: Tensor, num_tokens: int, routing: Routing, *, n: int, k: int) -> Tile:
    """Return the table's tile with the routing's rows; for fp32, which has no tensor cores, one that fits in
    registers.
    """
    tile = replace(fit(find_tile(name, num_tokens), n=n, k=k), block_m=routing.block_m)
    if rows.dtype == torch.float32:
        most_n, most_k = max(16, 2048 // tile.block_m), max(16, 512 // tile.block_m)
        block_n, block_k = min(tile.block_n, most_n, 64), min(tile.block_k, most_k)
        tile = replace(tile, block_n=block_n, block_k=block_k, num_stages=min(tile.num_stages, 3))
    return tile


def _find_grid(tile: Tile, routing: Routing, columns: int, block_rows: int, itemsize: int) -> tuple[int]:
    """Return the number of programs: as many as run at once, limited by the work. `block_rows` counts the rows that one
    step loads.
    """
    buffers = tile.num_stages if tile.block_m >= WGMMA_ROWS else tile.num_stages - 1
    shared = buffers * block_rows * tile.block_k * itemsize
    at_once = max(1, min(MAX_SHARED_BYTES // shared, WARPS_AT_ONCE // tile.num_warps))
    return (min(routing.max_tiles * triton.cdiv(columns, tile.block_n), MULTIPROCESSORS * at_once),)


def _share(routing: Routing, experts: DenseExperts) -> dict[str, Tensor | int]:
    """Return the arguments that both kernels have in common."""
    return {
        "pairs": routing.pairs,
        "offsets": routing.offsets,
        "tile_expert": routing.tile_expert,
        "tile_start": routing.tile_start,
        "num_tiles": routing.num_tiles,
        "num_experts": experts.num_experts,
        "hidden": experts.down.shape[1],
        "inter": experts.intermediate_size,
    }


def _blocks(tile: Tile) -> dict[str, int]:
    return {"BLOCK_M": tile.block_m, "BLOCK_N": tile.block_n, "BLOCK_K": tile.block_k, "GROUP_M": GROUP_M}


def _run(launch: Launch) -> None:
    """Run a kernel that makes descriptors, for which Triton allocates memory per program."""
    triton.set_allocator(_allocate)  # applies to this thread
    run(launch)


def _allocate(size: int, alignment: int, stream: int | None) -> Tensor:
    """Allocate memory of the current stream, so that it is reused only after the kernel."""
    return torch.empty(size, dtype=torch.int8, device="cuda")
