"""INT4 weights in half-split packing to floats, inside of kernels.

A plane of nibbles is one group of 32 inputs. A nibble n beside the byte 0x43 is the bf16 number 128 + n; less 136 it is
the weight's value, exactly, so that no integer is converted; times its scale it is rounded once, as the reference does.
With four bytes to a register that is about two instructions a weight. Triton's own operations become twice as many,
hence the assembly.

Source: Kim et al., "Who Says Elephants Can't Run" (arXiv 2211.10017), there for fp16.
"""

import triton
import triton.language as tl

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
"""Four bytes and four scales of each plane -> four weights of the low plane and four of the high one."""


@triton.jit
def unpack_tile(
    packed, scale, dtype: tl.constexpr, IN_BF16: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Bytes (BLOCK_N, BLOCK_K / 2) and scales (BLOCK_K / 32, BLOCK_N) -> weights (BLOCK_N, BLOCK_K) of `dtype`.

    No value changes its thread: joins and permutations only rename registers. `IN_BF16` is for inputs and scales of
    bf16 on a GPU; the interpreter has no assembly and no right arithmetic in bf16.
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
    """Weights in fp32; with `rounds` to the nearest bf16, in integers, because the interpreter's cast cuts bits off."""
    weight = (nibble.to(tl.float32) - 8.0) * scale.to(tl.float32)
    if rounds:
        bits = weight.to(tl.uint32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        weight = bits.to(tl.float32, bitcast=True)
    return weight
