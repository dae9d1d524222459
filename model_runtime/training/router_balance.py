"""Experts kept equally busy by a bias on their choice, without a loss of its own.

Source: Wang et al. 2024, "Auxiliary-loss-free load balancing", arXiv 2408.15664, algorithm 1; DeepSeek-V3 report (arXiv
2412.19437), section 2.1.2: after a step, the bias of an expert that had more tokens than the mean falls by a fixed
amount, and that of one that had fewer rises by as much.
"""

import torch
from torch import Tensor

from model_runtime.model import K25Model
from model_runtime.model.moe import Moe

SPEED = 0.001


class RouterBalance:
    """Counts the tokens of each expert during forward passes, and moves the biases.

    Args:
        model: Whose routers.
        speed: How far a bias moves a step.
    """

    def __init__(self, model: K25Model, speed: float = SPEED) -> None:
        self.speed = speed
        self.routers = [layer.mlp for layer in model.layers if isinstance(layer.mlp, Moe)]
        self.counts = [torch.zeros(len(router.bias), device=router.bias.device) for router in self.routers]
        self._hooks = [
            router.register_forward_pre_hook(lambda module, inputs, counts=counts: _count(module, inputs[0], counts))
            for router, counts in zip(self.routers, self.counts, strict=True)
        ]

    @torch.no_grad()
    def step(self) -> None:
        """Move the biases by what was counted since the last time, and count anew."""
        for router, counts in zip(self.routers, self.counts, strict=True):
            router.bias += self.speed * (counts.mean() - counts).sign()
            counts.zero_()

    def find_imbalance(self) -> float:
        """Tokens of the busiest expert over the mean, in the worst layer; 1 is even, 0 where none were counted."""
        return max((float(counts.max() / counts.mean()) for counts in self.counts if counts.any()), default=0.0)

    def close(self) -> None:
        """Count nothing more; may be called twice."""
        for hook in self._hooks:
            hook.remove()


@torch.no_grad()
def _count(router: Moe, x: Tensor, counts: Tensor) -> None:
    if router.training:
        counts += torch.bincount(router.choose(x)[1].flatten(), minlength=len(counts))
