"""Choice between bf16 and fp32 by a timing, and quantization-aware training.

Quantization-aware training of the routed experts: forward passes use the weights as rounded by INT4. Source: Kimi K2.5
report, section on native INT4 (quantization-aware training of the experts in the last part); the gradient ignores the
rounding: Bengio et al. 2013, arXiv 1308.3432, "straight-through".
"""

import time

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized, register_parametrization, remove_parametrizations

from model_runtime.checkpoint.int4 import quantize
from model_runtime.model import K25Model
from model_runtime.model.moe import Moe

ROWS, WIDTH, INNER = 2048, 128, 768
"""Sizes of a matrix product in the small model's vision tower: patches of a batch by its MLP."""
TRIES, ROUNDS = 15, 5
"""Number of products that are timed together, and number of timings for each precision in turn: the shortest time
counts, since one delayed by other load would decide the precision of a whole run.
"""


def is_bf16_faster(device: torch.device) -> bool:
    """Return True if matrix products of a small model take less time in bf16.

    CPUs with bf16 differ: a step of the tower took a fifth less on one (an EPYC), single products twice as long on
    another (a Xeon without AMX), and both report the same instructions (AVX-512 BF16). Products are therefore timed on
    the CPU, which takes half a second; other devices count as faster.
    """
    if device.type != "cpu":
        return True
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # several processes wait for each other, and waiting is counted, too
    try:
        pairs = [(_time_products(torch.bfloat16), _time_products(torch.float32)) for _ in range(ROUNDS)]
        return min(bf16 for bf16, _ in pairs) < min(fp32 for _, fp32 in pairs)
    finally:
        torch.set_num_threads(threads)


def _time_products(dtype: torch.dtype) -> float:
    """Return the CPU time of products in seconds, which other load hardly changes; some systems count it in steps of 10
    ms.
    """
    rows, weight = torch.ones(ROWS, WIDTH, dtype=dtype), torch.ones(INNER, WIDTH, dtype=dtype)
    torch.nn.functional.linear(rows, weight)
    started = time.process_time()
    for _ in range(TRIES):
        torch.nn.functional.linear(rows, weight)
    return time.process_time() - started


NAMES = ("gate_up", "down")


class RoundToInt4(nn.Module):
    """Parametrization of a weight as rounded to INT4 with scales in bf16, with the gradient of the unrounded weight."""

    def __init__(self, group_size: int) -> None:
        super().__init__()
        self.group_size = group_size

    def forward(self, weight: Tensor) -> Tensor:
        """Round a weight: (experts, out, in) -> the same shape."""
        with torch.no_grad():
            q, scale = quantize(weight.detach().flatten(0, 1).to(torch.bfloat16), self.group_size)
            groups = q.view(*scale.shape, self.group_size) * scale.unsqueeze(-1)  # rounded to bf16, as loaders do
            rounding = groups.view(weight.shape).to(weight.dtype) - weight
        return weight + rounding


def start_rounding(model: K25Model, group_size: int = 32) -> None:
    """Make forward passes use the dense experts rounded to INT4; the underlying weights stay exact."""
    for router in _find_routers(model):
        for name in NAMES:
            if not is_parametrized(router, name):
                register_parametrization(router, name, RoundToInt4(group_size), unsafe=True)


def stop_rounding(model: K25Model) -> None:
    """Make forward passes use the exact weights again."""
    for router in _find_routers(model):
        for name in NAMES:
            if is_parametrized(router, name):
                remove_parametrizations(router, name, leave_parametrized=False)


def _find_routers(model: K25Model) -> list[Moe]:
    return [layer.mlp for layer in model.layers if isinstance(layer.mlp, Moe)]
