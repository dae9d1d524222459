"""The weights of one MoE layer, made on the device expert by expert, one form of them at a time; and who goes where.

Weights exist once; what is rotated is the rows and with them the experts they go to.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.kernels.bench import Bench
from benchmarks.kernels.cost.moe import weight_bytes
from benchmarks.kernels.inputs import make_generator, normal
from model_runtime.checkpoint.int4 import dequantize, pack, quantize
from model_runtime.launch.sizes import expert_parameters
from model_runtime.model.moe import make_route_options
from model_runtime.ops.registry import DenseExperts, Experts, Int4Experts

NUM_COPIES = 4
"""Routings: one alone reads more than the L2 cache holds, 198 MB of four bits for a single token."""

FROM_FLOPS = 4096
"""Tokens from which the figure is TFLOP/s."""


class Weights:
    """Makes them and keeps the last form that was asked for: two do not fit every card."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.text = bench, bench.sizes.text
        self._forms: set[tuple[str, bool]] = set()  # that what is kept is one of
        self._experts: Any = None
        hidden = self.text.hidden_size
        self.router = normal(bench, "router", self.text.n_routed_experts, hidden, scale=hidden**-0.5)
        self.bias = normal(bench, "bias", self.text.n_routed_experts, scale=0.01).float()
        self.shared_gate_up, self.shared_down = self._make(-1)
        self.options = make_route_options(self.text)

    @property
    def is_made(self) -> bool:
        """Whether some form of them takes memory."""
        return bool(self._forms)

    def drop(self) -> None:
        """Give the memory back; they are made again when they are asked for."""
        self._forms, self._experts = set(), None
        self.bench.device.tidy()

    def get(self, variant: str, prepare: Callable[[Experts], Any] | None = None) -> Any:
        """All routed experts: as they are loaded, or as `prepare` makes them, which may give up what it gets."""
        form = (variant, prepare is not None)
        if form in self._forms:
            return self._experts
        loaded = self._experts if (variant, False) in self._forms else self._load(variant)
        self._experts = loaded if prepare is None else prepare(loaded)
        self._forms = {form} | ({(variant, False)} if self._experts is loaded else set())
        return self._experts

    def _load(self, variant: str) -> Experts:
        self.drop()
        return self._make_dense() if variant == "bf16" else self.make_int4(self.text.n_routed_experts)

    def read(self, variant: str, index: int) -> tuple[Tensor, Tensor]:
        """One expert's gate_up (2I, H) and down (H, I), newly generated; packed ones as exact as float64 has them."""
        gate_up, down = self._make(index)
        if variant == "bf16":
            return gate_up, down
        return self._round(gate_up), self._round(down)

    def shared(self, x: Tensor) -> Tensor:
        """The expert of all tokens, as the model computes it."""
        gate, up = F.linear(x, self.shared_gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, self.shared_down)

    def _make(self, index: int) -> tuple[Tensor, Tensor]:
        """Expert `index`, -1 for the shared one; it can be made again, alone, to be compared with."""
        hidden, width = self.text.hidden_size, self.text.moe_intermediate_size
        gate_up = normal(self.bench, "gate_up", 2 * width, hidden, index=index, scale=hidden**-0.5)
        return gate_up, normal(self.bench, "down", hidden, width, index=index, scale=width**-0.5)

    def _make_dense(self) -> DenseExperts:
        count = self.text.n_routed_experts
        gate_up, down = (weight.new_empty(count, *weight.shape) for weight in self._make(0))
        for index in range(count):
            gate_up[index], down[index] = self._make(index)
        return DenseExperts(gate_up=gate_up, down=down)

    def make_int4(self, count: int) -> Int4Experts:
        """The first so many experts as they are loaded, in memory of their own."""
        stacks = [part.new_empty(count, *part.shape) for part in self._make_packed(0)]
        for index in range(count):
            for stack, part in zip(stacks, self._make_packed(index), strict=True):
                stack[index] = part
        return Int4Experts(
            gate_up_packed=stacks[0],
            gate_up_scale=stacks[1],
            down_packed=stacks[2],
            down_scale=stacks[3],
            group_size=self.bench.sizes.group,
        )

    def _make_packed(self, index: int) -> list[Tensor]:
        """Packed and scale of gate_up, then of down."""
        return [part for weight in self._make(index) for part in self._pack(weight)]

    def _pack(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        q, scale = quantize(weight, self.bench.sizes.group)
        return pack(q), scale

    def _round(self, weight: Tensor) -> Tensor:
        return dequantize(*self._pack(weight), torch.float64)


@lru_cache(maxsize=1)
def weights_of(bench: Bench) -> Weights:
    """The run's, made when they are first asked for."""
    return Weights(bench)


def needed_bytes(bench: Bench, variant: str, tokens: int) -> float:
    """What a case takes besides the weights that there are already."""
    text, config = bench.sizes.text, bench.sizes.config
    weights = text.n_routed_experts * expert_parameters(text) * weight_bytes(config, variant)
    rows = (NUM_COPIES + 3 * text.num_experts_per_tok) * tokens * text.hidden_size * 2
    return rows if weights_of(bench).is_made else weights + rows


def make_routing(bench: Bench, tokens: int, index: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows (N, H), shares (N, K) that sum to the routing's factor, and ids (N, K) of distinct experts, all alike."""
    place, text = bench.device.torch_device, bench.sizes.text
    generator = make_generator(place, "scores", index)
    scores = torch.rand(tokens, text.n_routed_experts, generator=generator, device=place)
    shares, ids = scores.topk(text.num_experts_per_tok, dim=-1)
    shares = shares / shares.sum(-1, keepdim=True) * text.routed_scaling_factor
    return normal(bench, "hidden", tokens, text.hidden_size, index=index), shares, ids
