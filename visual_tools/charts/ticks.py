"""Where exactly the ticks of an axis are: from its marks, its grid, or else the middle of its labels."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.channels import largest_channel
from visual_tools.ink import find_background, find_runs

_LINE_SHARE = 0.4
_MAX_LINE_PX = 12
_TICK_ROWS = 2
_MIN_CONTRAST = 24
_MIN_GRID_CONTRAST = 8
_GRID_SHARE = 0.4
_MAX_TICK_WIDTH_PX = 9
_MIN_FOUND_SHARE = 0.6


def place_ticks(
    picture: NDArray[np.uint8], frame: Box, expected_px: list[float], slack_px: float, reach_px: int
) -> list[float]:
    """The columns of the ticks of an axis below a chart.

    Args:
        picture: (H, W, 3) uint8 RGB, turned so that the axis is at the bottom of the frame.
        frame: Of the chart.
        expected_px: Where they should be about.
        slack_px: How far off they may be.
        reach_px: Rows between frame and labels.

    Returns:
        One for each, to a fraction of a pixel; the middle of column 7 is 7.0.
    """
    for marks in _find_marks(picture, frame, reach_px):
        nearest = [min(marks, key=lambda mark: abs(mark - px), default=np.inf) for px in expected_px]
        is_near = [abs(mark - px) <= slack_px for mark, px in zip(nearest, expected_px, strict=True)]
        if sum(is_near) >= max(2, _MIN_FOUND_SHARE * len(expected_px)):
            return [mark if near else px for mark, px, near in zip(nearest, expected_px, is_near, strict=True)]
    return expected_px


def _find_marks(picture: NDArray[np.uint8], frame: Box, reach_px: int) -> Iterator[list[float]]:
    """Columns of marks outside the line, of marks inside it, and of grid lines."""
    left, right = max(frame.left - 3, 0), min(frame.right + 3, picture.shape[1])
    below = picture[frame.bottom : frame.bottom + min(reach_px, 3 * _MAX_LINE_PX), left:right]
    above = picture[max(frame.bottom - _MAX_LINE_PX, frame.top) : frame.bottom, left:right][::-1]
    for strip in (below, above):
        for stubs in _find_stubs(strip):
            yield [left + column for column in stubs]
    yield [left + column for column in _find_grid(picture[frame.top : frame.bottom, left:right])]


def _find_stubs(strip: NDArray[np.uint8]) -> Iterator[list[float]]:
    """Short marks that begin right after the line, which fills the first rows of a strip; the longest first."""
    if strip.shape[0] < _TICK_ROWS + 2:
        return
    ground = find_background(strip[_TICK_ROWS:])
    contrast = largest_channel(np.abs(strip.astype(np.int16) - ground.astype(np.int16)))
    is_line = (contrast >= _MIN_CONTRAST).mean(axis=1) > _LINE_SHARE
    lines = np.flatnonzero(is_line[: strip.shape[0] - _TICK_ROWS])
    first = int(lines[-1]) + 1 if lines.size else 0
    first += int(first > 0)  # the row after a line may hold the rest of its softened edge
    for depth in range(strip.shape[0], first + _TICK_ROWS - 1, -1):
        yield _centers(contrast[first:depth].min(axis=0), _MIN_CONTRAST)


def _find_grid(inside: NDArray[np.uint8]) -> list[float]:
    """Columns that stand out from those beside them over much of the height."""
    if inside.shape[1] < 7 or inside.shape[0] < 3:
        return []
    levels = inside[:: max(1, inside.shape[0] // 400)].astype(np.int16)
    contrast = np.zeros(levels.shape[:2], np.int16)
    beside = [
        largest_channel(np.abs(levels[:, 3:-3] - levels[:, shift : levels.shape[1] - 6 + shift])) for shift in (0, 6)
    ]
    contrast[:, 3:-3] = np.minimum(*beside)
    share = (contrast >= _MIN_GRID_CONTRAST).mean(axis=0)
    strength = np.where(share >= _GRID_SHARE, np.median(contrast, axis=0), 0).astype(np.int16)
    return _centers(strength, _MIN_GRID_CONTRAST)


def _centers(strength: NDArray[np.int16], least: int) -> list[float]:
    """Middles of the thin runs, weighted by how strongly each column stands out."""
    found = []
    for start, end in find_runs(strength >= least):
        if end - start <= _MAX_TICK_WIDTH_PX:
            around = slice(max(start - 1, 0), end + 1)
            weights = strength[around].astype(np.float64)
            found.append(float((weights * np.arange(around.start, around.start + len(weights))).sum() / weights.sum()))
    return found
