"""Launches at the release's sizes, for the ahead-of-time check: each kernel's file lists its own in `release_cases`."""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass

from model_runtime.kernels.launch import Launch

MODULES = (
    "router",
    "dispatch",
    "moe_gemv_int4",
    "moe_gemv_dense",
    "moe_int4",
    "moe_dense",
    "combine",
    "mla_decode",
    "mla_prefill",
    "vision_attention",
    "merge_patches",
    "norm",
    "latent",
)
"""Files of this package that have a `release_cases()`; it gives `Case`s whose tensors are on the meta device."""

MAX_SHARED_BYTES = 232_448
"""Shared memory of one block on Hopper, 227 KiB. Source: CUDA C++ programming guide, compute capability 9.0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One specialisation that is shipped, and what the compiler must make of it. Stack and spills are 0 for all.

    Attributes:
        name: Unique; the file's name, a dot, and what sets it apart, for example `moe_int4.gate_up M64`.
        launch: At sizes of the release.
        has_wgmma: Hopper's matrix instruction over a group of four warps must be used.
        has_async_copy: Global memory must be copied to shared memory behind the arithmetic (cp.async or TMA).
        max_int_to_float: Most integer-to-float conversions in its machine code; None is any number.
        max_registers: Of a thread; 255 is the hardware's.
    """

    name: str
    launch: Launch
    has_wgmma: bool = False
    has_async_copy: bool = False
    max_int_to_float: int | None = None
    max_registers: int = 255


def release_cases() -> Iterator[Case]:
    """All of them."""
    for name in MODULES:
        yield from importlib.import_module(f"model_runtime.kernels.{name}").release_cases()
