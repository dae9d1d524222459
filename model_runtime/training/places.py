"""Positions in an image as bins along its width and height, with normal distributions as soft targets."""

import torch
from torch import Tensor

PLACE_BINS = 32


def compare_places(scores: Tensor, wanted: Tensor, axes: Tensor | None = None) -> Tensor:
    """Return the mean cross-entropy of bins along width and height against normal distributions one bin wide.

    Args:
        scores: (R, 2 * `PLACE_BINS`), those along the width first.
        wanted: (R, 2) fp32, shares of width and height; (R, 1) with `axes`.
        axes: (R, 1) int64, the single axis used in each row, 0 or 1.

    Returns:
        () fp32.
    """
    scores = scores.view(len(scores), -1, PLACE_BINS)
    if axes is not None:
        scores = scores.gather(1, axes.unsqueeze(2).expand(-1, -1, PLACE_BINS).to(scores.device))
    soft_targets = make_soft_targets(wanted.flatten() * PLACE_BINS - 0.5, PLACE_BINS, 1.0).to(scores.device)
    return -(soft_targets * scores.flatten(0, 1).log_softmax(-1)).sum(-1).mean()


def find_places(grid: tuple[int, int, int]) -> Tensor:
    """Return the centres of an image's tokens, as shares of width and height: (tokens, 2); a token is two by two
    patches.
    """
    _, rows, columns = grid
    y, x = torch.meshgrid(torch.arange(rows // 2), torch.arange(columns // 2), indexing="ij")
    return torch.stack([(x.flatten() + 0.5) * 2 / columns, (y.flatten() + 0.5) * 2 / rows], dim=1)


def make_soft_targets(centers: Tensor, count: int, width: float) -> Tensor:
    """Return normal densities over integers below `count`, (K, count) fp32, around (K,) centers; rows sum to 1."""
    distances = torch.arange(count) - centers.float().unsqueeze(1)
    return (-0.5 * (distances / width).square()).softmax(-1)
