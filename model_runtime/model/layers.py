"""RMSNorm, the SwiGLU MLP, and the embedding and output head that are split over the ranks by words of the vocabulary.

Source: Shazeer 2020, arXiv 2002.05202, section 2 (the dense layer's MLP, and the expert that every token takes); Kimi
K2 report (arXiv 2507.20534), section 2.3.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from model_runtime.config.types import TextConfig
from model_runtime.model.weights import Weights
from model_runtime.parallel.comm import shard_slice


class RmsNorm:
    """Source: Zhang and Sennrich 2019, arXiv 1910.07467; every rank holds it whole."""

    def __init__(self, size: int, eps: float, weights: Weights) -> None:
        self.weight = weights.read("weight", (size,))
        self.eps = eps
        self._rms_norm, self._add_rms_norm = weights.placement.ops.rms_norm, weights.placement.ops.add_rms_norm

    def __call__(self, x: Tensor) -> Tensor:
        """(N, size) -> (N, size)."""
        return self._rms_norm(x, self.weight, self.eps)

    def add(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """(N, size), (N, size) -> the norm of their sum, and the sum."""
        return self._add_rms_norm(x, residual, self.weight, self.eps)


class Mlp:
    """down(silu(gate x) * up x). Each rank holds a share of the inner columns; the ranks' results sum to the whole."""

    def __init__(self, hidden_size: int, intermediate_size: int, weights: Weights) -> None:
        share = shard_slice(intermediate_size, weights.placement.comm, "columns of an MLP")
        width = share.stop - share.start
        names = ("gate_proj.weight", "up_proj.weight")
        self.gate_up = weights.read_joined(names, (width, width), hidden_size, share)  # (2 * width, hidden)
        self.down = weights.read("down_proj.weight", (hidden_size, width), (slice(None), share))

    def __call__(self, x: Tensor) -> Tensor:
        """(N, hidden) -> (N, hidden), this rank's summand."""
        gate, up = F.linear(x, self.gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate).mul_(up), self.down)


class Embedding:
    """Token ids to rows."""

    def __init__(self, text: TextConfig, weights: Weights) -> None:
        self.comm = weights.placement.comm
        self.here = shard_slice(text.vocab_size, self.comm, "words of the vocabulary")
        self.weight = weights.read("weight", (self.here.stop - self.here.start, text.hidden_size), (self.here,))

    def __call__(self, token_ids: Tensor) -> Tensor:
        """(N,) int64 -> (N, hidden)."""
        if self.comm.size == 1:
            return F.embedding(token_ids, self.weight)
        is_here = (token_ids >= self.here.start) & (token_ids < self.here.stop)
        local = torch.where(is_here, token_ids - self.here.start, 0)
        rows = F.embedding(local, self.weight).masked_fill_(~is_here.unsqueeze(-1), 0)
        return self.comm.all_reduce(rows)


class Head:
    """Hidden rows to logits of all words."""

    def __init__(self, text: TextConfig, weights: Weights) -> None:
        self.comm = weights.placement.comm
        here = shard_slice(text.vocab_size, self.comm, "words of the vocabulary")
        self.weight = weights.read("weight", (here.stop - here.start, text.hidden_size), (here,))

    def __call__(self, hidden: Tensor) -> Tensor:
        """(M, hidden) -> (M, vocab) fp32, whole on every rank."""
        return self.comm.all_gather(F.linear(hidden, self.weight).float())
