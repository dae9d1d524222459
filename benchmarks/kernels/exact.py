"""What operators should give, in float64, on a sample that is small enough to afford."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


class EmptyCheckError(Exception):
    """The result is more exact than its precision allows, so that the check has compared nothing."""


LEAST_ERRORS = {dtype: torch.finfo(dtype).eps / 128 for dtype in (torch.bfloat16, torch.float16, torch.float32)}
"""Least relative error of a result that was computed and rounded, by its dtype.

Rounding alone is off by up to a quarter of eps of the largest value, evenly spread: the largest error of four such
values is below a 32nd of that once in a million.
"""


def relative_error(found: Tensor, exact: Tensor, rounded_to: torch.dtype | None = None) -> float:
    """Return the largest difference over the largest exact value; NaN anywhere is NaN.

    Args:
        found: The result; of integers or float64, it may be equal.
        exact: What it should be.
        rounded_to: Precision of the result; None: its dtype.

    Raises:
        EmptyCheckError: The error is below what that precision gives.
    """
    difference = (found.double() - exact.double()).abs().max()
    error = float(difference / exact.double().abs().max().clamp_min(1e-30))
    dtype = rounded_to or found.dtype
    if error < LEAST_ERRORS.get(dtype, 0.0):
        name = str(dtype).removeprefix("torch.")
        raise EmptyCheckError(f"an error of {error:.1e} is less than rounding to {name} gives: nothing was compared")
    return error


def sample_rows(count: int, most: int = 4) -> list[int]:
    """At most so many rows, the first and the last among them."""
    return sorted({round(index * (count - 1) / max(most - 1, 1)) for index in range(most)})


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Any x, in float64."""
    wide = x.double()
    return wide * (wide.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * weight.double()


def route(hidden: Tensor, weight: Tensor, bias: Tensor, top_k: int, scale: float) -> Tensor:
    """(N, E): each expert's weight for each row, 0 for those that are not chosen."""
    scores = (hidden.double() @ weight.double().t()).sigmoid()
    ids = (scores + bias.double()).topk(top_k, dim=-1).indices
    chosen = scores.gather(1, ids)
    return torch.zeros_like(scores).scatter_(1, ids, scale * chosen / chosen.sum(-1, keepdim=True))


def experts(hidden: Tensor, weights: Tensor, ids: Tensor, read: Callable[[int], tuple[Tensor, Tensor]]) -> Tensor:
    """Routed experts of a few rows; `read` gives an expert's gate_up (2I, H) and down (H, I)."""
    out = torch.zeros_like(hidden, dtype=torch.float64)
    for expert in sorted(set(ids.flatten().tolist())):
        rows, places = (ids == expert).nonzero(as_tuple=True)
        gate_up, down = read(expert)
        result = mlp(hidden[rows], gate_up, down) * weights[rows, places].double().unsqueeze(1)
        out.index_add_(0, rows, result)
    return out


def mlp(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """SwiGLU between two matmuls."""
    return gate_up_rows(x, gate_up) @ down.double().t()


def gate_up_rows(x: Tensor, weight: Tensor) -> Tensor:
    """(N, H), (2I, H) -> (N, I): silu(gate x) * up x."""
    gate, up = (x.double() @ weight.double().t()).chunk(2, dim=-1)
    return F.silu(gate) * up


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """(queries, dim), (keys, dim), (keys, value_dim) -> (queries, value_dim); no mask."""
    return (q.double() @ k.double().t() * scale).softmax(-1) @ v.double()


def rotate(x: Tensor, rotations: Tensor) -> Tensor:
    """(N, heads, dim) with pairs of neighbours turned by (N, dim / 2)."""
    pairs = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * rotations.to(torch.complex128).unsqueeze(1)).flatten(-2)
