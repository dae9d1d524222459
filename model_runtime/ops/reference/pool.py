"""Patches of items to the rows that the projector takes.

Source: Kimi K2.5 report, section 4.2 (temporal pooling); Kimi-VL report, arXiv 2504.07491, section 2.1 (pixel shuffle).
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from model_runtime.ops.registry import register


@register("merge_patches", "torch")
def merge_patches(
    x: Tensor,
    grids: Sequence[tuple[int, int, int]],
    merge: tuple[int, int],
    weight: Tensor,
    bias: Tensor,
    eps: float,
) -> Tensor:
    """The mean over each item's frames, a layer norm of each patch, and 2 x 2 neighbours side by side.

    Args:
        x: (N, width), the patches of all items end to end.
        grids: (t, h, w) of each item, in patches.
        merge: Neighbours in a column and in a row that become one row of the result; they divide h and w.
        weight: (width,) of the norm.
        bias: (width,) of the norm.
        eps: Of the norm.

    Returns:
        (tokens of all items, merge[0] * merge[1] * width), neighbours row by row.
    """
    parts = x.split_with_sizes([t * h * w for t, h, w in grids])
    merged = torch.cat([pool(part, grid, merge) for part, grid in zip(parts, grids, strict=True)])
    return F.layer_norm(merged, weight.shape, weight, bias, eps).flatten(1)


def pool(x: Tensor, grid: tuple[int, int, int], merge: tuple[int, int]) -> Tensor:
    """Average one item's frames, however many it has, and gather neighbours.

    Args:
        x: (t * h * w, width).
        grid: (t, h, w) in patches.
        merge: Neighbours in a column and in a row that become one token.

    Returns:
        (tokens, merge[0] * merge[1], width), neighbours row by row.
    """
    t, h, w = grid
    down, right = merge
    mean = x.view(t, h * w, -1).mean(dim=0) if t > 1 else x
    blocks = mean.view(h // down, down, w // right, right, -1).transpose(1, 2)  # (h / 2, w / 2, 2, 2, width)
    return blocks.reshape((h // down) * (w // right), down * right, -1)
