"""Importing this registers the operators of the backend `triton`; what is not here the reference gives."""

from model_runtime.kernels import library, mla_decode, moe, overlap

__all__ = ["library", "mla_decode", "moe", "overlap"]
