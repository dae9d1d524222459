"""Runs cases one by one, within a budget of time, and never ends because one of them fails."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from benchmarks.kernels.candidates import Candidates, NothingHereError
from benchmarks.kernels.case import Case, Inputs, Peer, Row
from benchmarks.kernels.cost.hardware import Hardware, Work
from benchmarks.kernels.device import Device
from benchmarks.kernels.exact import EmptyCheckError
from benchmarks.kernels.sizes import Sizes
from benchmarks.kernels.timing import Timing, measure
from model_runtime.errors import ConfigError
from model_runtime.ops.registry import Ops

MAX_NOTE = 120
"""Characters of an error that a row shows."""


class LostDeviceError(Exception):
    """A kernel broke the device's context, so that nothing after it can run."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bench:
    """What a run has.

    Attributes:
        device: Where it runs.
        sizes: The release's or toy ones.
        reference: The operators in torch.
        candidates: Finds our kernels.
        peaks: Measured ones; None where nothing is measured.
        seconds_left: Of the budget.
        row_seconds: About how long a row's repetitions take.
        peer_files: Of `--peers`.
    """

    device: Device
    sizes: Sizes
    reference: Ops
    candidates: Candidates
    peaks: Hardware | None
    seconds_left: Callable[[], float]
    row_seconds: float = 0.3
    peer_files: tuple[Path, ...] = field(default=())


def run_cases(cases: Iterable[Case], bench: Bench) -> Iterator[Row]:
    """The rows of all cases; inputs of one are gone before the next one's are made.

    Raises:
        LostDeviceError: After the row that says which kernel it was.
    """
    for case in cases:
        yield from run_case(case, bench)
        bench.device.tidy()


def run_case(case: Case, bench: Bench) -> Iterator[Row]:
    """One row for each peer, or one that says why there are none.

    Raises:
        LostDeviceError: After the row that says which kernel it was.
    """
    free = bench.device.free_bytes()
    if bench.seconds_left() <= 0:
        yield _empty(case, "all", "left out: the budget of time is spent")
    elif free is not None and case.needs_bytes > free:
        yield _empty(case, "all", f"left out: needs {case.needs_bytes / 1e9:.1f} GB, {free / 1e9:.1f} GB are free")
    else:
        try:
            inputs = case.setup()
        except Exception as error:
            yield _empty(case, "all", f"inputs failed: {describe(error)}")
        else:
            for peer in case.peers:
                yield from _run_peer(case, peer, inputs, bench)
        _check_device(bench.device)


def _run_peer(case: Case, peer: Peer, inputs: Inputs, bench: Bench) -> Iterator[Row]:
    """Its row; none where it has nothing for this case."""
    try:
        timing, error = time_peer(peer, inputs, bench)
    except NothingHereError:
        return
    except Exception as failure:
        row = _empty(case, peer.name, describe(failure))
        yield replace(row, is_wrong=isinstance(failure, EmptyCheckError))
        return
    wrong = ""
    if error is not None and not math.isfinite(error):
        error, wrong = None, "the result is not finite"
    notes = {
        wrong: True,
        peer.note: True,
        "no CUDA graph": not timing.is_recorded,
        "timed once": timing.num_samples == 1,
        "inputs in L2": not inputs.is_cold,
    }
    note = "; ".join(text for text, holds in notes.items() if text and holds)
    row = make_row(case, peer.name, timing, inputs.work, peaks=bench.peaks, error=error, note=note)
    yield replace(row, is_wrong=bool(wrong))


def time_peer(peer: Peer, inputs: Inputs, bench: Bench) -> tuple[Timing, float | None]:
    """Its time for one call, and how far its result is from float64; None where that is not asked."""
    function, error = peer.make(), None
    if inputs.error is not None and peer.is_checked:
        error = inputs.error(lambda copy: function(*peer.adapt(*copy)))
    calls = [partial(function, *peer.adapt(*copy)) for copy in inputs.copies]
    is_recorded = peer.is_recorded and getattr(function, "graph", True)
    return measure(bench.device, calls, seconds=bench.row_seconds, is_recorded=is_recorded), error


def make_row(
    case: Case,
    peer: str,
    timing: Timing,
    work: Work,
    *,
    peaks: Hardware | None,
    error: float | None = None,
    note: str = "",
) -> Row:
    """A row with its figures; without peaks only time and error, since then nothing is measured."""
    row = Row(kernel=case.kernel, variant=case.variant, peer=peer, size=case.size, us=timing.us, error=error, note=note)
    if peaks is None:
        return row
    return replace(
        row,
        gb_s=None if case.shows_flops else work.bytes / timing.us / 1e3,
        tflop_s=work.flops / timing.us / 1e6 if case.shows_flops else None,
        floor_share=work.floor_us(peaks) / timing.us,
    )


def _empty(case: Case, peer: str, note: str) -> Row:
    return Row(kernel=case.kernel, variant=case.variant, peer=peer, size=case.size, note=note)


def describe(error: BaseException) -> str:
    """An error in one short line."""
    text = " ".join(str(error).split())
    text = text if len(text) <= MAX_NOTE else f"{text[:MAX_NOTE]}..."
    if isinstance(error, ConfigError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _check_device(device: Device) -> None:
    try:
        device.wait()
    except Exception as error:
        raise LostDeviceError(describe(error)) from error
