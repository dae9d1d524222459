"""Sectors of a pie, measured by their angles, and the circle of the pie."""

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.colors.areas import Area, Areas, fill_from
from visual_tools.errors import require
from visual_tools.packages import cv2

# Heuristics without another source; measured together in benchmarks/visual/README.md, "Shares of colours".
_NUM_AREAS = 24
_NUM_TRIPLES = 80
_MAX_POINTS = 4000
_NUM_BINS = 120
_MIN_COVERAGE = 0.15
_MIN_AREA = 0.00015
_NUM_RADII = 72
_NUM_SPOKES = 720
_MIN_THICKNESS = 0.1
_MAX_START = 0.9
_MIN_SECTOR_SHARE = 0.0025
_MAX_SCATTER_RAD = 0.008
_MAX_JOINED = 0.012
_MAX_ANGLE_GAP = 0.04
_MAX_PULLED = 0.6
_OUTER = 0.965
_INNER = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Circle:
    """Circle in pixels of the image; pixel centers have integer coordinates."""

    x_px: float
    y_px: float
    radius_px: float


def find_circle(areas: Areas, candidates: list[Area]) -> Circle | None:
    """Return the circle with the longest arc along edges of areas; None if there is no clear one.

    Random triples of edge points of one area define circles; the one best covered by the edges of all areas is chosen.
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
    # of circles covered equally, the outer one: the hole of a doughnut is a circle too
    best = int(np.argmax(coverages * circles[:, 2] ** 0.25))
    if coverages[best] < _MIN_COVERAGE:
        return None
    x, y, radius = _refine(points, circles[best])
    return Circle(x_px=x, y_px=y, radius_px=radius)


def edge_points(areas: Areas, area: Area) -> NDArray[np.float64]:
    """Return the outermost pixels of an area, (N, 2) x and y."""
    contours, _ = cv2.findContours(
        areas.mask(area).astype(np.uint8),
        cv2.RETR_EXTERNAL,
        cv2.CHAIN_APPROX_NONE,
        offset=(area.box_px.left, area.box_px.top),
    )
    points: NDArray[np.float64] = max(contours, key=len)[:, 0].astype(np.float64)
    return points


def _circles_through(points: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return circles (x, y, radius) through random triples of points."""
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
    """Return the share of the circumference that has an edge point on it."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sector:
    """Sector of a pie.

    Attributes:
        area: Pixels of the sector.
        angle_rad: Angular width.
        direction_rad: Direction of its center line, from x to the right towards y downwards.
        apex_px: Apex, x and y: the center of the pie, or next to it if the sector is pulled out.
    """

    area: Area
    angle_rad: float
    direction_rad: float
    apex_px: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pie:
    """Pie: its circle (before sectors are pulled out), its sectors, and the areas with text filled in."""

    circle: Circle
    sectors: tuple[Sector, ...]
    areas: Areas

    @property
    def is_closed(self) -> bool:
        """True if the sectors add up to a full turn, so that nothing was missed or counted twice."""
        return bool(abs(sum(sector.angle_rad for sector in self.sectors) / (2 * np.pi) - 1) < _MAX_ANGLE_GAP)


def find_pie(areas: Areas, grounds: Collection[int]) -> Pie | None:
    """Find the pie of an image; None if there is none with at least two sectors."""
    least = max(_MIN_AREA * areas.map.size, 12)
    circle = find_circle(areas, [item for item in areas.items if item.color not in grounds and item.area_px >= least])
    if circle is None:
        return None
    areas = _fill_writing(areas, circle, grounds)
    slices = [
        item
        for item in areas.items
        if item.color not in grounds and item.area_px >= 12 and _is_slice(areas, item, circle)
    ]
    return _measure_slices(areas, slices, circle)


def _measure_slices(areas: Areas, slices: list[Area], circle: Circle) -> Pie | None:
    """Return the pie of these sectors, each measured around its own apex."""
    if len(slices) < 2:
        return None
    circle, apexes = _fit_apexes(areas, slices, circle)
    sectors, scatters = [], []
    for item, apex in zip(slices, apexes, strict=True):
        radii = _radii(_find_inner(areas, item, apex), circle.radius_px)
        covered, direction = _measure_cover(areas, item, apex, radii)
        angle, scatter = _extrapolate(radii, covered)
        scatters.append(scatter)
        if angle > _MIN_SECTOR_SHARE * 2 * np.pi:
            sectors.append(Sector(area=item, angle_rad=angle, direction_rad=direction, apex_px=apex))
    if len(sectors) < 2:
        return None
    pie = Pie(circle=circle, sectors=tuple(sectors), areas=areas)
    return _measure_joined(pie) if max(scatters) > _MAX_SCATTER_RAD and pie.is_closed else pie


def _measure_joined(pie: Pie) -> Pie:
    """Measure a pie without pulled-out sectors again, all sectors on the same circles; for pies with much text.

    Together the sectors must make a full turn at every radius. What is missing is the outline, which takes the same
    from each of them; so no slope is needed, and the median over the radii gives the angle.
    """
    circle = pie.circle
    middle = circle.x_px, circle.y_px
    pulled = max(np.hypot(sector.apex_px[0] - middle[0], sector.apex_px[1] - middle[1]) for sector in pie.sectors)
    if pulled > _MAX_JOINED * circle.radius_px + 1.5:
        return pie
    inner = max(_find_inner(pie.areas, sector.area, middle) for sector in pie.sectors)
    radii = _radii(inner, circle.radius_px)
    covered = np.array([_measure_cover(pie.areas, sector.area, middle, radii)[0] for sector in pie.sectors])
    missing = (2 * np.pi - covered.sum(axis=0)) / len(covered)
    angles = np.median(covered + missing, axis=1)
    sectors = tuple(
        dataclasses.replace(sector, angle_rad=float(angle)) for sector, angle in zip(pie.sectors, angles, strict=True)
    )
    return dataclasses.replace(pie, sectors=sectors)


def _fill_writing(areas: Areas, circle: Circle, grounds: Collection[int]) -> Areas:
    """Assign small areas inside the circle (thick letters and what they enclose) to the sectors around them."""
    kept = []
    for item in areas.items:
        x, y = item.box_px.center
        inside = np.hypot(x - circle.x_px, y - circle.y_px) < circle.radius_px
        side = max(item.box_px.width, item.box_px.height)
        is_hub = item.box_px.has_point(circle.x_px, circle.y_px) and item.color in grounds
        if not inside or is_hub or side > 0.3 * circle.radius_px or _is_slice(areas, item, circle):
            kept.append(item)
    return fill_from(areas, kept) if len(kept) < len(areas.items) else areas


def _polar(areas: Areas, item: Area, apex: tuple[float, float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return distance and direction of an area's pixels from a point."""
    rows, columns = np.nonzero(areas.mask(item))
    x, y = columns + item.box_px.left - apex[0], rows + item.box_px.top - apex[1]
    return np.hypot(x, y), np.arctan2(y, x)


