"""Attention in torch: over the paged cache of latents, over prompts, and in the vision tower; and its pooling.

Source: DeepSeek-V2 report (arXiv 2405.04434), section 2.1.2, with the up projections absorbed.

Source: Vaswani et al. 2017, arXiv 1706.03762, equation 1; Dehghani et al. 2023, arXiv 2307.06304, section 2.1
(concatenated items of any length); Su et al. 2021, arXiv 2104.09864, equation 34.

Source: Kimi K2.5 report, section 4.2 (temporal pooling); Kimi-VL report, arXiv 2504.07491, section 2.1 (pixel shuffle).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from model_runtime.ops.registry import CuSeqlens, register

CPU_ROWS = 256
"""Number of rows rotated at a time on a CPU, so that they stay in its cache."""


def vision_attention(qkv: Tensor, rotations: Tensor, cu_seqlens: CuSeqlens) -> Tensor:
    """Attend within each item. Consecutive items of equal length share one call; no mask is needed.

    Args:
        qkv: (N, 3 * heads, head_dim): all queries, all keys, all values. Queries and keys may be overwritten.
        rotations: (N, head_dim / 2) complex64, for each pair of adjacent values of queries and keys.
        cu_seqlens: Bounds of the items.

    Returns:
        (N, heads, head_dim); the scores are scaled by head_dim^(-1/2).
    """
    heads = qkv.shape[1] // 3
    rotate(qkv[:, : 2 * heads], rotations)
    results = []
    for start, count, length in find_runs(cu_seqlens.bounds):
        # (rows, 3 * heads, head_dim) -> three of (items, heads, length, head_dim), without a copy
        rows = qkv[start : start + count * length].view(count, length, *qkv.shape[1:]).transpose(1, 2)
        queries, keys, values = rows.chunk(3, dim=1)
        attended = F.scaled_dot_product_attention(queries, keys, values)
        results.append(attended.transpose(1, 2).reshape(count * length, heads, -1))
    return results[0] if len(results) == 1 else torch.cat(results)


def rotate(qk: Tensor, rotations: Tensor) -> None:
    """Rotate queries and keys in place, in fp32: a pair of adjacent values is one complex number.

    Args:
        qk: (N, heads, head_dim).
        rotations: (N, head_dim / 2) complex64.
    """
    rows = CPU_ROWS if qk.device.type == "cpu" else max(len(qk), 1)
    for part, turn in zip(torch.split(qk, rows), torch.split(rotations, rows), strict=True):
        values = part.float()  # for fp32, the same memory as qk
        torch.view_as_complex(values.view(*part.shape[:2], -1, 2)).mul_(turn[:, None])
        if values is not part:
            part.copy_(values)


def find_runs(cu_seqlens: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield runs of consecutive items of one length: first row, number of items, and their length."""
    start = 0
    for length, items in groupby(end - begin for begin, end in pairwise(cu_seqlens)):
        count = sum(1 for _ in items)
        yield start, count, length
        start += count * length


MAX_QUERIES = 512
"""Queries processed at once: bounds the mask, and skips most of the keys that a causal query does not see."""


