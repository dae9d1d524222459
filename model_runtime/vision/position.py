"""Where a patch is: a learned table for its place in the frame, a fixed sinusoid for its frame.

Source: Dosovitskiy et al. 2020, arXiv 2010.11929, section 3.2 (resampling a learned table); Vaswani et al. 2017,
arXiv 1706.03762, section 3.5 (sinusoid); Kimi K2.5 report, section 4.2 (MoonViT-3D: chunks of four frames).
"""

from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model_runtime.checkpoint.source import TensorSource, copy_into
from model_runtime.config.types import VisionConfig
from model_runtime.placement import Placement
from model_runtime.vision.layers import make_weight

BASE = 10_000.0
GRIDS_KEPT = 8


def make_sinusoid(num_frames: int, width: int, device: torch.device) -> Tensor:
    """(num_frames, width) fp32: sines of frame * 10000^(-2i / width), then their cosines."""
    frequencies = BASE ** -(torch.arange(0, width, 2, device=device, dtype=torch.float32) / width)
    angles = torch.arange(num_frames, device=device, dtype=torch.float32)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class PositionTable(nn.Module):
    """What is added to each patch. Tables of the last few grids are kept: screenshots of one agent have one size."""

    def __init__(self, config: VisionConfig, placement: Placement) -> None:
        super().__init__()
        self.weight = make_weight(placement, config.init_pos_emb_height, config.init_pos_emb_width, config.hidden_size)
        self.max_frames = config.init_pos_emb_time
        self.spatial = lru_cache(maxsize=GRIDS_KEPT)(self._resample)

    def load(self, source: TensorSource, name: str) -> None:
        """Fill the table from `name`.weight."""
        copy_into(self.weight, source.get(f"{name}.weight"), f"{name}.weight")
        self.spatial.cache_clear()

    def _resample(self, h: int, w: int) -> Tensor:
        """The table at another size: (h * w, width) fp32; bicubic, a = -0.75, corners not aligned, no antialiasing."""
        table = self.weight.float()  # (table_h, table_w, width)
        if (h, w) != tuple(table.shape[:2]):
            channels_first = table.permute(2, 0, 1)[None]
            table = F.interpolate(channels_first, size=(h, w), mode="bicubic", align_corners=False)[0].permute(1, 2, 0)
        return table.reshape(h * w, -1).contiguous()

    def add_to(self, x: Tensor, grid: tuple[int, int, int]) -> None:
        """Add, in place, the positions of one item.

        Args:
            x: (t * h * w, width), the item's rows.
            grid: (t, h, w) in patches. With t = 1 there is no temporal part; a first frame of several has one.
        """
        t, h, w = grid
        frames = x.view(t, h * w, -1)
        frames += self.spatial(h, w).to(x.dtype)
        if t > 1:
            frames += make_sinusoid(t, x.shape[-1], x.device).to(x.dtype)[:, None]
