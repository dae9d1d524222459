"""Norms in the interpreter, against float64 written out here."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from model_runtime.kernels import norm as kernels
from model_runtime.kernels.launch import LaunchError, run
from model_runtime.ops.reference import norm as reference
from tests.model_runtime.kernels.tools import assert_guards, guarded, poisoned, relative_error

EPS = 1e-5


def norm_exactly(x: Tensor, weight: Tensor) -> Tensor:
    x = x.double()
    return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * weight.double()


def make_inputs(rows: int, width: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(rows, width).to(dtype), torch.randn(rows, width).to(dtype), torch.randn(width).to(dtype)


@pytest.mark.parametrize("width", [1, 5, 64, 512, 1536, 7168])
def test_fp32_is_exact(width: int) -> None:
    x, residual, weight = make_inputs(3, width)
    assert relative_error(kernels.rms_norm(x, weight, EPS), norm_exactly(x, weight)) < 1e-6
    found, total = kernels.add_rms_norm(x, residual, weight, EPS)
    assert relative_error(found, norm_exactly(x.double() + residual.double(), weight)) < 1e-6
    assert torch.equal(total, x + residual)


@pytest.mark.parametrize("width", [64, 7168])
def test_bf16_within_its_rounding(width: int) -> None:
    x, residual, weight = make_inputs(2, width, torch.bfloat16)
    assert relative_error(kernels.rms_norm(x, weight, EPS), norm_exactly(x, weight)) < 1e-2
    found, total = kernels.add_rms_norm(x, residual, weight, EPS)
    assert found.dtype == total.dtype == torch.bfloat16
    assert relative_error(total, x.double() + residual.double()) < 1e-2
    assert relative_error(found, norm_exactly(total, weight)) < 1e-2


def test_the_sum_is_rounded_before_it_is_normed() -> None:
    x, residual, weight = make_inputs(4, 512, torch.bfloat16)
    found, total = kernels.add_rms_norm(x, residual, weight, EPS)
    assert torch.equal(found, kernels.rms_norm(total, weight, EPS))


def test_equal_to_the_reference() -> None:
    x, residual, weight = make_inputs(3, 64)
    assert relative_error(kernels.rms_norm(x, weight, EPS), reference.rms_norm(x, weight, EPS)) < 1e-6
    for found, expected in zip(
        kernels.add_rms_norm(x, residual, weight, EPS), reference.add_rms_norm(x, residual, weight, EPS), strict=True
    ):
        assert relative_error(found, expected) < 1e-6


def test_nothing_is_read_or_written_beside() -> None:
    """Strided rows with NaN between them; a row of NaN stays alone."""
    x, residual, weight = make_inputs(3, 20)
    exact = norm_exactly(x.double() + residual.double(), weight)
    wide, wider = (guarded(torch.full((3, width), torch.nan)) for width in (28, 36))
    wide[:, 4:24], wider[:, 12:32] = x, residual
    wide[1] = torch.nan
    out, total = poisoned(3, 20), poisoned(3, 20)
    run(kernels.make_rms_norm(wide[:, 4:24], guarded(weight), EPS, out, wider[:, 12:32], total))
    assert relative_error(out[::2], exact[::2]) < 1e-6
    assert out[1].isnan().all() and not out[::2].isnan().any()
    assert torch.equal(total[::2], (x + residual)[::2])
    assert_guards(wide, wider, out, total)


def test_a_kernel_starts_on_the_device_of_its_tensors() -> None:
    x, _, weight = make_inputs(3, 64)
    out, before, entered = torch.zeros_like(x), [], []

    @contextmanager
    def enter(device: torch.device) -> Iterator[None]:
        before.append(bool(out.any()))
        yield
        entered.append((device, bool(out.any())))

    run(kernels.make_rms_norm(x, weight, EPS, out), enter=enter)
    assert (before, entered) == ([False], [(x.device, True)])


def test_zeros_and_no_rows() -> None:
    weight = torch.ones(8)
    assert torch.equal(kernels.rms_norm(torch.zeros(2, 8), weight, EPS), torch.zeros(2, 8))
    assert kernels.rms_norm(torch.zeros(0, 8), weight, EPS).shape == (0, 8)


def test_warps_follow_the_width() -> None:
    assert [kernels.find_warps(block, 1) for block in (16, 512, 2048, 8192, 65536)] == [1, 1, 4, 16, 16]
    assert kernels.find_warps(8192, 4096) == 8


def test_what_it_cannot_do_is_said() -> None:
    x, residual, weight = make_inputs(2, 8)
    with pytest.raises(LaunchError, match=r"x has the shape \(2, 2, 8\)"):
        kernels.rms_norm(torch.stack((x, x)), weight, EPS)
    with pytest.raises(LaunchError, match=r"weight has the shape \(8,\), expected \(4\)"):
        kernels.rms_norm(x[:, :4], weight, EPS)
    with pytest.raises(LaunchError, match="x is float64"):
        kernels.rms_norm(x.double(), weight, EPS)
    with pytest.raises(LaunchError, match="x has the strides"):
        kernels.rms_norm(x[:, ::2], weight[:4], EPS)
    with pytest.raises(LaunchError, match="residual is bfloat16, expected float32"):
        kernels.add_rms_norm(x, residual.bfloat16(), weight, EPS)
    with pytest.raises(LaunchError, match="residual has the shape"):
        kernels.add_rms_norm(x, residual[:1], weight, EPS)
