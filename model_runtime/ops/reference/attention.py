"""Attention of prompts, which are laid end to end. The vision tower's has a file of its own and is registered here."""

import torch
import torch.nn.functional as F
from torch import Tensor

from model_runtime.ops.registry import register
from model_runtime.ops.types import CuSeqlens
from model_runtime.ops.vision_attention import vision_attention

MAX_QUERIES = 512
"""Queries handled at once: bounds the mask, and leaves out most of the keys that a causal query cannot see."""


@register("mla_prefill", "torch")
def mla_prefill(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: CuSeqlens, cu_seqlens_k: CuSeqlens, scale: float
) -> Tensor:
    """Causal attention within each sequence, whose queries are its last tokens: ends are aligned.

    Args:
        q: (N, heads, key_dim).
        k: (M, heads, key_dim), or (M, 1, key_dim) when all heads share one.
        v: (M, heads, value_dim) or (M, 1, value_dim); value_dim <= key_dim.
        cu_seqlens_q: Bounds of the sequences in q.
        cu_seqlens_k: Bounds of the sequences in k and v.
        scale: Factor on the scores before the softmax.

    Returns:
        (N, heads, value_dim).
    """
    out = q.new_empty(*q.shape[:2], v.shape[-1])
    v = F.pad(v, (0, k.shape[-1] - v.shape[-1]))  # one width for keys and values: torch's fused kernels ask for it
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
    """Causal attention of the last queries of one sequence: (heads, queries or keys, dim) -> (heads, queries, dim)."""
    num_queries, num_keys = q.shape[1], k.shape[1]
    mask = None
    if 1 < num_queries < num_keys:
        mask = torch.ones(num_queries, num_keys, dtype=torch.bool, device=q.device).tril_(num_keys - num_queries)
    is_causal = num_queries == num_keys and num_queries > 1
    return F.scaled_dot_product_attention(q[None], k[None], v[None], mask, is_causal=is_causal, scale=scale)[0]


register("vision_attention", "torch")(vision_attention)
