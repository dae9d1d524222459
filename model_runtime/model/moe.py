"""Mixture of experts: a few routed experts for each token, and a shared one for all.

Source: DeepSeek-V3 report (arXiv 2412.19437), section 2.1.2; numbers: Kimi K2 report (arXiv 2507.20534), section 2.3.
"""

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn

from model_runtime.config.types import K25Config, QuantizationConfig, TextConfig
from model_runtime.errors import ConfigError
from model_runtime.model.layers import Mlp, Weights, freeze
from model_runtime.ops import DenseExperts, Experts, Int4Experts, RouteOptions
from model_runtime.parallel.comm import shard_slice


class Moe(nn.Module):
    """Mixture of experts on one rank.

    Each rank holds contiguous whole experts and a share of the shared one; the ranks' results sum to the whole.
    """

    def __init__(self, config: K25Config, weights: Weights) -> None:
        super().__init__()
        text = config.text
        ops = weights.placement.ops
        self._route, self._experts, self._run_concurrently = ops.route, ops.experts, ops.run_concurrently
        self.here = shard_slice(text.n_routed_experts, weights.placement.comm, "routed experts")
        self.router = freeze(weights.read("gate.weight", (text.n_routed_experts, text.hidden_size)))
        self.bias: Tensor
        bias = weights.read("gate.e_score_correction_bias", (text.n_routed_experts,), dtype=torch.float32)
        self.register_buffer("bias", bias)
        self.options = make_route_options(text)
        self.set_experts(prepare_experts(config, self.here, weights.under("experts")))
        width = text.moe_intermediate_size * text.n_shared_experts
        self.shared = Mlp(text.hidden_size, width, weights.under("shared_experts")) if width else None

    def set_experts(self, prepared: object) -> None:
        """Set the experts to a result of the operator `prepare_experts`; dense ones become weights of this module."""
        self._prepared = None if isinstance(prepared, DenseExperts) else prepared
        if isinstance(prepared, DenseExperts):
            self.gate_up, self.down = freeze(prepared.gate_up), freeze(prepared.down)

    @property
    def prepared_tensors(self) -> list[Tensor]:
        """Tensors of prepared experts that are no weights of this module."""
        prepared: Any = self._prepared
        values = [] if prepared is None else [getattr(prepared, each.name) for each in fields(prepared)]
        return [value for value in values if isinstance(value, Tensor)]

    @property
    def experts(self) -> Any:
        """Experts as input of the operator `experts`."""
        return self._prepared or DenseExperts(gate_up=self.gate_up, down=self.down)

    def choose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return each token's experts among all ranks': (N, hidden) -> weights (N, top_k) fp32, ids (N, top_k)
        int64.
        """
        return self._route(x, self.router, self.bias, self.options)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the experts: (N, hidden) -> (N, hidden), this rank's summand."""
        weights, ids = self.choose(x)
        if self.here.start:
            ids = ids - self.here.start
        experts = self.experts
        if (shared := self.shared) is None:
            return self._experts(x, weights, ids, experts)
        out, more = self._run_concurrently(lambda: self._experts(x, weights, ids, experts), lambda: shared(x))
        return out.add_(more)


def make_route_options(text: TextConfig) -> RouteOptions:
    """Return the router's options from the config."""
    return RouteOptions(
        top_k=text.num_experts_per_tok,
        n_group=text.n_group,
        topk_group=text.topk_group,
        norm_topk_prob=text.norm_topk_prob,
        scale=text.routed_scaling_factor,
    )


def prepare_experts(config: K25Config, here: slice, weights: Weights) -> object:
    """Return the rank's experts as input of the operator `experts`, from the cache of an earlier start if possible."""
    place = weights.placement

    def make() -> object:
        return place.ops.prepare_experts(load_experts(config, here, weights))

    return make() if place.prepared is None else place.prepared.get_or_make(weights.prefix, make)


def load_experts(config: K25Config, here: slice, weights: Weights) -> Experts:
    """Load the rank's experts, packed if the checkpoint has them packed."""
    if weights.has(f"{here.start}.gate_proj.weight_packed"):
        return _load_packed(config.text, config.quantization or QuantizationConfig(), here, weights)
    return _load_dense(config.text, here, weights)


def _load_dense(text: TextConfig, here: slice, weights: Weights) -> DenseExperts:
    hidden, width = text.hidden_size, text.moe_intermediate_size
    gate_up, down = _allocate(weights, here, (2 * width, hidden), (hidden, width), weights.placement.dtype)
    _fill(weights, here, "weight", gate_up, down)
    return DenseExperts(gate_up=gate_up, down=down)


def _load_packed(text: TextConfig, scheme: QuantizationConfig, here: slice, weights: Weights) -> Int4Experts:
    hidden, width, group = text.hidden_size, text.moe_intermediate_size, scheme.group_size
    if scheme.num_bits != 4 or not scheme.symmetric or hidden % group or width % group:
        raise ConfigError(
            f"experts are packed with {scheme.num_bits} bits, groups of {group}, symmetric {scheme.symmetric}, widths "
            f"{hidden} and {width}; this runtime reads symmetric 4 bits whose groups divide the widths"
        )
    packed = _allocate(weights, here, (2 * width, hidden // 8), (hidden, width // 8), torch.int32)
    scales = _allocate(
        weights, here, (2 * width, hidden // group), (hidden, width // group), _find_scale_dtype(here, weights)
    )
    _fill(weights, here, "weight_packed", *packed)
    _fill(weights, here, "weight_scale", *scales)
    return Int4Experts(
        gate_up_packed=packed[0], down_packed=packed[1], gate_up_scale=scales[0], down_scale=scales[1], group_size=group
    )


def _find_scale_dtype(here: slice, weights: Weights) -> torch.dtype:
    """Return the dtype of the scales: bf16 in the release."""
    return weights.source.get(f"{weights.prefix}{here.start}.gate_proj.weight_scale").dtype


def _allocate(
    weights: Weights, here: slice, gate_up: tuple[int, int], down: tuple[int, int], dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    count, device = here.stop - here.start, weights.placement.device
    return (
        torch.empty(count, *gate_up, dtype=dtype, device=device),
        torch.empty(count, *down, dtype=dtype, device=device),
    )


def _fill(weights: Weights, here: slice, suffix: str, gate_up: Tensor, down: Tensor) -> None:
    """Read every expert's three matrices into the joined tensors."""
    for place, expert in enumerate(range(here.start, here.stop)):
        gate, up = gate_up[place].chunk(2)
        weights.read_into(gate, f"{expert}.gate_proj.{suffix}")
        weights.read_into(up, f"{expert}.up_proj.{suffix}")
        weights.read_into(down[place], f"{expert}.down_proj.{suffix}")
