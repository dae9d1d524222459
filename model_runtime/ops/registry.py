"""Which implementation of an operator a model uses.

An implementation registers itself under the operator's name and its backend; `find_ops` puts together, for one device,
the set that one model then holds. Nothing global changes, so two models in one process may use different kernels.
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
from model_runtime.ops.types import CuSeqlens, Experts, RouteOptions

MODULES = {"torch": "model_runtime.ops.reference", "triton": "model_runtime.kernels.operators"}
"""What registers the operators of a backend when it is imported."""

_registered: dict[tuple[str, str], Callable[..., Any]] = {}

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ops:
    """The operators of one model. README.md beside this file says what each takes and gives."""

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
    """Make the function below the backend's implementation of operator `name`.

    Raises:
        KeyError: There is no such operator.
    """
    if name not in {field.name for field in fields(Ops)}:
        raise KeyError(f"there is no operator {name!r}")

    def keep(function: F) -> F:
        _registered[name, backend] = function
        return function

    return keep


def find_backends(device: torch.device, kernels: str = "auto") -> tuple[str, ...]:
    """Backends in order of preference: what the first does not have, the next one gives.

    Raises:
        ConfigError: `kernels` is none of `auto`, `torch`, `triton`.
    """
    if kernels not in ("auto", *MODULES):
        raise ConfigError(f"{kernels!r} are no operators of this runtime. Use one of: auto, {', '.join(MODULES)}")
    if kernels == "auto":
        kernels = "triton" if device.type == "cuda" and _is_there("triton") else "torch"
    return ("triton", "torch") if kernels == "triton" else ("torch",)


def find_ops(device: torch.device | str = "cpu", kernels: str = "auto") -> Ops:
    """The operators for a model on `device`.

    Raises:
        ConfigError: The backend asked for cannot be had here.
    """
    backends = find_backends(torch.device(device), kernels)
    if "triton" in backends and torch.device(device).type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        text = f"the kernels 'triton' need an NVIDIA GPU, and the device is {device}"
        raise ConfigError(f"{text}. Use the kernels 'torch', or set TRITON_INTERPRET=1 to try them, which is slow")
    for backend in backends:
        _load_backend(backend)
    return Ops(**{field.name: get_op(field.name, backends) for field in fields(Ops)})


def get_op(name: str, backends: Sequence[str]) -> Callable[..., Any]:
    """The first of the backends' implementations of an operator.

    Raises:
        KeyError: None of them has it.
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
