"""Registration of the operators of the backend `triton` on import; the others fall back to the reference."""

from model_runtime.kernels import library, mla_decode, moe, overlap

__all__ = ["library", "mla_decode", "moe", "overlap"]
