"""Benchmarks of the K2.5 runtime; each prints our figure beside a peer's from the same run."""
