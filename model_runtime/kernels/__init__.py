"""The operators in Triton, for NVIDIA GPUs. Importing this registers them; what is not here the reference gives."""
