"""The grouped INT4 matmuls, each by itself, for batches."""

from collections.abc import Iterator

from benchmarks.kernels import expert_halves
from benchmarks.kernels.bench import Bench
from benchmarks.kernels.case import Case


def cases(bench: Bench) -> Iterator[Case]:
    """Both at every number of tokens that they are for."""
    return expert_halves.list_cases(bench, "moe_int4", "int4", is_sorted=True)
