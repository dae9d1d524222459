"""Run code about pictures in isolation: IPython kernels without network, with hard limits."""

from visual_tools.sandbox.contract import (
    Backend,
    CellError,
    CellImage,
    CellResult,
    Kernel,
    KernelMaker,
    Limits,
    Status,
)

__all__ = ["Backend", "CellError", "CellImage", "CellResult", "Kernel", "KernelMaker", "Limits", "Status"]
