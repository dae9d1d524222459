"""Kernel that writes a token to the paged cache: norm of its latent, rope on its rotary key, and the write.

One program per token: 576 values in, 576 out and 32 rotations, 2.6 kB; below some thousand tokens a launch costs more
than that. The gain is fewer launches: one, where eager torch needs six (norm, copy to fp32, product, rounding,
concatenation, write), or 13 if it has no fused norm for the device; 61 times a step. The speed relative to
torch.compile has not been measured.

Source: DeepSeek-V2 report, arXiv 2405.04434, section 2.1.2; Kwon et al. 2023, arXiv 2309.06180, section 4.1 (a cache in
blocks).
"""

from collections.abc import Iterator

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


@triton.jit
def norm_turn_write(
    cache,  # (slots, LATENT + ROPE) in rows of `stride_cache`
    slot_mapping,  # (N) int64
    latent,  # (N, LATENT) in rows of `stride_latent`
    k_rope,  # (N, ROPE) in rows of `stride_rope`
    weight,  # (LATENT)
    rotations,  # (N, ROPE) fp32: cosine and sine of each pair, in rows of `stride_rotations`
    stride_cache,
    stride_latent,
    stride_rope,
    stride_rotations,
    eps,
    LATENT: tl.constexpr,
    ROPE: tl.constexpr,
    BLOCK_LATENT: tl.constexpr,
    BLOCK_PAIRS: tl.constexpr,
):
    """Write one token. Slots and strides in int64: a layer's cache passes 2^31 values at 3.7 million tokens."""
    token = tl.program_id(0).to(tl.int64)
    row = cache + tl.load(slot_mapping + token) * stride_cache

    columns = tl.arange(0, BLOCK_LATENT)
    mask = columns < LATENT
    factors = tl.load(weight + columns, mask=mask, other=0.0).to(tl.float32)
    values = tl.load(latent + token * stride_latent + columns, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values) / LATENT + eps)
    tl.store(row + columns, (values * scale * factors).to(cache.dtype.element_ty), mask=mask)

    even = 2 * tl.arange(0, BLOCK_PAIRS)  # a pair is the values `even` and `even + 1`
    mask = even < ROPE
    k_rope += token * stride_rope
    rotations += token * stride_rotations
    real = tl.load(k_rope + even, mask=mask, other=0.0).to(tl.float32)
    imaginary = tl.load(k_rope + even + 1, mask=mask, other=0.0).to(tl.float32)
    cos = tl.load(rotations + even, mask=mask, other=0.0)
    sin = tl.load(rotations + even + 1, mask=mask, other=0.0)
    row += LATENT
    tl.store(row + even, (real * cos - imaginary * sin).to(cache.dtype.element_ty), mask=mask)
    tl.store(row + even + 1, (real * sin + imaginary * cos).to(cache.dtype.element_ty), mask=mask)


def write_latent(
    cache: Tensor, slot_mapping: Tensor, latent: Tensor, k_rope: Tensor, weight: Tensor, eps: float, rotations: Tensor
) -> None:
    """Write latents to the cache like `ops.reference.norm.write_latent`, without a check that slots are inside the
    cache.

    Raises:
        LaunchError: If shapes, dtypes or strides differ from the reference.
    """
    run(make_write_latent(cache, slot_mapping, latent, k_rope, weight, eps, rotations))


def make_write_latent(
    cache: Tensor, slot_mapping: Tensor, latent: Tensor, k_rope: Tensor, weight: Tensor, eps: float, rotations: Tensor
) -> Launch:
    """Return the launch. Arguments: see `write_latent`."""
    check_rows(cache, slot_mapping, latent, k_rope)
    check_norm_and_turns(latent, k_rope, weight, rotations)
    latent_dim, rope_dim = latent.shape[1], k_rope.shape[1]
    turns = torch.view_as_real(rotations).flatten(1)  # (N, rope_dim), not copied
    return Launch(
        kernel=norm_turn_write,
        grid=(len(latent),),
        args={
            "cache": cache,
            "slot_mapping": slot_mapping,
            "latent": latent,
            "k_rope": k_rope,
            "weight": weight,
            "rotations": turns,
            "stride_cache": cache.stride(1),
            "stride_latent": latent.stride(0),
            "stride_rope": k_rope.stride(0),
            "stride_rotations": turns.stride(0),
            "eps": eps,
        },
        constexprs={
            "LATENT": latent_dim,
            "ROPE": rope_dim,
            "BLOCK_LATENT": next_power(latent_dim),
            "BLOCK_PAIRS": next_power(rope_dim // 2),
        },
        num_warps=find_tile("latent", len(latent)).num_warps,
    )


def check_rows(cache: Tensor, slot_mapping: Tensor, latent: Tensor, k_rope: Tensor) -> None:
    """Check the cache and the tensors that are written to it.

    Raises:
        LaunchError: See `write_latent`.
    """
    check_shape("latent", latent, (None, None))
    check_shape("k_rope", k_rope, (len(latent), None))
    check_shape("cache", cache, (None, None, latent.shape[1] + k_rope.shape[1]))
    check_shape("slot_mapping", slot_mapping, (len(latent),))
    check_dtype("slot_mapping", slot_mapping, torch.int64)
    check_dtype("latent", latent, *DTYPES)
    check_dtype("k_rope", k_rope, latent.dtype)
    check_dtype("cache", cache, latent.dtype)
    for name, tensor in (("cache", cache), ("slot_mapping", slot_mapping), ("latent", latent), ("k_rope", k_rope)):
        check_unit_stride(name, tensor)
    if len(cache) > 1 and cache.stride(0) != cache.shape[1] * cache.stride(1):
        text = f"cache of the shape {tuple(cache.shape)} has the strides {cache.stride()}"
        raise LaunchError(f"{text}; its blocks must follow each other without gaps, so that a slot is one row")


def check_norm_and_turns(latent: Tensor, k_rope: Tensor, weight: Tensor, rotations: Tensor) -> None:
    """Check the norm's weight and the rotations.

    Raises:
        LaunchError: See `write_latent`.
    """
    check_shape("weight", weight, (latent.shape[1],))
    check_dtype("weight", weight, *DTYPES)
    check_unit_stride("weight", weight)
    if k_rope.shape[1] % 2:
        raise LaunchError(f"k_rope has {k_rope.shape[1]} values a row, expected an even number: they are pairs")
    check_dtype("rotations", rotations, torch.complex64)
    check_shape("rotations", rotations, (len(latent), k_rope.shape[1] // 2))
    check_unit_stride("rotations", rotations)


def release_cases() -> Iterator[KernelCase]:
    """Yield a case with slices of one matmul's rows, as the model passes them, and a cache of 64 tokens per block."""
    for tokens in (1, 4096):
        rows = meta(tokens, 1536 + 512 + 64)
        launch = make_write_latent(
            meta(4096, 64, 576),
            meta(tokens, dtype=torch.int64),
            rows[:, 1536:2048],
            rows[:, 2048:],
            meta(512),
            1e-6,
            meta(tokens, 32, dtype=torch.complex64),
        )
        yield KernelCase(name=f"latent.write_latent T{tokens}", launch=launch)
