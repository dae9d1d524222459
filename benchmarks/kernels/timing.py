"""How long one call takes: calls with rotated inputs, recorded once, repeated, the median."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.kernels.device import Call, Device

BEYOND_L2 = 4
"""All copies of the inputs together are this many times the L2 cache, which does not strictly drop its oldest lines."""

MAX_COPIES = 256
MIN_PASS_S = 500e-6
"""Shorter passes repeat their calls, since an event is only good to about a microsecond."""

MIN_SAMPLES, MAX_SAMPLES = 5, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One figure.

    Attributes:
        us: Microseconds of one call, the median of the samples.
        num_samples: Passes over all copies.
        is_recorded: Whether the host's work was left out, as in a CUDA graph.
    """

    us: float
    num_samples: int
    is_recorded: bool


def count_copies(call_bytes: float, l2_bytes: int) -> int:
    """How many distinct inputs keep a call of so many bytes from finding its own in the L2 cache."""
    return max(1, min(MAX_COPIES, -int(-BEYOND_L2 * l2_bytes // max(call_bytes, 1))))


def is_cold(call_bytes: float, l2_bytes: int) -> bool:
    """Whether that many copies are enough; tiny inputs would need too many."""
    return count_copies(call_bytes, l2_bytes) * call_bytes >= 2 * l2_bytes


def measure(device: Device, calls: Sequence[Call], *, seconds: float, is_recorded: bool = True) -> Timing:
    """The median time of one of `calls`, which do the same with different inputs.

    One call that takes longer than all repetitions should is timed once and as it is, the host's work included.

    Args:
        device: Where they run.
        calls: One for each copy of the inputs.
        seconds: About how long to repeat.
        is_recorded: Whether to leave the host's work out; a call that waits for the device cannot be recorded.
    """
    calls[0]()
    device.wait()
    if (once := device.time(calls[0])) > seconds:
        return Timing(us=once * 1e6, num_samples=1, is_recorded=False)
    for call in calls[1:]:
        call()
    device.wait()
    once = max(device.time(_chain(calls)), 1e-9)
    calls = list(calls) * max(1, min(MAX_COPIES // len(calls), int(MIN_PASS_S / once)))
    run = _record(device, calls) if is_recorded else None
    is_recorded, run = run is not None, run or _chain(calls)
    run()
    device.wait()
    one_pass = max(device.time(run), 1e-9)
    count = max(MIN_SAMPLES, min(MAX_SAMPLES, int(seconds / one_pass)))
    samples = [device.time(run) / len(calls) for _ in range(count)]
    return Timing(us=statistics.median(samples) * 1e6, num_samples=count, is_recorded=is_recorded)


def _record(device: Device, calls: Sequence[Call]) -> Call | None:
    """None where something in the calls does not let itself be recorded."""
    try:
        return device.record(calls)
    except RuntimeError:
        return None


def _chain(calls: Sequence[Call]) -> Call:
    def run() -> None:
        for call in calls:
            call()

    return run
