"""Recordings of web pages with known events, for benchmarks and tests."""
