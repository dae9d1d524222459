"""Root mean square norm, and the row that attention keeps of a token."""

import torch.nn.functional as F
from torch import Tensor

from model_runtime.ops.registry import register


@register("rms_norm", "torch")
def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Rows over their root mean square, sqrt(mean(x^2) + eps), times weight; fp32 inside.

    Args:
        x: (N, H); rows may be strided.
        weight: (H,).
        eps: Added to the mean square.

    Returns:
        (N, H) of x's dtype.

    Source: Zhang and Sennrich 2019, arXiv 1910.07467, equation 4.
    """
    return F.rms_norm(x, weight.shape, weight, eps)


@register("write_latent", "torch")
def write_latent(cache: Tensor, slot_mapping: Tensor, latent: Tensor) -> None:
    """Write each token's row to its slot, in place.

    Args:
        cache: (blocks, block_size, latent_dim) of one layer.
        slot_mapping: (N,) int64, `block * block_size + row`.
        latent: (N, latent_dim).
    """
    cache.view(-1, cache.shape[-1]).index_copy_(0, slot_mapping, latent)
