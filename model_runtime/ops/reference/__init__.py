"""Reference implementation of the operators in plain torch, for every device."""

from model_runtime.ops.reference import attention, moe, norm

__all__ = ["attention", "moe", "norm"]
