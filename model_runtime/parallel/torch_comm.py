"""Ranks over `torch.distributed`: gloo between processes on CPUs, NCCL between GPUs."""

from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from model_runtime.errors import ConfigError

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
