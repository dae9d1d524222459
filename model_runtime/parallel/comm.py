"""Ranks that share one model: who this process is, the two collectives, which part is whose; over `torch.distributed`.

A model's parts fall to the ranks in equal, neighbouring shares in rank order.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from model_runtime.config.types import K25Config
from model_runtime.errors import CapacityError, ConfigError


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


PATIENCE = timedelta(minutes=5)
"""For a partner to come to a collective; one that has ended is noticed earlier."""


@dataclass(frozen=True, slots=True)
class TorchComm:
    """`Comm` over one process group."""

    group: dist.ProcessGroup

    @property
    def rank(self) -> int:
        """This process, from 0."""
        return self.group.rank()

    @property
    def size(self) -> int:
        """How many processes hold the model together."""
        return self.group.size()

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """Sum over the ranks, in place; the same tensor back."""
        dist.all_reduce(tensor, group=self.group)
        return tensor

    def all_gather(self, tensor: Tensor, dim: int = -1) -> Tensor:
        """The ranks' tensors of equal shape, concatenated along `dim` in rank order."""
        parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(self.size)]
        dist.all_gather(parts, tensor.contiguous(), group=self.group)
        return torch.cat(parts, dim=dim)


def open_group(rank: int, size: int, address: str, *, device: str = "cpu") -> TorchComm:
    """Join the ranks of one model; returns when all have come.

    Args:
        rank: This process, from 0.
        size: How many there are.
        address: Where rank 0 listens: `tcp://127.0.0.1:29500`, or `file:///path` of a file that all ranks see.
        device: What the tensors live on; `cuda:1` takes NCCL, `cpu` gloo.

    Raises:
        ConfigError: The rank is not one of them.
    """
    if not 0 <= rank < size:
        raise ConfigError(f"rank {rank} of {size} does not exist. Ranks count from 0 to {size - 1}")
    backend = "nccl" if device.startswith("cuda") else "gloo"
    dist.init_process_group(backend, init_method=address, rank=rank, world_size=size, timeout=PATIENCE)
    group = dist.group.WORLD
    assert group is not None
    return TorchComm(group)


def close_group() -> None:
    """Leave the ranks; nothing happens outside of a group."""
    if dist.is_initialized():
        dist.destroy_process_group()
