"""Tools that a model may call, and the set that dispatches its calls."""

from cua.tools.toolset import Toolset

__all__ = ["Toolset"]
