"""Run code about images in isolation: IPython kernels without network, with hard limits."""

import importlib
from typing import TYPE_CHECKING, Any

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
    from visual_tools.sandbox.backends import BackendReport as BackendReport
    from visual_tools.sandbox.backends import describe_backends as describe_backends
    from visual_tools.sandbox.inside import describe_inside as describe_inside
    from visual_tools.sandbox.sandbox import Sandbox as Sandbox

_HOME_OF = {
    "BackendReport": "visual_tools.sandbox.backends",
    "describe_backends": "visual_tools.sandbox.backends",
    "describe_inside": "visual_tools.sandbox.inside",
    "Sandbox": "visual_tools.sandbox.sandbox",
}

__all__ = [
    "Backend",
    "BackendReport",
    "CellError",
    "CellImage",
    "CellResult",
    "Kernel",
    "KernelLimits",
    "KernelMaker",
    "Sandbox",
    "Status",
    "describe_backends",
    "describe_inside",
]


def __getattr__(name: str) -> Any:
    """Load the module that holds a public name on first use."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
