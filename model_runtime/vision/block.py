"""One block of the vision tower, and its layers, split over ranks.

Source: Dosovitskiy et al. 2020, arXiv 2010.11929, equations 2 and 3; Kimi-VL report, arXiv 2504.07491, section 2.1.

Source: Shoeybi et al. 2019, "Megatron-LM", arXiv 1909.08053, section 3: the first matrix of a pair is split by rows of
its weight (outputs), the second by columns (inputs), so that a pair needs one sum over the ranks.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model_runtime.checkpoint.reader import TensorSource, copy_into
from model_runtime.config.types import VisionConfig
from model_runtime.ops import CuSeqlens
from model_runtime.parallel.comm import shard_slice
from model_runtime.placement import ModelPlacement


def make_weight(placement: ModelPlacement, *shape: int) -> nn.Parameter:
    """Allocate a weight for inference; `module.requires_grad_()` makes it trainable."""
    return nn.Parameter(torch.empty(shape, device=placement.device, dtype=placement.dtype), requires_grad=False)


class LayerNorm(nn.Module):
    """Layer normalization, not split over ranks."""

    def __init__(self, width: int, placement: ModelPlacement, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight, self.bias = make_weight(placement, width), make_weight(placement, width)

    def load(self, source: TensorSource, name: str) -> None:
        """Load the weights from `name`.weight and `name`.bias."""
        copy_into(self.weight, source.get(f"{name}.weight"), f"{name}.weight")
        copy_into(self.bias, source.get(f"{name}.bias"), f"{name}.bias")

    def forward(self, x: Tensor) -> Tensor:
        """Normalize rows: (..., width) -> (..., width)."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class ColumnLinear(nn.Module):
    """Linear layer x W^T + b with a part of the outputs on this rank.

    `shard_slice` defines the part, as in the language model, whose layers read several matrices into one and have no
    bias.
    """

    def __init__(self, in_features: int, out_features: int, placement: ModelPlacement) -> None:
        super().__init__()
        self.rows = shard_slice(out_features, placement.comm, "outputs of a vision layer")
        width = self.rows.stop - self.rows.start
        self.weight, self.bias = make_weight(placement, width, in_features), make_weight(placement, width)

    def load(self, source: TensorSource, name: str) -> None:
        """Load this rank's rows from `name`.weight and `name`.bias."""
        copy_into(self.weight, source.get(f"{name}.weight", (self.rows,)), f"{name}.weight")
        copy_into(self.bias, source.get(f"{name}.bias", (self.rows,)), f"{name}.bias")

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer: (N, in) -> (N, out / ranks)."""
        return F.linear(x, self.weight, self.bias)


class RowLinear(nn.Module):
    """Linear layer x W^T + b with a part of the inputs on this rank; the ranks' results are summed."""

    def __init__(self, in_features: int, out_features: int, placement: ModelPlacement) -> None:
        super().__init__()
        self.comm = placement.comm
        self.columns = shard_slice(in_features, placement.comm, "inputs of a vision layer")
        self.weight = make_weight(placement, out_features, self.columns.stop - self.columns.start)
        self.bias = make_weight(placement, out_features)  # zero except on the first rank, so the sum has it once

    def load(self, source: TensorSource, name: str) -> None:
        """Load this rank's columns from `name`.weight, and the bias on the first rank from `name`.bias."""
        copy_into(self.weight, source.get(f"{name}.weight", (slice(None), self.columns)), f"{name}.weight")
        copy_into(self.bias, source.get(f"{name}.bias"), f"{name}.bias")
        if self.comm.rank:
            self.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer: (N, in / ranks) -> (N, out)."""
        return self.comm.all_reduce(F.linear(x, self.weight, self.bias))


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Layout of items in the rows of a batch.

    Attributes:
        cu_seqlens: Bounds of the items.
        rotations: (N, head_dim / 2) complex64, of `Rope2D`.
    """

    cu_seqlens: CuSeqlens
    rotations: Tensor


