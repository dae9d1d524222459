"""Routing to experts, and the experts. Source: DeepSeek-V3 report (arXiv 2412.19437), section 2.1.2."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from model_runtime.ops.registry import register
from model_runtime.ops.types import DenseExperts, Experts, Int4Experts, RouteOptions


@register("route", "torch")
def route(hidden: Tensor, weight: Tensor, bias: Tensor, options: RouteOptions) -> tuple[Tensor, Tensor]:
    """Choose each token's experts: on sigmoid score + bias; their weights are the scores without the bias.

    Args:
        hidden: (N, H).
        weight: (E, H).
        bias: (E,) fp32, moves the choice only.
        options: How many, from which groups, how weighted.

    Returns:
        Weights (N, K) fp32 and expert ids (N, K) int64, in no particular order.
    """
    scores = F.linear(hidden.float(), weight.float()).sigmoid_()  # (N, E)
    biased = scores + bias
    if options.n_group > 1:
        biased = _keep_best_groups(biased, options)
    ids = biased.topk(options.top_k, dim=-1, sorted=False).indices
    weights = scores.gather(1, ids)
    if options.norm_topk_prob:
        weights /= weights.sum(-1, keepdim=True).add_(1e-20)
    return weights.mul_(options.scale), ids


def _keep_best_groups(biased: Tensor, options: RouteOptions) -> Tensor:
    """Minus infinity outside of the groups whose two best experts have the largest sum."""
    grouped = biased.view(len(biased), options.n_group, -1)  # (N, groups, E / groups)
    best = grouped.topk(2, dim=-1).values.sum(-1).topk(options.topk_group, dim=-1, sorted=False).indices
    kept = torch.zeros(grouped.shape[:-1], dtype=torch.bool, device=biased.device).scatter_(1, best, True)
    return grouped.masked_fill(~kept.unsqueeze(-1), -torch.inf).flatten(-2)


@register("experts", "torch")
def run_experts(hidden: Tensor, weights: Tensor, ids: Tensor, experts: Experts) -> Tensor:
    """Sum over each token's experts of weight * down(silu(gate x) * up x).

    Rows are brought into the order of their experts, so that each expert in use is one pair of matmuls.

    Args:
        hidden: (N, H).
        weights: (N, K) fp32.
        ids: (N, K) int64; those outside of 0..E-1 are experts held elsewhere and add nothing.
        experts: Their weights, dense or packed.

    Returns:
        (N, H) of hidden's dtype.
    """
    num_experts = experts.num_experts
    flat = ids.flatten()
    is_here = (flat >= 0) & (flat < num_experts)
    flat = torch.where(is_here, flat, num_experts)
    order = flat.argsort()
    counts = torch.bincount(flat, minlength=num_experts + 1)[:num_experts].tolist()
    rows = hidden.index_select(0, order // ids.shape[1])  # (N * K, H)
    outputs = torch.zeros_like(rows)
    _run_sorted(rows, outputs, counts, experts)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=order.device)
    chosen = outputs.index_select(0, back).view(*ids.shape, -1)  # (N, K, H)
    return torch.bmm(weights.to(hidden.dtype).unsqueeze(1), chosen).squeeze(1)


def _run_sorted(rows: Tensor, outputs: Tensor, counts: list[int], experts: Experts) -> None:
    """Each expert on its rows; rows stand in the order of the experts."""
    weights_of = _find_reader(experts, rows.dtype)
    start = 0
    for expert, count in enumerate(counts):
        if count == 0:
            continue
        gate_up, down = weights_of(expert)
        gate, up = F.linear(rows[start : start + count], gate_up).chunk(2, dim=-1)
        torch.mm(F.silu(gate).mul_(up), down.t(), out=outputs[start : start + count])
        start += count


def _find_reader(experts: Experts, dtype: torch.dtype) -> Callable[[int], tuple[Tensor, Tensor]]:
    """A function from an expert's number to its gate_up (2I, H) and down (H, I)."""
    if isinstance(experts, DenseExperts):
        dense = experts
        return lambda expert: (dense.gate_up[expert], dense.down[expert])
    packed = experts
    return lambda expert: unpack_expert(packed, expert, dtype)


def unpack_expert(experts: Int4Experts, expert: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """One expert's gate_up (2I, H) and down (H, I) in `dtype`."""
    return (
        unpack_int4(experts.gate_up_packed[expert], experts.gate_up_scale[expert]).to(dtype),
        unpack_int4(experts.down_packed[expert], experts.down_scale[expert]).to(dtype),
    )


def unpack_int4(packed: Tensor, scale: Tensor) -> Tensor:
    """Weights from their nibbles: (nibble - 8) * scale, rounded to the scale's dtype as the release's loaders do.

    Args:
        packed: (..., in / 8) int32, the first of eight values in the lowest four bits.
        scale: (..., in / group_size) bf16.

    Returns:
        (..., in) of the scale's dtype.

    Source: compressed-tensors, format `pack-quantized`.
    """
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=packed.device)
    nibbles = (packed.unsqueeze(-1) >> shifts) & 15  # (..., in / 8, 8)
    values = (nibbles - 8).flatten(-2).to(scale.dtype)
    return (values.view(*scale.shape, -1) * scale.unsqueeze(-1)).flatten(-2)