def _rim(
    areas: Areas, item: Area, apex: tuple[float, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return direction, smallest and largest distance for each spoke that an area touches."""
    away, direction = _polar(areas, item, apex)
    spoke = ((direction / (2 * np.pi) + 0.5) * _NUM_SPOKES).astype(int) % _NUM_SPOKES
    used = np.unique(spoke)
    near, far = np.full(_NUM_SPOKES, np.inf), np.zeros(_NUM_SPOKES)
    np.minimum.at(near, spoke, away)
    np.maximum.at(far, spoke, away)
    return ((used + 0.5) / _NUM_SPOKES - 0.5) * 2 * np.pi, near[used], far[used]


def _is_slice(areas: Areas, item: Area, circle: Circle) -> bool:
    """Return True if an area reaches the rim from well inside and is thick along the spokes.

    Shadows and swatches are not. Thickness is measured over pixels rather than spokes: a thin strip next to a neighbour
    has many spokes.
    """
    _, near, far = _rim(areas, item, (circle.x_px, circle.y_px))
    rim, thick = float(np.percentile(far, 90)), np.sort(far - near)
    most = float(thick[np.searchsorted(np.cumsum(thick), thick.sum() / 2)])
    is_inside = float(near.min()) < _MAX_START * circle.radius_px
    return is_inside and 0.85 < rim / circle.radius_px < 1.6 and most > _MIN_THICKNESS * circle.radius_px


def _fit_apexes(areas: Areas, slices: list[Area], circle: Circle) -> tuple[Circle, list[tuple[float, float]]]:
    """Fit the circle shared by all sectors, each moved out along its center line until its rim fits."""
    optimize = require("scipy.optimize", "visual")
    x_px, y_px, radius_px = circle.x_px, circle.y_px, circle.radius_px
    pulled = np.zeros(len(slices))
    units = np.zeros((len(slices), 2))
    for _ in range(2):
        rims = []
        for index, item in enumerate(slices):
            away, direction = _polar(areas, item, (x_px, y_px))
            units[index] = _unit((away * np.cos(direction)).mean(), (away * np.sin(direction)).mean())
            apex = x_px + pulled[index] * units[index, 0], y_px + pulled[index] * units[index, 1]
            spokes, _, far = _rim(areas, item, apex)
            on = far > 0.97 * np.percentile(far, 90)
            rims.append(np.column_stack([apex[0] + far * np.cos(spokes), apex[1] + far * np.sin(spokes)])[on])
        owner = np.repeat(np.arange(len(slices)), [len(rim) for rim in rims])
        points = np.concatenate(rims)

        def misfit(
            guess: NDArray[np.float64], points: NDArray[np.float64] = points, owner: NDArray[np.intp] = owner
        ) -> NDArray[np.float64]:
            middle = guess[:2] + guess[3:][owner, None] * units[owner]
            result: NDArray[np.float64] = np.linalg.norm(points - middle, axis=1) - guess[2]
            return result

        start = np.concatenate([[x_px, y_px, radius_px], np.clip(pulled, 0.01, 0.99 * _MAX_PULLED * radius_px)])
        lower = np.concatenate([[-np.inf, -np.inf, 0.7 * radius_px], np.zeros(len(slices))])
        upper = np.concatenate([np.full(3, np.inf), np.full(len(slices), _MAX_PULLED * radius_px)])
        fit = optimize.least_squares(misfit, start, bounds=(lower, upper), loss="soft_l1", f_scale=0.7)
        x_px, y_px, radius_px = (float(value) for value in fit.x[:3])
        pulled = fit.x[3:]
    apexes = [(float(x_px + e * u[0]), float(y_px + e * u[1])) for e, u in zip(pulled, units, strict=True)]
    return Circle(x_px=x_px, y_px=y_px, radius_px=radius_px), apexes


def _unit(x: float, y: float) -> tuple[float, float]:
    length = float(np.hypot(x, y)) or 1.0
    return x / length, y / length


def _find_inner(areas: Areas, item: Area, apex: tuple[float, float]) -> float:
    """Return the distance from a point to the start of an area."""
    return float(np.percentile(_polar(areas, item, apex)[0], 1))


def _radii(inner_px: float, radius_px: float) -> NDArray[np.float64]:
    start = min(max(_INNER * radius_px, inner_px + 0.03 * radius_px), 0.9 * radius_px)
    return np.linspace(start, max(_OUTER * radius_px - 1, start + 1), _NUM_RADII)


def _measure_cover(
    areas: Areas, item: Area, apex: tuple[float, float], radii: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return the angle that an area covers on each circle around a point, and the direction of its center."""
    num_steps = int(np.clip(8 * radii[-1], 1024, 16384))
    angles = np.arange(num_steps) * (2 * np.pi / num_steps)
    columns = np.rint(apex[0] + radii[:, None] * np.cos(angles)).astype(np.intp)
    rows = np.rint(apex[1] + radii[:, None] * np.sin(angles)).astype(np.intp)
    height, width = areas.map.shape
    on = areas.map[np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)] == item.number
    middle = (on.sum(axis=0) * np.exp(1j * angles)).sum()
    return on.sum(axis=1) * (2 * np.pi / num_steps), float(np.angle(middle))


def _extrapolate(radii: NDArray[np.float64], covered: NDArray[np.float64]) -> tuple[float, float]:
    """Return the angle of a sector from its cover on circles around its apex, and the disagreement of the circles.

    At radius r it covers angle + offset / r: an outline takes the same length from it at every radius, and so does,
    to first order, an apex that is misplaced along the center line. The line through these over 1 / r therefore meets
    1 / r = 0 at the true angle. The median of the slopes of all pairs of radii (Theil and Sen) makes it robust against
    radii where text crosses an edge.
    """
    x = 1 / radii
    left, right = np.triu_indices(len(x), k=len(x) // 6)
    slope = np.median((covered[right] - covered[left]) / (x[right] - x[left]))
    offsets = covered - slope * x
    angle = float(np.median(offsets))
    return angle, float(np.median(np.abs(offsets - angle)))
