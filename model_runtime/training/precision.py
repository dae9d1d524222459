"""Whether a device computes faster in bf16 than in fp32.

Quantization-aware training of the routed experts: forward passes see the weights as INT4 will have them. Source: Kimi
K2.5 report, section on native INT4 (quantization-aware training of the experts in the last part); the gradient passes
the rounding as if it were not there: Bengio et al. 2013, arXiv 1308.3432, "straight-through".
"""

import time

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized, register_parametrization, remove_parametrizations

from model_runtime.checkpoint.int4 import quantize
from model_runtime.model import K25Model
from model_runtime.model.moe import Moe

ROWS, WIDTH, INNER = 2048, 128, 768
"""A matrix product of the small model's vision tower: patches of a batch by its MLP."""
TRIES, ROUNDS = 15, 5
"""Products that are timed together, and how often for each precision in turn: the shortest time counts, since one that
something else delayed would decide on the precision of a whole run."""


def is_bf16_faster(device: torch.device) -> bool:
    """Whether matrix products of a small model take less time in bf16.

    Processors that can compute in bf16 differ: a step of the tower took a fifth less on one (an EPYC), single products
    twice as long on another (a Xeon without AMX), and both name the same instructions (AVX-512 BF16). So products are
    timed there, which takes half a second.
    """
    if device.type != "cpu":
        return True
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # several wait for each other, and waiting is counted, too
    try:
        pairs = [(_time_products(torch.bfloat16), _time_products(torch.float32)) for _ in range(ROUNDS)]
        return min(bf16 for bf16, _ in pairs) < min(fp32 for _, fp32 in pairs)
    finally:
        torch.set_num_threads(threads)


def _time_products(dtype: torch.dtype) -> float:
    """Seconds of CPU time that products take, which other work hardly changes; some count it in steps of 10 ms."""
    rows, weight = torch.ones(ROWS, WIDTH, dtype=dtype), torch.ones(INNER, WIDTH, dtype=dtype)
    torch.nn.functional.linear(rows, weight)
    started = time.process_time()
    for _ in range(TRIES):
        torch.nn.functional.linear(rows, weight)
    return time.process_time() - started


NAMES = ("gate_up", "down")


class RoundToInt4(nn.Module):
    """A weight as it comes back from INT4 with scales in bf16, and the gradient of the weight itself."""

    def __init__(self, group_size: int) -> None:
        super().__init__()
        self.group_size = group_size

    def forward(self, weight: Tensor) -> Tensor:
        """(experts, out, in) -> the same shape, rounded."""
        with torch.no_grad():
            q, scale = quantize(weight.detach().flatten(0, 1).to(torch.bfloat16), self.group_size)
            groups = q.view(*scale.shape, self.group_size) * scale.unsqueeze(-1)  # rounded to bf16, as loaders do
            rounding = groups.view(weight.shape).to(weight.dtype) - weight
        return weight + rounding


def start_rounding(model: K25Model, group_size: int = 32) -> None:
    """From here on, forward passes see the dense experts as INT4 has them; the weights behind stay exact."""
    for router in _find_routers(model):
        for name in NAMES:
            if not is_parametrized(router, name):
                register_parametrization(router, name, RoundToInt4(group_size), unsafe=True)


def stop_rounding(model: K25Model) -> None:
    """Forward passes see the exact weights again."""
    for router in _find_routers(model):
        for name in NAMES:
            if is_parametrized(router, name):
                remove_parametrizations(router, name, leave_parametrized=False)


def _find_routers(model: K25Model) -> list[Moe]:
    return [layer.mlp for layer in model.layers if isinstance(layer.mlp, Moe)]
