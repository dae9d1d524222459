"""Differentiable operators: the backend `autograd`.

Operators of the backend `torch` that do not overwrite memory needed by a gradient are reused: norms, routing, writing
latents, pooling. The functions here are for small models: nothing is fused, and equal shapes share a call.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from model_runtime.ops.reference.attention import find_runs
from model_runtime.ops.reference.norm import rotate
from model_runtime.ops.registry import CuSeqlens, DenseExperts, Experts, register


@register("experts", "autograd")
def run_experts(hidden: Tensor, weights: Tensor, ids: Tensor, experts: Experts) -> Tensor:
    """Run experts differentiably; see `model_runtime.ops.reference.moe`. All ids must be of experts held here.

    Raises:
        TypeError: If the experts are packed, and have no gradient.
    """
    if not isinstance(experts, DenseExperts):
        raise TypeError(f"{type(experts).__name__} cannot be trained; unpack the experts first")
    flat = ids.flatten()
    order = flat.argsort(stable=True)
    tokens = order // ids.shape[1]
    counts = torch.bincount(flat, minlength=experts.num_experts).tolist()
    # unbound once: the gradient of each index would have the size of all experts
    matrices = zip(experts.gate_up.unbind(), experts.down.unbind(), strict=True)
    rows = hidden.index_select(0, tokens).split_with_sizes(counts)
    outputs = torch.cat([_run_one(x, *pair) for x, pair in zip(rows, matrices, strict=True) if len(x)])  # (N * K, H)
    shares = weights.flatten().index_select(0, order).unsqueeze(1)
    return torch.zeros_like(hidden).index_add(0, tokens, outputs * shares.to(outputs.dtype))


def _run_one(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    gate, up = F.linear(x, gate_up).chunk(2, dim=-1)
    return F.linear(F.silu(gate) * up, down)


@dataclass(frozen=True, slots=True)
class Padding:
    """Limits for padding sequences to one batch; a sequence that would exceed them starts a new batch.

    Attributes:
        max_waste: Ratio of pairs of queries and keys in a padded batch to the required pairs.
        max_pairs: Maximum pairs in a batch of several sequences.
    """

    max_waste: float
    max_pairs: int


ON_CPU = Padding(max_waste=1.5, max_pairs=70_000)
"""Limits on a CPU: the scores of four heads fit in a core's cache."""
ON_GPU = Padding(max_waste=8.0, max_pairs=1 << 25)
"""Limits on a GPU, where fewer, larger products are faster; 128 MiB of scores per head."""


@register("mla_prefill", "autograd")
def mla_prefill(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: CuSeqlens, cu_seqlens_k: CuSeqlens, scale: float
) -> Tensor:
    """Attend differentiably; see `model_runtime.ops.reference.attention`. Neighbours are padded to one shape."""
    groups = group_sequences(list(zip(cu_seqlens_q.spans(), cu_seqlens_k.spans(), strict=True)), _find_padding(q))
    sizes_q = [group[-1][0][1] - group[0][0][0] for group in groups]
    sizes_k = [group[-1][1][1] - group[0][1][0] for group in groups]
    # split instead of slices: the gradient of a slice has the size of the whole
    parts = zip(q.split_with_sizes(sizes_q), k.split_with_sizes(sizes_k), v.split_with_sizes(sizes_k), strict=True)
    return torch.cat([_attend(*part, group, scale) for part, group in zip(parts, groups, strict=True)])


Spans = tuple[tuple[int, int], tuple[int, int]]
"""Bounds of one sequence in the queries, and in the keys."""


def _find_padding(x: Tensor) -> Padding:
    return ON_CPU if x.device.type == "cpu" else ON_GPU


def group_sequences(spans: list[Spans], padding: Padding) -> list[list[Spans]]:
    """Group consecutive sequences that can be padded to one shape within the limits."""
    groups: list[list[Spans]] = []
    for span in spans:
        if groups and _fit([*groups[-1], span], padding):
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def _fit(group: list[Spans], padding: Padding) -> bool:
    """Return True if sequences can be padded to one shape within the limits."""
    sizes = [(q_end - q_start, k_end - k_start) for (q_start, q_end), (k_start, k_end) in group]
    needed = sum(queries * keys for queries, keys in sizes)
    padded = len(sizes) * max(queries for queries, _ in sizes) * max(keys for _, keys in sizes)
    return padded <= min(padding.max_waste * max(needed, 1), padding.max_pairs)


