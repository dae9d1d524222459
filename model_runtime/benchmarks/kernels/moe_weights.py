"""The weights of one MoE layer, made on the device expert by expert, one form of them at a time."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from model_runtime.benchmarks.kernels.bench import Bench
from model_runtime.benchmarks.kernels.inputs import normal
from model_runtime.checkpoint.int4 import dequantize, pack, quantize
from model_runtime.model.moe import make_route_options
from model_runtime.ops.types import DenseExperts, Experts, Int4Experts

FIRST_SEED = 1_000_000
"""Expert e is made from this seed + e, so that it can be made again, alone, to be compared with."""


class Weights:
    """Makes them and keeps the last form that was asked for: two do not fit every card."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.text = bench, bench.sizes.text
        self._form: tuple[str, bool] | None = None
        self._experts: Any = None
        hidden = self.text.hidden_size
        self.router = normal(bench, self.text.n_routed_experts, hidden, seed=1, scale=hidden**-0.5)
        self.bias = normal(bench, self.text.n_routed_experts, seed=2, scale=0.01).float()
        self.shared_gate_up, self.shared_down = self._make(-1)
        self.options = make_route_options(self.text)

    def get(self, variant: str, prepare: Callable[[Experts], Any] | None = None) -> Any:
        """All routed experts: as they are loaded, or as `prepare` makes them."""
        form = (variant, prepare is not None)
        if form != self._form:
            self._form = self._experts = None
            self.bench.device.tidy()
            experts = self._make_dense() if variant == "bf16" else self._make_int4()
            self._experts = experts if prepare is None else prepare(experts)
            self._form = form
        return self._experts

    def read(self, variant: str, index: int) -> tuple[Tensor, Tensor]:
        """One expert's gate_up (2I, H) and down (H, I), made anew; packed ones as exact as float64 has them."""
        gate_up, down = self._make(index)
        if variant == "bf16":
            return gate_up, down
        return self._round(gate_up), self._round(down)

    def shared(self, x: Tensor) -> Tensor:
        """The expert of all tokens, as the model computes it."""
        gate, up = F.linear(x, self.shared_gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, self.shared_down)

    def _make(self, index: int) -> tuple[Tensor, Tensor]:
        hidden, width = self.text.hidden_size, self.text.moe_intermediate_size
        seed = FIRST_SEED + 2 * index
        gate_up = normal(self.bench, 2 * width, hidden, seed=seed, scale=hidden**-0.5)
        return gate_up, normal(self.bench, hidden, width, seed=seed + 1, scale=width**-0.5)

    def _make_dense(self) -> DenseExperts:
        gate_up, down = (self._stack(weight) for weight in self._make(0))
        for index in range(self.text.n_routed_experts):
            gate_up[index], down[index] = self._make(index)
        return DenseExperts(gate_up=gate_up, down=down)

    def _make_int4(self) -> Int4Experts:
        stacks = [self._stack(part) for part in self._make_packed(0)]
        for index in range(self.text.n_routed_experts):
            for stack, part in zip(stacks, self._make_packed(index), strict=True):
                stack[index] = part
        return Int4Experts(
            gate_up_packed=stacks[0],
            gate_up_scale=stacks[1],
            down_packed=stacks[2],
            down_scale=stacks[3],
            group_size=self.bench.sizes.group,
        )

    def _stack(self, part: Tensor) -> Tensor:
        """Room for the same part of all experts."""
        return part.new_empty(self.text.n_routed_experts, *part.shape)

    def _make_packed(self, index: int) -> list[Tensor]:
        """Packed and scale of gate_up, then of down."""
        return [part for weight in self._make(index) for part in self._pack(weight)]

    def _pack(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        q, scale = quantize(weight, self.bench.sizes.group)
        return pack(q), scale

    def _round(self, weight: Tensor) -> Tensor:
        return dequantize(*self._pack(weight), torch.float64)
