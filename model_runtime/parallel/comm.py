"""Ranks that share one model: who this process is, the two collectives the model needs, and which part is whose.

A model's parts fall to the ranks in equal, neighbouring shares in rank order.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from model_runtime.config.types import K25Config
from model_runtime.errors import CapacityError

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


def shard_slice(total: int, comm: Comm, what: str) -> slice:
    """This rank's share of `total` things.

    Args:
        total: How many there are.
        comm: The ranks.
        what: What they are, for the error.

    Raises:
        CapacityError: They cannot be shared equally.
    """
    if total % comm.size:
        fitting = ", ".join(str(size) for size in range(1, total + 1) if total % size == 0 and size <= 64)
        raise CapacityError(
            f"{total} {what} cannot be split over {comm.size} ranks equally. Use one of: {fitting} ranks"
        )
    share = total // comm.size
    return slice(comm.rank * share, (comm.rank + 1) * share)


def check_ranks(config: K25Config, comm: Comm) -> None:
    """Whether every part of the language model can be shared.

    Raises:
        CapacityError: A part cannot, with the numbers of ranks that fit it.
    """
    text = config.text
    shard_slice(text.num_attention_heads, comm, "attention heads")
    shard_slice(text.intermediate_size, comm, "columns of the dense MLP")
    shard_slice(text.moe_intermediate_size * text.n_shared_experts, comm, "columns of the shared expert")
    shard_slice(text.n_routed_experts, comm, "routed experts")
    shard_slice(text.vocab_size, comm, "words of the vocabulary")
