"""Continuous batching over a paged latent cache."""
