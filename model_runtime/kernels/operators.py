"""Importing this registers the operators of the backend `triton`; what is not here the reference gives."""

from model_runtime.kernels import (
    latent,
    merge_patches,
    mla_decode,
    mla_prefill,
    moe,
    norm,
    overlap,
    router,
    vision_attention,
)

__all__ = [
    "latent",
    "merge_patches",
    "mla_decode",
    "mla_prefill",
    "moe",
    "norm",
    "overlap",
    "router",
    "vision_attention",
]
