"""The circle that a pie is drawn on, found from the edges of coloured areas."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.colors.areas import Area, Areas
from visual_tools.require import require

_NUM_AREAS = 24
_NUM_TRIPLES = 80
_MAX_POINTS = 4000
_NUM_BINS = 120
_MIN_COVERAGE = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Circle:
    """A circle in pixels of the picture; centres of pixels have whole coordinates."""

    x_px: float
    y_px: float
    radius_px: float


def find_circle(areas: Areas, candidates: list[Area]) -> Circle | None:
    """The circle with the longest way along edges of areas; None when none is worth the name.

    Random triples of edge points of one area make circles; the one that the edges of all areas cover best wins.
    """
    contours = [edge_points(areas, area) for area in candidates[:_NUM_AREAS]]
    if not contours:
        return None
    rng = np.random.default_rng(0)
    circles = np.concatenate([_circles_through(contour, rng) for contour in contours])
    height, width = areas.map.shape
    inside = (
        (circles[:, 2] > 8)
        & (circles[:, 2] < 0.75 * max(height, width))
        & (circles[:, 0] > -0.1 * width)
        & (circles[:, 0] < 1.1 * width)
        & (circles[:, 1] > -0.1 * height)
        & (circles[:, 1] < 1.1 * height)
    )
    circles = circles[inside]
    if not len(circles):
        return None
    points = np.concatenate(contours)
    points = rng.permutation(points)[:_MAX_POINTS]
    coverages = np.array([_coverage(points, circle) for circle in circles])
    # of circles that are covered alike, the outer one: the hole of a doughnut is a circle too
    best = int(np.argmax(coverages * circles[:, 2] ** 0.25))
    if coverages[best] < _MIN_COVERAGE:
        return None
    x, y, radius = _refine(points, circles[best])
    return Circle(x_px=x, y_px=y, radius_px=radius)


def edge_points(areas: Areas, area: Area) -> NDArray[np.float64]:
    """The outermost pixels of an area, (N, 2) x and y."""
    cv2 = require("cv2", "visual")
    contours, _ = cv2.findContours(
        areas.mask(area).astype(np.uint8),
        cv2.RETR_EXTERNAL,
        cv2.CHAIN_APPROX_NONE,
        offset=(area.box_px.left, area.box_px.top),
    )
    points: NDArray[np.float64] = max(contours, key=len)[:, 0].astype(np.float64)
    return points


def _circles_through(points: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Circles (x, y, radius) through random triples of points."""
    a, b, c = (points[rng.integers(len(points), size=_NUM_TRIPLES)] for _ in range(3))
    ab, ac = b - a, c - a
    cross = 2 * (ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0])
    good = np.abs(cross) > 1.0
    a, ab, ac, cross = a[good], ab[good], ac[good], cross[good]
    ab2, ac2 = (ab**2).sum(axis=1), (ac**2).sum(axis=1)
    x = (ac[:, 1] * ab2 - ab[:, 1] * ac2) / cross
    y = (ab[:, 0] * ac2 - ac[:, 0] * ab2) / cross
    return np.column_stack([a[:, 0] + x, a[:, 1] + y, np.hypot(x, y)])


def _coverage(points: NDArray[np.float64], circle: NDArray[np.float64]) -> float:
    """Share of the way around a circle that has an edge point on it."""
    x, y = points[:, 0] - circle[0], points[:, 1] - circle[1]
    on = np.abs(np.hypot(x, y) - circle[2]) < max(1.2, 0.006 * circle[2])
    bins = ((np.arctan2(y[on], x[on]) / (2 * np.pi) + 0.5) * _NUM_BINS).astype(int) % _NUM_BINS
    return len(np.unique(bins)) / _NUM_BINS


def _refine(points: NDArray[np.float64], circle: NDArray[np.float64]) -> tuple[float, float, float]:
    optimize = require("scipy.optimize", "visual")
    away = np.hypot(points[:, 0] - circle[0], points[:, 1] - circle[1]) - circle[2]
    near = points[np.abs(away) < max(2.0, 0.01 * circle[2])]

    def misfit(guess: NDArray[np.float64]) -> NDArray[np.float64]:
        result: NDArray[np.float64] = np.hypot(near[:, 0] - guess[0], near[:, 1] - guess[1]) - guess[2]
        return result

    x, y, radius = optimize.least_squares(misfit, circle, loss="soft_l1", f_scale=0.5).x
    return float(x), float(y), float(radius)
