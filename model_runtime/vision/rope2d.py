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

    def _make(self, h: int, w: int) -> Tensor:
        """Turns of one frame, (h * w, head_dim / 2) complex64: e^(i * angle) of each pair."""
        steps = torch.arange(0, self.head_dim, 4, device=self.device, dtype=torch.float32)
        frequencies = BASE ** -(steps / self.head_dim)  # (head_dim / 4)
        columns = torch.arange(w, device=self.device, dtype=torch.float32)[:, None] * frequencies
        rows = torch.arange(h, device=self.device, dtype=torch.float32)[:, None] * frequencies
        pairs = torch.stack([columns.expand(h, w, -1), rows[:, None].expand(h, w, -1)], dim=-1)  # (h, w, dim / 4, 2)
        angles = pairs.reshape(h * w, -1)
        return torch.polar(torch.ones_like(angles), angles)

    def make(self, grids: list[tuple[int, int, int]]) -> Tensor:
        """Turns of items laid end to end, (N, head_dim / 2) complex64."""
        return torch.cat([self.of_frame(h, w) for t, h, w in grids for _ in range(t)])
