"""Attention of the vision tower: 2-D rotary positions, then full attention, in both directions, within each item.

Source: Vaswani et al. 2017, arXiv 1706.03762, equation 1; Dehghani et al. 2023, arXiv 2307.06304, section 2.1 (items of
any length laid end to end); Su et al. 2021, arXiv 2104.09864, equation 34.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from model_runtime.ops.types import CuSeqlens

CPU_ROWS = 256
"""Rows turned at a time on a CPU, so that they stay in its cache."""


def vision_attention(qkv: Tensor, rotations: Tensor, cu_seqlens: CuSeqlens) -> Tensor:
    """The torch reference. Neighbouring items of equal length share one call; no mask is ever formed.

    Args:
        qkv: (N, 3 * heads, head_dim): all queries, all keys, all values. Queries and keys may be overwritten.
        rotations: (N, head_dim / 2) complex64, of each pair of neighbouring values of queries and keys.
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
    """Turn queries and keys in place, in fp32: a pair of neighbouring values is one complex number.

    Args:
        qk: (N, heads, head_dim).
        rotations: (N, head_dim / 2) complex64.
    """
    rows = CPU_ROWS if qk.device.type == "cpu" else max(len(qk), 1)
    for part, turn in zip(torch.split(qk, rows), torch.split(rotations, rows), strict=True):
        values = part.float()  # in fp32 the very memory of qk
        torch.view_as_complex(values.view(*part.shape[:2], -1, 2)).mul_(turn[:, None])
        if values is not part:
            part.copy_(values)


def find_runs(cu_seqlens: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Neighbouring items of one length: the first row, how many items, and their length."""
    start = 0
    for length, items in groupby(end - begin for begin, end in pairwise(cu_seqlens)):
        count = sum(1 for _ in items)
        yield start, count, length
        start += count * length
