"""RMSNorm, the SwiGLU MLP, embedding and output head, and the loading of their weights.

Source: Shazeer 2020, arXiv 2002.05202, section 2 (the dense layer's MLP, and the shared expert); Kimi K2 report (arXiv
2507.20534), section 2.3.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model_runtime.checkpoint.reader import TensorSource, copy_into
from model_runtime.config.types import TextConfig
from model_runtime.parallel.comm import shard_slice
from model_runtime.placement import ModelPlacement


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Tensors under one prefix. Reading copies this rank's part from the file to the device."""

    source: TensorSource
    placement: ModelPlacement
    prefix: str = ""

    def under(self, name: str) -> "Weights":
        """Return the tensors of a part, for example `self_attn`."""
        return replace(self, prefix=f"{self.prefix}{name}.")

    def has(self, name: str) -> bool:
        """Return True if there is a tensor of that name."""
        return self.source.has(self.prefix + name)

    def read(
        self, name: str, shape: tuple[int, ...], index: tuple[slice, ...] = (), *, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Read a tensor, or its part `index`, to the device.

        Args:
            name: Name after the prefix.
            shape: Expected shape of the part.
            index: Part of the tensor; empty for all.
            dtype: Dtype of the result; None for the model's.

        Raises:
            CheckpointError: If it is missing or has another shape.
        """
        out = torch.empty(shape, dtype=dtype or self.placement.dtype, device=self.placement.device)
        self.read_into(out, name, index)
        return out

    def read_into(self, out: Tensor, name: str, index: tuple[slice, ...] = ()) -> None:
        """Read a tensor or its part into `out`, which has the part's shape.

        Raises:
            CheckpointError: If it is missing or has another shape.
        """
        copy_into(out, self.source.get(self.prefix + name, index), self.prefix + name)

    def read_joined(
        self, names: tuple[str, ...], heights: tuple[int, ...], width: int, rows: slice | None = None
    ) -> Tensor:
        """Read matrices of equal width, stacked by rows for a single matmul: (sum of heights, width)."""
        out = torch.empty(sum(heights), width, dtype=self.placement.dtype, device=self.placement.device)
        for name, part in zip(names, out.split_with_sizes(heights), strict=True):
            self.read_into(part, name, () if rows is None else (rows,))
        return out


def freeze(tensor: Tensor) -> nn.Parameter:
    """Return a weight for inference; `module.requires_grad_()` makes it trainable."""
    return nn.Parameter(tensor, requires_grad=False)


class RmsNorm(nn.Module):
    """Root mean square norm, not split over ranks. Source: Zhang and Sennrich 2019, arXiv 1910.07467."""

    def __init__(self, size: int, eps: float, weights: Weights) -> None:
        super().__init__()
        self.weight = freeze(weights.read("weight", (size,)))
        self.eps = eps
        self._rms_norm, self._add_rms_norm = weights.placement.ops.rms_norm, weights.placement.ops.add_rms_norm

    def forward(self, x: Tensor) -> Tensor:
        """Normalize rows: (N, size) -> (N, size)."""
        return self._rms_norm(x, self.weight, self.eps)

    def add(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Add (N, size) and (N, size); return the norm of the sum, and the sum."""
        return self._add_rms_norm(x, residual, self.weight, self.eps)


class Mlp(nn.Module):
    """MLP down(silu(gate x) * up x). Each rank holds a share of the inner columns; the ranks' results sum to the
    whole.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, weights: Weights) -> None:
        super().__init__()
        share = shard_slice(intermediate_size, weights.placement.comm, "columns of an MLP")
        width = share.stop - share.start
        names = ("gate_proj.weight", "up_proj.weight")
        self.gate_up = freeze(weights.read_joined(names, (width, width), hidden_size, share))  # (2 * width, hidden)
        self.down = freeze(weights.read("down_proj.weight", (hidden_size, width), (slice(None), share)))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the MLP: (N, hidden) -> (N, hidden), this rank's summand."""
        gate, up = F.linear(x, self.gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate).mul_(up), self.down)


class Embedding(nn.Module):
    """Embedding of token ids."""

    def __init__(self, text: TextConfig, weights: Weights) -> None:
        super().__init__()
        self.comm = weights.placement.comm
        self.here = shard_slice(text.vocab_size, self.comm, "words of the vocabulary")
        height = self.here.stop - self.here.start
        self.weight = freeze(weights.read("weight", (height, text.hidden_size), (self.here,)))

    def forward(self, token_ids: Tensor) -> Tensor:
        """Embed tokens: (N,) int64 -> (N, hidden)."""
        if self.comm.size == 1:
            return F.embedding(token_ids, self.weight)
        is_here = (token_ids >= self.here.start) & (token_ids < self.here.stop)
        local = torch.where(is_here, token_ids - self.here.start, 0)
        rows = F.embedding(local, self.weight).masked_fill_(~is_here.unsqueeze(-1), 0)
        return self.comm.all_reduce(rows)


class Head(nn.Module):
    """Output head: logits of all tokens of the vocabulary."""

    def __init__(self, text: TextConfig, weights: Weights) -> None:
        super().__init__()
        self.comm = weights.placement.comm
        here = shard_slice(text.vocab_size, self.comm, "words of the vocabulary")
        self.weight = freeze(weights.read("weight", (here.stop - here.start, text.hidden_size), (here,)))

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits: (M, hidden) -> (M, vocab) fp32, complete on every rank."""
        return self.comm.all_gather(F.linear(hidden, self.weight).float())
