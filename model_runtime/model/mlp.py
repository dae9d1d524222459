"""SwiGLU: the dense layer's MLP, and the expert that every token takes.

Source: Shazeer 2020, arXiv 2002.05202, section 2; Kimi K2 report (arXiv 2507.20534), section 2.3.
"""

import torch.nn.functional as F
from torch import Tensor

from model_runtime.model.weights import Weights
from model_runtime.parallel.shard import shard_slice


class Mlp:
    """down(silu(gate x) * up x). Each rank holds a share of the inner columns; the ranks' results sum to the whole."""

    def __init__(self, hidden_size: int, intermediate_size: int, weights: Weights) -> None:
        share = shard_slice(intermediate_size, weights.placement.comm, "columns of an MLP")
        width = share.stop - share.start
        names = ("gate_proj.weight", "up_proj.weight")
        self.gate_up = weights.read_joined(names, (width, width), hidden_size, share)  # (2 * width, hidden)
        self.down = weights.read("down_proj.weight", (hidden_size, width), (slice(None), share))

    def __call__(self, x: Tensor) -> Tensor:
        """(N, hidden) -> (N, hidden), this rank's summand."""
        gate, up = F.linear(x, self.gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate).mul_(up), self.down)
