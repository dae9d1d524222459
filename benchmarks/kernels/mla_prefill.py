"""Prefill: causal attention of one prompt over itself, keys and values expanded to all heads."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.kernels import exact
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.candidates import file_peers
from benchmarks.kernels.case import Case, Copy, Inputs, Peer
from benchmarks.kernels.cost.mla import prefill_work
from benchmarks.kernels.inputs import copies_of, normal, our, reference
from model_runtime.ops.registry import CuSeqlens

FUSED = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
"""Not the one that holds all scores in memory: 34 GB at 16k."""


def cases(bench: Bench) -> Iterator[Case]:
    """Every length."""
    for tokens in bench.sizes.prompts:
        yield make_case(bench, tokens)


def make_case(bench: Bench, tokens: int) -> Case:
    """One prompt."""
    text = bench.sizes.text
    heads = text.num_attention_heads
    shapes = {"tokens": tokens, "heads": heads, "key": text.qk_head_dim, "value": text.v_head_dim}
    peers = [
        our(bench, "mla_prefill"),
        reference(bench.reference.mla_prefill),
        Peer(name="sdpa", make=lambda: sdpa, note="fused kernels of torch alone"),
        *file_peers(bench.peer_files, "mla_prefill", shapes),
    ]
    return Case(
        kernel="mla_prefill",
        variant=f"{heads} heads",
        size={"tokens": tokens},
        peers=peers,
        setup=lambda: _make_inputs(bench, tokens),
        shows_flops=True,
    )


def sdpa(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: CuSeqlens, cu_seqlens_k: CuSeqlens, scale: float) -> Tensor:
    """One prompt through torch's attention, which picks one of its fused kernels."""
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))  # (1, heads, tokens, dim)
    with sdpa_kernel(FUSED) if q.is_cuda else nullcontext():
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)[0].transpose(0, 1)


def _make_inputs(bench: Bench, tokens: int) -> Inputs:
    text, scale = bench.sizes.text, bench.sizes.scale
    heads, key, value = text.num_attention_heads, text.qk_head_dim, text.v_head_dim
    work = prefill_work(text, tokens)
    bounds = CuSeqlens([0, tokens])

    def make(index: int) -> Copy:
        dims = {"q": key, "k": key, "v": value}
        q, k, v = (normal(bench, name, tokens, heads, dim, index=index) for name, dim in dims.items())
        return q, k, v, bounds, bounds, scale

    copies = copies_of(bench, work.bytes, make)

    def error(call: Callable[[Copy], Any]) -> float:
        found = call(copies[0])
        q, k, v = copies[0][:3]
        pairs = [(row, head) for row in exact.sample_rows(tokens) for head in exact.sample_rows(heads, 2)]
        wanted = [
            exact.attend(q[row : row + 1, head], k[: row + 1, head], v[: row + 1, head], scale) for row, head in pairs
        ]
        return exact.relative_error(torch.stack([found[pair] for pair in pairs]), torch.cat(wanted))

    return Inputs(copies=copies, work=work, error=error)
