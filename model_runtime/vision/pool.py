"""Patches of an item to the tokens it takes: the mean over its frames, then 2 x 2 neighbours side by side.

Source: Kimi K2.5 report, section 4.2 (temporal pooling); Kimi-VL report, arXiv 2504.07491, section 2.1 (pixel shuffle).
"""

from torch import Tensor


def pool(x: Tensor, grid: tuple[int, int, int], merge: tuple[int, int]) -> Tensor:
    """Average an item's frames, however many it has, and gather neighbours.

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
