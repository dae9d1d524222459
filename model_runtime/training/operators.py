"""Operators that gradients pass through: the backend `autograd`.

What the backend `torch` has without writing to memory that a gradient needs is taken from there: norms, routing,
writing latents, pooling. The functions here are for small models: nothing is fused, and equal shapes share a call.
"""

from collections.abc import Iterator
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional as F

from model_runtime.ops.reference.attention import find_runs
from model_runtime.ops.reference.norm import rotate
from model_runtime.ops.registry import CuSeqlens, DenseExperts, Experts, register


@register("experts", "autograd")
def run_experts(hidden: Tensor, weights: Tensor, ids: Tensor, experts: Experts) -> Tensor:
    """Sum over each token's experts of weight * down(silu(gate x) * up x).

    Args:
        hidden: (N, H).
        weights: (N, K) fp32.
        ids: (N, K) int64, all of experts that are here.
        experts: Dense ones.

    Returns:
        (N, H) of hidden's dtype.

    Raises:
        TypeError: The experts are packed, and have no gradient.
    """
    if not isinstance(experts, DenseExperts):
        raise TypeError(f"{type(experts).__name__} cannot be trained; unpack the experts first")
    flat = ids.flatten()
    order = flat.argsort(stable=True)
    tokens = order // ids.shape[1]
    counts = torch.bincount(flat, minlength=experts.num_experts).tolist()
    # unbound once: the gradient of an index would be as large as all experts, once for each of them
    matrices = zip(experts.gate_up.unbind(), experts.down.unbind(), strict=True)
    rows = hidden.index_select(0, tokens).split_with_sizes(counts)
    outputs = torch.cat([_run_one(x, *pair) for x, pair in zip(rows, matrices, strict=True) if len(x)])  # (N * K, H)
    shares = weights.flatten().index_select(0, order).unsqueeze(1)
    return torch.zeros_like(hidden).index_add(0, tokens, outputs * shares.to(outputs.dtype))


def _run_one(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    gate, up = F.linear(x, gate_up).chunk(2, dim=-1)
    return F.linear(F.silu(gate) * up, down)


@register("mla_prefill", "autograd")
def mla_prefill(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: CuSeqlens, cu_seqlens_k: CuSeqlens, scale: float
) -> Tensor:
    """Causal attention within each sequence, whose queries are its last tokens; neighbours of equal shape share a call.

    Args:
        q: (N, heads, key_dim).
        k: (M, heads, key_dim), or (M, 1, key_dim) when all heads share one.
        v: (M, heads, value_dim) or (M, 1, value_dim).
        cu_seqlens_q: Bounds of the sequences in q.
        cu_seqlens_k: Bounds of the sequences in k and v.
        scale: Factor on the scores before the softmax.

    Returns:
        (N, heads, value_dim).
    """
    parts = []
    for queries, keys, count in _find_batches(cu_seqlens_q, cu_seqlens_k):
        num_queries, num_keys = (queries.stop - queries.start) // count, (keys.stop - keys.start) // count
        mask = torch.ones(num_queries, num_keys, dtype=torch.bool, device=q.device).tril_(num_keys - num_queries)
        here, past, values = (_by_head(x, count) for x in (q[queries], k[keys], v[keys]))
        shared = (count, q.shape[1], num_keys, -1)
        attended = F.scaled_dot_product_attention(here, past.expand(shared), values.expand(shared), mask, scale=scale)
        parts.append(attended.transpose(1, 2).reshape(queries.stop - queries.start, q.shape[1], -1))
    return torch.cat(parts)


def _by_head(x: Tensor, count: int) -> Tensor:
    """Rows of `count` sequences: (count * length, heads, dim) -> (count, heads, length, dim)."""
    return x.view(count, -1, *x.shape[1:]).transpose(1, 2)


def _find_batches(cu_seqlens_q: CuSeqlens, cu_seqlens_k: CuSeqlens) -> Iterator[tuple[slice, slice, int]]:
    """Neighbouring sequences of one shape: rows of the queries, rows of the keys, how many sequences."""
    spans = zip(cu_seqlens_q.spans(), cu_seqlens_k.spans(), strict=True)
    for _, run in groupby(spans, key=lambda span: (span[0][1] - span[0][0], span[1][1] - span[1][0])):
        members = list(run)
        queries, keys = zip(*members, strict=True)
        yield slice(queries[0][0], queries[-1][1]), slice(keys[0][0], keys[-1][1]), len(members)


@register("vision_attention", "autograd")
def vision_attention(qkv: Tensor, rotations: Tensor, cu_seqlens: CuSeqlens) -> Tensor:
    """Every patch of an item sees every patch of that item.

    Args:
        qkv: (N, 3 * heads, head_dim): all queries, all keys, all values.
        rotations: (N, head_dim / 2) complex64.
        cu_seqlens: Bounds of the items.

    Returns:
        (N, heads, head_dim); the scores are scaled by head_dim^(-1/2).
    """
    heads = qkv.shape[1] // 3
    turned = rotate(qkv[:, : 2 * heads], rotations)  # queries and keys
    results = []
    for start, count, length in find_runs(cu_seqlens.bounds):
        rows = slice(start, start + count * length)
        queries, keys = _by_head(turned[rows], count).chunk(2, dim=1)
        attended = F.scaled_dot_product_attention(queries, keys, _by_head(qkv[rows, 2 * heads :], count))
        results.append(attended.transpose(1, 2).reshape(count * length, heads, -1))
    return torch.cat(results)
