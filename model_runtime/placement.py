"""Where the modules of one model live."""

from dataclasses import dataclass

import torch

from model_runtime.ops import Ops
from model_runtime.parallel.comm import Comm


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What all modules of one model share: device, dtype of the weights, ranks, operators."""

    device: torch.device
    dtype: torch.dtype
    comm: Comm
    ops: Ops
