"""A token's row of the latent cache: normed, turned and written, beside torch.compile of the same torch code."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from benchmarks.kernels import exact, roofline
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.candidates import file_peers
from benchmarks.kernels.case import Case, Copy, Inputs
from benchmarks.kernels.inputs import compiled, copies_of, make_generator, normal, our, reference, turns
from benchmarks.kernels.timing import is_cold

EPS = 1e-6


def cases(bench: Bench) -> Iterator[Case]:
    """Every number of tokens."""
    for tokens in bench.sizes.norm_tokens:
        yield make_case(bench, tokens)


def make_case(bench: Bench, tokens: int) -> Case:
    """One number of tokens."""
    width, function = bench.sizes.text.latent_dim, bench.reference.write_latent
    peers = [our(bench, "write_latent"), reference(function), compiled(bench, function)]
    return Case(
        kernel="write_latent",
        variant=f"width {width}",
        size={"tokens": tokens},
        peers=[*peers, *file_peers(bench.peer_files, "write_latent", {"tokens": tokens, "width": width})],
        setup=lambda: _make_inputs(bench, tokens),
    )


def _make_inputs(bench: Bench, tokens: int) -> Inputs:
    """Latent and rotary key are columns of one matmul's result, as in the model; the slots are anywhere."""
    text, block = bench.sizes.text, bench.sizes.block
    latent_size, rope_size, width = text.kv_lora_rank, text.qk_rope_head_dim, text.latent_dim
    weight, work = normal(bench, "weight", latent_size), roofline.write_latent(text, tokens)
    num_blocks = -(-tokens // block) + 1

    def make(index: int) -> Copy:
        cache = normal(bench, "cache", num_blocks, block, width, index=index)
        order = make_generator(torch.device("cpu"), "slots", index)
        slots = torch.randperm(num_blocks * block, generator=order)[:tokens]
        both = normal(bench, "latents", tokens, width, index=index)
        parts = both[:, :latent_size], both[:, latent_size:]
        turn = turns(bench, tokens, rope_size // 2, index)
        return cache, slots.to(cache.device), *parts, weight, EPS, turn

    copies = copies_of(bench, work.bytes, make)

    def error(call: Callable[[Copy], Any]) -> float:
        rows = exact.sample_rows(tokens, 64)
        cache, slots, latent, k_rope, *_, turn = copies[0]
        call(copies[0])
        turned = exact.rotate(k_rope[rows].unsqueeze(1), turn[rows])[:, 0]
        wanted = torch.cat((exact.rms_norm(latent[rows], weight, EPS), turned), dim=-1)
        return exact.relative_error(cache.flatten(0, 1)[slots[rows]], wanted)

    return Inputs(copies=copies, work=work, error=error, is_cold=is_cold(work.bytes, bench.device.l2_bytes))
