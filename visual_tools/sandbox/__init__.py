"""Run code about images in isolation: IPython kernels without network, with hard limits."""

import importlib
from typing import TYPE_CHECKING

from visual_tools.sandbox.contract import (
    Backend,
    CellError,
    CellImage,
    CellResult,
    Kernel,
    KernelLimits,
    KernelMaker,
    Status,
)

if TYPE_CHECKING:
    from visual_tools.sandbox.sandbox import Sandbox as Sandbox

__all__ = [
    "Backend",
    "CellError",
    "CellImage",
    "CellResult",
    "Kernel",
    "KernelLimits",
    "KernelMaker",
    "Sandbox",
    "Status",
]


def __getattr__(name: str) -> object:
    """Load the module of `Sandbox` on first use."""
    if name != "Sandbox":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("visual_tools.sandbox.sandbox").Sandbox
