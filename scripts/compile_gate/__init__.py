"""Ahead-of-time check: every shipped specialisation is compiled for Hopper without a GPU, its machine code judged."""
