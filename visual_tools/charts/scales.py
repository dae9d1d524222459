"""Parse the labels of ticks, and fit a scale from pixels to numbers despite misread labels."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

import numpy as np

_MINUS = str.maketrans("−–—‐‑﹣~", "-------")
_MISREAD = str.maketrans({"O": "0", "o": "0", "D": "0", "l": "1", "I": "1", "|": "1", "S": "5", "Z": "2", "B": "8"})
_FACTORS = {"": 1.0, "%": 1.0, "k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6, "MM": 1e6, "G": 1e9, "B": 1e9, "bn": 1e9}
_FACTORS |= {"T": 1e12, "µ": 1e-6, "°": 1.0}
_NUMBER = re.compile(
    r"^[$€£¥]?\s*(?P<sign>[-+]?)\s*[$€£¥]?\s*(?P<digits>\d{1,3}(?:[, ]\d{3})+(?:\.\d+)?|\d*[.,]?\d+|\d+[.,])"
    r"(?:e(?P<exponent>[-+]?\d{1,3}))?\s*(?P<unit>%|k|K|MM|M|m|G|B|bn|T|µ|°)?\s*[$€£¥]?$"
)
_POWER = re.compile(r"^(?P<sign>-?)(?:(?P<factor>\d+(?:\.\d+)?)\s*[x×·.]\s*)?(?P<base>10|2)$")
_SCALE = re.compile(
    r"^(?:(?:[x×]?10\^?|1e)(?P<exponent>[-+]?\d{1,3}))?(?P<offset>[-+]\d+(?:\.\d+)?(?:e[-+]?\d{1,3})?)?$"
)
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺º°", "0123456789-+00", strict=True))
_TAIL = re.compile(f"^(?P<base>.*10)(?P<exponent>[{''.join(_RAISED)}]+)$")
# Heuristics without another source; `tests/visual_tools/charts` holds the charts that they must read.
_LIKELY, _UNLIKELY = 1.0, 0.6
_MAX_LABEL_CHARS = 60
Kind = Literal["linear", "log"]
_MIN_TOLERANCE_PX = 2.0
_TOLERANCE_SHARE = 0.006
_POWER_BONUS = 0.25  # prefers a logarithmic scale whose labels are powers where two scales fit


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Possible number of a label.

    Attributes:
        value: The number.
        weight: Probability, 0 to 1.
        is_power: True if the label is a power such as 10².
    """

    value: float
    weight: float
    is_power: bool = False


def parse_label(text: str, exponent: str = "") -> tuple[Reading, ...]:
    """Parse a label (with its superscript) to its possible numbers, most likely first; empty if not a number."""
    text, exponent = text.strip().translate(_MINUS), exponent.strip().translate(_MINUS)
    text = re.sub(r"^[·_.](?=[\d.])", "-", text) if not re.match(r"^\.\d+$", text) else text
    raised = _TAIL.match(text)
    if raised is not None and not exponent:
        text, exponent = raised["base"], "".join(_RAISED[char] for char in raised["exponent"])
    if exponent:
        return _parse_power(text, exponent)
    number = _parse_number(text)
    if number is not None:
        lost_sign = () if number <= 0 else (Reading(value=-number, weight=_UNLIKELY),)
        return (Reading(value=number, weight=_LIKELY), *lost_sign)
    mended = _parse_number(text.translate(_MISREAD))
    return () if mended is None else (Reading(value=mended, weight=_UNLIKELY),)


def parse_multiplier(text: str, exponent: str = "") -> tuple[float, float] | None:
    """Parse the factor and the offset of all labels of an axis ("1e6", "×10⁶", "+2e3").

    Such a text appears once next to an axis; None for any other text.
    """
    plain = "".join(_RAISED.get(char, char) for char in (text.strip() + exponent.strip()).translate(_MINUS))
    match = _SCALE.match(plain.replace(" ", ""))
    if match is None or not match.group(0):
        return None
    return 10.0 ** int(match["exponent"] or 0), float(match["offset"] or 0.0)


def _parse_number(text: str) -> float | None:
    match = _NUMBER.match(text) if len(text) <= _MAX_LABEL_CHARS else None
    if match is None:
        return None
    digits = match["digits"]
    grouped = re.fullmatch(r"\d{1,3}(?:[, ]\d{3})+(?:\.\d+)?", digits) is not None
    plain = re.sub(r"[, ]", "", digits) if grouped else digits.replace(",", ".")
    value = float(plain) * 10.0 ** int(match["exponent"] or 0) * _FACTORS[match["unit"] or ""]
    return -value if match["sign"] == "-" else value


def _parse_power(text: str, exponent: str) -> tuple[Reading, ...]:
    match = _POWER.match(text.translate(_MISREAD))
    repaired = exponent.translate(_MISREAD).replace(" ", "")
    if match is None or re.fullmatch(r"[-+]?\d{1,3}", repaired) is None:
        return ()
    sign, factor, base = (-1.0 if match["sign"] else 1.0), float(match["factor"] or 1), float(match["base"])
    power = int(repaired)
    readings = [Reading(value=sign * factor * base**power, weight=_LIKELY, is_power=True)]
    if power > 0:
        readings.append(Reading(value=sign * factor * base**-power, weight=_UNLIKELY, is_power=True))
    return tuple(readings)


@dataclass(frozen=True, slots=True, kw_only=True)
class TickMark:
    """Tick: its pixel along the axis, and the possible numbers of its label."""

    px: float
    readings: tuple[Reading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Line through ticks: `intercept + slope * px` is the value, or its decimal logarithm.

    Attributes:
        values: Number assigned to each mark; None if it does not fit.
        residual_px: Root mean square distance from the line of the ticks that fit.
    """

    kind: Kind
    slope: float
    intercept: float
    values: tuple[float | None, ...]
    residual_px: float


def fit_scale(marks: Sequence[TickMark]) -> Scale | None:
    """Return the scale on which most marks agree; None if fewer than half, or fewer than three of three, do.

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
    """Transform a value to the scale that is linear in pixels."""
    return math.log10(value) if kind == "log" else value


def _propose(marks: Sequence[TickMark]) -> Iterator[tuple[Kind, float, float]]:
    kinds: tuple[Kind, ...] = ("linear", "log")
    for kind in kinds:
        for first, second in combinations(marks, 2):
            for a, b in product(first.readings, second.readings):
                if a.value == b.value or first.px == second.px or (kind == "log" and min(a.value, b.value) <= 0):
                    continue
                low, high = transform(a.value, kind), transform(b.value, kind)
                slope = (high - low) / (second.px - first.px)
                yield kind, slope, low - slope * first.px


def _choose(mark: TickMark, kind: Kind, slope: float, intercept: float, tolerance_px: float) -> Reading | None:
    for reading in mark.readings:
        if kind == "log" and reading.value <= 0:
            continue
        if abs((transform(reading.value, kind) - intercept) / slope - mark.px) <= tolerance_px:
            return reading
    return None


def _is_enough(chosen: Sequence[Reading | None], num_readable: int) -> bool:
    num_used = sum(reading is not None for reading in chosen)
    return num_used >= min(num_readable, 3) and 2 * num_used >= num_readable


def _fit_line(marks: Sequence[TickMark], kind: Kind, chosen: Sequence[Reading | None]) -> Scale:
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
