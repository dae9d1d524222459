"""INT4 experts in the layout of the kernels: conversion of the stored bytes, and unpacking in a kernel.

As stored, one byte holds inputs 2j and 2j + 1, so that a kernel would have to interleave two nibbles between threads.
Here a byte of a block of 64 inputs holds input j and input j + 32: each plane of nibbles is then a whole group of 32
inputs with one scale and an operand of its own matmul, and every byte is loaded once. Scales are transposed, so that
the scales for one step of a kernel are contiguous.

The number of bytes stays the same, so each expert is rewritten in place: a checkpoint that fills most of the GPU needs
no second copy, only the temporaries of one expert (about five times its bytes). Only if a width is not a multiple of 64
(no release has that) are rows padded to whole blocks, with the value 0 and the scale 0, and copied.

A nibble n next to the byte 0x43 is the bf16 number 128 + n; minus 136 it is exactly the weight's value, without an
integer conversion; times its scale it is rounded once, as in the reference. With four bytes per register that is about
two instructions a weight. Triton's own operations would need twice as many, hence the assembly.

Source: Kim et al., "Who Says Elephants Can't Run" (arXiv 2211.10017), there for fp16.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from model_runtime.kernels.launch import LaunchError, check_dtype, check_shape
from model_runtime.ops.registry import Int4Experts

GROUP = 32
"""Inputs under one scale, and the bytes of one block."""

BLOCK = 2 * GROUP
"""Inputs of one block."""

ZERO = 8
"""Stored nibble of the value 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfSplitExperts:
    """INT4 experts in the layout of the kernels. Values are stored as value + 8.

    Rows are whole blocks: if H or I is not a multiple of 64, the last block's high nibbles are the value 0 (stored as
    8) under the scale 0. Kernels then mask only their own inputs.

    Attributes:
        gate_up: (E, 2I, H / 2 padded to a multiple of 32) uint8: in each block of 64 inputs, byte j of 32 holds input j
            low and input j + 32 high.
        gate_up_scale: (E, H / 32 padded to a multiple of 2, 2I) of the checkpoint's dtype: the scales of one group of
            inputs are contiguous.
        down: (E, H, I / 2 padded) uint8.
        down_scale: (E, I / 32 padded, H).
    """

    gate_up: Tensor
    gate_up_scale: Tensor
    down: Tensor
    down_scale: Tensor

    @property
    def num_experts(self) -> int:
        """Number of experts held here."""
        return self.gate_up.shape[0]

    @property
    def hidden_size(self) -> int:
        """Width of the model, H."""
        return self.down.shape[1]

    @property
    def intermediate_size(self) -> int:
        """Inner width of one expert, I."""
        return self.gate_up.shape[1] // 2


def repack(experts: Int4Experts) -> HalfSplitExperts:
    """Rewrite experts in place, one at a time; the argument's tensors must not be read afterwards.

    Args:
        experts: Experts as packed in the release, on any device.

    Returns:
        The same weights in the same memory; in new memory if a width is not a multiple of 64 or a tensor was not
        contiguous.

    Raises:
        LaunchError: If groups are not of 32 inputs, or shapes or dtypes do not match.
    """
    _check(experts)
    return HalfSplitExperts(
        gate_up=_split_halves(experts.gate_up_packed.contiguous()),
        gate_up_scale=_transpose(experts.gate_up_scale.contiguous()),
        down=_split_halves(experts.down_packed.contiguous()),
        down_scale=_transpose(experts.down_scale.contiguous()),
    )


def unpack(packed: Tensor, num_in: int) -> Tensor:
    """Unpack the values of half-split rows: (..., bytes) uint8 -> (..., num_in) int8 in [-8, 7]."""
    blocks = packed.unflatten(-1, (-1, GROUP))
    nibbles = torch.cat((blocks & 15, blocks >> 4), -1).flatten(-2)
    return nibbles[..., :num_in].view(torch.int8) - ZERO


def dequantize(packed: Tensor, scale: Tensor, num_in: int) -> Tensor:
    """Return the weights of half-split rows, rounded to the scale's dtype.

    Args:
        packed: (..., out, bytes) uint8.
        scale: (..., groups, out).
        num_in: Columns of the weight.

    Returns:
        (..., out, num_in).
    """
    wide = scale.transpose(-1, -2).repeat_interleave(GROUP, -1)[..., :num_in]
    return unpack(packed, num_in).to(scale.dtype) * wide


