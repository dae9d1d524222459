"""Attention of the vision tower: full, in both directions, within each item.

Source: Vaswani et al. 2017, arXiv 1706.03762, equation 1; Dehghani et al. 2023, arXiv 2307.06304, section 2.1 (items of
any length laid end to end).
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

import torch
from torch import Tensor
from torch.nn import functional as F


def vision_attention(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Sequence[int]) -> Tensor:
    """The torch reference. Neighbouring items of equal length share one call; no mask is ever formed.

    Args:
        q: (N, heads, head_dim), scaled here by head_dim^(-1/2).
        k: (N, heads, head_dim).
        v: (N, heads, head_dim).
        cu_seqlens: Host ints; item i has the rows `cu_seqlens[i]:cu_seqlens[i + 1]`.

    Returns:
        (N, heads, head_dim).
    """
    results = []
    for start, count, length in find_runs(cu_seqlens):
        rows = slice(start, start + count * length)
        # (rows, heads, head_dim) -> (items, heads, length, head_dim), without a copy
        queries, keys, values = (x[rows].view(count, length, *x.shape[1:]).transpose(1, 2) for x in (q, k, v))
        attended = F.scaled_dot_product_attention(queries, keys, values)
        results.append(attended.transpose(1, 2).reshape(count * length, *q.shape[1:]))
    return results[0] if len(results) == 1 else torch.cat(results)


def find_runs(cu_seqlens: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Neighbouring items of one length: the first row, how many items, and their length."""
    start = 0
    for length, items in groupby(end - begin for begin, end in pairwise(cu_seqlens)):
        count = sum(1 for _ in items)
        yield start, count, length
        start += count * length
