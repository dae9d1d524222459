"""Placement of one model's modules, and the current GPU of a thread.

Kernels, streams and scratch memory of libraries use the current GPU, regardless of the tensors' device. It is 0 in
every new thread and process, so code for another GPU must set it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from model_runtime.ops import Ops
from model_runtime.parallel.comm import Comm

if TYPE_CHECKING:
    from model_runtime.checkpoint.prepared import PreparedFiles
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlacement:
    """Settings shared by all modules of one model: device, dtype of the weights, ranks, operators, prepared experts'
    files.
    """

    device: torch.device
    dtype: torch.dtype
    comm: Comm
    ops: Ops
    prepared: "PreparedFiles | None" = None


Enter = Callable[[torch.device], AbstractContextManager[object]]
"""Context manager that makes a device current. Tests pass one that records its argument."""


def use_device(device: torch.device) -> AbstractContextManager[object]:
    """Make a GPU this thread's current one inside a block; does nothing for other devices, or if it is already
    current.
    """
    if device.type != "cuda" or device.index in (None, torch.cuda.current_device()):
        return nullcontext()
    return torch.cuda.device(device)


def set_device(device: torch.device) -> None:
    """Make a GPU this thread's current one permanently."""
    if device.type == "cuda":
        torch.cuda.set_device(device)


def find_rank_device(device: str, rank: int) -> torch.device:
    """Return the device of a rank: consecutive GPUs, starting from the named one (`cpu`, `cuda` or `cuda:N`)."""
    first = torch.device(device)
    return torch.device("cuda", (first.index or 0) + rank) if first.type == "cuda" else first
