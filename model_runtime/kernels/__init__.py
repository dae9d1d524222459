"""Triton kernels for NVIDIA GPUs. README.md describes each file; `operators` registers them."""