@register("mla_prefill", "torch")
def mla_prefill(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: CuSeqlens, cu_seqlens_k: CuSeqlens, scale: float
) -> Tensor:
    """Compute causal attention within each sequence, whose queries are its last tokens.

    Args:
        q: (N, heads, key_dim).
        k: (M, heads, key_dim), or (M, 1, key_dim) if all heads share one.
        v: (M, heads, value_dim) or (M, 1, value_dim); value_dim <= key_dim.
        cu_seqlens_q: Bounds of the sequences in q.
        cu_seqlens_k: Bounds of the sequences in k and v.
        scale: Factor on the scores before the softmax.

    Returns:
        (N, heads, value_dim).
    """
    out = q.new_empty(*q.shape[:2], v.shape[-1])
    v = F.pad(v, (0, k.shape[-1] - v.shape[-1]))  # torch's fused kernels require the same width for keys and values
    for (q_start, q_end), (k_start, k_end) in zip(cu_seqlens_q.spans(), cu_seqlens_k.spans(), strict=True):
        keys = k[k_start:k_end].transpose(0, 1).expand(q.shape[1], -1, -1)  # (heads, keys, key_dim)
        values = v[k_start:k_end].transpose(0, 1).expand(q.shape[1], -1, -1)
        for start in range(q_start, q_end, MAX_QUERIES):
            end = min(start + MAX_QUERIES, q_end)
            num_keys = (k_end - k_start) - (q_end - end)
            queries = q[start:end].transpose(0, 1)  # (heads, queries, key_dim)
            part = _attend_last(queries, keys[:, :num_keys], values[:, :num_keys], scale)
            out[start:end] = part[..., : out.shape[-1]].transpose(0, 1)
    return out


def _attend_last(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Compute causal attention of one sequence's last queries: (heads, queries or keys, dim) -> (heads, queries,
    dim).
    """
    num_queries, num_keys = q.shape[1], k.shape[1]
    mask = None
    if 1 < num_queries < num_keys:
        mask = torch.ones(num_queries, num_keys, dtype=torch.bool, device=q.device).tril_(num_keys - num_queries)
    is_causal = num_queries == num_keys and num_queries > 1
    return F.scaled_dot_product_attention(q[None], k[None], v[None], mask, is_causal=is_causal, scale=scale)[0]


register("vision_attention", "torch")(vision_attention)


MAX_PADDING = 0.25
"""Maximum padding: sequences are padded to the longest of their group; one shorter by more than this share starts a new
group.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeGroup:
    """Sequences of similar length, processed by one batched matmul.

    Attributes:
        rows: (B,) int64, their indices in the batch; None for all in order.
        slots: (B * num_keys,) int64, cache rows; padded by repeating a sequence's last row, never another sequence's.
        bias: (B, 1, num_keys) fp32, minus infinity after a sequence's end; None if all have the same length.
        latents: (B * num_keys, latent_dim), buffer for the gathered rows, reused by each layer.
    """

    rows: Tensor | None
    slots: Tensor
    bias: Tensor | None
    latents: Tensor


@register("plan_decode", "torch")
def plan_decode(block_tables: Tensor, seq_lens: Sequence[int], cache: Tensor) -> tuple[DecodeGroup, ...]:
    """Return groups of sequences of similar length, shared by all layers of one step.

    Args:
        block_tables: (S, max_blocks) int32.
        seq_lens: S lengths including the new token.
        cache: (blocks, block_size, latent_dim) of any layer.
    """
    if len(set(seq_lens)) == 1:
        return (_make_group(block_tables, seq_lens, cache, None),)
    order = sorted(range(len(seq_lens)), key=lambda seq: -seq_lens[seq])
    groups: list[list[int]] = []
    for seq in order:
        if groups and seq_lens[seq] >= (1 - MAX_PADDING) * seq_lens[groups[-1][0]] - cache.shape[1]:
            groups[-1].append(seq)
        else:
            groups.append([seq])
    if len(groups) == 1:
        return (_make_group(block_tables, seq_lens, cache, None),)
    device = block_tables.device
    return tuple(
        _make_group(block_tables, seq_lens, cache, torch.tensor(sorted(group), device=device)) for group in groups
    )


