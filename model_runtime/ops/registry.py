"""Selection of an operator's implementation for a model, and the operators' arguments that are not tensors.

An implementation registers itself under the operator's name and its backend; `find_ops` collects, for one device, the
set that one model then holds. There is no global state, so two models in one process may use different kernels.
"""

import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import torch
from torch import Tensor

from model_runtime.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteOptions:
    """Options for the choice of experts. Source: DeepSeek-V3 report (arXiv 2412.19437), section 2.1.2.

    Attributes:
        top_k: Experts per token.
        n_group: Number of contiguous groups of experts; 1 for no groups.
        topk_group: Number of groups that a token may choose from.
        norm_topk_prob: True to divide the chosen scores by their sum.
        scale: Factor on the weights.
    """

    top_k: int
    n_group: int = 1
    topk_group: int = 1
    norm_topk_prob: bool = True
    scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseExperts:
    """Experts in the model's own dtype.

    Attributes:
        gate_up: (E, 2 * intermediate, hidden): the gate's rows, then the up projection's.
        down: (E, hidden, intermediate).
    """

    gate_up: Tensor
    down: Tensor

    @property
    def num_experts(self) -> int:
        """Number of experts held here."""
        return self.gate_up.shape[0]

    @property
    def intermediate_size(self) -> int:
        """Inner width of one expert."""
        return self.down.shape[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4Experts:
    """Experts as packed in the release: groups of `group_size` inputs share one scale.

    One int32 holds eight inputs, the first in the lowest four bits, each as value + 8.

    Attributes:
        gate_up_packed: (E, 2 * intermediate, hidden / 8) int32.
        gate_up_scale: (E, 2 * intermediate, hidden / group_size) of the checkpoint's dtype, bf16 in the release.
        down_packed: (E, hidden, intermediate / 8) int32.
        down_scale: (E, hidden, intermediate / group_size), as `gate_up_scale`.
        group_size: Inputs under one scale.
    """

    gate_up_packed: Tensor
    gate_up_scale: Tensor
    down_packed: Tensor
    down_scale: Tensor
    group_size: int = 32

    @property
    def num_experts(self) -> int:
        """Number of experts held here."""
        return self.gate_up_packed.shape[0]

    @property
    def intermediate_size(self) -> int:
        """Inner width of one expert."""
        return self.gate_up_packed.shape[1] // 2


Experts = DenseExperts | Int4Experts


class CuSeqlens:
    """Bounds of concatenated sequences: sequence s has the rows `bounds[s]:bounds[s + 1]`.

    The bounds are on the host, with a cached copy on the device, so that no layer has to wait for either.
    """

    __slots__ = ("_on_device", "bounds", "max_len")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = tuple(bounds)
        self.max_len = max((end - start for start, end in self.spans()), default=0)
        self._on_device: Tensor | None = None

    @classmethod
    def of_lengths(cls, lengths: Sequence[int]) -> "CuSeqlens":
        """Return the bounds for the sequences' lengths."""
        bounds = [0]
        for length in lengths:
            bounds.append(bounds[-1] + length)
        return cls(bounds)

    def spans(self) -> list[tuple[int, int]]:
        """Return (first row, row after the last) of each sequence."""
        return list(zip(self.bounds[:-1], self.bounds[1:], strict=True))

    def on(self, device: torch.device) -> Tensor:
        """Return (S + 1,) int32 on `device`; copied there once."""
        if self._on_device is None or self._on_device.device != device:
            self._on_device = torch.tensor(self.bounds, dtype=torch.int32, device=device)
        return self._on_device


MODULES = {
    "torch": "model_runtime.ops.reference",
    "triton": "model_runtime.kernels.operators",
    "autograd": "model_runtime.training.operators",
    "invariant": "model_runtime.ops.invariant",
}
"""Module of each backend, which registers the operators when it is imported."""

_registered: dict[tuple[str, str], Callable[..., Any]] = {}

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ops:
    """Operators of one model. README.md in this folder documents their arguments and results."""

    rms_norm: Callable[[Tensor, Tensor, float], Tensor]
    add_rms_norm: Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]]
    route: Callable[[Tensor, Tensor, Tensor, RouteOptions], tuple[Tensor, Tensor]]
    prepare_experts: Callable[[Experts], Any]
    experts: Callable[[Tensor, Tensor, Tensor, Any], Tensor]
    run_concurrently: Callable[[Callable[[], Tensor], Callable[[], Tensor]], tuple[Tensor, Tensor]]
    write_latent: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, float, Tensor], None]
    mla_prefill: Callable[[Tensor, Tensor, Tensor, CuSeqlens, CuSeqlens, float], Tensor]
    plan_decode: Callable[[Tensor, Sequence[int], Tensor], Any]
    mla_decode: Callable[[Tensor, Tensor, Any, int, float], Tensor]
    vision_attention: Callable[[Tensor, Tensor, CuSeqlens], Tensor]
    merge_patches: Callable[[Tensor, Sequence[tuple[int, int, int]], tuple[int, int], Tensor, Tensor, float], Tensor]


def register(name: str, backend: str) -> Callable[[F], F]:
    """Return a decorator that registers a function as the backend's implementation of operator `name`.

    Raises:
        KeyError: If the operator does not exist.
    """
    if name not in {field.name for field in fields(Ops)}:
        raise KeyError(f"there is no operator {name!r}")

    def keep(function: F) -> F:
        _registered[name, backend] = function
        return function

    return keep


def find_backends(device: torch.device, kernels: str = "auto") -> tuple[str, ...]:
    """Return backends in order of preference: an operator missing in the first comes from the next one.

    Raises:
        ConfigError: If `kernels` is not one of `auto`, `torch`, `triton`, `autograd`, `invariant`.
    """
    if kernels not in ("auto", *MODULES):
        raise ConfigError(
            f"{kernels!r} is not a set of operators of this runtime. Use one of: auto, {', '.join(MODULES)}"
        )
    if kernels == "auto":
        kernels = "triton" if device.type == "cuda" and _is_there("triton") else "torch"
    return ("torch",) if kernels == "torch" else (kernels, "torch")


def find_ops(device: torch.device | str = "cpu", kernels: str = "auto") -> Ops:
    """Return the operators for a model on `device`.

    Raises:
        ConfigError: If the requested backend is not available.
    """
    backends = find_backends(torch.device(device), kernels)
    if "triton" in backends and torch.device(device).type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        text = f"the kernels 'triton' need an NVIDIA GPU, and the device is {device}"
        raise ConfigError(f"{text}. Use the kernels 'torch', or set TRITON_INTERPRET=1 to try them, which is slow")
    for backend in backends:
        _load_backend(backend)
    return Ops(**{field.name: get_op(field.name, backends) for field in fields(Ops)})


def get_op(name: str, backends: Sequence[str]) -> Callable[..., Any]:
    """Return the first of the backends' implementations of an operator.

    Raises:
        KeyError: If none of them has it.
    """
    for backend in backends:
        if (name, backend) in _registered:
            return _registered[name, backend]
    raise KeyError(f"none of the backends {', '.join(backends)} has the operator {name!r}")


def _is_there(backend: str) -> bool:
    return all(importlib.util.find_spec(name) for name in (backend, MODULES[backend]))


def _load_backend(backend: str) -> None:
    try:
        importlib.import_module(MODULES[backend])
    except ImportError as error:
        text = f"the operators of the backend {backend!r} cannot be loaded here: {error}"
        raise ConfigError(f"{text}. Use the backend 'torch', which runs everywhere") from error
