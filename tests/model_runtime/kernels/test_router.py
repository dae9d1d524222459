import pytest
import torch
from torch import Tensor

from model_runtime.kernels.launch import LaunchError, run
from model_runtime.kernels.router import find_logits_tile, make_logits, make_select, route
from model_runtime.ops import RouteOptions
from model_runtime.ops.reference.moe import route as route_in_torch
from tests.model_runtime.kernels.tools import assert_guards, guarded, poisoned, relative_error

BF16, FP32 = torch.bfloat16, torch.float32


def make_inputs(num_tokens: int, width: int, num_experts: int) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(num_tokens + width + num_experts)
    hidden = torch.randn(num_tokens, width, generator=random)
    weight = torch.randn(num_experts, width, generator=random) * width**-0.5
    return hidden, weight, torch.randn(num_experts, generator=random)


def compute_exact(hidden: Tensor, weight: Tensor, bias: Tensor, options: RouteOptions) -> tuple[Tensor, Tensor]:
    """In float64: the best first, of equal ones the lower id."""
    scores = (hidden.double() @ weight.double().T).sigmoid()
    ids = (scores + bias.double()).sort(dim=-1, descending=True, stable=True).indices[:, : options.top_k]
    weights = scores.gather(1, ids)
    if options.norm_topk_prob:
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    return weights * options.scale, ids


@pytest.mark.parametrize(
    ("num_tokens", "width", "num_experts", "dtypes"),
    [
        (5, 200, 24, (FP32, FP32)),  # parts of the sum, the last one with a tail
        (2, 1900, 24, (FP32, FP32)),  # 15 parts of two steps each
        (20, 72, 70, (FP32, FP32)),  # one part, two tiles of experts
        (3, 136, 24, (BF16, BF16)),
        (3, 72, 24, (BF16, FP32)),
        (3, 72, 24, (FP32, BF16)),
    ],
)
def test_against_float64(
    num_tokens: int, width: int, num_experts: int, dtypes: tuple[torch.dtype, torch.dtype]
) -> None:
    hidden, weight, bias = make_inputs(num_tokens, width, num_experts)
    hidden, weight = hidden.to(dtypes[0]), weight.to(dtypes[1])
    options = RouteOptions(top_k=3, scale=2.827)
    exact, ids = compute_exact(hidden, weight, bias, options)
    tile = find_logits_tile(hidden, weight)
    parts = poisoned(tile.split_k, num_tokens, num_experts)
    found, found_ids = poisoned(num_tokens, 3), poisoned(num_tokens, 3, dtype=torch.int64)
    run(make_logits(guarded(hidden), guarded(weight), parts, tile))
    run(make_select(parts, guarded(bias), found, found_ids, options))
    assert torch.equal(found_ids, ids)
    assert relative_error(found, exact) < 1e-6
    assert_guards(parts, found, found_ids)


def test_logits_of_two_tiles_of_tokens() -> None:
    hidden, weight, _ = (tensor.bfloat16() for tensor in make_inputs(67, 136, 40))
    tile = find_logits_tile(hidden, weight)
    parts = poisoned(tile.split_k, 67, 40)
    run(make_logits(guarded(hidden), guarded(weight), parts, tile))
    assert relative_error(parts.double().sum(0), hidden.double() @ weight.double().T) < 1e-6
    assert_guards(parts)


def test_sums_of_few_tokens_are_cut_into_parts_that_are_not_empty() -> None:
    for width, split_k in ((7168, 28), (128, 1), (129, 2), (1280, 10), (3840, 15), (3968, 16)):
        hidden, weight = (torch.empty(rows, width, dtype=BF16, device="meta") for rows in (1, 384))
        tile = find_logits_tile(hidden, weight)
        assert tile.split_k == split_k
        steps = make_logits(hidden, weight, torch.empty(0, device="meta"), tile).constexprs["STEPS"]
        assert (split_k - 1) * steps * tile.block_k < width <= split_k * steps * tile.block_k


def test_384_experts_top_8_as_the_reference() -> None:
    inputs = make_inputs(2, 256, 384)
    options = RouteOptions(top_k=8, scale=2.827)
    weights, ids = route(*inputs, options)
    expected, expected_ids = route_in_torch(*inputs, options)
    assert (weights.dtype, ids.dtype) == (expected.dtype, expected_ids.dtype)
    order, expected_order = ids.argsort(1), expected_ids.argsort(1)
    assert torch.equal(ids.gather(1, order), expected_ids.gather(1, expected_order))
    assert relative_error(weights.gather(1, order), expected.gather(1, expected_order)) < 1e-6


