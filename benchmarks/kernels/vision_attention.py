"""The vision tower's attention, head 72, at screenshots and at chunks of video."""

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.kernels import exact
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.candidates import file_peers
from benchmarks.kernels.case import Case, Copy, Inputs, Peer
from benchmarks.kernels.cost.hardware import Grid, patches_of
from benchmarks.kernels.cost.vision import attention_work
from benchmarks.kernels.inputs import copies_of, normal, our, reference, turns
from model_runtime.ops.reference.attention import find_runs
from model_runtime.ops.registry import CuSeqlens


def cases(bench: Bench) -> Iterator[Case]:
    """One layer of every input."""
    for variant, grids in bench.sizes.images.items():
        yield make_case(bench, variant, grids)


def make_case(bench: Bench, variant: str, grids: list[Grid]) -> Case:
    """One input."""
    vision, patches = bench.sizes.vision, patches_of(grids)
    heads = vision.num_attention_heads
    shapes = {"patches": patches, "items": len(grids), "heads": heads, "dim": vision.head_dim}
    peers = [
        our(bench, "vision_attention"),
        reference(bench.reference.vision_attention),
        Peer(name="sdpa", make=lambda: sdpa, is_checked=False, note="without the turning"),
        Peer(name="varlen_attn", make=find_varlen, is_checked=False, note="without the turning"),
        *file_peers(bench.peer_files, "vision_attention", shapes),
    ]
    return Case(
        kernel="vision_attention",
        variant=variant,
        size={"patches": patches},
        peers=peers,
        setup=lambda: _make_inputs(bench, grids),
        shows_flops=True,
    )


def sdpa(qkv: Tensor, _: Tensor, cu_seqlens: CuSeqlens) -> Tensor:
    """Attention of torch for each run of equally long items."""
    out = qkv.new_empty(len(qkv), qkv.shape[1] // 3, qkv.shape[2])
    for start, count, length in find_runs(cu_seqlens.bounds):
        rows = slice(start, start + count * length)
        q, k, v = qkv[rows].view(count, length, *qkv.shape[1:]).transpose(1, 2).chunk(3, dim=1)
        out[rows] = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(0, 1)
    return out


def find_varlen() -> Callable[..., Any]:
    """Attention of torch for items of any length, where this torch has it."""
    from torch.nn.attention.varlen import varlen_attn

    def run(qkv: Tensor, _: Tensor, cu_seqlens: CuSeqlens) -> Any:
        bounds = cu_seqlens.on(qkv.device)
        q, k, v = qkv.chunk(3, dim=1)
        return varlen_attn(q, k, v, bounds, bounds, cu_seqlens.max_len, cu_seqlens.max_len)

    return run


def _make_inputs(bench: Bench, grids: Sequence[Grid]) -> Inputs:
    vision, work = bench.sizes.vision, attention_work(bench.sizes.vision, grids)
    heads, dim = vision.num_attention_heads, vision.head_dim
    bounds = CuSeqlens.of_lengths([prod(grid) for grid in grids])
    rows = bounds.bounds[-1]

    def make(index: int) -> Copy:
        qkv = normal(bench, "qkv", rows, 3 * heads, dim, index=index)
        return qkv, turns(bench, rows, dim // 2, index), bounds

    copies = copies_of(bench, work.bytes, make)

    def error(call: Callable[[Copy], Any]) -> float:
        qkv, rotations, _ = copies[0]
        found = call((qkv.clone(), rotations, bounds))  # which may overwrite its input
        start, end = bounds.spans()[-1]
        item, turn = qkv[start:end], rotations[start:end]
        pairs = [(row, head) for row in exact.sample_rows(end - start) for head in exact.sample_rows(heads, 2)]
        wanted = [_attend_exactly(item, turn, row, head) for row, head in pairs]
        return exact.relative_error(torch.stack([found[start + row, head] for row, head in pairs]), torch.stack(wanted))

    return Inputs(copies=copies, work=work, error=error)


def _attend_exactly(item: Tensor, turn: Tensor, row: int, head: int) -> Tensor:
    """One query of one head over its whole item."""
    heads, dim = item.shape[1] // 3, item.shape[2]
    q = exact.rotate(item[row : row + 1, head : head + 1], turn[row : row + 1])[:, 0]
    k = exact.rotate(item[:, heads + head : heads + head + 1], turn)[:, 0]
    return exact.attend(q, k, item[:, 2 * heads + head], dim**-0.5)[0]
