"""The small arrow at the right end of a list."""

import numpy as np
from numpy.typing import NDArray

from visual_tools.ink import find_ink, find_runs


def has_down_arrow(field: NDArray[np.uint8]) -> bool:
    """Whether a field's inside ends in a small mark that is wider at its top than at its bottom.

    Args:
        field: (H, W, 3) uint8 RGB, the field without its border.
    """
    height, width = field.shape[:2]
    reach = min(44, width // 3)
    if reach < 8 or height < 12:
        return False
    ink = find_ink(field[2:-2, width - reach : width - 1])
    runs = find_runs(ink.any(axis=0), max_gap=1)
    if not runs:
        return False
    start, end = runs[-1]
    rows = np.flatnonzero(ink[:, start:end].any(axis=1))
    mark = ink[rows[0] : rows[-1] + 1, start:end]
    if not (5 <= mark.shape[1] <= 22 and 3 <= mark.shape[0] <= 18):
        return False
    return _narrows_down(mark)


def _narrows_down(mark: NDArray[np.bool_]) -> bool:
    columns = np.arange(mark.shape[1])
    reach = [float(np.ptp(columns[row])) + 1 if row.any() else 0.0 for row in mark]
    third = max(len(reach) // 3, 1)
    top, bottom = float(np.mean(reach[:third])), float(np.mean(reach[-third:]))
    return mark.shape[0] <= 0.85 * mark.shape[1] and top > 1.5 * bottom
