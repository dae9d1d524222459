"""How much to try: little with the other tests, FUZZ_EXAMPLES with `make fuzz`."""

import os
import time
from contextlib import contextmanager

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
MAX_CPU_S = 3.0

fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


@contextmanager
def bounded_time(max_cpu_s=MAX_CPU_S):
    """Fails when the block takes more processor time than any reply may cost."""
    started = time.thread_time()
    yield
    spent = time.thread_time() - started
    assert spent < max_cpu_s, f"took {spent:.1f} s"
