"""Quantization-aware training of the routed experts: forward passes see the weights as INT4 will have them.

Source: Kimi K2.5 report, section on native INT4 (quantization-aware training of the experts in the last part); the
gradient passes the rounding as if it were not there: Bengio et al. 2013, arXiv 1308.3432, "straight-through".
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized, register_parametrization, remove_parametrizations

from model_runtime.checkpoint.int4 import quantize
from model_runtime.model import K25Model
from model_runtime.model.moe import Moe

NAMES = ("gate_up", "down")


class RoundToInt4(nn.Module):
    """A weight as it comes back from INT4 with scales in `dtype`, and the gradient of the weight itself."""

    def __init__(self, group_size: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.group_size, self.dtype = group_size, dtype

    def forward(self, weight: Tensor) -> Tensor:
        """(experts, out, in) -> the same shape, rounded."""
        with torch.no_grad():
            q, scale = quantize(weight.detach().flatten(0, 1).to(self.dtype), self.group_size)
            groups = q.view(*scale.shape, self.group_size) * scale.unsqueeze(-1)  # rounded to dtype, as loaders do
            rounding = groups.view(weight.shape).to(weight.dtype) - weight
        return weight + rounding


def start_rounding(model: K25Model, group_size: int = 32, dtype: torch.dtype = torch.bfloat16) -> None:
    """From here on, forward passes see the dense experts as INT4 has them; the weights behind stay exact."""
    for router in _find_routers(model):
        for name in NAMES:
            if not is_parametrized(router, name):
                register_parametrization(router, name, RoundToInt4(group_size, dtype), unsafe=True)


def stop_rounding(model: K25Model) -> None:
    """Forward passes see the exact weights again."""
    for router in _find_routers(model):
        for name in NAMES:
            if is_parametrized(router, name):
                remove_parametrizations(router, name, leave_parametrized=False)


def _find_routers(model: K25Model) -> list[Moe]:
    return [layer.mlp for layer in model.layers if isinstance(layer.mlp, Moe)]
