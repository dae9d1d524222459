"""The shared expert beside the routed ones: on a second stream, after them, and what each of both takes alone."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from torch import Tensor

from benchmarks.kernels import exact, roofline
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.case import OURS, Case, Copy, Inputs, Peer
from benchmarks.kernels.cost.moe import routed_work
from benchmarks.kernels.moe_weights import NUM_COPIES, make_routing, needed_bytes, weights_of

MOST_TOKENS = 64
"""Beyond, either of them fills the GPU by itself."""


def cases(bench: Bench) -> Iterator[Case]:
    """Both kinds of weights at every number of tokens of a decode step."""
    for variant in ("int4", "bf16"):
        for tokens in bench.sizes.tokens:
            if tokens <= MOST_TOKENS:
                yield make_case(bench, variant, tokens)


def make_case(bench: Bench, variant: str, tokens: int) -> Case:
    """One number of tokens. Our kernels run in all rows; which of them run together differs."""
    weights = weights_of(bench)

    def adapt(*copy: Any) -> Copy:
        return (*copy, weights.get(variant, bench.candidates("prepare_experts")))

    def together(ops: Any, *copy: Any) -> Tensor:
        routed, shared = ops.run_concurrently(lambda: ops.experts(*copy), lambda: weights.shared(copy[0]))
        return routed.add_(shared)

    def in_turn(ops: Any, *copy: Any) -> Tensor:
        return ops.experts(*copy).add_(weights.shared(copy[0]))

    def routed(ops: Any, *copy: Any) -> Tensor:
        return ops.experts(*copy)

    def shared(_: Any, *copy: Any) -> Tensor:
        return weights.shared(copy[0])

    def peer(name: str, function: Callable[..., Tensor], note: str, **more: Any) -> Peer:
        return Peer(name=name, make=lambda: _bind(function, bench), adapt=adapt, note=note, **more)

    return Case(
        kernel="overlap",
        variant=variant,
        size={"tokens": tokens},
        peers=[
            peer(OURS, together, "two streams"),
            peer("one stream", in_turn, "our kernels in turn"),
            peer("routed alone", routed, "a part of it", is_checked=False),
            peer("shared alone", shared, "a part of it", is_checked=False),
        ],
        setup=lambda: _make_inputs(bench, variant, tokens),
        needs_bytes=needed_bytes(bench, variant, tokens),
    )


def _bind(function: Callable[..., Tensor], bench: Bench) -> Callable[..., Tensor]:
    ops = bench.candidates.all()
    return lambda *copy: function(ops, *copy)


def _make_inputs(bench: Bench, variant: str, tokens: int) -> Inputs:
    weights = weights_of(bench)
    copies = [make_routing(bench, tokens, index) for index in range(NUM_COPIES)]
    rows = exact.sample_rows(tokens)
    wanted = cache(lambda: _compute_exactly(bench, variant, *(part[rows] for part in copies[0])))

    def error(call: Callable[[Copy], Any]) -> float:
        return exact.relative_error(call(copies[0])[rows], wanted())

    work = routed_work(bench.sizes.config, tokens, variant) + roofline.shared_expert(weights.text, tokens)
    return Inputs(copies=copies, work=work, error=error)


def _compute_exactly(bench: Bench, variant: str, hidden: Tensor, shares: Tensor, ids: Tensor) -> Tensor:
    weights = weights_of(bench)
    routed = exact.experts(hidden, shares, ids, lambda index: weights.read(variant, index))
    return routed + exact.mlp(hidden, weights.shared_gate_up, weights.shared_down)
