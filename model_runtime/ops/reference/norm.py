"""Root mean square norm, with a residual, and of the cached row of a token; rotary positions.

Source: Su et al. 2021, arXiv 2104.09864, section 3.2, for rotary positions of the language model.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from model_runtime.ops.registry import register


def rotate(x: Tensor, rotations: Tensor) -> Tensor:
    """Rotate the pairs (2j, 2j + 1) of the last axis.

    Args:
        x: (N, rope_dim) or (N, heads, rope_dim).
        rotations: (N, rope_dim / 2) complex64.

    Returns:
        Result of x's shape and dtype, with pairs at the same indices.
    """
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous())
    turned = pairs * (rotations if x.dim() == 2 else rotations.unsqueeze(1))
    return torch.view_as_real(turned).flatten(-2).to(x.dtype)


@register("rms_norm", "torch")
def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Divide rows by their root mean square, sqrt(mean(x^2) + eps), and multiply by weight; fp32 inside.

    Args:
        x: (N, H); rows may be strided.
        weight: (H,).
        eps: Value added to the mean square.

    Returns:
        (N, H) of x's dtype.

    Source: Zhang and Sennrich 2019, arXiv 1910.07467, equation 4.
    """
    return F.rms_norm(x, weight.shape, weight, eps)


@register("add_rms_norm", "torch")
def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Add to the residual stream, and normalize it.

    Args:
        x: (N, H), the summand.
        residual: (N, H).
        weight: (H,).
        eps: Value added to the mean square.

    Returns:
        (N, H) the norm of residual + x, and (N, H) that sum, rounded to x's dtype before the norm.
    """
    total = residual + x
    return rms_norm(total, weight, eps), total


@register("write_latent", "torch")
def write_latent(
    cache: Tensor, slot_mapping: Tensor, latent: Tensor, k_rope: Tensor, weight: Tensor, eps: float, rotations: Tensor
) -> None:
    """Normalize each token's latent, rotate its rotary key, and write both as one row to its slot, in place.

    Args:
        cache: (blocks, block_size, latent_dim) of one layer; latent_dim is kv_lora_rank + rope_dim.
        slot_mapping: (N,) int64, `block * block_size + row`.
        latent: (N, kv_lora_rank); rows may be strided.
        k_rope: (N, rope_dim); rows may be strided.
        weight: (kv_lora_rank,), weight of the norm.
        eps: Epsilon of the norm.
        rotations: (N, rope_dim / 2) complex64.

    Source: DeepSeek-V2 report (arXiv 2405.04434), section 2.1.2.
    """
    row = torch.cat((rms_norm(latent, weight, eps), rotate(k_rope, rotations)), dim=-1)
    cache.view(-1, cache.shape[-1]).index_copy_(0, slot_mapping, row)
