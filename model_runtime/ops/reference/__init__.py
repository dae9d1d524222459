"""The operators in plain torch: what they mean, on every device."""

from model_runtime.ops.reference import attention, moe, norm

__all__ = ["attention", "moe", "norm"]
