"""Similarities of boxes, points and polygons. All coordinates are fractions of the image's width and height."""

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ring = Sequence[tuple[float, float]]
"""Corners (x, y) of a polygon, at least three; the last one is joined to the first."""
_RASTER_SIDE = 512
"""Side of the raster on which polygons that cross themselves are compared."""


def box_ious(predictions: NDArray[np.float64], truths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the intersection over union of each pair of boxes.

    Args:
        predictions: Boxes (x1, y1, x2, y2), [P, 4].
        truths: Boxes, [G, 4].

    Returns:
        Values in [0, 1], [P, G]. Two boxes without area match only if they are equal.
    """
    low = np.maximum(predictions[:, None, :2], truths[None, :, :2])
    high = np.minimum(predictions[:, None, 2:], truths[None, :, 2:])
    shared = np.prod(np.maximum(high - low, 0.0), axis=-1)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=-1) for boxes in (predictions, truths)]
    union = areas[0][:, None] + areas[1][None, :] - shared
    equal = (predictions[:, None, :] == truths[None, :, :]).all(axis=-1)
    ious: NDArray[np.float64] = np.where(union > 0, shared / np.where(union > 0, union, 1.0), equal.astype(float))
    return ious


def point_similarities(distances: NDArray[np.float64], sigma: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Return exp(-d^2 / 2 sigma^2) for distances, [P, G], and one sigma, or one for each truth, [G]."""
    return np.exp(-np.square(distances) / (2.0 * np.square(sigma)))


def polygon_ious(predictions: Sequence[Ring], truths: Sequence[Ring]) -> NDArray[np.float64]:
    """Return the intersection over union of each pair of polygons, [P, G].

    Areas are exact where neither polygon crosses itself. Else both are rasterised by the even-odd rule, at pixel
    centres. (PIL and cv2 include the border, which adds half a pixel at each side: 1,681 pixels for a square of 40.)
    """
    from shapely import Polygon

    areas = [[Polygon(ring) for ring in rings] for rings in (predictions, truths)]
    rasterise = functools.cache(_rasterise)
    ious = np.zeros((len(predictions), len(truths)))
    for row, one in enumerate(areas[0]):
        for column, two in enumerate(areas[1]):
            if one.is_valid and two.is_valid:
                shared = one.intersection(two).area
                union = one.area + two.area - shared
            else:
                inside = rasterise(tuple(predictions[row])), rasterise(tuple(truths[column]))
                shared, union = (inside[0] & inside[1]).sum(), (inside[0] | inside[1]).sum()
            ious[row, column] = shared / union if union > 0 else float(predictions[row] == truths[column])
    return ious


def _rasterise(ring: Ring) -> NDArray[np.bool_]:
    """Return which pixel centres of the unit square lie inside a polygon, [side, side]."""
    centres = (np.arange(_RASTER_SIDE) + 0.5) / _RASTER_SIDE
    crossings = np.zeros((_RASTER_SIDE, _RASTER_SIDE + 1), np.int32)
    for (x1, y1), (x2, y2) in zip(ring, [*ring[1:], ring[0]], strict=True):
        rows = np.flatnonzero((centres >= min(y1, y2)) & (centres < max(y1, y2)))
        if rows.size:
            x = x1 + (centres[rows] - y1) * (x2 - x1) / (y2 - y1)
            np.add.at(crossings, (rows, np.searchsorted(centres, x)), 1)
    inside: NDArray[np.bool_] = np.cumsum(crossings[:, :-1], axis=1) % 2 == 1
    return inside