def _check(experts: Int4Experts) -> None:
    num_experts, twice, hidden = experts.num_experts, experts.gate_up_packed.shape[1], experts.down_packed.shape[1]
    if experts.group_size != GROUP:
        text = f"groups of {experts.group_size} inputs; these kernels read groups of {GROUP}. Use the kernels 'torch'"
        raise LaunchError(f"INT4 experts have {text}")
    for name, packed, scale, out, num_in in (
        ("gate_up", experts.gate_up_packed, experts.gate_up_scale, twice, hidden),
        ("down", experts.down_packed, experts.down_scale, hidden, twice // 2),
    ):
        if num_in % GROUP:
            raise LaunchError(f"{name} has {num_in} inputs, expected a multiple of {GROUP}. Use the kernels 'torch'")
        check_dtype(f"{name}_packed", packed, torch.int32)
        check_dtype(f"{name}_scale", scale, torch.bfloat16, torch.float16, torch.float32)
        check_shape(f"{name}_packed", packed, (num_experts, out, num_in // 8))
        check_shape(f"{name}_scale", scale, (num_experts, out, num_in // GROUP))


def _split_halves(packed: Tensor) -> Tensor:
    """Convert (E, out, in / 8) int32 of neighbours to (E, out, in / 2 padded) uint8 of halves, in place unless
    padded.
    """
    stored = packed.view(torch.uint8)  # (E, out, in / 2): byte j holds input 2j low, input 2j + 1 high
    pad = -stored.shape[-1] % GROUP
    halves = stored if pad == 0 else stored.new_empty(*stored.shape[:-1], stored.shape[-1] + pad)
    for source, target in zip(stored, halves, strict=True):
        whole = torch.nn.functional.pad(source, (0, pad), value=ZERO | ZERO << 4)
        groups = torch.stack((whole & 15, whole >> 4), -1).view(len(whole), -1, 2, GROUP)  # one byte a value, in order
        torch.bitwise_or(groups[:, :, 0], groups[:, :, 1] << 4, out=target.view(len(whole), -1, GROUP))
    return halves


def _transpose(scale: Tensor) -> Tensor:
    """Transpose (E, out, groups) to (E, groups padded to an even number, out), in place unless padded."""
    num_experts, out, groups = scale.shape
    even = groups + groups % 2
    target = scale.view(num_experts, groups, out) if even == groups else scale.new_zeros(num_experts, even, out)
    for source, to in zip(scale, target, strict=True):
        to[:groups] = source.t().contiguous()  # read before it is overwritten
    return target


UNPACK: tl.constexpr = tl.constexpr("""{
    .reg .b32 low, high, low0, low1, high0, high1, magic, offset;
    mov.b32 magic, 0x43434343;
    mov.b32 offset, 0x43084308;
    and.b32 low, $4, 0x0f0f0f0f;
    shr.b32 high, $4, 4;
    and.b32 high, high, 0x0f0f0f0f;
    prmt.b32 low0, low, magic, 0x4140;
    prmt.b32 low1, low, magic, 0x4342;
    prmt.b32 high0, high, magic, 0x4140;
    prmt.b32 high1, high, magic, 0x4342;
    sub.bf16x2 low0, low0, offset;
    sub.bf16x2 low1, low1, offset;
    sub.bf16x2 high0, high0, offset;
    sub.bf16x2 high1, high1, offset;
    mul.bf16x2 $0, low0, $5;
    mul.bf16x2 $1, low1, $6;
    mul.bf16x2 $2, high0, $7;
    mul.bf16x2 $3, high1, $8;
}""")
"""Assembly that unpacks four bytes with four scales of each plane to four weights of the low and four of the high
plane.
"""


@triton.jit
def unpack_tile(
    packed, scale, dtype: tl.constexpr, IN_BF16: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Unpack bytes (BLOCK_N, BLOCK_K / 2) and scales (BLOCK_K / 32, BLOCK_N) to weights (BLOCK_N, BLOCK_K) of `dtype`.

    No value moves between threads: joins and permutations only rename registers. `IN_BF16` is for inputs and scales of
    bf16 on a GPU; the interpreter has no assembly and no correct arithmetic in bf16.
    """
    blocks: tl.constexpr = BLOCK_K // 64
    low_scale, high_scale = tl.split(tl.reshape(tl.trans(scale), (BLOCK_N, blocks, 2)))
    low_scale = tl.broadcast_to(low_scale[:, :, None], (BLOCK_N, blocks, 32)).reshape(BLOCK_N, BLOCK_K // 2)
    high_scale = tl.broadcast_to(high_scale[:, :, None], (BLOCK_N, blocks, 32)).reshape(BLOCK_N, BLOCK_K // 2)
    if IN_BF16:
        low, high = tl.inline_asm_elementwise(
            UNPACK,
            "=r,=r,=r,=r,r,r,r,r,r",
            [packed, low_scale, high_scale],
            (tl.bfloat16, tl.bfloat16),
            is_pure=True,
            pack=4,
        )
    else:
        rounds: tl.constexpr = (scale.dtype == tl.bfloat16) | (dtype == tl.bfloat16)
        low = _scale_in_fp32(packed & 15, low_scale, rounds).to(dtype)
        high = _scale_in_fp32(packed >> 4, high_scale, rounds).to(dtype)
    planes = tl.join(low, high).reshape(BLOCK_N, blocks, 32, 2)
    return tl.permute(planes, (0, 1, 3, 2)).reshape(BLOCK_N, BLOCK_K)


@triton.jit
def _scale_in_fp32(nibble, scale, rounds: tl.constexpr):
    """Return weights in fp32; with `rounds` to the nearest bf16, in integers, because the interpreter's cast
    truncates.
    """
    weight = (nibble.to(tl.float32) - 8.0) * scale.to(tl.float32)
    if rounds:
        bits = weight.to(tl.uint32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        weight = bits.to(tl.float32, bitcast=True)
    return weight
