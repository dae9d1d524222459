"""Embedding and output head, both split over the ranks by words of the vocabulary."""

import torch
import torch.nn.functional as F
from torch import Tensor

from model_runtime.config.types import TextConfig
from model_runtime.model.weights import Weights
from model_runtime.parallel.shard import shard_slice


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
