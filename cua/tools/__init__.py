"""Tools that a model may call, and the toolset that dispatches its calls."""

from cua.tools.toolset import Toolset

__all__ = ["Toolset"]
