"""The bf16 matrix-vector kernels, each by itself, for a few tokens."""

from collections.abc import Iterator

from benchmarks.kernels import expert_halves
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.case import Case


def cases(bench: Bench) -> Iterator[Case]:
    """Both at every number of tokens that they are for."""
    return expert_halves.list_cases(bench, "moe_gemv_dense", "bf16", is_sorted=False)
