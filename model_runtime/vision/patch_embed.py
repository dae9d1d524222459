"""Patches of 14 x 14 px to the tower's width.

Source: Dosovitskiy et al. 2020, arXiv 2010.11929, equation 1; Kimi-VL report, arXiv 2504.07491, section 2.1 (MoonViT).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model_runtime.checkpoint.source import TensorSource, copy_into
from model_runtime.config.types import VisionConfig
from model_runtime.media import MediaItem
from model_runtime.placement import Placement
from model_runtime.vision.layers import make_weight

CHANNELS = 3


def make_patches(frames: Tensor, patch_size: int) -> Tensor:
    """Cut frames into patches, in raster order: frame, row, column.

    Args:
        frames: (t, height, width, 3) uint8.
        patch_size: Side of a patch in px.

    Returns:
        (t * h * w, patch_size * patch_size * 3) uint8, each patch row by row with its channels last.
    """
    t, height, width, channels = frames.shape
    h, w = height // patch_size, width // patch_size
    grid = frames.view(t, h, patch_size, w, patch_size * channels)
    return grid.transpose(2, 3).reshape(t * h * w, -1)  # (t, h, w, patch_size, patch_size * 3)


class PatchEmbed(nn.Module):
    """A linear layer on each normalised patch: the convolution of the release, whose stride is its size."""

    def __init__(self, config: VisionConfig, placement: Placement) -> None:
        super().__init__()
        self.patch_size = config.patch_size
        self.weight = make_weight(placement, config.hidden_size, CHANNELS * config.patch_size**2)
        self.bias = make_weight(placement, config.hidden_size)

    def load(self, source: TensorSource, name: str) -> None:
        """Fill the weights; the release's are (width, 3, 14, 14), ours have the channels last, as pixels lie."""
        stored = source.get(f"{name}.weight")
        if stored.shape[1:] != (CHANNELS, self.patch_size, self.patch_size):
            stored = stored.flatten(1)  # misshapen: let the check below say so
        else:
            stored = stored.permute(0, 2, 3, 1).flatten(1)
        copy_into(self.weight, stored, f"{name}.weight")
        copy_into(self.bias, source.get(f"{name}.bias"), f"{name}.bias")

    def forward(self, items: Sequence[MediaItem]) -> Tensor:
        """Items to (their patches laid end to end, hidden_size)."""
        device = self.weight.device
        frames = [torch.from_numpy(item.frames).to(device) for item in items]
        pixels = torch.cat([make_patches(each, self.patch_size) for each in frames])  # (N, 588) uint8
        values = pixels.to(torch.float32).mul_(2 / 255).sub_(1)  # mean 0.5, standard deviation 0.5
        return F.linear(values.to(self.weight.dtype), self.weight, self.bias)
