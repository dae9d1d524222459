"""Batch-invariant computation: a token's result has the same bits alone and among others, however prompts are cut.

A matrix product chooses its kernel, and with it the order of its sums, by the number of rows. Here every product has a
fixed number of rows: linear layers and experts take tiles of `TILE` rows, padded with zeros. Attention takes each token
by itself, with the latents of exactly its context; the plain form, which depends on where a prompt is cut, is not used.

Source: the idea, fixed shapes for all batch sizes: Thinking Machines Lab 2025, "Defeating Nondeterminism in LLM
Inference". On a GPU the same code runs with torch's operators; that has not been measured.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from model_runtime.ops.reference import moe
from model_runtime.ops.registry import Experts, register

TILE = 16
"""Rows of a product. Larger tiles cost more for few tokens, smaller ones for many."""


class FixedShapes(TorchFunctionMode):
    """Context in which linear layers and batched products run on tiles of `TILE` rows."""

    def __torch_function__(
        self,
        func: Callable[..., Tensor],
        types: Sequence[type],
        args: tuple[Tensor, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Tensor:
        """Call a function of torch; see `TorchFunctionMode`."""
        if func is F.linear and not kwargs:
            x, *weights = args
            return _tile(lambda rows: func(rows, *weights), x, dim=-2)
        if func is torch.bmm and not kwargs:
            return _tile(lambda rows: func(rows, args[1]), args[0], dim=1)
        return func(*args, **(kwargs or {}))


def _tile(product: Callable[[Tensor], Tensor], x: Tensor, dim: int) -> Tensor:
    """Apply a product to tiles of rows along `dim`, the last one padded with zeros."""
    count = x.shape[dim]
    parts = []
    for start in range(0, count, TILE):
        rows = x.narrow(dim, start, min(TILE, count - start))
        if rows.shape[dim] < TILE:
            shape = list(rows.shape)
            shape[dim] = TILE - rows.shape[dim]
            rows = torch.cat((rows, rows.new_zeros(shape)), dim)
        parts.append(product(rows.contiguous()))
    return torch.cat(parts, dim).narrow(dim, 0, count) if parts else product(x)


register("prepare_experts", "invariant")(moe.prepare_experts)


@register("experts", "invariant")
def run_experts(hidden: Tensor, weights: Tensor, ids: Tensor, experts: Experts) -> Tensor:
    """Run each expert on its tokens in tiles, and sum in the order of a token's choices; arguments as in the
    reference. It must be called in the context `FixedShapes`.
    """
    gate_up, down = moe.find_readers(experts, hidden.dtype)
    chosen = hidden.new_zeros(*ids.shape, hidden.shape[1])  # (N, K, H)
    for expert in sorted(set(ids.flatten().tolist())):
        if 0 <= expert < experts.num_experts:
            tokens, choices = (ids == expert).nonzero(as_tuple=True)
            gate, up = F.linear(hidden[tokens], gate_up(expert)).chunk(2, dim=-1)
            chosen[tokens, choices] = F.linear(F.silu(gate).mul_(up), down(expert))
    total = torch.zeros_like(hidden, dtype=torch.float32)
    for choice in range(ids.shape[1]):
        total += weights[:, choice : choice + 1] * chosen[:, choice].float()
    return total.to(hidden.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeparateDecodes:
    """Sequences that are processed one by one.

    Attributes:
        slots: For each run of tokens with the same blocks: (num_keys,) int64, cache rows of the longest one.
        seq_lens: Lengths of the sequences of each run.
    """

    slots: tuple[Tensor, ...]
    seq_lens: tuple[tuple[int, ...], ...]


@register("plan_decode", "invariant")
def plan_decode(block_tables: Tensor, seq_lens: Sequence[int], cache: Tensor) -> SeparateDecodes:
    """Return runs of tokens with the same blocks, such as those of one prompt; arguments as in the reference."""
    size, tables = cache.shape[1], block_tables.tolist()
    starts = [i for i, table in enumerate(tables) if i == 0 or table != tables[i - 1]]
    runs = [tuple(seq_lens[start:end]) for start, end in zip(starts, [*starts[1:], len(tables)], strict=True)]
    slots = []
    for start, run in zip(starts, runs, strict=True):
        keys = torch.arange(max(run), device=cache.device)
        slots.append(block_tables[start].long()[keys // size] * size + keys % size)
    return SeparateDecodes(slots=tuple(slots), seq_lens=tuple(runs))


@register("mla_decode", "invariant")
def mla_decode(q: Tensor, cache: Tensor, plan: SeparateDecodes, value_dim: int, scale: float) -> Tensor:
    """Attend with one query at a time to exactly its context; arguments as in the reference."""
    rows = iter(torch.split(q, 1))  # each (1, heads, latent_dim)
    results = []
    for slots, lens in zip(plan.slots, plan.seq_lens, strict=True):
        latents = cache.view(-1, cache.shape[-1]).index_select(0, slots)
        for num_keys in lens:
            keys = latents[:num_keys]
            scores = torch.matmul(next(rows)[0], keys.t()).float().mul_(scale)  # (heads, keys)
            results.append(torch.matmul(scores.softmax(-1).to(q.dtype), keys[:, :value_dim]))
    return torch.stack(results)
