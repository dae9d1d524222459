import pytest
import torch
from torch import Tensor

from model_runtime.kernels.launch import LaunchError, run
from model_runtime.kernels.moe import combine, make_combine
from tests.model_runtime.kernels.tools import assert_guards, guarded, poisoned, relative_error

EXPERTS = 4


def make_inputs(num_tokens: int, top_k: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, weights and ids, of which some are elsewhere."""
    random = torch.Generator().manual_seed(3)
    partial = torch.randn(num_tokens * top_k, width, generator=random)
    weights = torch.rand(num_tokens, top_k, generator=random)
    return partial, weights, torch.randint(-1, EXPERTS + 2, (num_tokens, top_k), generator=random)


def compute_exact(partial: Tensor, weights: Tensor, ids: Tensor) -> Tensor:
    here = (ids >= 0) & (ids < EXPERTS)
    rows = partial.double().view(*ids.shape, -1)
    return torch.where(here[..., None], rows * weights.double()[..., None], 0.0).sum(1)


@pytest.mark.parametrize(
    ("num_tokens", "top_k", "width"),
    [(1, 1, 16), (5, 3, 200), (3, 8, 64), (2, 2, 1025), (2, 5, 1)],
)
def test_fp32_is_exact_and_rows_elsewhere_are_not_read(num_tokens: int, top_k: int, width: int) -> None:
    partial, weights, ids = make_inputs(num_tokens, top_k, width)
    exact = compute_exact(partial, weights, ids)
    elsewhere = ((ids < 0) | (ids >= EXPERTS)).flatten()
    partial[elsewhere] = torch.nan
    weights.view(-1)[elsewhere] = torch.nan
    out = poisoned(num_tokens, width)
    run(make_combine(guarded(partial), guarded(weights), guarded(ids), out, EXPERTS))
    assert relative_error(out, exact) < 1e-6
    assert_guards(out)


def test_bf16() -> None:
    partial, weights, ids = make_inputs(6, 4, 72)
    partial = partial.bfloat16()
    out = combine(partial, weights, ids, EXPERTS)
    assert out.dtype == torch.bfloat16
    assert (
        relative_error(out, compute_exact(partial, weights, ids)) < 8e-3
    )  # one rounding, which the interpreter truncates


def test_ids_far_outside_are_elsewhere() -> None:
    ids = torch.tensor([[2**32 + 1, -(2**63), 2**63 - 1, 1]])
    partial = torch.full((4, 16), torch.nan)
    partial[3] = 2.0
    assert torch.equal(combine(partial, torch.full((1, 4), 0.5), ids, EXPERTS), torch.ones(1, 16))


def test_the_sum_runs_in_the_order_of_the_choices() -> None:
    partial = torch.tensor([1e8, 1.0, -1e8, -1e8, 1e8, 1.0]).repeat(16, 1).T.contiguous()
    out = combine(partial, torch.ones(2, 3), torch.tensor([[3, 2, 1], [0, 1, 2]]), EXPERTS)
    assert out[:, 0].tolist() == [0.0, 1.0]


def test_all_elsewhere_gives_zeros() -> None:
    ids = torch.tensor([[-1, EXPERTS], [7, -9]])
    assert not combine(torch.full((4, 24), torch.nan), torch.ones(2, 2), ids, EXPERTS).any()


def test_strided_inputs() -> None:
    partial, weights, ids = make_inputs(4, 2, 40)
    wide = torch.full((8, 100), torch.nan)
    wide[:, :40] = partial
    out = combine(wide[:, :40], weights.T.contiguous().T, ids.T.contiguous().T, EXPERTS)
    assert relative_error(out, compute_exact(partial, weights, ids)) < 1e-6


def test_no_tokens() -> None:
    partial, weights, ids = make_inputs(0, 8, 64)
    assert combine(partial, weights, ids, EXPERTS).shape == (0, 64)


def test_errors() -> None:
    partial, weights, ids = make_inputs(4, 2, 32)
    with pytest.raises(LaunchError, match=r"weights has the shape \(3, 2\), expected \(4, 2\)"):
        combine(partial, weights[:3], ids, EXPERTS)
    with pytest.raises(LaunchError, match=r"partial has the shape \(7, 32\), expected \(8, any\)"):
        combine(partial[:7], weights, ids, EXPERTS)
    with pytest.raises(LaunchError, match=r"ids has the shape \(8,\), expected \(any, any\)"):
        combine(partial, weights, ids.flatten(), EXPERTS)
    with pytest.raises(LaunchError, match="ids is int32, expected int64"):
        combine(partial, weights, ids.int(), EXPERTS)
    with pytest.raises(LaunchError, match="weights is bfloat16, expected float32"):
        combine(partial, weights.bfloat16(), ids, EXPERTS)
    with pytest.raises(LaunchError, match="partial is float64, expected bfloat16 or float32"):
        combine(partial.double(), weights, ids, EXPERTS)
    with pytest.raises(LaunchError, match="partial has the strides"):
        combine(partial.T.contiguous().T, weights, ids, EXPERTS)
