"""Experts: the operator `experts` at given routings, and whole MoE layers with router and shared expert."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.kernels import exact, moe_peers
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.candidates import load, with_prepared
from benchmarks.kernels.case import OURS, Case, Copy, Inputs, Peer
from benchmarks.kernels.cost.moe import layer_work, routed_work
from benchmarks.kernels.inputs import normal, our, reference
from benchmarks.kernels.moe_weights import FROM_FLOPS, NUM_COPIES, make_routing, needed_bytes, weights_of

FROM_ANCHORS = 512
"""Tokens from which a dense matmul of equal FLOPs says something."""


def cases(bench: Bench) -> Iterator[Case]:
    """Candidates with four bits, then in bf16, at all sizes; then the peers' on weights as they are loaded."""
    layer = Layer(bench)
    for is_ours in (True, False):
        for variant in ("int4", "bf16"):
            for tokens in bench.sizes.tokens:
                yield layer.experts(variant, tokens, layer.our_peers(variant) if is_ours else None)
                if is_ours or variant == "bf16":  # the peers' layers are in bf16
                    yield layer.whole(variant, tokens, is_ours)


class Layer:
    """Cases that share one set of weights."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.config, self.text = bench, bench.sizes.config, bench.sizes.text
        self.weights = partial(weights_of, bench)  # made with the first case's inputs

    def experts(self, variant: str, tokens: int, peers: list[Peer] | None = None) -> Case:
        """The operator alone; by default with everybody but us."""
        peers = self._peers(variant, tokens) if peers is None else peers
        return self._case(variant, tokens, peers, lambda: self._expert_inputs(variant, tokens))

    def whole(self, variant: str, tokens: int, is_ours: bool) -> Case:
        """Router, routed experts and the shared one."""
        peers = [self._our_layer(variant)] if is_ours else self._layer_peers()
        return self._case(f"{variant} layer", tokens, peers, lambda: self._layer_inputs(variant, tokens))

    def our_peers(self, variant: str) -> list[Peer]:
        """Us alone."""
        return [our(self.bench, "experts", adapt=lambda *copy: (*copy, self._prepared(variant)))]

    def _case(self, variant: str, tokens: int, peers: list[Peer], setup: Callable[[], Inputs]) -> Case:
        return Case(
            kernel="moe",
            variant=variant,
            size={"tokens": tokens},
            peers=peers,
            setup=setup,
            shows_flops=tokens >= FROM_FLOPS,
            needs_bytes=needed_bytes(self.bench, variant.split()[0], tokens),
        )

    def _expert_inputs(self, variant: str, tokens: int) -> Inputs:
        weights = self.weights()
        copies = [make_routing(self.bench, tokens, index) for index in range(NUM_COPIES)]
        rows = exact.sample_rows(tokens)
        hidden, shares, ids = (part[rows] for part in copies[0])
        wanted = cache(lambda: exact.experts(hidden, shares, ids, lambda index: weights.read(variant, index)))

        def error(call: Callable[[Copy], Any]) -> float:
            return exact.relative_error(call(copies[0])[rows], wanted())

        return Inputs(copies=copies, work=routed_work(self.config, tokens, variant), error=error)

    def _layer_inputs(self, variant: str, tokens: int) -> Inputs:
        width = self.text.hidden_size
        copies = [(normal(self.bench, "hidden", tokens, width, index=index),) for index in range(NUM_COPIES)]
        rows = exact.sample_rows(tokens)
        wanted = cache(lambda: self._exact_layer(variant, copies[0][0][rows]))

        def error(call: Callable[[Copy], Any]) -> float:
            return exact.relative_error(call(copies[0])[rows], wanted())

        return Inputs(copies=copies, work=layer_work(self.config, tokens, variant), error=error)

    def _exact_layer(self, variant: str, hidden: Tensor) -> Tensor:
        weights = self.weights()
        options = weights.options
        dense = exact.route(hidden, weights.router, weights.bias, options.top_k, options.scale)
        shares, ids = dense.topk(options.top_k, dim=-1)
        routed = exact.experts(hidden, shares, ids, lambda index: weights.read(variant, index))
        return routed + exact.mlp(hidden, weights.shared_gate_up, weights.shared_down)

    def _prepared(self, variant: str) -> Any:
        return self.weights().get(variant, self.bench.candidates("prepare_experts"))

    def _raw(self, variant: str) -> Any:
        return self.weights().get(variant)

    def _our_layer(self, variant: str) -> Peer:
        def make() -> Callable[..., Any]:
            ops = self.bench.candidates.all()
            return self._make_layer(
                ops.route, self.bench.candidates("experts"), ops.run_concurrently, self._prepared(variant)
            )

        return Peer(name=OURS, make=make)

    def _make_layer(self, route: Any, experts: Any, run_concurrently: Any, held: Any) -> Callable[[Tensor], Any]:
        """The layer as model_runtime/model/moe.py composes it."""
        weights = self.weights()

        def run(x: Tensor) -> Any:
            shares, ids = route(x, weights.router, weights.bias, weights.options)
            out, more = run_concurrently(lambda: experts(x, shares, ids, held), lambda: weights.shared(x))
            return out.add_(more)

        return run

    def _peers(self, variant: str, tokens: int) -> list[Peer]:
        def raw(*copy: Any) -> Copy:
            return (*copy, self._raw(variant))

        peers = [reference(self.bench.reference.experts, adapt=raw, is_recorded=False)]
        if variant == "bf16":
            peers += self._dense_peers(tokens, raw)
        return peers + self._file_peers(variant, tokens, raw)

    def _dense_peers(self, tokens: int, raw: Callable[..., Copy]) -> list[Peer]:
        theirs = Peer(
            name="transformers",
            make=lambda: moe_peers.transformers_experts(self.weights(), self._raw("bf16")),
            adapt=raw,
            note="grouped_mm",
        )
        peers = [Peer(name="grouped_mm", make=lambda: moe_peers.grouped_mm, adapt=raw), theirs]
        if tokens < FROM_ANCHORS:
            return peers
        loop = Peer(
            name="torch.mm loop",
            make=lambda: moe_peers.loop,
            adapt=lambda *copy: moe_peers.sort_rows(*raw(*copy)),
            is_checked=False,
            note="rows sorted before",
        )
        dense = Peer(
            name="dense matmul",
            make=lambda: torch.mm,
            adapt=lambda *copy: moe_peers.equal_flops(*raw(*copy)),
            is_checked=False,
            note="equal FLOPs, one weight",
        )
        return [*peers, loop, dense]

    def _layer_peers(self) -> list[Peer]:
        ops = self.bench.reference
        torch_peer = Peer(
            name="torch",
            make=lambda: self._make_layer(ops.route, ops.experts, ops.run_concurrently, self._raw("bf16")),
            is_recorded=False,
        )
        grouped = Peer(
            name="grouped_mm",
            make=lambda: self._make_layer(ops.route, moe_peers.grouped_mm, ops.run_concurrently, self._raw("bf16")),
        )
        theirs = Peer(name="transformers", make=lambda: moe_peers.transformers_moe(self.weights(), self._raw("bf16")))
        return [torch_peer, grouped, theirs]

    def _file_peers(self, variant: str, tokens: int, raw: Callable[..., Copy]) -> list[Peer]:
        text = self.text
        shapes = {
            "tokens": tokens,
            "hidden": text.hidden_size,
            "experts": text.n_routed_experts,
            "top_k": text.num_experts_per_tok,
            "intermediate": text.moe_intermediate_size,
            "group": self.bench.sizes.group,
        }

        def make(path: Any) -> Callable[..., Any]:
            return with_prepared(load(path, f"experts.{variant}", shapes), self._raw(variant))

        return [Peer(name=path.stem, make=partial(make, path), adapt=raw) for path in self.bench.peer_files]