def _attend(q: Tensor, k: Tensor, v: Tensor, group: list[Spans], scale: float) -> Tensor:
    """Compute one padded batch: rows of its queries, keys and values to rows of results."""
    q_lengths = torch.tensor([end - start for (start, end), _ in group])
    k_lengths = torch.tensor([end - start for _, (start, end) in group])
    q_rows, q_real = _pad(q_lengths)  # (sequences, longest)
    k_rows, _ = _pad(k_lengths)
    last = (k_lengths - q_lengths)[:, None] + torch.arange(q_rows.shape[1])  # the last key that each query sees
    unseen = torch.arange(k_rows.shape[1]) > last.minimum(k_lengths[:, None] - 1)[..., None]
    here, past, values = (_spread(x, rows) for x, rows in ((q, q_rows), (k, k_rows), (v, k_rows)))
    attended = _weigh(here, past, values, scale, unseen[:, None].to(q.device)).transpose(1, 2).flatten(0, 1)
    if len(attended) == len(q):
        return attended
    return attended.index_select(0, q_real.flatten().nonzero().flatten().to(q.device))


def _weigh(q: Tensor, k: Tensor, v: Tensor, scale: float, unseen: Tensor | None = None) -> Tensor:
    """Compute attention by matrix products only: in bf16 on a CPU, its gradients cost half of those of the fused form.

    Heads that share one key are treated as more queries, so that the key is not copied for each.

    Args:
        q: (sequences, heads, queries, key_dim).
        k: (sequences, heads or 1, keys, key_dim).
        v: (sequences, heads or 1, keys, value_dim).
        scale: Factor on the scores.
        unseen: (sequences, 1, queries, keys), keys that a query does not see; None for none.
    """
    shape = q.shape[:3]
    scores = (q.reshape(len(q), k.shape[1], -1, q.shape[-1]) * scale @ k.transpose(-1, -2)).view(*shape, -1)
    if unseen is not None:
        # outside of autograd: the softmax has no gradient for entries with share 0, so no second mask is needed
        scores.detach().masked_fill_(unseen, -torch.inf)
    shares = scores.softmax(-1).view(len(q), k.shape[1], -1, k.shape[2])
    return (shares @ v).view(*shape, -1)


def _spread(x: Tensor, rows: Tensor) -> Tensor:
    """Gather (N, heads, dim) by (sequences, longest) to (sequences, heads, longest, dim). Gradients of repeated rows
    add up.
    """
    selected = x if rows.numel() == len(x) else x.index_select(0, rows.flatten().to(x.device))
    return selected.view(*rows.shape, *x.shape[1:]).transpose(1, 2)


def _pad(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return concatenated sequences as a rectangle: (sequences, longest) row numbers, and which are valid."""
    places = torch.arange(int(lengths.max()))
    is_real = places < lengths[:, None]
    rows = (lengths.cumsum(0) - lengths)[:, None] + places.minimum(lengths[:, None] - 1)
    return rows, is_real


@register("vision_attention", "autograd")
def vision_attention(qkv: Tensor, rotations: Tensor, cu_seqlens: CuSeqlens) -> Tensor:
    """Attend differentiably over patches; see `vision_attention` in `model_runtime.ops.reference.attention`."""
    heads = qkv.shape[1] // 3
    runs = list(find_runs(cu_seqlens.bounds))
    sizes = [count * length for _, count, length in runs]
    # split instead of slices: the gradient of a slice has the size of the whole
    queries_and_keys, all_values = qkv.split_with_sizes((2 * heads, heads), dim=1)
    turned = rotate(queries_and_keys, rotations)
    parts = zip(runs, turned.split_with_sizes(sizes), all_values.split_with_sizes(sizes), strict=True)
    results = []
    for (_, count, length), both, own_values in parts:
        queries, keys = _by_head(both, count).chunk(2, dim=1)
        values = _by_head(own_values, count)
        if qkv.dtype == torch.bfloat16:
            some = max(_find_padding(qkv).max_pairs // length**2, 1)
            scale = queries.shape[-1] ** -0.5
            groups = zip(*(torch.split(x, some) for x in (queries, keys, values)), strict=True)
            attended = torch.cat([_weigh(q, k, v, scale) for q, k, v in groups])
        else:
            attended = F.scaled_dot_product_attention(queries, keys, values)
        results.append(attended.transpose(1, 2).reshape(count * length, heads, -1))
    return torch.cat(results)


def _by_head(x: Tensor, count: int) -> Tensor:
    """Reshape rows of `count` items: (count * length, heads, dim) -> (count, heads, length, dim)."""
    return x.view(count, -1, *x.shape[1:]).transpose(1, 2)
