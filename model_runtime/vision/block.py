"""A pre-norm transformer block: attention within one item, then an MLP.

Source: Dosovitskiy et al. 2020, arXiv 2010.11929, equations 2 and 3; Kimi-VL report, arXiv 2504.07491, section 2.1.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model_runtime.checkpoint.source import TensorSource
from model_runtime.config.types import VisionConfig
from model_runtime.ops.vision_attention import vision_attention
from model_runtime.vision.placement import ColumnLinear, LayerNorm, Placement, RowLinear, copy_into
from model_runtime.vision.rope2d import rotate, split_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How items lie in the rows of a batch.

    Attributes:
        cu_seqlens: Item i has the rows `cu_seqlens[i]:cu_seqlens[i + 1]`.
        cos: (N, head_dim / 2) fp32.
        sin: (N, head_dim / 2) fp32.
    """

    cu_seqlens: tuple[int, ...]
    cos: Tensor
    sin: Tensor


class Attention(nn.Module):
    """Every patch of an item sees every patch of that item. Heads are split over the ranks."""

    def __init__(self, config: VisionConfig, placement: Placement) -> None:
        super().__init__()
        self.head_dim, self.width = config.head_dim, config.hidden_size
        self.heads = placement.share(config.num_attention_heads, "heads")
        self.num_heads = self.heads.stop - self.heads.start
        rows = 3 * self.num_heads * self.head_dim
        self.qkv_weight, self.qkv_bias = placement.empty(rows, self.width), placement.empty(rows)
        self.wo = RowLinear(self.width, self.width, placement)

    def load(self, source: TensorSource, name: str) -> None:
        """Fill this rank's heads; stored rows are (3, heads, head_dim), all queries first."""
        for kind, target in (("weight", self.qkv_weight), ("bias", self.qkv_bias)):
            parts = [self._heads_of(source, f"{name}.wqkv.{kind}", part) for part in range(3)]
            copy_into(target, torch.cat(parts), f"{name}.wqkv.{kind}")
        self.wo.load(source, f"{name}.wo")

    def _heads_of(self, source: TensorSource, name: str, part: int) -> Tensor:
        """This rank's rows of the queries (0), keys (1) or values (2)."""
        start, stop = (part * self.width + head * self.head_dim for head in (self.heads.start, self.heads.stop))
        rows = source.get(name, (slice(start, stop),))
        if part == 2:
            return rows
        heads = rows.view(self.num_heads, self.head_dim, *rows.shape[1:])
        return heads[:, split_pairs(self.head_dim)].flatten(0, 1)

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        """(N, width) -> (N, width)."""
        rows = F.linear(x, self.qkv_weight, self.qkv_bias)
        qkv = rows.view(len(x), 3 * self.num_heads, self.head_dim)
        rotate(qkv[:, : 2 * self.num_heads], packing.cos, packing.sin)
        q, k, v = qkv.chunk(3, dim=1)  # (N, heads, head_dim) each
        return self.wo(vision_attention(q, k, v, packing.cu_seqlens).flatten(1))


class Mlp(nn.Module):
    """Two linear layers with a GELU (tanh) between; its width is split over the ranks."""

    def __init__(self, config: VisionConfig, placement: Placement) -> None:
        super().__init__()
        self.fc0 = ColumnLinear(config.hidden_size, config.intermediate_size, placement)
        self.fc1 = RowLinear(config.intermediate_size, config.hidden_size, placement)

    def load(self, source: TensorSource, name: str) -> None:
        """Fill both layers."""
        self.fc0.load(source, f"{name}.fc0")
        self.fc1.load(source, f"{name}.fc1")

    def forward(self, x: Tensor) -> Tensor:
        """(N, width) -> (N, width)."""
        return self.fc1(torch.ops.aten.gelu_(self.fc0(x), approximate="tanh"))


class Block(nn.Module):
    """x + attention(norm0(x)), then x + mlp(norm1(x))."""

    def __init__(self, config: VisionConfig, placement: Placement) -> None:
        super().__init__()
        self.norm0 = LayerNorm(config.hidden_size, placement)
        self.norm1 = LayerNorm(config.hidden_size, placement)
        self.attention = Attention(config, placement)
        self.mlp = Mlp(config, placement)

    def load(self, source: TensorSource, name: str) -> None:
        """Fill the block from tensors under `name`."""
        self.norm0.load(source, f"{name}.norm0")
        self.norm1.load(source, f"{name}.norm1")
        self.attention.load(source, name)
        self.mlp.load(source, f"{name}.mlp")

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        """(N, width) -> the same memory, two steps on."""
        x += self.attention(self.norm0(x), packing)
        x += self.mlp(self.norm1(x))
        return x
