"""A whole layer's routed experts in the interpreter, beside their definition in float64."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model_runtime.checkpoint.int4 import dequantize, pack, quantize
from model_runtime.kernels import moe
from model_runtime.kernels.launch import LaunchError
from model_runtime.kernels.moe import prepare_experts, run_experts
from model_runtime.kernels.repack import HalfSplitExperts
from model_runtime.ops.registry import DenseExperts, Experts, Int4Experts, get_op
from tests.model_runtime.kernels.tools import relative_error


def make_dense(num_experts: int, hidden: int, inter: int, dtype: torch.dtype = torch.float32) -> DenseExperts:
    gate_up = torch.randn(num_experts, 2 * inter, hidden) / hidden**0.5
    down = torch.randn(num_experts, hidden, inter) / inter**0.5
    return DenseExperts(gate_up=gate_up.to(dtype), down=down.to(dtype))


def make_int4(num_experts: int, hidden: int, inter: int, dtype: torch.dtype = torch.float32) -> Int4Experts:
    """With scales of `dtype`: to bf16 ones some kernels round weights as the reference does, and some do not."""
    dense = make_dense(num_experts, hidden, inter, torch.bfloat16)

    def pack_all(weights: Tensor) -> tuple[Tensor, Tensor]:
        parts = [quantize(weight) for weight in weights]
        return torch.stack([pack(q) for q, _ in parts]), torch.stack([scale for _, scale in parts]).to(dtype)

    gate_up, down = pack_all(dense.gate_up), pack_all(dense.down)
    return Int4Experts(
        gate_up_packed=gate_up[0], gate_up_scale=gate_up[1], down_packed=down[0], down_scale=down[1], group_size=32
    )


def make(is_packed: bool, num_experts: int, hidden: int, inter: int, dtype: torch.dtype = torch.float32) -> Experts:
    return (make_int4 if is_packed else make_dense)(num_experts, hidden, inter, dtype)


def read(experts: Experts) -> tuple[Tensor, Tensor]:
    """Both weights in float64, before `prepare_experts` takes them."""
    if isinstance(experts, DenseExperts):
        return experts.gate_up.double(), experts.down.double()
    pairs = ((experts.gate_up_packed, experts.gate_up_scale), (experts.down_packed, experts.down_scale))
    gate_up, down = (
        torch.stack([dequantize(packed, scale, scale.dtype).double() for packed, scale in zip(*pair, strict=True)])
        for pair in pairs
    )
    return gate_up, down


def run_slowly(hidden: Tensor, weights: Tensor, ids: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """The definition, in float64."""
    out = torch.zeros_like(hidden, dtype=torch.float64)
    for token, chosen in enumerate(ids.tolist()):
        for place, expert in enumerate(chosen):
            if 0 <= expert < len(down):
                gate, up = (gate_up[expert] @ hidden[token].double()).chunk(2)
                out[token] += weights[token, place].double() * (down[expert] @ (F.silu(gate) * up))
    return out


def choose(num_tokens: int, num_experts: int, top_k: int) -> tuple[Tensor, Tensor]:
    return torch.rand(num_tokens, top_k), torch.rand(num_tokens, num_experts).topk(top_k).indices


def check(hidden: Tensor, weights: Tensor, ids: Tensor, experts: Experts, tolerance: float) -> None:
    exact = run_slowly(hidden, weights, ids, *read(experts))
    found = run_experts(hidden, weights, ids, prepare_experts(experts))
    assert found.dtype == hidden.dtype
    assert relative_error(found, exact) <= tolerance


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_tokens", "hidden", "top_k", "is_packed"),
    [
        (1, 64, 4, False),
        (7, 96, 1, False),
        (33, 96, 3, False),
        (33, 64, 2, False),
        (1, 64, 2, True),
        (33, 96, 3, True),
        (33, 64, 2, True),
    ],
)
def test_fp32(num_tokens: int, hidden: int, top_k: int, is_packed: bool) -> None:
    torch.manual_seed(num_tokens)
    check(torch.randn(num_tokens, hidden), *choose(num_tokens, 8, top_k), make(is_packed, 8, hidden, 32), 2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(("num_tokens", "hidden"), [(1, 32), (20, 96)])
def test_bfloat16(num_tokens: int, hidden: int, is_packed: bool) -> None:
    torch.manual_seed(num_tokens)
    experts = make(is_packed, 8, hidden, 32, torch.bfloat16)
    check(torch.randn(num_tokens, hidden).bfloat16(), *choose(num_tokens, 8, 2), experts, 3e-2)


@pytest.mark.slow
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("num_tokens", [7, 33])
def test_experts_held_elsewhere_add_nothing(num_tokens: int, is_packed: bool) -> None:
    torch.manual_seed(0)
    hidden = torch.randn(num_tokens, 32)
    weights, ids = choose(num_tokens, 12, 3)
    check(hidden, weights, ids - 5, make(is_packed, 2, 32, 32), 2e-6)  # -5 to 6, of which 0 and 1 are here
    prepared = prepare_experts(make(is_packed, 2, 32, 32))
    found = run_experts(hidden, weights, torch.full_like(ids, -1), prepared)
    assert torch.equal(found, torch.zeros_like(hidden))


@pytest.mark.slow
@pytest.mark.parametrize("num_tokens", [1, 15])
def test_ranks_sum_to_the_whole(num_tokens: int) -> None:
    torch.manual_seed(1)
    whole, hidden = make_dense(6, 64, 32), torch.randn(num_tokens, 64)
    weights, ids = choose(num_tokens, 6, 2)
    parts = [DenseExperts(gate_up=whole.gate_up[i : i + 2], down=whole.down[i : i + 2]) for i in (0, 2, 4)]
    total = sum(run_experts(hidden, weights, ids - 2 * rank, part) for rank, part in enumerate(parts))
    torch.testing.assert_close(total, run_experts(hidden, weights, ids, whole), rtol=0, atol=2e-6)


@pytest.mark.parametrize("is_packed", [False, True])
def test_all_tokens_on_one_expert(is_packed: bool) -> None:
    torch.manual_seed(2)
    ids = torch.full((40, 1), 3)
    check(torch.randn(40, 64), torch.rand(40, 1), ids, make(is_packed, 4, 64, 32), 2e-6)


@pytest.mark.slow
def test_as_many_experts_as_the_release() -> None:
    torch.manual_seed(3)
    experts = make_dense(384, 32, 16, torch.bfloat16)
    check(torch.randn(10, 32).bfloat16(), *choose(10, 384, 8), experts, 3e-2)


def test_both_ways_agree_and_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(4)
    experts, hidden = make_dense(6, 64, 32), torch.randn(3, 64)
    weights, ids = choose(3, 6, 2)
    found = run_experts(hidden, weights, ids, experts)
    monkeypatch.setattr(moe, "MAX_GEMV_TOKENS", 0)
    grouped = run_experts(hidden, weights, ids, experts)
    assert relative_error(grouped, found) <= 2e-6
    assert torch.equal(run_experts(hidden, weights, ids, experts), grouped)


def test_many_tokens_go_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(5)
    experts, hidden = make_dense(4, 64, 32), torch.randn(25, 64)
    weights, ids = choose(25, 4, 1)
    whole = run_experts(hidden, weights, ids, experts)
    monkeypatch.setattr(moe, "TOKENS_AT_ONCE", 12)  # 12, 12 and 1, which goes the other way
    assert relative_error(run_experts(hidden, weights, ids, experts), whole) <= 2e-6


def test_rows_may_lie_in_a_wider_tensor() -> None:
    torch.manual_seed(6)
    experts, wide = make_dense(4, 64, 32), torch.randn(9, 3, 64)
    weights, ids = choose(9, 4, 2)
    found = run_experts(wide[:, 1], weights, ids, experts)
    assert torch.equal(found, run_experts(wide[:, 1].contiguous(), weights, ids, experts))


def test_no_tokens() -> None:
    weights, ids = choose(0, 4, 2)
    assert run_experts(torch.randn(0, 64), weights, ids, make_dense(4, 64, 32)).shape == (0, 64)


def test_preparing() -> None:
    dense = make_dense(3, 64, 32)
    assert prepare_experts(dense) is dense
    assert isinstance(prepare_experts(make_int4(3, 64, 32)), HalfSplitExperts)
    assert get_op("prepare_experts", ("triton",)) is prepare_experts


def test_what_it_cannot_do_is_said() -> None:
    experts, hidden = make_dense(3, 64, 32), torch.randn(9, 64)
    weights, ids = choose(9, 3, 2)
    with pytest.raises(LaunchError, match="gate_up is float16, expected bfloat16 or float32"):
        prepare_experts(make_dense(3, 64, 32, torch.float16))
    with pytest.raises(LaunchError, match="down is float16, expected float32"):
        prepare_experts(DenseExperts(gate_up=experts.gate_up, down=experts.down.half()))
    with pytest.raises(LaunchError, match="hidden is float16, expected bfloat16 or float32"):
        run_experts(hidden.half(), weights, ids, experts)
    with pytest.raises(LaunchError, match=r"ids has the shape \(8, 2\), expected \(9, any\)"):
        run_experts(hidden, weights, ids[:8], experts)
