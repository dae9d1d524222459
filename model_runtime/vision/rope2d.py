"""Rotary positions in two dimensions: columns and rows take turns over the pairs of a head.

Source: Su et al. 2021, arXiv 2104.09864, equation 34; Kimi-VL report, arXiv 2504.07491, section 2.1. Pair 2i turns by
column * f_i, pair 2i + 1 by row * f_i, with f_i = 10000^(-4i / head_dim). All frames of a chunk have the same angles.
"""

from functools import lru_cache

import torch
from torch import Tensor

BASE = 10_000.0
GRIDS_KEPT = 8


class Rope2D:
    """Angles of grids. The last few grids are kept."""

    def __init__(self, head_dim: int, device: torch.device) -> None:
        self.head_dim, self.device = head_dim, device
        self.of_frame = lru_cache(maxsize=GRIDS_KEPT)(self._make)

    def _make(self, h: int, w: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of one frame, (h * w, head_dim / 2) fp32 each."""
        steps = torch.arange(0, self.head_dim, 4, device=self.device, dtype=torch.float32)
        frequencies = BASE ** -(steps / self.head_dim)  # (head_dim / 4)
        columns = torch.arange(w, device=self.device, dtype=torch.float32)[:, None] * frequencies
        rows = torch.arange(h, device=self.device, dtype=torch.float32)[:, None] * frequencies
        pairs = torch.stack([columns.expand(h, w, -1), rows[:, None].expand(h, w, -1)], dim=-1)  # (h, w, dim / 4, 2)
        angles = pairs.reshape(h * w, -1)
        return angles.cos(), angles.sin()

    def make(self, grids: list[tuple[int, int, int]]) -> tuple[Tensor, Tensor]:
        """Cosines and sines of items laid end to end, (N, head_dim / 2) fp32 each."""
        frames = [self.of_frame(h, w) for t, h, w in grids for _ in range(t)]
        return torch.cat([cos for cos, _ in frames]), torch.cat([sin for _, sin in frames])


def split_pairs(head_dim: int) -> Tensor:
    """Order of a head's rows that puts the first members of all pairs before the second ones.

    Queries and keys may be reordered together: their products stay. `rotate` then reads two halves instead of every
    other value.
    """
    return torch.arange(head_dim).view(-1, 2).T.flatten()


def rotate(qk: Tensor, cos: Tensor, sin: Tensor) -> None:
    """Turn queries and keys in place, in fp32.

    Args:
        qk: (N, heads, head_dim), head rows in the order of `split_pairs`.
        cos: (N, head_dim / 2) fp32.
        sin: (N, head_dim / 2) fp32.
    """
    cos, sin = cos[:, None], sin[:, None]
    first, second = qk.chunk(2, dim=-1)  # (N, heads, head_dim / 2) each
    a, b = first.float(), second.float()
    turned = torch.addcmul(a * cos, b, sin, value=-1)
    second.copy_(torch.addcmul(b * cos, a, sin))
    first.copy_(turned)
