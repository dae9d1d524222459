"""Layer norm, and linear layers that several ranks share.

Source: Shoeybi et al. 2019, "Megatron-LM", arXiv 1909.08053, section 3: the first matrix of a pair is split by rows of
its weight (outputs), the second by columns (inputs), so that one sum over the ranks ends the pair.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model_runtime.checkpoint.source import TensorSource, copy_into
from model_runtime.parallel.comm import shard_slice
from model_runtime.placement import Placement


def make_weight(placement: Placement, *shape: int) -> nn.Parameter:
    """Memory for a weight that is not trained."""
    return nn.Parameter(torch.empty(shape, device=placement.device, dtype=placement.dtype), requires_grad=False)


class LayerNorm(nn.Module):
    """Layer normalisation, whole on every rank."""

    def __init__(self, width: int, placement: Placement, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight, self.bias = make_weight(placement, width), make_weight(placement, width)

    def load(self, source: TensorSource, name: str) -> None:
        """Fill the weights from `name`.weight and `name`.bias."""
        copy_into(self.weight, source.get(f"{name}.weight"), f"{name}.weight")
        copy_into(self.bias, source.get(f"{name}.bias"), f"{name}.bias")

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., width)."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class ColumnLinear(nn.Module):
    """x W^T + b, of which this rank computes some outputs."""

    def __init__(self, in_features: int, out_features: int, placement: Placement) -> None:
        super().__init__()
        self.rows = shard_slice(out_features, placement.comm, "outputs of a vision layer")
        width = self.rows.stop - self.rows.start
        self.weight, self.bias = make_weight(placement, width, in_features), make_weight(placement, width)

    def load(self, source: TensorSource, name: str) -> None:
        """Fill this rank's rows from `name`.weight and `name`.bias."""
        copy_into(self.weight, source.get(f"{name}.weight", (self.rows,)), f"{name}.weight")
        copy_into(self.bias, source.get(f"{name}.bias", (self.rows,)), f"{name}.bias")

    def forward(self, x: Tensor) -> Tensor:
        """(N, in) -> (N, out / ranks)."""
        return F.linear(x, self.weight, self.bias)


class RowLinear(nn.Module):
    """x W^T + b, of which this rank has some inputs; the sum over the ranks is the result."""

    def __init__(self, in_features: int, out_features: int, placement: Placement) -> None:
        super().__init__()
        self.comm = placement.comm
        self.columns = shard_slice(in_features, placement.comm, "inputs of a vision layer")
        self.weight = make_weight(placement, out_features, self.columns.stop - self.columns.start)
        self.bias = make_weight(placement, out_features)  # zero on all ranks but the first, so that the sum has it once

    def load(self, source: TensorSource, name: str) -> None:
        """Fill this rank's columns from `name`.weight, and the bias on the first rank from `name`.bias."""
        copy_into(self.weight, source.get(f"{name}.weight", (slice(None), self.columns)), f"{name}.weight")
        copy_into(self.bias, source.get(f"{name}.bias"), f"{name}.bias")
        if self.comm.rank:
            self.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """(N, in / ranks) -> (N, out)."""
        return self.comm.all_reduce(F.linear(x, self.weight, self.bias))
