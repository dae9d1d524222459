"""The two matmuls of the routed experts, each by itself: gate and up with SwiGLU behind them, and down.

Everything is as within the operator `experts`. What kernels take in the order of the experts is sorted before.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor

from benchmarks.kernels import exact, moe_peers, roofline
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.case import OURS, Case, Copy, Inputs, Peer
from benchmarks.kernels.cost.moe import MAX_GEMV_TOKENS
from benchmarks.kernels.inputs import normal
from benchmarks.kernels.moe_weights import FROM_FLOPS, NUM_COPIES, make_routing, needed_bytes, weights_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """One matmul of one file.

    Attributes:
        file: Of model_runtime/kernels.
        variant: Of the weights, `int4` or `bf16`.
        name: Which one.
        is_sorted: Whether the file's kernels take pairs of token and choice in the order of their experts.
    """

    file: str
    variant: str
    name: Literal["gate_up", "down"]
    is_sorted: bool


FILES: dict[str, tuple[str, bool]] = {
    "moe_dense": ("bf16", True),
    "moe_gemv_dense": ("bf16", False),
    "moe_gemv_int4": ("int4", False),
    "moe_int4": ("int4", True),
}
"""Files of model_runtime/kernels with such matmuls: their weights, and whether their kernels take sorted pairs."""


def cases(bench: Bench, file: str) -> Iterator[Case]:
    """Both matmuls of a file at the numbers of tokens that it is for."""
    variant, is_sorted = FILES[file]
    for tokens in bench.sizes.tokens:
        if is_sorted == (tokens > MAX_GEMV_TOKENS):
            yield make_case(bench, Half(file=file, variant=variant, name="gate_up", is_sorted=is_sorted), tokens)
            yield make_case(bench, Half(file=file, variant=variant, name="down", is_sorted=is_sorted), tokens)


def make_case(bench: Bench, half: Half, tokens: int) -> Case:
    """One number of tokens."""
    peers = [
        Peer(name=OURS, make=lambda: _find_ours(bench, half), adapt=lambda *copy: _for_ours(bench, half, *copy)),
    ]
    if half.variant == "bf16":
        grouped = Peer(
            name="grouped_mm",
            make=lambda: moe_peers.gate_up if half.name == "gate_up" else moe_peers.down,
            adapt=lambda rows, ids: _for_grouped_mm(bench, half, rows, ids),
            is_checked=half.is_sorted and half.name == "gate_up",  # else its rows are in another order
            note="rows sorted before",
        )
        peers.append(grouped)
    return Case(
        kernel=half.file,
        variant=half.name,
        size={"tokens": tokens},
        peers=peers,
        setup=lambda: _make_inputs(bench, half, tokens),
        shows_flops=tokens >= FROM_FLOPS,
        needs_bytes=needed_bytes(bench, half.variant, tokens),
    )


def _find_ours(bench: Bench, half: Half) -> Callable[..., Any]:
    bench.candidates.all()  # says why there are none
    if half.is_sorted:
        return _function(f"model_runtime.kernels.{half.file}", half.name)
    return _function("model_runtime.kernels.moe", f"gemv_{half.name}")


def _function(module: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(import_module(module), name)  # imported late: it looks for the interpreter
    return found


def _for_ours(bench: Bench, half: Half, rows: Tensor, ids: Tensor) -> Copy:
    experts = weights_of(bench).get(half.variant, bench.candidates("prepare_experts"))
    if not half.is_sorted:
        return rows, ids, experts
    block_m = _function(f"model_runtime.kernels.{half.file}", "find_block_m")(len(ids))
    routing = _function("model_runtime.kernels.dispatch", "dispatch")(ids, experts.num_experts, block_m)
    return rows, routing, experts


def _for_grouped_mm(bench: Bench, half: Half, rows: Tensor, ids: Tensor) -> Copy:
    experts = weights_of(bench).get(half.variant)
    order, num_experts = sort_pairs(ids), len(experts.gate_up)
    ends = ids.flatten().bincount(minlength=num_experts).cumsum(0).int()
    if half.name == "down":
        return rows, ends, experts.down
    return rows[order // ids.shape[1]], ends, experts.gate_up


def sort_pairs(ids: Tensor) -> Tensor:
    """(T, K) -> (T * K,): the pair at each place of the order by experts, ascending within one."""
    return ids.flatten().argsort(stable=True)


def _make_inputs(bench: Bench, half: Half, tokens: int) -> Inputs:
    """Rows of tokens for gate_up, and of pairs for down, with the experts that they go to."""
    text = bench.sizes.text

    def make(index: int) -> Copy:
        hidden, _, ids = make_routing(bench, tokens, index)
        if half.name == "gate_up":
            return hidden, ids
        return normal(bench, "inner", ids.numel(), text.moe_intermediate_size, index=index), ids

    copies = [make(index) for index in range(NUM_COPIES)]
    wanted = cache(lambda: _compute_exactly(bench, half, *copies[0]))

    def error(call: Callable[[Copy], Any]) -> float:
        places, rows = wanted()
        return exact.relative_error(call(copies[0])[places], rows)

    work = roofline.expert_half(bench.sizes.config, tokens, half.variant, half.name)
    return Inputs(copies=copies, work=work, error=error)


def _compute_exactly(bench: Bench, half: Half, rows: Tensor, ids: Tensor) -> tuple[list[int], Tensor]:
    """Some rows of the result, and what they should be: gate_up's stand at the pairs' places, down's by pair."""
    weights, places = weights_of(bench), exact.sample_rows(ids.numel())
    order = sort_pairs(ids).tolist() if half.is_sorted else range(ids.numel())
    pairs = [order[place] for place in places]
    experts = [weights.read(half.variant, int(ids.flatten()[pair])) for pair in pairs]
    if half.name == "gate_up":
        inputs = [rows[pair // ids.shape[1]][None] for pair in pairs]
        wanted = [exact.gate_up_rows(x, gate_up) for x, (gate_up, _) in zip(inputs, experts, strict=True)]
        return places, torch.cat(wanted)
    inputs = [rows[place][None].double() for place in places]
    wanted = [x @ down.double().t() for x, (_, down) in zip(inputs, experts, strict=True)]
    return pairs, torch.cat(wanted)
