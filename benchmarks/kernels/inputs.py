"""Random inputs, the same in every run, made where they are used."""

import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.kernels.bench import Bench
from benchmarks.kernels.case import OURS, Peer
from benchmarks.kernels.timing import count_copies


def make_generator(device: torch.device, name: str, index: int = 0) -> torch.Generator:
    """Generator of the numbers of one tensor.

    Args:
        device: Of the tensor.
        name: Of the tensor. Tensors of a case must have different names: with one seed they would be equal in part, and
            attention with a query that equals a key of the cache is one-hot, so that its check would be empty.
        index: Number of the copy of the inputs.
    """
    return torch.Generator(device).manual_seed(zlib.crc32(f"{name} {index}".encode()))


def normal(bench: Bench, name: str, *shape: int, index: int = 0, scale: float = 1.0) -> Tensor:
    """Normal numbers times `scale`, in the sizes' dtype; see `make_generator`."""
    place = bench.device.torch_device
    values = torch.empty(shape, dtype=bench.sizes.dtype, device=place)
    return values.normal_(std=scale, generator=make_generator(place, name, index))


def turns(bench: Bench, rows: int, width: int, index: int = 0) -> Tensor:
    """(rows, width) complex64 of length 1, as rotary positions are."""
    place = bench.device.torch_device
    generator = make_generator(place, "turns", index)
    angles = torch.rand(rows, width, generator=generator, device=place) * (2 * torch.pi)
    return torch.polar(torch.ones_like(angles), angles)


def copies_of(bench: Bench, call_bytes: float, make: Callable[[int], tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """As many copies as keep a call's bytes out of the L2 cache; `make` gets each one's number."""
    return [make(index) for index in range(count_copies(call_bytes, bench.device.l2_bytes))]


def our(bench: Bench, operator: str, **more: Any) -> Peer:
    """Our kernel of an operator."""
    return Peer(name=OURS, make=lambda: bench.candidates(operator), **more)


def compiled(bench: Bench, function: Callable[..., Any], **more: Any) -> Peer:
    """The same torch code through torch.compile."""
    return Peer(name="torch.compile", make=lambda: bench.device.compile(function), **more)


def reference(function: Callable[..., Any], **more: Any) -> Peer:
    """The operator in torch."""
    return Peer(name="torch", make=lambda: function, **more)
