"""What the kernels' tests share: memory with guard bands, and how far a result is from float64."""

import torch
from torch import Tensor

GUARD = 64
"""Values on each side of a guarded tensor; a multiple of every alignment that kernels ask for."""


def guarded(tensor: Tensor) -> Tensor:
    """A contiguous copy between bands of NaN (or of the largest int): reads and writes beyond it show."""
    return _place(tensor.contiguous(), poison(tensor.dtype))


def poisoned(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """An output full of NaN (or of the largest int) between such bands: what is not written shows."""
    return _place(torch.full(shape, poison(dtype), dtype=dtype), poison(dtype))


def poison(dtype: torch.dtype) -> float | int:
    return float("nan") if dtype.is_floating_point else torch.iinfo(dtype).max


def assert_guards(*tensors: Tensor) -> None:
    """Nothing was written beside tensors of `guarded` or `poisoned`."""
    for tensor in tensors:
        base = tensor._base
        assert base is not None
        for band in (base[:GUARD], base[-GUARD:]):
            clean = band.isnan() if tensor.dtype.is_floating_point else band == poison(tensor.dtype)
            assert clean.all(), f"a kernel wrote beside a tensor of shape {tuple(tensor.shape)}"


def _place(tensor: Tensor, value: float | int) -> Tensor:
    room = torch.full((tensor.numel() + 2 * GUARD,), value, dtype=tensor.dtype)
    room[GUARD : GUARD + tensor.numel()] = tensor.flatten()
    return room[GUARD : GUARD + tensor.numel()].view(tensor.shape)


def relative_error(found: Tensor, exact: Tensor) -> float:
    """Largest difference over the largest exact value."""
    assert found.shape == exact.shape
    return ((found.double() - exact.double()).abs().max() / exact.double().abs().max().clamp(min=1e-30)).item()
