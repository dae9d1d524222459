"""The merge of patches in the interpreter, against float64 written out here."""

import pytest
import torch
from torch import Tensor

from model_runtime.kernels import merge_patches as kernels
from model_runtime.kernels.launch import LaunchError, run
from model_runtime.ops.reference import attention as reference
from tests.model_runtime.kernels.tools import assert_guards, guarded, poisoned, relative_error

EPS = 1e-5
GRIDS = ((1, 4, 2), (4, 2, 6), (3, 2, 2), (5, 2, 4))


def make_inputs(grids: tuple[tuple[int, int, int], ...], width: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(sum(t * h * w for t, h, w in grids), width) + 3, torch.randn(width), torch.randn(width)


def merge_exactly(x: Tensor, grids: tuple[tuple[int, int, int], ...], by: tuple[int, int], *affine: Tensor) -> Tensor:
    tokens, first = [], 0
    for t, h, w in grids:
        mean = x[first : first + t * h * w].double().view(t, h, w, -1).mean(0)
        first += t * h * w
        centred = mean - mean.mean(-1, keepdim=True)
        normed = centred / (centred.square().mean(-1, keepdim=True) + EPS).sqrt()
        normed = normed * affine[0].double() + affine[1].double()
        for row in range(0, h, by[0]):
            for column in range(0, w, by[1]):
                tokens.append(normed[row : row + by[0], column : column + by[1]].flatten())
    return torch.stack(tokens)


@pytest.mark.parametrize(
    ("by", "width"), [((2, 2), 48), ((2, 2), 1152), ((1, 2), 20), ((2, 1), 16), ((1, 1), 16)]
)  # fmt: skip
def test_fp32_is_exact(by: tuple[int, int], width: int) -> None:
    x, weight, bias = make_inputs(GRIDS, width)
    found = kernels.merge_patches(x, GRIDS, by, weight, bias, EPS)
    assert relative_error(found, merge_exactly(x, GRIDS, by, weight, bias)) < 1e-6


def test_three_neighbours_are_no_power_of_two() -> None:
    grids = ((2, 3, 2), (1, 6, 1))
    x, weight, bias = make_inputs(grids, 16)
    found = kernels.merge_patches(x, grids, (3, 1), weight, bias, EPS)
    assert relative_error(found, merge_exactly(x, grids, (3, 1), weight, bias)) < 1e-6


def test_bf16_within_its_rounding() -> None:
    x, weight, bias = (tensor.bfloat16() for tensor in make_inputs(GRIDS, 1152))
    found = kernels.merge_patches(x, GRIDS, (2, 2), weight, bias, EPS)
    assert found.dtype == torch.bfloat16
    assert relative_error(found, merge_exactly(x, GRIDS, (2, 2), weight, bias)) < 1e-2


def test_equal_to_the_reference() -> None:
    x, weight, bias = make_inputs(GRIDS, 48)
    expected = reference.merge_patches(x, list(GRIDS), (2, 2), weight, bias, EPS)
    assert relative_error(kernels.merge_patches(x, list(GRIDS), (2, 2), weight, bias, EPS), expected) < 1e-5


def test_nothing_is_read_or_written_beside() -> None:
    """Strided rows with NaN between them, and an item of NaN, which stays alone."""
    x, weight, bias = make_inputs(GRIDS, 12)
    exact = merge_exactly(x, GRIDS, (2, 2), weight, bias)
    wide = guarded(torch.full((len(x), 28), torch.nan))
    wide[:, 4:16] = x
    wide[8:56] = torch.nan  # the second item, tokens 2 to 4
    out = poisoned(*exact.shape)
    run(kernels.make_merge(wide[:, 4:16], GRIDS, (2, 2), (guarded(weight), guarded(bias)), EPS, out))
    kept = torch.tensor([0, 1, 5, 6, 7])
    assert relative_error(out[kept], exact[kept]) < 1e-6
    assert out[2:5].isnan().all()
    assert_guards(wide, out)


def test_rows_of_equal_values_give_the_bias() -> None:
    _, weight, bias = make_inputs((), 16)
    found = kernels.merge_patches(torch.full((4, 16), 7.0), [(1, 2, 2)], (2, 2), weight, bias, EPS)
    assert torch.allclose(found, bias.repeat(1, 4))


def test_work_is_a_line_for_each_row_of_tokens_and_is_kept() -> None:
    grids = ((2, 4, 2), (1, 2, 6))
    plan = kernels.plan_work(grids, (2, 2), torch.device("cpu"))
    assert plan.tolist() == [[0, 0, 2, 8, 2], [4, 1, 2, 8, 2], [16, 2, 6, 12, 1]]
    assert kernels.plan_work(grids, (2, 2), torch.device("cpu")) is plan


def test_no_items() -> None:
    x, weight, bias = make_inputs((), 16)
    assert kernels.merge_patches(x, [], (2, 2), weight, bias, EPS).shape == (0, 64)


def test_what_it_cannot_do_is_said() -> None:
    x, weight, bias = make_inputs(((1, 2, 2),), 16)
    with pytest.raises(LaunchError, match="x has 4 patches, expected 8 of 1 items"):
        kernels.merge_patches(x, [(2, 2, 2)], (2, 2), weight, bias, EPS)
    with pytest.raises(LaunchError, match=r"1 frames of 1 x 4 patches; expected multiples of \(2, 2\)"):
        kernels.merge_patches(x, [(1, 1, 4)], (2, 2), weight, bias, EPS)
    with pytest.raises(LaunchError, match="an item of 0 frames"):
        kernels.merge_patches(x, [(0, 2, 2)], (2, 2), weight, bias, EPS)
    with pytest.raises(LaunchError, match="bias has the shape"):
        kernels.merge_patches(x, [(1, 2, 2)], (2, 2), weight, bias[:4], EPS)
    with pytest.raises(LaunchError, match="x is float64"):
        kernels.merge_patches(x.double(), [(1, 2, 2)], (2, 2), weight, bias, EPS)
    with pytest.raises(LaunchError, match="x has the strides"):
        kernels.merge_patches(x[:, ::2], [(1, 2, 2)], (2, 2), weight[:8], bias[:8], EPS)
    with pytest.raises(LaunchError, match="x has the shape"):
        kernels.merge_patches(x[None], [(1, 2, 2)], (2, 2), weight, bias, EPS)
