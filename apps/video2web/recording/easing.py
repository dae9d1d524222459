"""Progress of a change over time, and the CSS curve that fits it best."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.video2web.pixels import RgbImage

CURVES: dict[str, tuple[float, float, float, float]] = {
    "linear": (0.0, 0.0, 1.0, 1.0),
    "ease": (0.25, 0.1, 0.25, 1.0),
    "ease-in": (0.42, 0.0, 1.0, 1.0),
    "ease-out": (0.0, 0.0, 0.58, 1.0),
    "ease-in-out": (0.42, 0.0, 0.58, 1.0),
}
"""Control points of the CSS keywords. Source: CSS Easing Functions Level 1, section 2.2."""

# Heuristics without another source; measured together in benchmarks/video2web.md, "Recordings".
_NUM_POINTS = 200
_MIN_BETWEEN = 3
_STEADY = 0.04  # maximum distance of progress from 0 or 1 to count as not begun or finished
_CHANGED = 24  # levels
_MOVED_SHARE = 0.6
_MAX_PIXELS = 20_000  # of a change are used, evenly spread


@dataclass(frozen=True, slots=True, kw_only=True)
class EasingFit:
    """Curve fitted to the progress of a change.

    Attributes:
        start_s: Start time.
        duration_s: Duration; 0 if no frame lies in between.
        easing: Name of the curve; "" if there are too few frames.
        error: Root mean square of the residual, as a share of the whole change.
    """

    start_s: float
    duration_s: float
    easing: str
    error: float


def ease(name: str, parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the progress along a curve at parts of its time, both 0 to 1; values outside are clamped."""
    x1, y1, x2, y2 = CURVES[name]
    s = np.linspace(0, 1, _NUM_POINTS)
    x = 3 * (1 - s) ** 2 * s * x1 + 3 * (1 - s) * s**2 * x2 + s**3
    y = 3 * (1 - s) ** 2 * s * y1 + 3 * (1 - s) * s**2 * y2 + s**3
    return np.interp(parts, x, y)


def fit_easing(times_s: Sequence[float], progress: Sequence[float]) -> EasingFit:
    """Fit curve, start and duration to the progress by least squares.

    Args:
        times_s: Times of the frames, ascending.
        progress: 0 before the change, 1 after it; one value per frame.
    """
    times, values = np.asarray(times_s, np.float64), np.asarray(progress, np.float64)
    started = np.flatnonzero(values > _STEADY)
    first = int(started[0]) if started.size else len(values) - 1
    unfinished = np.flatnonzero(values < 1 - _STEADY)
    last = min(int(unfinished[-1]) + 1, len(values) - 1) if unfinished.size else 0
    between = int(np.count_nonzero((values > _STEADY) & (values < 1 - _STEADY)))
    if between == 0 or last <= first:
        return EasingFit(start_s=float(times[first]), duration_s=0.0, easing="", error=0.0)
    lead_s = float(times[first] - times[max(first - 1, 0)])
    rough_s = max(float(times[last] - times[first]) + lead_s, 0.02)
    window = slice(max(first - 3, 0), last + 4)
    best = min(
        (_fit_curve(name, times[window], values[window], float(times[first]), rough_s) for name in CURVES),
        key=lambda fit: fit.error,
    )
    if between < _MIN_BETWEEN:
        return EasingFit(start_s=best.start_s, duration_s=best.duration_s, easing="", error=best.error)
    return best


def hold_frames(
    times_s: Sequence[float], progress: Sequence[float], *, gap_s: float, before_s: float
) -> tuple[list[float], list[float]]:
    """Repeat the frame shown in each gap longer than `gap_s` shortly before the next frame."""
    times, held = [times_s[0]], [progress[0]]
    for number in range(1, len(times_s)):
        if times_s[number] - times_s[number - 1] > gap_s:
            times.append(times_s[number] - before_s)
            held.append(progress[number - 1])
        times.append(times_s[number])
        held.append(progress[number])
    return times, held


def _fit_curve(
    name: str, times: NDArray[np.float64], values: NDArray[np.float64], first_s: float, rough_s: float
) -> EasingFit:
    """Fit start and duration of one curve: a coarse grid, then a fine one around the best result."""
    starts = first_s + rough_s * np.linspace(-0.5, 0.25, 16)
    lengths = rough_s * np.linspace(0.5, 1.9, 29)
    for step in range(2):
        s, d = (grid.ravel() for grid in np.meshgrid(starts, lengths, indexing="ij"))
        parts = (times[None, :] - s[:, None]) / np.maximum(d[:, None], 1e-3)
        errors = np.sqrt(((ease(name, np.clip(parts, 0, 1)) - values) ** 2).mean(axis=1))
        best = int(errors.argmin())
        if step == 0:
            starts = s[best] + rough_s * np.linspace(-0.05, 0.05, 11)
            lengths = d[best] + rough_s * np.linspace(-0.05, 0.05, 11)
    return EasingFit(start_s=float(s[best]), duration_s=float(d[best]), easing=name, error=float(errors[best]))


def measure_progress(frames: Sequence[RgbImage], before: RgbImage, after: RgbImage) -> list[float]:
    """Measure the progress of each frame from `before` (0) to `after` (1).

    Blending colours are measured by levels; moving edges by the share of pixels that have switched.

    Args:
        frames: (H, W, 3) uint8 RGB each.
        before: The same box before.
        after: The same box after.
    """
    change = after.astype(np.float32) - before.astype(np.float32)
    mask = np.flatnonzero(np.abs(change).max(axis=2) > _CHANGED)
    if not mask.size:
        return [0.0] * len(frames)
    mask = mask[:: max(mask.size // _MAX_PIXELS, 1)]
    change, base = change.reshape(-1, 3)[mask], before.reshape(-1, 3)[mask].astype(np.float32)
    weights = (change**2).sum(axis=1)
    blends, shares, sharpness = [], [], []
    for frame in frames:
        part = ((frame.reshape(-1, 3)[mask].astype(np.float32) - base) * change).sum(axis=1) / weights
        blends.append(float(np.average(np.clip(part, -0.5, 1.5), weights=weights)))
        shares.append(float((part > 0.5).mean()))
        if 0.1 < blends[-1] < 0.9:
            sharpness.append(float(((part < 0.15) | (part > 0.85)).mean()))
    is_moved = bool(sharpness) and float(np.mean(sharpness)) > _MOVED_SHARE
    return shares if is_moved else blends
