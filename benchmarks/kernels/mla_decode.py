"""Decoding: one token of each sequence over its blocks of the cache, which lie in random order."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.kernels import exact
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.candidates import file_peers
from benchmarks.kernels.case import OURS, Case, Copy, Inputs, Peer
from benchmarks.kernels.cost.mla import cache_work
from benchmarks.kernels.inputs import compiled, make_generator, normal, reference
from benchmarks.kernels.timing import count_copies, is_cold


def cases(bench: Bench) -> Iterator[Case]:
    """Every context at every batch size, the longest first: a run that is cut off has those with a target."""
    for context in sorted(bench.sizes.contexts, reverse=True):
        for batch in bench.sizes.batches:
            yield make_case(bench, batch, context)


def make_case(bench: Bench, batch: int, context: int) -> Case:
    """One batch of equally long sequences."""
    text, scale = bench.sizes.text, bench.sizes.scale
    heads, value = text.num_attention_heads, text.kv_lora_rank
    shapes = {"batch": batch, "context": context, "heads": heads, "row": text.latent_dim, "value": value}

    def with_plan(plan: Callable[..., Any], q: Tensor, cache: Tensor, tables: Tensor, lens: list[int]) -> Copy:
        return q, cache, plan(tables, lens, cache), value, scale

    def gathered(q: Tensor, cache: Tensor, tables: Tensor, lens: list[int]) -> Copy:
        return q, cache[tables].flatten(1, 2)[:, : lens[0]], value, scale

    peers = [
        Peer(
            name=OURS,
            make=lambda: bench.candidates("mla_decode"),
            adapt=lambda *copy: with_plan(bench.candidates("plan_decode"), *copy),
        ),
        reference(bench.reference.mla_decode, adapt=lambda *copy: with_plan(bench.reference.plan_decode, *copy)),
        compiled(bench, absorbed, adapt=gathered, note="cache contiguous"),
        *file_peers(bench.peer_files, "mla_decode", shapes, adapt=lambda *copy: (*copy, value, scale)),
    ]

    return Case(
        kernel="mla_decode",
        variant=f"{heads} heads",
        size={"batch": batch, "context": context},
        peers=peers,
        setup=lambda: _make_inputs(bench, batch, context),
        needs_bytes=cache_work(bench.sizes.text, context, batch).bytes * _count(bench, batch, context),
    )


def absorbed(q: Tensor, latents: Tensor, value_dim: int, scale: float) -> Tensor:
    """bmm, softmax, bmm: (S, heads, row), (S, keys, row) -> (S, heads, value_dim)."""
    shares = (torch.bmm(q, latents.transpose(1, 2)).float() * scale).softmax(-1).to(q.dtype)
    return torch.bmm(shares, latents[..., :value_dim])


def _count(bench: Bench, batch: int, context: int) -> int:
    return count_copies(cache_work(bench.sizes.text, context, batch).bytes, bench.device.l2_bytes)


def _make_inputs(bench: Bench, batch: int, context: int) -> Inputs:
    text, block = bench.sizes.text, bench.sizes.block
    num_heads, row, work = text.num_attention_heads, text.latent_dim, cache_work(bench.sizes.text, context, batch)
    count, per_seq = _count(bench, batch, context), -(-context // block)
    num_blocks = count * batch * per_seq
    cache = normal(bench, "cache", num_blocks, block, row)
    order = torch.randperm(num_blocks, generator=make_generator(torch.device("cpu"), "blocks")).int()
    tables = order.view(count, batch, per_seq).to(bench.device.torch_device)
    copies: list[Copy] = [
        (normal(bench, "q", batch, num_heads, row, index=index), cache, tables[index], [context] * batch)
        for index in range(count)
    ]

    def error(call: Callable[[Copy], Any]) -> float:
        q, _, blocks, _ = copies[0]
        latents = cache[blocks[-1]].flatten(0, 1)[:context]  # of the last sequence
        heads = exact.sample_rows(num_heads, 2)
        wanted = exact.attend(q[-1, heads], latents, latents[:, : text.kv_lora_rank], bench.sizes.scale)
        return exact.relative_error(call(copies[0])[-1, heads], wanted)

    return Inputs(copies=copies, work=work, error=error, is_cold=is_cold(work.bytes, bench.device.l2_bytes))