class VisionAttention(nn.Module):
    """Full attention between the patches of an item. Heads are split over the ranks."""

    def __init__(self, config: VisionConfig, placement: ModelPlacement) -> None:
        super().__init__()
        self.head_dim, self.total = config.head_dim, config.num_attention_heads
        self.heads = shard_slice(self.total, placement.comm, "heads of the vision tower")
        self.num_heads = self.heads.stop - self.heads.start
        rows = 3 * self.num_heads * self.head_dim
        self.qkv_weight, self.qkv_bias = make_weight(placement, rows, config.hidden_size), make_weight(placement, rows)
        self.attend = placement.ops.vision_attention
        self.wo = RowLinear(config.hidden_size, config.hidden_size, placement)

    def load(self, source: TensorSource, name: str) -> None:
        """Load this rank's heads; stored rows are (3, heads, head_dim), all queries first."""
        for kind, target in (("weight", self.qkv_weight), ("bias", self.qkv_bias)):
            stored = f"{name}.wqkv.{kind}"
            bounds = (
                (part + self.heads.start, part + self.heads.stop) for part in range(0, 3 * self.total, self.total)
            )
            rows = [slice(start * self.head_dim, stop * self.head_dim) for start, stop in bounds]
            copy_into(target, torch.cat([source.get(stored, (part,)) for part in rows]), stored)
        self.wo.load(source, f"{name}.wo")

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        """Attend within items: (N, width) -> (N, width)."""
        rows = F.linear(x, self.qkv_weight, self.qkv_bias)
        qkv = rows.view(len(x), 3 * self.num_heads, self.head_dim)
        return self.wo(self.attend(qkv, packing.rotations, packing.cu_seqlens).flatten(1))


class VisionMlp(nn.Module):
    """Two linear layers with a GELU (tanh) between; the inner width is split over the ranks."""

    def __init__(self, config: VisionConfig, placement: ModelPlacement) -> None:
        super().__init__()
        self.fc0 = ColumnLinear(config.hidden_size, config.intermediate_size, placement)
        self.fc1 = RowLinear(config.intermediate_size, config.hidden_size, placement)

    def load(self, source: TensorSource, name: str) -> None:
        """Load both layers."""
        self.fc0.load(source, f"{name}.fc0")
        self.fc1.load(source, f"{name}.fc1")

    def forward(self, x: Tensor) -> Tensor:
        """Apply the MLP: (N, width) -> (N, width)."""
        return self.fc1(_gelu(self.fc0(x)))


class VisionBlock(nn.Module):
    """Transformer block: x + attention(norm0(x)), then x + mlp(norm1(x))."""

    def __init__(self, config: VisionConfig, placement: ModelPlacement) -> None:
        super().__init__()
        self.norm0 = LayerNorm(config.hidden_size, placement)
        self.norm1 = LayerNorm(config.hidden_size, placement)
        self.attention = VisionAttention(config, placement)
        self.mlp = VisionMlp(config, placement)

    def load(self, source: TensorSource, name: str) -> None:
        """Load the block from tensors under `name`."""
        self.norm0.load(source, f"{name}.norm0")
        self.norm1.load(source, f"{name}.norm1")
        self.attention.load(source, name)
        self.mlp.load(source, f"{name}.mlp")

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        """Apply the block, in place if possible: (N, width) -> (N, width)."""
        x = add(x, self.attention(self.norm0(x), packing))
        return add(x, self.mlp(self.norm1(x)))


def add(x: Tensor, summand: Tensor) -> Tensor:
    """Add `summand` to x, in place unless gradients need x."""
    is_traced = torch.is_grad_enabled() and (x.requires_grad or summand.requires_grad)
    return x + summand if is_traced else x.add_(summand)


def _gelu(x: Tensor) -> Tensor:
    """Apply GELU (tanh), in place unless gradients need x."""
    if torch.is_grad_enabled() and x.requires_grad:
        return F.gelu(x, approximate="tanh")
    return torch.ops.aten.gelu_(x, approximate="tanh")
