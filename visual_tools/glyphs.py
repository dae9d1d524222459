"""Lone signs that text readers miss or misread: minus, equals, a dot, plus."""

import numpy as np
from numpy.typing import NDArray

from visual_tools.ink import find_runs

_MAX_SIDE_PX = 40


def read_sign(ink: NDArray[np.bool_]) -> str:
    """The sign that the ink of a crop draws, or "" when it is none of these: (H, W) bool."""
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
