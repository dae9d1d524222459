"""Ink of a crop: pixels that differ from the background, runs of them, and single symbols drawn by them."""

from functools import reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)
_BITS_DROPPED = 3  # colours are compared in steps of 8 levels: noise stays within one
_MAX_SIDE_PX = 40


def largest_channel(values: NDArray[T]) -> NDArray[T]:
    """Return the largest channel of each pixel, as `values.max(axis=2)`: (H, W, C) -> (H, W)."""
    return reduce(np.maximum, (values[..., channel] for channel in range(values.shape[2])))


def any_channel(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return True where any channel of a pixel is set, as `mask.any(axis=2)`: (H, W, C) -> (H, W)."""
    return reduce(np.logical_or, (mask[..., channel] for channel in range(mask.shape[2])))


def find_background(crop: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the most common colour of a crop, (H, W, 3) uint8 RGB in, (3,) uint8 out.

    Colours are compared without their low bits, so that gentle gradients count as one colour.
    """
    coarse = (crop >> _BITS_DROPPED).astype(np.uint32)
    codes = (coarse[..., 0] << 10 | coarse[..., 1] << 5 | coarse[..., 2]).ravel()
    commonest = np.bincount(codes, minlength=1).argmax()
    members = crop.reshape(-1, 3)[codes == commonest]
    return np.asarray(np.median(members, axis=0), dtype=np.uint8)


def find_ink(crop: NDArray[np.uint8], background: NDArray[np.uint8] | None = None) -> NDArray[np.bool_]:
    """Return the pixels that clearly differ from the background: (H, W) bool.

    "Clearly" means by a quarter of the largest difference in the crop, at least 24 of 255.
    """
    if crop.size == 0:
        return np.zeros(crop.shape[:2], dtype=bool)
    colour = find_background(crop) if background is None else background
    difference = largest_channel(np.abs(crop.astype(np.int16) - colour.astype(np.int16)))
    return np.asarray(difference >= max(24, int(difference.max()) // 4))


def measure_contrast(crop: NDArray[np.uint8]) -> int:
    """Return the largest difference between a crop's pixels and its background, 0 to 255; 0 for an empty crop."""
    if crop.size == 0:
        return 0
    return int(np.abs(crop.astype(np.int16) - find_background(crop).astype(np.int16)).max())


def find_runs(mask: NDArray[np.bool_] | np.bool_, max_gap: int = 0) -> list[tuple[int, int]]:
    """Return start and end (exclusive) of each run of True; runs at most `max_gap` apart are joined."""
    padded = np.concatenate(([False], mask, [False])).astype(np.int8)
    steps = np.diff(padded)
    runs: list[tuple[int, int]] = []
    for start, end in zip(np.flatnonzero(steps == 1), np.flatnonzero(steps == -1), strict=True):
        if runs and start - runs[-1][1] <= max_gap:
            runs[-1] = (runs[-1][0], int(end))
        else:
            runs.append((int(start), int(end)))
    return runs


def read_sign(ink: NDArray[np.bool_]) -> str:
    """Return the symbol that the ink of a crop draws, or "" if it is not a known one: (H, W) bool."""
    rows, columns = find_runs(ink.any(axis=1)), find_runs(ink.any(axis=0))
    if not rows or len(columns) != 1 or len(rows) > 2:
        return ""
    width, height = columns[0][1] - columns[0][0], rows[-1][1] - rows[0][0]
    if max(width, height) > _MAX_SIDE_PX:
        return ""
    mark = ink[rows[0][0] : rows[-1][1], columns[0][0] : columns[0][1]]
    if len(rows) == 2:
        return "=" if _are_equal_bars(mark, rows, width) else ""
    if mark.mean() > 0.8 and height <= 5:
        return "-" if width >= 2 * height else "." if width <= 1.5 * height else ""
    return "+" if _is_plus(mark) else ""


def _are_equal_bars(mark: NDArray[np.bool_], rows: list[tuple[int, int]], width: int) -> bool:
    top, bottom = (end - start for start, end in rows)
    full = mark[:top].mean() > 0.8 and mark[-bottom:].mean() > 0.8
    return bool(full and abs(top - bottom) <= 1 and width >= 2 * max(top, bottom))


def _is_plus(mark: NDArray[np.bool_]) -> bool:
    height, width = mark.shape
    if not (5 <= height <= _MAX_SIDE_PX and 0.8 <= width / height <= 1.25):
        return False
    middle_row, middle_column = mark[height // 2].mean(), mark[:, width // 2].mean()
    third_y, third_x = max(height // 4, 1), max(width // 4, 1)
    corners = (
        mark[:third_y, :third_x].mean()
        + mark[:third_y, -third_x:].mean()
        + mark[-third_y:, :third_x].mean()
        + mark[-third_y:, -third_x:].mean()
    )
    return bool(middle_row > 0.9 and middle_column > 0.9 and corners < 0.1)
