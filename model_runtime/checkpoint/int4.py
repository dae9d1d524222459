"""INT4 weights in compressed-tensors' format `pack-quantized`: eight values in one int32, a scale per group.

A value q in [-8, 7] is stored as q + 8 in four bits; element k of eight has bits 4k to 4k+3. There is no zero point.

Source: Kimi K2.5 report, section on INT4 quantization-aware training; compressed-tensors, `pack_quantized`.
"""

import torch
from torch import Tensor

PER_INT32 = 8  # four bits each


def pack(q: Tensor) -> Tensor:
    """Pack eight values in one int32: (out, in) in [-8, 7] to (out, ceil(in / 8)), padded with the stored value 0."""
    nibbles = torch.nn.functional.pad((q + 8).to(torch.uint8), (0, -q.shape[1] % PER_INT32))
    return (nibbles[:, 0::2] | nibbles[:, 1::2] << 4).view(torch.int32)


def unpack(packed: Tensor, num_in: int | None = None) -> Tensor:
    """Unpack rows: (out, in / 8) int32 to (out, `num_in`) int8 in [-8, 7]; None for all values."""
    pairs = packed.contiguous().view(torch.uint8)  # (out, in / 2), lower half first
    nibbles = torch.stack((pairs & 15, pairs >> 4), -1).flatten(1)[:, :num_in]
    return nibbles.view(torch.int8) - 8


def quantize(weight: Tensor, group_size: int = 32) -> tuple[Tensor, Tensor]:
    """Quantize a weight to four bits, symmetric, with a scale for each group along the input.

    The scale is the largest magnitude of the group / 7.5, rounded to the weight's dtype, so that -8 is reached. A group
    of zeros has scale 0 and values 0.

    Args:
        weight: (out, in) floating, in a multiple of `group_size`.
        group_size: Inputs that share a scale.

    Returns:
        Values (out, in) int8 and scales (out, in / group_size) in the weight's dtype.
    """
    groups = weight.float().reshape(len(weight), -1, group_size)  # (out, groups, group_size)
    scale = (groups.abs().amax(-1) / 7.5).to(weight.dtype)
    divisor = scale.float().clamp_min(torch.finfo(torch.float32).tiny)
    q = (groups / divisor.unsqueeze(-1)).round().clamp(-8, 7)
    return q.to(torch.int8).flatten(1), scale


def dequantize(packed: Tensor, scale: Tensor, dtype: torch.dtype = torch.bfloat16, num_in: int | None = None) -> Tensor:
    """Return the (out, in) weight of packed values: each times the scale of its group, rounded once to `dtype`.

    Args:
        packed: (out, in / 8) int32.
        scale: (out, in / group_size) floating.
        dtype: Dtype of the weight.
        num_in: Columns of the weight; None for all values.
    """
    q = unpack(packed, num_in)
    wide = torch.promote_types(scale.dtype, dtype)
    groups = q.reshape(*scale.shape, -1).to(wide) * scale.to(wide).unsqueeze(-1)  # (out, groups, group_size)
    return groups.to(dtype).flatten(1)
