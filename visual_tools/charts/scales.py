"""Fit what numbers mean which pixels, though some may be misread."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

import numpy as np

from visual_tools.charts.values import Reading

Kind = Literal["linear", "log"]

_MIN_TOLERANCE_PX = 2.0
_TOLERANCE_SHARE = 0.006
_POWER_BONUS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A tick: its pixel along the axis, and the numbers that its label may mean."""

    px: float
    readings: tuple[Reading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A line through ticks: `intercept + slope * px` is the value, or its decimal logarithm.

    Attributes:
        values: For each mark the number it was taken for; None for one that does not fit.
        residual_px: Root mean square of how far the ticks that fit are from the line.
    """

    kind: Kind
    slope: float
    intercept: float
    values: tuple[float | None, ...]
    residual_px: float


def fit_scale(marks: Sequence[Mark]) -> Scale | None:
    """The scale that most marks agree on; None when fewer than half, or fewer than three of three, do.

    Every pair of readings proposes a line, and the others vote (random sample consensus, without the randomness).

    Source: M. Fischler and R. Bolles, Random sample consensus, Communications of the ACM 24 (1981).
    """
    readable = [mark for mark in marks if mark.readings]
    if len(readable) < 2:
        return None
    span_px = max(mark.px for mark in readable) - min(mark.px for mark in readable)
    tolerance_px = max(_MIN_TOLERANCE_PX, _TOLERANCE_SHARE * span_px)
    best: tuple[float, Kind, list[Reading | None]] | None = None
    for kind, slope, intercept in _propose(readable):
        chosen = [_choose(mark, kind, slope, intercept, tolerance_px) for mark in marks]
        used = [reading for reading in chosen if reading is not None]
        score = sum(reading.weight for reading in used)
        if kind == "log" and all(reading.is_power for reading in used):
            score += _POWER_BONUS
        if best is None or score > best[0] + 1e-9:
            best = score, kind, chosen
    if best is None or not _is_enough(best[2], len(readable)):
        return None
    return _fit_line(marks, best[1], best[2])


def transform(value: float, kind: Kind) -> float:
    """What is linear in pixels."""
    return math.log10(value) if kind == "log" else value


def _propose(marks: Sequence[Mark]) -> Iterator[tuple[Kind, float, float]]:
    kinds: tuple[Kind, ...] = ("linear", "log")
    for kind in kinds:
        for first, second in combinations(marks, 2):
            for a, b in product(first.readings, second.readings):
                if a.value == b.value or first.px == second.px or (kind == "log" and min(a.value, b.value) <= 0):
                    continue
                low, high = transform(a.value, kind), transform(b.value, kind)
                slope = (high - low) / (second.px - first.px)
                yield kind, slope, low - slope * first.px


def _choose(mark: Mark, kind: Kind, slope: float, intercept: float, tolerance_px: float) -> Reading | None:
    for reading in mark.readings:
        if kind == "log" and reading.value <= 0:
            continue
        if abs((transform(reading.value, kind) - intercept) / slope - mark.px) <= tolerance_px:
            return reading
    return None


def _is_enough(chosen: Sequence[Reading | None], num_readable: int) -> bool:
    num_used = sum(reading is not None for reading in chosen)
    return num_used >= min(num_readable, 3) and 2 * num_used >= num_readable


def _fit_line(marks: Sequence[Mark], kind: Kind, chosen: Sequence[Reading | None]) -> Scale:
    values = [None if reading is None else reading.value for reading in chosen]
    pairs = [(mark.px, transform(v, kind)) for mark, v in zip(marks, values, strict=True) if v is not None]
    px, levels = np.array(pairs, np.float64).T
    slope, intercept = np.polyfit(px - px.mean(), levels, 1)
    errors_px = (levels - intercept - slope * (px - px.mean())) / slope
    return Scale(
        kind=kind,
        slope=float(slope),
        intercept=float(intercept - slope * px.mean()),
        values=tuple(values),
        residual_px=float(np.sqrt(np.mean(errors_px**2))),
    )