def _make_group(block_tables: Tensor, seq_lens: Sequence[int], cache: Tensor, rows: Tensor | None) -> DecodeGroup:
    lens = list(seq_lens) if rows is None else [seq_lens[seq] for seq in rows.tolist()]
    tables = block_tables if rows is None else block_tables.index_select(0, rows)
    size, num_keys = cache.shape[1], max(lens)
    keys = torch.arange(num_keys, device=cache.device).expand(len(lens), -1)  # (B, num_keys)
    bias = None
    if min(lens) < num_keys:
        ends = torch.tensor(lens, device=cache.device).unsqueeze(1)
        bias = torch.zeros(keys.shape, device=cache.device).masked_fill_(keys >= ends, -torch.inf).unsqueeze(1)
        keys = keys.minimum(ends - 1)
    slots = (tables.gather(1, keys // size) * size + keys % size).flatten()
    latents = cache.new_empty(len(slots), cache.shape[-1])
    return DecodeGroup(rows=rows, slots=slots, bias=bias, latents=latents)


@register("mla_decode", "torch")
def mla_decode(q: Tensor, cache: Tensor, plan: tuple[DecodeGroup, ...], value_dim: int, scale: float) -> Tensor:
    """Attend with absorbed queries over the latents: a row is the key of all heads, its first values are the value.

    Args:
        q: (S, heads, latent_dim).
        cache: (blocks, block_size, latent_dim) of one layer, with the new tokens already written.
        plan: Result of `plan_decode`.
        value_dim: Number of leading values of a row that are the value.
        scale: Factor on the scores before the softmax.

    Returns:
        (S, heads, value_dim).
    """
    if plan[0].rows is None:
        return _decode_group(q, cache, plan[0], value_dim, scale)
    out = q.new_empty(*q.shape[:2], value_dim)
    for group in plan:
        assert group.rows is not None
        out[group.rows] = _decode_group(q.index_select(0, group.rows), cache, group, value_dim, scale)
    return out


def _decode_group(q: Tensor, cache: Tensor, group: DecodeGroup, value_dim: int, scale: float) -> Tensor:
    torch.index_select(cache.view(-1, cache.shape[-1]), 0, group.slots, out=group.latents)
    latents = group.latents.view(len(q), -1, q.shape[-1])  # (S, keys, latent_dim)
    scores = torch.bmm(q, latents.transpose(1, 2)).float().mul_(scale)  # (S, heads, keys)
    if group.bias is not None:
        scores += group.bias
    shares = scores.softmax(-1).to(q.dtype)
    return torch.bmm(shares, latents[..., :value_dim])


@register("merge_patches", "torch")
def merge_patches(
    x: Tensor,
    grids: Sequence[tuple[int, int, int]],
    merge: tuple[int, int],
    weight: Tensor,
    bias: Tensor,
    eps: float,
) -> Tensor:
    """Average each item's frames, normalize each patch, and concatenate 2 x 2 neighbours.

    Args:
        x: (N, width), the concatenated patches of all items.
        grids: (t, h, w) of each item, in patches.
        merge: Neighbours in a column and in a row that are merged to one row of the result; they divide h and w.
        weight: (width,), weight of the norm.
        bias: (width,), bias of the norm.
        eps: Epsilon of the norm.

    Returns:
        (tokens of all items, merge[0] * merge[1] * width), neighbours row by row.
    """
    parts = x.split_with_sizes([t * h * w for t, h, w in grids])
    merged = torch.cat([pool(part, grid, merge) for part, grid in zip(parts, grids, strict=True)])
    return F.layer_norm(merged, weight.shape, weight, bias, eps).flatten(1)


def pool(x: Tensor, grid: tuple[int, int, int], merge: tuple[int, int]) -> Tensor:
    """Average one item's frames, of any number, and gather neighbours.

    Args:
        x: (t * h * w, width).
        grid: (t, h, w) in patches.
        merge: Neighbours in a column and in a row that become one token.

    Returns:
        (tokens, merge[0] * merge[1], width), neighbours row by row.
    """
    t, h, w = grid
    down, right = merge
    mean = x.view(t, h * w, -1).mean(dim=0) if t > 1 else x
    blocks = mean.view(h // down, down, w // right, right, -1).transpose(1, 2)  # (h / 2, w / 2, 2, 2, width)
    return blocks.reshape((h // down) * (w // right), down * right, -1)
