"""Where the modules of one model live."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from model_runtime.ops import Ops
from model_runtime.parallel.comm import Comm

if TYPE_CHECKING:
    from model_runtime.checkpoint.prepared import PreparedFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What all modules of one model share: device, dtype of the weights, ranks, operators, prepared experts' files."""

    device: torch.device
    dtype: torch.dtype
    comm: Comm
    ops: Ops
    prepared: "PreparedFiles | None" = None
