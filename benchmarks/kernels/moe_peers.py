"""The MoE layer by others: torch's grouped matmul, transformers, a loop of matmuls, and one matmul of equal FLOPs."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.kernels.moe_weights import Weights
from model_runtime.ops.registry import DenseExperts


def grouped_mm(hidden: Tensor, weights: Tensor, ids: Tensor, experts: DenseExperts) -> Tensor:
    """The operator `experts` with torch's grouped matmul, nothing of it waiting for the device.

    Args:
        hidden: (N, H).
        weights: (N, K) fp32.
        ids: (N, K) int64.
        experts: Dense.

    Returns:
        (N, H).
    """
    num_experts = len(experts.gate_up)
    order = ids.flatten().argsort()
    numbers = torch.arange(num_experts, device=ids.device)
    ends = torch.searchsorted(ids.flatten()[order], numbers, right=True).int()  # (E,)
    out = down(gate_up(hidden[order // ids.shape[1]], ends, experts.gate_up), ends, experts.down)
    out = out * weights.flatten()[order].unsqueeze(1).to(out.dtype)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=ids.device)
    return out[back].view(*ids.shape, -1).sum(1)


def gate_up(rows: Tensor, ends: Tensor, weight: Tensor) -> Tensor:
    """Sorted rows (P, H), where each expert's end (E,) int32, weight (E, 2I, H) -> (P, I)."""
    gate, up = F.grouped_mm(rows, weight.transpose(1, 2), offs=ends).chunk(2, dim=-1)
    return F.silu(gate) * up


def down(rows: Tensor, ends: Tensor, weight: Tensor) -> Tensor:
    """Sorted rows (P, I), as there, weight (E, H, I) -> (P, H)."""
    return F.grouped_mm(rows, weight.transpose(1, 2), offs=ends)


def sort_rows(hidden: Tensor, _: Tensor, ids: Tensor, experts: DenseExperts) -> tuple[Any, ...]:
    """For `loop`: rows in the order of their experts, and on the host how many each has."""
    order = ids.flatten().argsort()
    counts = torch.bincount(ids.flatten(), minlength=len(experts.gate_up)).tolist()
    return hidden[order // ids.shape[1]], counts, experts


def loop(rows: Tensor, counts: list[int], experts: DenseExperts) -> Tensor:
    """Two matmuls of each expert in use, one after the other; without sorting and without the weighted sum."""
    inner = rows.new_empty(len(rows), experts.gate_up.shape[1])
    out = torch.empty_like(rows)
    starts = accumulate(counts, initial=0)
    used = [
        (expert, slice(at, at + count)) for expert, (at, count) in enumerate(zip(starts, counts, strict=False)) if count
    ]
    for expert, some in used:
        torch.mm(rows[some], experts.gate_up[expert].t(), out=inner[some])
    gate, up = inner.chunk(2, dim=-1)
    active = F.silu(gate) * up
    for expert, some in used:
        torch.mm(active[some], experts.down[expert].t(), out=out[some])
    return out


def equal_flops(hidden: Tensor, _: Tensor, ids: Tensor, experts: DenseExperts) -> tuple[Tensor, Tensor]:
    """For `torch.mm`: every pair of a row and an expert as a row, and as many columns as an expert has weights."""
    columns = 3 * experts.down.shape[2]
    return hidden.repeat_interleave(ids.shape[1], 0), experts.gate_up.flatten(0, 1)[:columns].t()


def transformers_moe(weights: Weights, experts: DenseExperts) -> Any:
    """The DeepseekV3 layer of transformers around our tensors, its experts by grouped_mm; nothing is copied."""
    from transformers import DeepseekV3Config
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE

    text = weights.text
    options: dict[str, Any] = {
        "hidden_size": text.hidden_size,
        "moe_intermediate_size": text.moe_intermediate_size,
        "n_routed_experts": text.n_routed_experts,
        "num_experts_per_tok": text.num_experts_per_tok,
        "n_shared_experts": text.n_shared_experts,
        "n_group": text.n_group,
        "topk_group": text.topk_group,
        "norm_topk_prob": text.norm_topk_prob,
        "routed_scaling_factor": text.routed_scaling_factor,
        "experts_implementation": "grouped_mm",
    }
    with torch.device("meta"):
        layer = DeepseekV3MoE(DeepseekV3Config(**options))
    gate, up = weights.shared_gate_up.chunk(2)
    tensors = {
        "gate.weight": weights.router,
        "gate.e_score_correction_bias": weights.bias,
        "experts.gate_up_proj": experts.gate_up,
        "experts.down_proj": experts.down,
        "shared_experts.gate_proj.weight": gate,
        "shared_experts.up_proj.weight": up,
        "shared_experts.down_proj.weight": weights.shared_down,
    }
    layer.load_state_dict(tensors, assign=True)
    return layer.eval().requires_grad_(False)


def transformers_experts(weights: Weights, experts: DenseExperts) -> Callable[..., Any]:
    """Its routed experts alone, with the operator's arguments."""
    layer = transformers_moe(weights, experts)

    def run(hidden: Tensor, weights: Tensor, ids: Tensor, _: Any) -> Any:
        return layer.experts(hidden, ids, weights)

    return run
