"""Ranks that share one model: rank and size, two collectives, and sharding; over `torch.distributed`.

A model's parts are split into equal, contiguous shares in rank order.
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
    """Ranks of one model. Attention heads, MLP columns, experts and the vocabulary are split over all of them."""

    @property
    def rank(self) -> int:
        """Rank of this process, from 0."""
        ...

    @property
    def size(self) -> int:
        """Number of processes that share the model."""
        ...

    def all_reduce(self, tensor: "Tensor") -> "Tensor":
        """Sum over the ranks in place, and return the same tensor."""
        ...

    def all_gather(self, tensor: "Tensor", dim: int = -1) -> "Tensor":
        """Concatenate the ranks' tensors of equal shape along `dim` in rank order."""
        ...


@dataclass(frozen=True, slots=True)
class OneRank:
    """Ranks of a model in one process, without communication."""

    rank: int = 0
    size: int = 1

    def all_reduce(self, tensor: "Tensor") -> "Tensor":
        """Return the tensor unchanged."""
        return tensor

    def all_gather(self, tensor: "Tensor", dim: int = -1) -> "Tensor":
        """Return the tensor unchanged."""
        return tensor


def shard_slice(total: int, comm: Comm, name: str) -> slice:
    """Return this rank's share of `total` items.

    Raises:
        CapacityError: If they cannot be split equally.
    """
    if total % comm.size:
        fitting = ", ".join(str(size) for size in range(1, total + 1) if total % size == 0 and size <= 64)
        raise CapacityError(
            f"{total} {name} cannot be split over {comm.size} ranks equally. Use one of: {fitting} ranks"
        )
    share = total // comm.size
    return slice(comm.rank * share, (comm.rank + 1) * share)


def check_ranks(config: K25Config, comm: Comm) -> None:
    """Check that every part of the language model can be split over the ranks.

    Raises:
        CapacityError: If a part cannot; the text has the numbers of ranks that fit it.
    """
    text = config.text
    shard_slice(text.num_attention_heads, comm, "attention heads")
    shard_slice(text.intermediate_size, comm, "columns of the dense MLP")
    shard_slice(text.moe_intermediate_size * text.n_shared_experts, comm, "columns of the shared expert")
    shard_slice(text.n_routed_experts, comm, "routed experts")
    shard_slice(text.vocab_size, comm, "words of the vocabulary")


PATIENCE = timedelta(minutes=5)
"""Timeout of a collective; a partner that has exited is detected earlier."""


@dataclass(frozen=True, slots=True)
class TorchComm:
    """`Comm` over one process group."""

    group: dist.ProcessGroup

    @property
    def rank(self) -> int:
        """Rank of this process, from 0."""
        return self.group.rank()

    @property
    def size(self) -> int:
        """Number of processes that share the model."""
        return self.group.size()

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """Sum over the ranks in place, and return the same tensor."""
        dist.all_reduce(tensor, group=self.group)
        return tensor

    def all_gather(self, tensor: Tensor, dim: int = -1) -> Tensor:
        """Concatenate the ranks' tensors of equal shape along `dim` in rank order."""
        parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(self.size)]
        dist.all_gather(parts, tensor.contiguous(), group=self.group)
        return torch.cat(parts, dim=dim)


def open_group(rank: int, size: int, address: str, *, device: str = "cpu") -> TorchComm:
    """Join the ranks of one model; returns when all have joined.

    Args:
        rank: Rank of this process, from 0.
        size: Number of ranks.
        address: Rendezvous address: `tcp://127.0.0.1:29500` for a port of rank 0, or `file:///path` of a file that all
            ranks can access.
        device: Device of the tensors; `cuda:1` uses NCCL, `cpu` gloo.

    Raises:
        ConfigError: If the rank is out of range.
    """
    if not 0 <= rank < size:
        raise ConfigError(f"rank {rank} of {size} does not exist. Ranks count from 0 to {size - 1}")
    backend = "nccl" if device.startswith("cuda") else "gloo"
    dist.init_process_group(backend, init_method=address, rank=rank, world_size=size, timeout=PATIENCE)
    group = dist.group.WORLD
    assert group is not None
    return TorchComm(group)


def close_group() -> None:
    """Leave the process group, if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()
