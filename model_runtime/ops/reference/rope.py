"""Rotary positions of the language model. Source: Su et al. 2021, arXiv 2104.09864, section 3.2."""

import torch
from torch import Tensor


def rotate(x: Tensor, rotations: Tensor) -> Tensor:
    """Turn the pairs (2j, 2j + 1) of the last axis.

    Args:
        x: (N, rope_dim) or (N, heads, rope_dim).
        rotations: (N, rope_dim / 2) complex64.

    Returns:
        Of x's shape and dtype; the pairs stay where they are.
    """
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous())
    turned = pairs * (rotations if x.dim() == 2 else rotations.unsqueeze(1))
    return torch.view_as_real(turned).flatten(-2).to(x.dtype)
