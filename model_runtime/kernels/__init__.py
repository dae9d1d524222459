"""Our own kernels in Triton, for NVIDIA GPUs. README.md says what each file is; `operators` registers them."""
