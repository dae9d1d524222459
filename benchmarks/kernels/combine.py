"""Each token's weighted sum over its experts' rows."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torch import Tensor

from benchmarks.kernels import exact
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.case import OURS, Case, Copy, Inputs, Peer
from benchmarks.kernels.cost.moe import combine_work
from benchmarks.kernels.inputs import compiled, copies_of, normal, reference
from benchmarks.kernels.moe_weights import make_routing
from benchmarks.kernels.timing import is_cold


def cases(bench: Bench) -> Iterator[Case]:
    """Every number of tokens."""
    text = bench.sizes.text
    variant = f"top {text.num_experts_per_tok}"
    peers = [Peer(name=OURS, make=lambda: _find_ours(bench)), reference(weighted_sum), compiled(bench, weighted_sum)]
    for tokens in bench.sizes.tokens:
        setup = partial(_make_inputs, bench, tokens)
        yield Case(kernel="combine", variant=variant, size={"tokens": tokens}, peers=peers, setup=setup)


def weighted_sum(partial: Tensor, shares: Tensor, ids: Tensor) -> Tensor:
    """Rows by pair (T * K, H), shares and ids (T, K) -> (T, H); all experts are here."""
    return (partial.view(*ids.shape, -1).float() * shares.unsqueeze(-1)).sum(1).to(partial.dtype)


def _find_ours(bench: Bench) -> Callable[..., Any]:
    bench.candidates.all()  # says why there are none
    from model_runtime.kernels.moe import combine

    num_experts = bench.sizes.text.n_routed_experts
    return lambda partial, shares, ids: combine(partial, shares, ids, num_experts)


def _make_inputs(bench: Bench, tokens: int) -> Inputs:
    work, width = combine_work(bench.sizes.text, tokens), bench.sizes.text.hidden_size

    def make(index: int) -> Copy:
        _, shares, ids = make_routing(bench, tokens, index)
        return normal(bench, "partial", ids.numel(), width, index=index), shares, ids

    copies = copies_of(bench, work.bytes, make)

    def error(call: Callable[[Copy], Any]) -> float:
        partial, shares, ids = copies[0]
        rows = exact.sample_rows(tokens, 64)
        some = partial.view(*ids.shape, -1)[rows].double()
        return exact.relative_error(call(copies[0])[rows], (some * shares[rows].double().unsqueeze(-1)).sum(1))

    return Inputs(copies=copies, work=work, error=error, is_cold=is_cold(work.bytes, bench.device.l2_bytes))
