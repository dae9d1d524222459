"""From the tower's width to the language model's: normalise, put neighbours side by side, two linear layers.

Source: Kimi-VL report, arXiv 2504.07491, section 2.1 (MLP projector).
"""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from model_runtime.checkpoint.source import TensorSource
from model_runtime.config.types import VisionConfig
from model_runtime.placement import Placement
from model_runtime.vision.layers import ColumnLinear, LayerNorm, RowLinear


class Projector(nn.Module):
    """Four neighbouring patches become one token of the language model. The hidden width is split over the ranks."""

    def __init__(self, config: VisionConfig, placement: Placement) -> None:
        super().__init__()
        down, right = config.merge_kernel_size
        width = config.mm_hidden_size * down * right
        self.merge, self.merge_patches = config.merge_kernel_size, placement.ops.merge_patches
        self.pre_norm = LayerNorm(config.mm_hidden_size, placement, config.projector_ln_eps)
        self.first = ColumnLinear(width, width, placement)
        self.second = RowLinear(width, config.text_hidden_size, placement)

    def load(self, source: TensorSource, name: str) -> None:
        """Fill the projector from tensors under `name`."""
        self.pre_norm.load(source, f"{name}.pre_norm")
        self.first.load(source, f"{name}.proj.0")
        self.second.load(source, f"{name}.proj.2")

    def forward(self, x: Tensor, grids: Sequence[tuple[int, int, int]]) -> Tensor:
        """Patches of items, (N, mm_hidden_size), to (tokens, text_hidden_size). The GELU is the exact one here."""
        norm = self.pre_norm
        merged = self.merge_patches(x, grids, self.merge, norm.weight, norm.bias, norm.eps)
        return self.second(F.gelu(self.first(merged)))
