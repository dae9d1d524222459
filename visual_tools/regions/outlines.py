"""Edges, outlines of the foreground, and shapes with straight sides, circles and ellipses: kind, corners, size."""

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource
from visual_tools.packages import cv2
from visual_tools.regions.binary import Color, binarize, otsu_threshold
from visual_tools.regions.components import Outline, find_components, is_frame
from visual_tools.regions.inputs import Mask, RgbImage, is_mask, to_image, to_mask
from visual_tools.results import ResultSequence

_LOW_SHARE = 0.4
"""Low threshold as a share of the high one, for the weak continuation of a strong edge.

Source: J. Canny, A Computational Approach to Edge Detection, 1986, recommends a ratio of two to three.
"""

_MIN_HIGH = 30.0  # keeps noise of a nearly flat image from becoming edges
_TOLERANCES = (0.045, 0.03, 0.02, 0.012)
"""Share of the outline's length by which a corner must deviate; the coarsest tolerance that fits is used."""

# Heuristics without another source; sensitivity in benchmarks/visual/constants.md.
_MAX_CORNERS = 16
_MIN_AREA_PX = 60
_FIT_PX = 0.8
_FIT_SHARE = 0.008
"""Maximum deviation of an outline from a fitting shape, as a share of the square root of the area."""
_LOOSE_FIT = 2.5
_CIRCLE_RATIO = 0.92
_SQUARE_RATIO = 0.92
_RIGHT_ANGLE_SLACK_DEG = 8.0
_ROUND = ("circle", "ellipse")
_NAMES = {3: "triangle", 5: "pentagon", 6: "hexagon", 7: "heptagon", 8: "octagon"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """Thin lines where colour changes.

    Attributes:
        mask: (H, W) bool, lines one pixel wide.
        low: Threshold where a line may continue, in grey levels per pixel.
        high: Threshold where a line may start, in grey levels per pixel.
        share: Share of the image that is edge, 0 to 1.
    """

    mask: Mask = field(repr=False)
    low: float
    high: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Contour:
    """One closed outline.

    Attributes:
        number: Number from 1, largest first.
        points_px: (N, 2) int, x and y of its pixels in order.
        area_px: Number of enclosed pixels, including the outline.
        length_px: Length through the centers of its pixels.
        box_px: Smallest upright box.
        center_px: Mean x and y of its points.
        is_hole: True if it bounds a hole of the surrounding region.
        parent: Number of the directly enclosing contour, 0 for none.
    """

    number: int
    points_px: Outline = field(repr=False, compare=False)
    area_px: float
    length_px: float
    box_px: Box
    center_px: tuple[float, float]
    is_hole: bool
    parent: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Contours(ResultSequence[Contour]):
    """Closed outlines, largest first; behaves as a sequence of `Contour`."""

    _items = "contours"
    contours: tuple[Contour, ...]

    def __repr__(self) -> str:
        holes = sum(contour.is_hole for contour in self.contours)
        largest = f", largest {self.contours[0].area_px:.0f} px²" if self.contours else ""
        return f"Contours({len(self)}, {holes} of them holes{largest})"


def detect_edges(
    image: ImageSource, *, low: float | None = None, high: float | None = None, blur_px: float = 1.0
) -> Edges:
    """Find edges by Canny's method; thresholds that are not given are derived from the image.

    Args:
        image: Anything `load_image` takes; at each pixel the channel with the largest change is used.
        low: Threshold where an edge may continue, in grey levels per pixel.
        high: Threshold where an edge may start, in grey levels per pixel.
        blur_px: Sigma of the smoothing before detection, in pixels; 0 for none, larger for noisy images.

    Raises:
        ImageError: If it is not an image, or the thresholds are negative or in the wrong order.
    """
    pixels = to_image(image)
    if blur_px > 0:
        pixels = cv2.GaussianBlur(pixels, (0, 0), blur_px)
    across = cv2.Sobel(pixels, cv2.CV_16S, 1, 0)
    down = cv2.Sobel(pixels, cv2.CV_16S, 0, 1)
    strongest = np.argmax(np.abs(across) + np.abs(down), axis=2)[:, :, None]
    across = np.take_along_axis(across, strongest, axis=2)[:, :, 0]
    down = np.take_along_axis(down, strongest, axis=2)[:, :, 0]
    if high is None:
        steep = np.hypot(across[::2, ::2].astype(np.float32), down[::2, ::2].astype(np.float32)) / 4
        high = max(otsu_threshold(steep)[0], low or 0.0, _MIN_HIGH / 4)
    low = _LOW_SHARE * high if low is None else low
    if not 0 <= low <= high:
        raise ImageError(f"found low={low:g} and high={high:g}, expected 0 <= low <= high")
    # Sobel's sums are four times the grey levels per pixel.
    edges = cv2.Canny(np.ascontiguousarray(across), np.ascontiguousarray(down), 4 * low, 4 * high, L2gradient=True)
    mask = np.asarray(edges > 0)
    return Edges(mask=mask, low=round(low, 2), high=round(high, 2), share=round(float(mask.mean()), 6))


def find_contours(image: ImageSource, *, min_area_px: float = 4.0, with_holes: bool = True) -> Contours:
    """Trace the outlines of a mask, or of the foreground of an image.

    Args:
        image: A mask (H, W) bool, or an image (anything `load_image` takes), which is binarized first.
        min_area_px: Minimum area; smaller outlines are left out.
        with_holes: True to include the outlines of holes.

    Raises:
        ImageError: If it is neither a mask nor an image.
    """
    mask = to_mask(image)
    if mask is None:
        mask = binarize(image).mask
    traced, tree = cv2.findContours(np.ascontiguousarray(mask).view(np.uint8), cv2.RETR_TREE, cv2.CHAIN_APPROX_NONE)
    parents = tree[0, :, 3].tolist() if len(traced) else []
    depths: list[int] = []
    for parent in parents:  # a parent always precedes its children
        depths.append(0 if parent < 0 else depths[parent] + 1)
    rows = []
    for index, points in enumerate(traced):
        area = float(cv2.contourArea(points)) + len(points) / 2 + 1
        if area >= min_area_px and (with_holes or depths[index] % 2 == 0):
            rows.append((area, index))
    rows.sort(key=lambda row: -row[0])
    number_of = {index: number for number, (_, index) in enumerate(rows, start=1)}
    return Contours(
        contours=tuple(
            _make_contour(
                traced[index], area, number_of[index], number_of.get(parents[index], 0), depths[index] % 2 == 1
            )
            for area, index in rows
        )
    )


def _make_contour(points: NDArray[np.int32], area_px: float, number: int, parent: int, is_hole: bool) -> Contour:
    left, top, width, height = cv2.boundingRect(points)
    outline = points.reshape(-1, 2)
    x_px, y_px = outline.mean(axis=0).tolist()
    return Contour(
        number=number,
        points_px=outline,
        area_px=round(area_px, 1),
        length_px=round(float(cv2.arcLength(points, True)), 2),
        box_px=Box(left, top, left + width, top + height),
        center_px=(round(x_px, 2), round(y_px, 2)),
        is_hole=is_hole,
        parent=parent,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Polygon:
    """One shape.

    Attributes:
        number: Number from 1, largest first.
        kind: "triangle", "square", "rectangle", "quadrilateral", "pentagon", "hexagon", "heptagon", "octagon",
            "9-gon" and so on, "circle", "ellipse", or "other" if nothing fits.
        corners_px: x and y of the corners in order (clockwise on the image); empty for circles, ellipses and others.
        is_convex: True if no corner points inwards.
        center_px: Center, x and y.
        area_px: Number of enclosed pixels.
        axes_px: Long and short side of the smallest rectangle around it (for a circle both are its diameter).
        angle_deg: Direction of the long side, counterclockwise from the x axis as displayed, 0 to 180.
        color: Median colour of its line or its fill, RGB; white for masks.
        box_px: Smallest upright box.
        shape_px: (N, 2) float, the fitted outline, for drawing.
    """

    number: int
    kind: str
    corners_px: tuple[tuple[float, float], ...]
    is_convex: bool
    center_px: tuple[float, float]
    area_px: float
    axes_px: tuple[float, float]
    angle_deg: float
    color: tuple[int, int, int]
    box_px: Box
    shape_px: NDArray[np.float64] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Polygons(ResultSequence[Polygon]):
    """Shapes, largest first; behaves as a sequence of `Polygon`."""

    _items = "polygons"
    polygons: tuple[Polygon, ...]

    @property
    def kinds(self) -> dict[str, int]:
        """Number of shapes of each kind, the most frequent first."""
        return dict(Counter(polygon.kind for polygon in self.polygons).most_common())

    def __repr__(self) -> str:
        return f"Polygons({len(self)}: {', '.join(f'{count} {kind}' for kind, count in self.kinds.items())})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """Shape fitted to an outline, and the deviation of the outline from it (root mean square, pixels)."""

    kind: str
    corners: NDArray[np.float64]
    shape: NDArray[np.float64]
    error_px: float


def find_polygons(image: ImageSource, *, color: Color | None = None, min_area_px: float = _MIN_AREA_PX) -> Polygons:
    """Detect drawn shapes and classify them.

    Each outline is one shape; shapes that touch or overlap count as one unless `color` separates them.

    Args:
        image: An image (anything `load_image` takes), or a mask (H, W) bool.
        color: Colour of the shapes to find; None for all.
        min_area_px: Minimum area; smaller shapes are left out.

    Raises:
        ImageError: If it is neither a mask nor an image, or `min_area_px` is below 1.

    Example:
        >>> mask = np.zeros((60, 60), dtype=bool)
        >>> mask[10:40, 10:50] = True
        >>> find_polygons(mask)
        Polygons(1: 1 rectangle)
    """
    if min_area_px < 1:
        raise ImageError(f"found min_area_px={min_area_px}, expected at least 1")
    pixels = to_image(image)
    mask = _without_frame(binarize(image if is_mask(image) else pixels, color=color).mask)
    contours = find_contours(mask, min_area_px=min_area_px, with_holes=False)
    return Polygons(polygons=tuple(_classify(contour, mask, pixels) for contour in contours))


def _without_frame(mask: Mask) -> Mask:
    components = find_components(mask)
    height, width = mask.shape
    frames = [
        component.label for component in components if is_frame(component.area_px, component.box_px, width, height)
    ]
    return mask & ~np.isin(components.labels, frames) if frames else mask


def _classify(contour: Contour, mask: Mask, image: RgbImage) -> Polygon:
    outline = contour.points_px
    allowed = max(_FIT_PX, _FIT_SHARE * math.sqrt(contour.area_px))
    best = _choose(outline, _fit_ellipse(outline), _fit_polygon(outline, allowed), allowed)
    _, (first, second), turn = cv2.minAreaRect(outline)
    turn = turn if first >= second else turn + 90
    return Polygon(
        number=contour.number,
        kind=best.kind,
        corners_px=tuple((round(x, 1), round(y, 1)) for x, y in np.roll(best.corners[::-1], 1, axis=0).tolist()),
        is_convex=best.kind in _ROUND or bool(cv2.isContourConvex(best.shape.astype(np.float32))),
        center_px=_center(outline),
        area_px=contour.area_px,
        axes_px=(round(max(first, second) + 1, 1), round(min(first, second) + 1, 1)),
        angle_deg=round(-turn % 180, 1) % 180,
        color=_median_color(contour, mask, image),
        box_px=contour.box_px,
        shape_px=best.shape,
    )


def _choose(outline: Outline, ellipse: _Fit | None, polygon: _Fit | None, allowed_px: float) -> _Fit:
    fits = [fit for fit in (ellipse, polygon) if fit is not None]
    best = min(fits, key=lambda fit: fit.error_px, default=None)
    if best is None or best.error_px > _LOOSE_FIT * allowed_px:
        return _Fit(kind="other", corners=np.zeros((0, 2)), shape=outline.astype(np.float64), error_px=math.inf)
    return best


def _fit_ellipse(outline: Outline) -> _Fit | None:
    if len(outline) < 12:
        return None
    (x_px, y_px), (first, second), turn = cv2.fitEllipseDirect(outline)
    if not (math.isfinite(first) and math.isfinite(second) and min(first, second) > 1):
        return None
    turned = np.linspace(0, 2 * math.pi, 180, endpoint=False)
    cosine, sine = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    along, across = first / 2 * np.cos(turned), second / 2 * np.sin(turned)
    shape = np.stack((x_px + along * cosine - across * sine, y_px + along * sine + across * cosine), axis=1)
    kind = "circle" if min(first, second) >= _CIRCLE_RATIO * max(first, second) else "ellipse"
    return _Fit(kind=kind, corners=np.zeros((0, 2)), shape=shape, error_px=_stray(outline, shape))


def _fit_polygon(outline: Outline, allowed_px: float) -> _Fit | None:
    """Return the polygon with the fewest corners that fits the outline, otherwise the closest."""
    length = float(cv2.arcLength(outline, True))
    best: _Fit | None = None
    for tolerance in _TOLERANCES:
        rough = cv2.approxPolyDP(outline, max(tolerance * length, 1.2), True).reshape(-1, 2)
        if not 3 <= len(rough) <= _MAX_CORNERS:
            continue
        corners = _refine_corners(outline, rough)
        error = _stray(outline, corners)
        if best is None or error < 0.8 * best.error_px:
            best = _Fit(kind=_name(corners), corners=corners, shape=corners, error_px=error)
        if error <= allowed_px:
            break
    return best


def _refine_corners(outline: Outline, rough: Outline) -> NDArray[np.float64]:
    """Refine corners as intersections of lines through the sides' middle parts, which rounded corners do not move."""
    starts = [int(np.flatnonzero((outline == corner).all(axis=1))[0]) for corner in rough]
    lines = []
    for start, end in zip(starts, [*starts[1:], starts[0]], strict=True):
        count = (end - start) % len(outline) or len(outline)
        trim = max(count // 8, 1)
        side = outline[np.arange(start + trim, start + max(count - trim, trim + 2)) % len(outline)].astype(np.float64)
        middle = side.mean(axis=0)
        lines.append((middle, np.linalg.svd(side - middle, full_matrices=False)[2][0]))
    corners = []
    reach = 0.25 * math.sqrt(max(float(np.ptp(outline[:, 0])) * float(np.ptp(outline[:, 1])), 1.0))
    for (point, along), (other, beside), old in zip([lines[-1], *lines[:-1]], lines, rough, strict=True):
        crossing = along[0] * beside[1] - along[1] * beside[0]
        offset = other - point
        step = (offset[0] * beside[1] - offset[1] * beside[0]) / crossing if abs(crossing) > 0.05 else math.inf
        met = point + step * along if math.isfinite(step) else old.astype(np.float64)
        corners.append(met if math.dist(met, old) <= reach else old.astype(np.float64))
    return np.array(corners)


def _stray(outline: Outline, shape: NDArray[np.float64]) -> float:
    """Return the root mean square distance of outline pixels from a closed polyline, in pixels."""
    points = outline[:: max(len(outline) // 400, 1)].astype(np.float64)
    start, side = shape, np.roll(shape, -1, axis=0) - shape
    squared = np.maximum((side**2).sum(axis=1), 1e-9)
    offset = points[:, None] - start[None]
    place = np.clip(np.einsum("psk,sk->ps", offset, side) / squared, 0, 1)
    distance = np.linalg.norm(offset - place[..., None] * side[None], axis=2).min(axis=1)
    return float(np.sqrt((distance**2).mean()))


def _name(corners: NDArray[np.float64]) -> str:
    if len(corners) != 4:
        return _NAMES.get(len(corners), f"{len(corners)}-gon")
    sides = np.roll(corners, -1, axis=0) - corners
    lengths = np.maximum(np.linalg.norm(sides, axis=1), 1e-9)
    slant = np.abs((sides * np.roll(sides, -1, axis=0)).sum(axis=1)) / (lengths * np.roll(lengths, -1))
    if float(slant.max()) > math.sin(math.radians(_RIGHT_ANGLE_SLACK_DEG)):
        return "quadrilateral"
    width, height = lengths[0] + lengths[2], lengths[1] + lengths[3]
    return "square" if min(width, height) >= _SQUARE_RATIO * max(width, height) else "rectangle"


def _center(outline: Outline) -> tuple[float, float]:
    moments = cv2.moments(outline)
    if moments["m00"] == 0:
        x_px, y_px = outline.mean(axis=0).tolist()
    else:
        x_px, y_px = moments["m10"] / moments["m00"], moments["m01"] / moments["m00"]
    return round(x_px, 1), round(y_px, 1)


def _median_color(contour: Contour, mask: Mask, image: RgbImage) -> tuple[int, int, int]:
    """Return the median colour inside the outline, without its blurred rim if anything remains."""
    box = contour.box_px
    inside = np.zeros((box.height, box.width), dtype=np.uint8)
    cv2.drawContours(inside, [contour.points_px - (box.left, box.top)], -1, 1, cv2.FILLED)
    inside[~mask[box.top : box.bottom, box.left : box.right]] = 0
    core = cv2.erode(inside, np.ones((3, 3), np.uint8))
    crop = image[box.top : box.bottom, box.left : box.right]
    pixels = crop[(core if core.any() else inside) > 0]
    red, green, blue = np.median(pixels, axis=0).astype(int).tolist()
    return red, green, blue
