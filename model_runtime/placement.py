"""Where the modules of one model live, and the current GPU of a thread.

Kernels, streams and scratch memory of libraries go to the current GPU, wherever the tensors lie. It is 0 in every new
thread and process, so whoever computes on another one says so.
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
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What all modules of one model share: device, dtype of the weights, ranks, operators, prepared experts' files."""

    device: torch.device
    dtype: torch.dtype
    comm: Comm
    ops: Ops
    prepared: "PreparedFiles | None" = None


Enter = Callable[[torch.device], AbstractContextManager[Any]]
"""Makes a device the current one inside a block. Tests pass one that writes down what it is asked for."""


def use_device(device: torch.device) -> AbstractContextManager[Any]:
    """Make a GPU this thread's current one inside a block; nothing to do for other devices, or where it is already."""
    if device.type != "cuda" or device.index in (None, torch.cuda.current_device()):
        return nullcontext()
    return torch.cuda.device(device)


def set_device(device: torch.device) -> None:
    """Make a GPU this thread's current one for good."""
    if device.type == "cuda":
        torch.cuda.set_device(device)


def find_rank_device(device: str, rank: int) -> torch.device:
    """The device of a rank: ranks take neighbouring GPUs, from the one named on (`cpu`, `cuda` or `cuda:N`)."""
    first = torch.device(device)
    return torch.device("cuda", (first.index or 0) + rank) if first.type == "cuda" else first
