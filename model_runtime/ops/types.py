"""What operators take beside tensors: expert weights, routing options, bounds of sequences laid end to end."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteOptions:
    """How experts are chosen. Source: DeepSeek-V3 report (arXiv 2412.19437), section 2.1.2.

    Attributes:
        top_k: Experts a token goes to.
        n_group: Groups the experts fall into, in order; 1 means no groups.
        topk_group: How many groups a token may choose from.
        norm_topk_prob: Whether the chosen scores are divided by their sum.
        scale: Factor on the weights.
    """

    top_k: int
    n_group: int = 1
    topk_group: int = 1
    norm_topk_prob: bool = True
    scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseExperts:
    """Experts in the model's own dtype.

    Attributes:
        gate_up: (E, 2 * intermediate, hidden): the gate's rows, then the up projection's.
        down: (E, hidden, intermediate).
    """

    gate_up: Tensor
    down: Tensor

    @property
    def num_experts(self) -> int:
        """Experts held here."""
        return self.gate_up.shape[0]

    @property
    def intermediate_size(self) -> int:
        """Inner width of one expert."""
        return self.down.shape[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4Experts:
    """Experts as the release packs them: groups of `group_size` inputs share one scale.

    Eight inputs stand in one int32, the first in the lowest four bits, each as value + 8.

    Attributes:
        gate_up_packed: (E, 2 * intermediate, hidden / 8) int32.
        gate_up_scale: (E, 2 * intermediate, hidden / group_size) of the checkpoint's dtype, bf16 in the release.
        down_packed: (E, hidden, intermediate / 8) int32.
        down_scale: (E, hidden, intermediate / group_size), as `gate_up_scale`.
        group_size: Inputs under one scale.
    """

    gate_up_packed: Tensor
    gate_up_scale: Tensor
    down_packed: Tensor
    down_scale: Tensor
    group_size: int = 32

    @property
    def num_experts(self) -> int:
        """Experts held here."""
        return self.gate_up_packed.shape[0]

    @property
    def intermediate_size(self) -> int:
        """Inner width of one expert."""
        return self.gate_up_packed.shape[1] // 2


Experts = DenseExperts | Int4Experts


class CuSeqlens:
    """Where sequences laid end to end begin and end: sequence s has the rows `bounds[s]:bounds[s + 1]`.

    The host's numbers and their copy on the device belong together, so that no layer has to wait for either.
    """

    __slots__ = ("_on_device", "bounds", "max_len")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = tuple(bounds)
        self.max_len = max((end - start for start, end in self.spans()), default=0)
        self._on_device: Tensor | None = None

    @classmethod
    def of_lengths(cls, lengths: Sequence[int]) -> "CuSeqlens":
        """From the sequences' lengths."""
        bounds = [0]
        for length in lengths:
            bounds.append(bounds[-1] + length)
        return cls(bounds)

    def spans(self) -> list[tuple[int, int]]:
        """(first row, row after the last) of each sequence."""
        return list(zip(self.bounds[:-1], self.bounds[1:], strict=True))

    def on(self, device: torch.device) -> Tensor:
        """(S + 1,) int32 on `device`; copied there once."""
        if self._on_device is None or self._on_device.device != device:
            self._on_device = torch.tensor(self.bounds, dtype=torch.int32, device=device)
        return self._on_device
