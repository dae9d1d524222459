"""Merge of patches into the rows of the projector: mean over frames, layer norm, concatenation of 2 x 2 neighbours.

One program computes one row of the result: it reads four patches of each frame, keeps their means in registers in fp32,
normalizes each and writes them one after the other. Items of any size and number of frames share one launch: the host
lists the rows of tokens, and a program after the end of its row returns immediately.

Floor: every patch read once, every token written once. The 2,097,152 patches of a video of 2,048 frames move 6.0 GB:
1.4 ms, 0.04 % of the tower. The gain is fewer launches: one, where eager torch needs up to two an item (mean,
neighbours) and two more. The speed relative to torch.compile has not been measured.

Source: Kimi K2.5 report, section 4.2 (temporal pooling); Kimi-VL report, arXiv 2504.07491, section 2.1 (pixel shuffle).
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

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
from model_runtime.kernels.tiles import find_tile, next_power

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
PLANS_KEPT = 16  # sizes of images repeat within a conversation; a plan is a few small tensors


@triton.jit
def merge(
    x,  # (N, width) in rows of `stride_x`
    work,  # (rows of tokens, 5) int32: first patch, first token, patches in a row and in a frame, frames
    weight,  # (width)
    bias,  # (width)
    out,  # (tokens, DOWN * RIGHT * width)
    width,
    stride_x,
    eps,
    DOWN: tl.constexpr,
    RIGHT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Compute one token from DOWN x RIGHT patches of each frame."""
    work += tl.program_id(0) * 5
    across, frame, frames = tl.load(work + 2), tl.load(work + 3), tl.load(work + 4)
    place = tl.program_id(1)
    if place < across // RIGHT:
        neighbours, columns = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)[None, :]
        mask = (neighbours < DOWN * RIGHT)[:, None] & (columns < width)
        patches = tl.load(work) + neighbours // RIGHT * across + place * RIGHT + neighbours % RIGHT
        places = x + patches.to(tl.int64)[:, None] * stride_x + columns
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for _ in range(frames):
            total += tl.load(places, mask=mask, other=0.0).to(tl.float32)
            places += frame.to(tl.int64) * stride_x
        values = total / frames
        centred = tl.where(mask, values - tl.sum(values, 1)[:, None] / width, 0.0)
        scale = tl.rsqrt(tl.sum(centred * centred, 1)[:, None] / width + eps)
        factors = tl.load(weight + columns, mask=columns < width, other=0.0).to(tl.float32)
        shifts = tl.load(bias + columns, mask=columns < width, other=0.0).to(tl.float32)
        token = (tl.load(work + 1) + place).to(tl.int64)
        places = out + (token * (DOWN * RIGHT) + neighbours[:, None]) * width + columns
        tl.store(places, (centred * scale * factors + shifts).to(out.dtype.element_ty), mask=mask)


def merge_patches(
    x: Tensor,
    grids: Sequence[tuple[int, int, int]],
    merge: tuple[int, int],
    weight: Tensor,
    bias: Tensor,
    eps: float,
) -> Tensor:
    """Merge patches like `ops.reference.attention.merge_patches`, with fp32 arithmetic; rows of x may be strided.

    Raises:
        LaunchError: If shapes, dtypes or strides differ from the reference.
    """
    check_shape("x", x, (None, None))
    tokens = sum(h * w for _, h, w in grids) // (merge[0] * merge[1])
    out = torch.empty(tokens, merge[0] * merge[1] * x.shape[1], dtype=x.dtype, device=x.device)
    run(make_merge(x, tuple(grids), merge, (weight, bias), eps, out))
    return out


def make_merge(
    x: Tensor,
    grids: tuple[tuple[int, int, int], ...],
    merge_by: tuple[int, int],
    affine: tuple[Tensor, Tensor],
    eps: float,
    out: Tensor,
) -> Launch:
    """Return the launch; `affine` is weight and bias of the norm. Other arguments: see `merge_patches`."""
    check_inputs(x, grids, merge_by, affine)
    down, right = merge_by
    work = plan_work(grids, merge_by, x.device)
    tile = find_tile("merge_patches", len(x))
    return Launch(
        kernel=merge,
        grid=(len(work), max((w // right for _, _, w in grids), default=0)),
        args={
            "x": x,
            "work": work,
            "weight": affine[0],
            "bias": affine[1],
            "out": out,
            "width": x.shape[1],
            "stride_x": x.stride(0),
            "eps": eps,
        },
        constexprs={
            "DOWN": down,
            "RIGHT": right,
            "BLOCK_M": next_power(down * right, least=1),
            "BLOCK_N": next_power(x.shape[1]),
        },
        num_warps=tile.num_warps,
    )


def check_inputs(
    x: Tensor, grids: tuple[tuple[int, int, int], ...], merge_by: tuple[int, int], affine: tuple[Tensor, Tensor]
) -> None:
    """Check tensors, and their agreement with the items.

    Raises:
        LaunchError: See `merge_patches`.
    """
    check_shape("x", x, (None, None))
    check_dtype("x", x, *DTYPES)
    check_unit_stride("x", x)
    for name, tensor in zip(("weight", "bias"), affine, strict=True):
        check_shape(name, tensor, (x.shape[1],))
        check_dtype(name, tensor, *DTYPES)
        check_unit_stride(name, tensor)
    for t, h, w in grids:
        if t < 1 or h % merge_by[0] or w % merge_by[1]:
            raise LaunchError(f"an item of {t} frames of {h} x {w} patches; expected multiples of {merge_by}")
    if len(x) != sum(t * h * w for t, h, w in grids):
        raise LaunchError(
            f"x has {len(x)} patches, expected {sum(t * h * w for t, h, w in grids)} of {len(grids)} items"
        )


@lru_cache(maxsize=PLANS_KEPT)
def plan_work(grids: tuple[tuple[int, int, int], ...], merge_by: tuple[int, int], device: torch.device) -> Tensor:
    """Return a row for each row of tokens, (rows, 5) int32: its first patch, its first token, the item's w, h * w and
    t.
    """
    down, right = merge_by
    rows, patch, token = [], 0, 0
    for t, h, w in grids:
        for _ in range(h // down):
            rows.append((patch, token, w, h * w, t))
            patch, token = patch + down * w, token + w // right
        patch += (t - 1) * h * w
    return torch.tensor(rows, dtype=torch.int32, device=device).view(-1, 5)


def release_cases() -> Iterator[KernelCase]:
    """Yield cases for a screenshot of 1920 x 1080, and for four chunks of a video of 448 x 448."""
    weight, bias = (meta(1152) for _ in range(2))
    for name, grids in (("1080p", ((1, 78, 138),)), ("video", ((4, 32, 32),) * 4)):
        x = meta(sum(t * h * w for t, h, w in grids), 1152)
        out = meta(sum(h * w for _, h, w in grids) // 4, 4 * 1152)
        yield KernelCase(
            name=f"merge_patches.merge {name}", launch=make_merge(x, grids, (2, 2), (weight, bias), 1e-5, out)
        )
