"""Routing and experts beside their definitions, written out token by token."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model_runtime.checkpoint.int4 import dequantize, pack, quantize
from model_runtime.ops import DenseExperts, Experts, Int4Experts, RouteOptions, find_ops

OPS = find_ops("cpu", "torch")


def make_dense(num_experts: int = 6, hidden: int = 64, width: int = 32) -> DenseExperts:
    return DenseExperts(
        gate_up=torch.randn(num_experts, 2 * width, hidden) / 8, down=torch.randn(num_experts, hidden, width) / 6
    )


def pack_all(weights: Tensor) -> tuple[Tensor, Tensor]:
    parts = [quantize(weight.bfloat16()) for weight in weights]
    return torch.stack([pack(q) for q, _ in parts]), torch.stack([scale for _, scale in parts])


def make_packed(dense: DenseExperts) -> Int4Experts:
    gate_up, down = pack_all(dense.gate_up), pack_all(dense.down)
    return Int4Experts(
        gate_up_packed=gate_up[0], gate_up_scale=gate_up[1], down_packed=down[0], down_scale=down[1], group_size=32
    )


def run_slowly(hidden: Tensor, weights: Tensor, ids: Tensor, experts: Experts) -> Tensor:
    """The definition, in float64."""
    out = torch.zeros_like(hidden, dtype=torch.float64)
    for token, chosen in enumerate(ids.tolist()):
        for place, expert in enumerate(chosen):
            if not 0 <= expert < experts.num_experts:
                continue
            if isinstance(experts, DenseExperts):
                gate_up, down = experts.gate_up[expert], experts.down[expert]
            else:
                gate_up = dequantize(experts.gate_up_packed[expert], experts.gate_up_scale[expert])
                down = dequantize(experts.down_packed[expert], experts.down_scale[expert])
            gate, up = (gate_up.double() @ hidden[token].double()).chunk(2)
            out[token] += weights[token, place].double() * (down.double() @ (F.silu(gate) * up))
    return out


def choose(num_tokens: int, num_experts: int, top_k: int) -> tuple[Tensor, Tensor]:
    ids = torch.stack([torch.randperm(num_experts)[:top_k] for _ in range(num_tokens)])
    return torch.rand(num_tokens, top_k), ids


@pytest.mark.parametrize("num_tokens", [1, 2, 5, 33])
@pytest.mark.parametrize("is_packed", [False, True])
def test_experts(num_tokens: int, is_packed: bool) -> None:
    torch.manual_seed(num_tokens)
    dense = make_dense()
    experts = make_packed(dense) if is_packed else dense
    hidden = torch.randn(num_tokens, 64)
    weights, ids = choose(num_tokens, 6, 3)
    found = OPS.experts(hidden, weights, ids, experts)
    assert found.dtype == torch.float32
    assert (found - run_slowly(hidden, weights, ids, experts)).abs().max() <= 2e-6


@pytest.mark.parametrize("num_tokens", [1, 9])
def test_experts_held_elsewhere_add_nothing(num_tokens: int) -> None:
    torch.manual_seed(0)
    experts, hidden = make_dense(num_experts=3), torch.randn(num_tokens, 64)
    weights, ids = choose(num_tokens, 12, 4)
    ids -= 5  # -5 to 6, of which 0 to 2 are here
    found = OPS.experts(hidden, weights, ids, experts)
    assert (found - run_slowly(hidden, weights, ids, experts)).abs().max() <= 2e-6
    assert torch.equal(OPS.experts(hidden, weights, torch.full_like(ids, -1), experts), torch.zeros_like(hidden))


def test_ranks_sum_to_the_whole() -> None:
    torch.manual_seed(1)
    whole, hidden = make_dense(), torch.randn(7, 64)
    weights, ids = choose(7, 6, 2)
    parts = [DenseExperts(gate_up=whole.gate_up[i : i + 2], down=whole.down[i : i + 2]) for i in (0, 2, 4)]
    total = sum(OPS.experts(hidden, weights, ids - 2 * rank, part) for rank, part in enumerate(parts))
    torch.testing.assert_close(total, OPS.experts(hidden, weights, ids, whole), rtol=0, atol=2e-6)


def test_bfloat16_rounds_as_much_as_its_eight_bits() -> None:
    torch.manual_seed(2)
    experts = make_dense()
    half = DenseExperts(gate_up=experts.gate_up.bfloat16(), down=experts.down.bfloat16())
    hidden = torch.randn(9, 64).bfloat16()
    weights, ids = choose(9, 6, 3)
    found = OPS.experts(hidden, weights, ids, half)
    assert found.dtype == torch.bfloat16
    exact = run_slowly(hidden, weights, ids, half)
    assert (found - exact).abs().max() <= 2e-2 * exact.abs().max()


def route_slowly(hidden: Tensor, weight: Tensor, bias: Tensor, options: RouteOptions) -> list[dict[int, float]]:
    """Expert -> weight of each token, by the definition."""
    found = []
    size = len(weight) // options.n_group
    for x in hidden:
        scores = [1 / (1 + torch.exp(-(row.double() @ x.double())).item()) for row in weight]
        biased = [score + shift for score, shift in zip(scores, bias.tolist(), strict=True)]
        groups = [sum(sorted(biased[g * size : (g + 1) * size])[-2:]) for g in range(options.n_group)]
        best = sorted(range(options.n_group), key=lambda g: -groups[g])[: options.topk_group]
        open_ = [expert for expert in range(len(weight)) if expert // size in best]
        chosen = sorted(open_, key=lambda expert: -biased[expert])[: options.top_k]
        total = sum(scores[expert] for expert in chosen) if options.norm_topk_prob else 1.0
        found.append({expert: scores[expert] / total * options.scale for expert in chosen})
    return found


@pytest.mark.parametrize(
    "options",
    [
        RouteOptions(top_k=2, scale=2.827),
        RouteOptions(top_k=3, norm_topk_prob=False),
        RouteOptions(top_k=3, n_group=4, topk_group=2, scale=0.5),
        RouteOptions(top_k=1, n_group=2, topk_group=1),
    ],
)
def test_routing(options: RouteOptions) -> None:
    torch.manual_seed(3)
    hidden, weight, bias = torch.randn(20, 16), torch.randn(12, 16), torch.randn(12) * 0.3
    weights, ids = OPS.route(hidden, weight, bias, options)
    assert (weights.dtype, ids.dtype) == (torch.float32, torch.int64)
    for expected, chosen, shares in zip(
        route_slowly(hidden, weight, bias, options), ids.tolist(), weights.tolist(), strict=True
    ):
        assert dict(zip(chosen, shares, strict=True)) == pytest.approx(expected, abs=1e-6)


def test_the_bias_moves_the_choice_but_not_the_weight() -> None:
    hidden, weight = torch.ones(1, 2), torch.tensor([[1.0, 1.0], [0.5, 0.5], [0.0, 0.0]])
    options = RouteOptions(top_k=1, norm_topk_prob=False)
    weights, ids = OPS.route(hidden, weight, torch.tensor([0.0, 0.0, 5.0]), options)
    assert (ids.item(), weights.item()) == (2, 0.5)


def test_a_bfloat16_model_routes_in_fp32() -> None:
    torch.manual_seed(4)
    hidden, weight = torch.randn(50, 64).bfloat16(), torch.randn(16, 64).bfloat16()
    options = RouteOptions(top_k=4)
    found = OPS.route(hidden, weight, torch.zeros(16), options)
    expected = OPS.route(hidden.float(), weight.float(), torch.zeros(16), options)
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])
