"""The operators in plain torch: what they mean, on every device."""

from model_runtime.ops.reference import attention, decode, moe, norm, pool

__all__ = ["attention", "decode", "moe", "norm", "pool"]
