"""Operators with one signature and one implementation per kind of device."""

from model_runtime.ops.registry import (
    CuSeqlens,
    DenseExperts,
    Experts,
    Int4Experts,
    Ops,
    RouteOptions,
    find_ops,
    register,
)

__all__ = [
    "CuSeqlens",
    "DenseExperts",
    "Experts",
    "Int4Experts",
    "Ops",
    "RouteOptions",
    "find_ops",
    "register",
]
