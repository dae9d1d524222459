"""Ranks that share one model: who this process is, and the two collectives the model needs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class Comm(Protocol):
    """The ranks of one model. Attention heads, MLP columns, experts and the vocabulary are split over all of them."""

    @property
    def rank(self) -> int:
        """This process, from 0."""
        ...

    @property
    def size(self) -> int:
        """How many processes hold the model together."""
        ...

    def all_reduce(self, tensor: "Tensor") -> "Tensor":
        """Sum over the ranks, in place; the same tensor back."""
        ...

    def all_gather(self, tensor: "Tensor", dim: int = -1) -> "Tensor":
        """The ranks' tensors of equal shape, concatenated along `dim` in rank order."""
        ...


@dataclass(frozen=True, slots=True)
class OneRank:
    """A model in one process: nothing to exchange."""

    rank: int = 0
    size: int = 1

    def all_reduce(self, tensor: "Tensor") -> "Tensor":
        """The tensor as it is."""
        return tensor

    def all_gather(self, tensor: "Tensor", dim: int = -1) -> "Tensor":
        """The tensor as it is."""
        return tensor
