"""The router: scores of all experts and the choice, one row of fp32 and one of ids for each token."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from benchmarks.kernels import exact
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.candidates import file_peers
from benchmarks.kernels.case import Case, Copy, Inputs
from benchmarks.kernels.cost.moe import router_work
from benchmarks.kernels.inputs import compiled, copies_of, normal, our, reference
from benchmarks.kernels.timing import is_cold
from model_runtime.model.moe import make_route_options


def cases(bench: Bench) -> Iterator[Case]:
    """Every number of tokens."""
    for tokens in bench.sizes.tokens:
        yield make_case(bench, tokens)


def make_case(bench: Bench, tokens: int) -> Case:
    """One number of tokens."""
    text, torch_route = bench.sizes.text, bench.reference.route
    experts, top_k = text.n_routed_experts, text.num_experts_per_tok
    shapes = {"tokens": tokens, "hidden": text.hidden_size, "experts": experts, "top_k": top_k}
    peers = [our(bench, "route"), reference(torch_route), compiled(bench, torch_route)]
    return Case(
        kernel="router",
        variant=f"{experts} top {top_k}",
        size={"tokens": tokens},
        peers=[*peers, *file_peers(bench.peer_files, "route", shapes)],
        setup=lambda: _make_inputs(bench, tokens),
        shows_flops=tokens >= 4096,
    )


def _make_inputs(bench: Bench, tokens: int) -> Inputs:
    text, work = bench.sizes.text, router_work(bench.sizes.text, tokens)
    experts, hidden_size = text.n_routed_experts, text.hidden_size
    options = make_route_options(text)

    def make(index: int) -> Copy:
        hidden = normal(bench, "hidden", tokens, hidden_size, index=index)
        weight = normal(bench, "weight", experts, hidden_size, index=index, scale=hidden_size**-0.5)
        bias = normal(bench, "bias", experts, index=index, scale=0.01).float()
        return hidden, weight, bias, options

    copies = copies_of(bench, work.bytes, make)

    def error(call: Callable[[Copy], Any]) -> float:
        hidden, weight, bias, _ = copies[0]
        rows = exact.sample_rows(tokens, 64)
        shares, ids = (part[rows] for part in call(copies[0]))
        found = torch.zeros(len(rows), experts, dtype=torch.float64, device=hidden.device)
        found.scatter_(1, ids, shares.double())
        wanted = exact.route(hidden[rows], weight, bias, options.top_k, options.scale)
        return exact.relative_error(found, wanted, rounded_to=shares.dtype)

    return Inputs(copies=copies, work=work, error=error, is_cold=is_cold(work.bytes, bench.device.l2_bytes))