def test_of_equal_scores_the_lower_id_comes_first() -> None:
    hidden, weight, bias = make_inputs(3, 64, 20)
    weight[10:] = weight[:10].clone()
    bias[10:] = bias[:10].clone()
    ids = route(hidden, weight, bias, RouteOptions(top_k=6))[1]
    assert torch.equal(ids[:, 1::2], ids[:, ::2] + 10)
    equal = route(hidden, torch.zeros_like(weight), torch.full_like(bias, -0.5), RouteOptions(top_k=6))[1]
    assert equal.tolist() == [[0, 1, 2, 3, 4, 5]] * 3


def test_scores_of_one_and_below_zero_are_in_order() -> None:
    hidden, weight = torch.ones(1, 32), torch.zeros(6, 32)
    weight[:2] = 8.0  # both scores are 1 in fp32
    bias = torch.tensor([-3.0, -3.0, -0.75, -0.25, -0.5, -1e30])
    weights, ids = route(hidden, weight, bias, RouteOptions(top_k=6, norm_topk_prob=False))
    assert ids.tolist() == [[3, 4, 2, 0, 1, 5]]
    assert weights.tolist() == [[0.5, 0.5, 0.5, 1.0, 1.0, 0.5]]


@pytest.mark.parametrize("options", [RouteOptions(top_k=1), RouteOptions(top_k=5, norm_topk_prob=False, scale=0.5)])
def test_options(options: RouteOptions) -> None:
    inputs = make_inputs(2, 48, 5)
    weights, ids = route(*inputs, options)
    exact, exact_ids = compute_exact(*inputs, options)
    assert torch.equal(ids, exact_ids)
    assert relative_error(weights, exact) < 1e-6


@pytest.mark.filterwarnings("ignore:invalid value")
def test_values_that_are_no_numbers_give_ids_that_are_there() -> None:
    hidden, weight, bias = make_inputs(4, 64, 10)
    hidden[0] = torch.nan
    hidden[1, 3] = torch.inf
    hidden[2, 5] = -torch.inf
    options = RouteOptions(top_k=8)
    weights, ids = route(hidden, weight, bias, options)
    assert ids[0].tolist() == list(range(8))
    assert weights[0].isnan().all()
    for row in ids.tolist():
        assert len(set(row)) == 8
        assert all(0 <= id < 10 for id in row)
    assert torch.equal(ids[3:], compute_exact(hidden[3:], weight, bias, options)[1])
    bias[:3] = torch.nan  # worse than any number
    assert sorted(route(hidden[3:], weight, bias, RouteOptions(top_k=7))[1].tolist()[0]) == list(range(3, 10))


def test_strided_rows() -> None:
    hidden, weight, bias = make_inputs(4, 64, 10)
    wide = torch.full((8, 100), torch.nan)
    wide[::2, :64] = hidden
    options = RouteOptions(top_k=2)
    weights, ids = route(wide[::2, :64], weight.repeat(1, 2)[:, :64], bias, options)
    exact, exact_ids = compute_exact(hidden, weight, bias, options)
    assert torch.equal(ids, exact_ids)
    assert relative_error(weights, exact) < 1e-6


def test_no_tokens() -> None:
    weights, ids = route(*make_inputs(0, 64, 10), RouteOptions(top_k=2))
    assert weights.shape == ids.shape == (0, 2)


def test_groups_and_too_few_experts_go_to_the_reference() -> None:
    inputs = make_inputs(4, 64, 12)
    options = RouteOptions(top_k=2, n_group=4, topk_group=2)
    for found, expected in zip(route(*inputs, options), route_in_torch(*inputs, options), strict=True):
        assert torch.equal(found, expected)
    with pytest.raises(RuntimeError, match="out of range"):
        route(*inputs, RouteOptions(top_k=13))


def test_errors() -> None:
    hidden, weight, bias = make_inputs(2, 64, 10)
    options = RouteOptions(top_k=2)
    with pytest.raises(LaunchError, match=r"hidden has the shape \(64,\), expected \(any, any\)"):
        route(hidden[0], weight, bias, options)
    with pytest.raises(LaunchError, match=r"weight has the shape \(10, 32\), expected \(any, 64\)"):
        route(hidden, weight[:, :32], bias, options)
    with pytest.raises(LaunchError, match=r"bias has the shape \(9,\), expected \(10\)"):
        route(hidden, weight, bias[:9], options)
    with pytest.raises(LaunchError, match="bias is bfloat16, expected float32"):
        route(hidden, weight, bias.bfloat16(), options)
    with pytest.raises(LaunchError, match="hidden is float16, expected bfloat16 or float32"):
        route(hidden.half(), weight, bias, options)
    with pytest.raises(LaunchError, match="weight has the strides"):
        route(hidden, weight.T.contiguous().T, bias, options)
    with pytest.raises(LaunchError, match=r"bias has the strides \(2,\)"):
        route(hidden, weight, bias.repeat_interleave(2)[::2], options)
