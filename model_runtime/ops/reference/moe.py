"""Routing to experts, and the experts, in torch. Source: DeepSeek-V3 report (arXiv 2412.19437), section 2.1.2."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from model_runtime.checkpoint.int4 import dequantize
from model_runtime.ops.registry import DenseExperts, Experts, RouteOptions, register


@register("route", "torch")
def route(hidden: Tensor, weight: Tensor, bias: Tensor, options: RouteOptions) -> tuple[Tensor, Tensor]:
    """Choose each token's experts by sigmoid score + bias; their weights are the scores without the bias.

    Args:
        hidden: (N, H).
        weight: (E, H).
        bias: (E,) fp32, affects only the choice.
        options: Number of experts, groups and normalization.

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
    """Set scores to minus infinity outside of the groups whose two best experts have the largest sum."""
    grouped = biased.view(len(biased), options.n_group, -1)  # (N, groups, E / groups)
    best = grouped.topk(2, dim=-1).values.sum(-1).topk(options.topk_group, dim=-1, sorted=False).indices
    kept = torch.zeros(grouped.shape[:-1], dtype=torch.bool, device=biased.device).scatter_(1, best, True)
    return grouped.masked_fill(~kept.unsqueeze(-1), -torch.inf).flatten(-2)


@register("prepare_experts", "torch")
def prepare_experts(experts: Experts) -> Experts:
    """Convert loaded experts for `experts`; here unchanged. The caller must not use the argument afterwards."""
    return experts


@register("run_concurrently", "torch")
def run_concurrently(main: Callable[[], Tensor], side: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    """Run two independent computations, here one after the other."""
    return main(), side()


@register("experts", "torch")
def run_experts(hidden: Tensor, weights: Tensor, ids: Tensor, experts: Experts) -> Tensor:
    """Sum weight * down(silu(gate x) * up x) over each token's experts.

    Rows are sorted by expert, so that each expert in use is one pair of matmuls.

    Args:
        hidden: (N, H).
        weights: (N, K) fp32.
        ids: (N, K) int64; ids outside 0..E-1 are experts held elsewhere and add nothing.
        experts: Weights of the experts, dense or packed.

    Returns:
        (N, H) of hidden's dtype.
    """
    if len(hidden) == 1:
        return weights.to(hidden.dtype) @ _run_one(hidden, ids, experts)
    num_experts = experts.num_experts
    flat = ids.flatten()
    flat = torch.where((flat >= 0) & (flat < num_experts), flat, num_experts)
    order = flat.argsort()
    counts = torch.bincount(flat, minlength=num_experts + 1)[:num_experts].tolist()
    outputs = _run_sorted(hidden.index_select(0, order // ids.shape[1]), counts, experts)  # (N * K, H)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=order.device)
    chosen = outputs.index_select(0, back).view(*ids.shape, -1)  # (N, K, H)
    return torch.bmm(weights.to(hidden.dtype).unsqueeze(1), chosen).squeeze(1)


def _run_one(hidden: Tensor, ids: Tensor, experts: Experts) -> Tensor:
    """Run each expert of a single token, without sorting: (1, H) -> (K, H)."""
    chosen = ids[0].tolist()
    runs = [(id if 0 <= id < experts.num_experts else None, 1) for id in chosen]
    return _run_experts(hidden.expand(len(chosen), -1), runs, experts)


def _run_sorted(rows: Tensor, counts: list[int], experts: Experts) -> Tensor:
    """Run experts on sorted rows; `counts` is the number of rows of each expert: (M, H) -> (M, H)."""
    runs: list[tuple[int | None, int]] = [(id, count) for id, count in enumerate(counts) if count]
    return _run_experts(rows, [*runs, (None, len(rows) - sum(counts))], experts)


def _run_experts(rows: Tensor, runs: list[tuple[int | None, int]], experts: Experts) -> Tensor:
    """Run experts on runs of rows, each (expert, or None for zeros; number of rows): (M, H) -> (M, H)."""
    gate_up, down = find_readers(experts, rows.dtype)
    sizes = [count for _, count in runs]
    inner = rows.new_zeros(len(rows), 2 * experts.intermediate_size)
    for (expert, _), x, out in zip(runs, rows.split_with_sizes(sizes), inner.split_with_sizes(sizes), strict=True):
        if expert is not None:
            torch.mm(x, gate_up(expert).t(), out=out)
    gate, up = inner.chunk(2, dim=-1)
    active = F.silu(gate).mul_(up)  # (M, intermediate)
    outputs = torch.zeros_like(rows, memory_format=torch.contiguous_format)
    for (expert, _), x, out in zip(runs, active.split_with_sizes(sizes), outputs.split_with_sizes(sizes), strict=True):
        if expert is not None:
            torch.mm(x, down(expert).t(), out=out)
    return outputs


def find_readers(experts: Experts, dtype: torch.dtype) -> tuple[Callable[[int], Tensor], Callable[[int], Tensor]]:
    """Return functions from an expert's number to its gate_up (2I, H) and its down (H, I)."""
    if isinstance(experts, DenseExperts):
        return experts.gate_up.__getitem__, experts.down.__getitem__
    packed = experts
    return (
        lambda expert: _unpack(packed.gate_up_packed[expert], packed.gate_up_scale[expert], dtype),
        lambda expert: _unpack(packed.down_packed[expert], packed.down_scale[expert], dtype),
    )


def _unpack(packed: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """Unpack (out, in / 8), (out, groups) to (out, in), rounded to the scale's dtype as in the release's loaders."""
    return dequantize(packed, scale, scale.dtype).to(dtype)
