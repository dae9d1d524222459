"""Sorting pairs of token and chosen expert by their experts, with what the grouped matmuls have to know of it."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.kernels import exact
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.case import OURS, Case, Copy, Inputs, Peer
from benchmarks.kernels.cost.moe import dispatch_work
from benchmarks.kernels.inputs import compiled, copies_of, reference
from benchmarks.kernels.moe_weights import make_routing
from benchmarks.kernels.timing import is_cold

BLOCK_M = 64
"""Places of one tile: of the grouped kernels for some hundreds of tokens."""


def cases(bench: Bench) -> Iterator[Case]:
    """Every number of tokens."""
    text = bench.sizes.text
    variant = f"{text.n_routed_experts} top {text.num_experts_per_tok}"
    peers = [Peer(name=OURS, make=lambda: _find_ours(bench)), reference(sort), compiled(bench, sort)]
    for tokens in bench.sizes.tokens:
        setup = partial(_make_inputs, bench, tokens)
        yield Case(kernel="dispatch", variant=variant, size={"tokens": tokens}, peers=peers, setup=setup)


def sort(ids: Tensor, num_experts: int) -> tuple[Tensor, Tensor]:
    """First place of each expert (E + 1,), and the pair at each place (P,); tiles are left out."""
    order = ids.flatten().argsort(stable=True)
    starts = torch.arange(num_experts + 1, device=ids.device)
    return torch.searchsorted(ids.flatten()[order], starts), order


def _find_ours(bench: Bench) -> Callable[..., Any]:
    bench.candidates.all()  # says why there are none
    from model_runtime.kernels.dispatch import dispatch

    def run(ids: Tensor, num_experts: int) -> tuple[Tensor, Tensor]:
        routing = dispatch(ids, num_experts, BLOCK_M)
        return routing.offsets, routing.pairs

    return run


def _make_inputs(bench: Bench, tokens: int) -> Inputs:
    text = bench.sizes.text
    work = dispatch_work(text, tokens)
    copies = copies_of(bench, work.bytes, lambda index: (make_routing(bench, tokens, index)[2], text.n_routed_experts))

    def error(call: Callable[[Copy], Any]) -> float:
        wanted = sort(*copies[0])
        return max(exact.relative_error(*both) for both in zip(call(copies[0]), wanted, strict=True))

    return Inputs(copies=copies, work=work, error=error, is_cold=is_cold(work.bytes, bench.device.l2_bytes))
