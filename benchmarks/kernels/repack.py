"""INT4 experts from the order in which they are stored to the one that kernels read, in place: once, at loading."""

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.kernels import exact, roofline
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.case import OURS, Case, Copy, Inputs, Peer
from benchmarks.kernels.moe_weights import weights_of
from model_runtime.ops.registry import Int4Experts

NUM_EXPERTS = 16
"""A layer has 24 times as many, one after the other."""


def cases(bench: Bench) -> Iterator[Case]:
    """Some experts of one layer."""
    yield Case(
        kernel="repack",
        variant="int4",
        size={"experts": min(NUM_EXPERTS, bench.sizes.text.n_routed_experts)},
        peers=[
            Peer(name=OURS, make=lambda: _find_ours(bench), is_recorded=False),
            Peer(name="copy", make=lambda: copy, is_checked=False, note="the same bytes, in no new order"),
        ],
        setup=lambda: _make_inputs(bench),
    )


def copy(experts: Int4Experts) -> list[Any]:
    """Every tensor once more."""
    return [part.clone() for part in _parts(experts)]


def _parts(experts: Int4Experts) -> list[Any]:
    return [experts.gate_up_packed, experts.gate_up_scale, experts.down_packed, experts.down_scale]


def _find_ours(bench: Bench) -> Callable[..., Any]:
    bench.candidates.all()  # says why there are none
    from model_runtime.kernels.repack import repack

    return repack


def _make_inputs(bench: Bench) -> Inputs:
    text, weights = bench.sizes.text, weights_of(bench)
    count = min(NUM_EXPERTS, text.n_routed_experts)
    copies = [(weights.make_int4(count),)]

    def error(call: Callable[[Copy], Any]) -> float:
        from model_runtime.kernels.repack import dequantize

        made = call((weights.make_int4(count),))
        found = dequantize(made.gate_up[-1], made.gate_up_scale[-1], text.hidden_size)
        return exact.relative_error(found, weights.read("int4", count - 1)[0])

    return Inputs(copies=copies, work=roofline.repack(bench.sizes.config, count), error=error)
