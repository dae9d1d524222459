"""Measure objects, in pixels and in units of length, and find the scale bar that gives the unit."""

import math
import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import ImageError, require
from visual_tools.images.files import ImageSource
from visual_tools.packages import cv2
from visual_tools.regions.components import Outline
from visual_tools.regions.counting import Count, CountedObject, count_objects
from visual_tools.regions.inputs import RgbImage, to_image
from visual_tools.results import ResultSequence

_UNITS = {
    **{name: name for name in ("nm", "mm", "cm", "m", "km", "in", "ft", "mi")},
    **dict.fromkeys(("µm", "μm", "um", "pm", "jm", "micron", "microns"), "µm"),
}
"""Units as read by OCR, mapped to the intended unit.

The letter mu is often read as u, p or j, and no image has a bar of picometres.
"""

_LABEL = re.compile(r"^[^\d]{0,3}(\d+(?:[.,]\d+)?)\s*([a-zA-Zµμ]{1,7})\.?$")
# Heuristics without another source; measured together in benchmarks/visual/README.md, "Counting and size".
_MIN_ASPECT = 4.0
_MIN_LENGTH_SHARE = 0.02
_MAX_LENGTH_SHARE = 0.8
_REACH_HEIGHTS = 3.0
"""Maximum distance of a label from its bar, in heights of the label."""

_MIN_CONTRAST_LEVELS = 40
_MIN_FILL = 0.8
_TICK_FILL = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleBar:
    """Scale bar of an image.

    Attributes:
        length_px: Length; if it has ticks at its ends, between the centers of the ticks.
        value: Length that it represents, in `unit`.
        unit: "nm", "µm", "mm", "cm", "m", "km", "in", "ft" or "mi".
        units_per_px: Length of one pixel, in `unit`.
        bar_px: Box of the bar.
        label_px: Box of its text.
    """

    length_px: float
    value: float
    unit: str
    units_per_px: float
    bar_px: Box
    label_px: Box

    def covers(self, box: Box) -> bool:
        """Return True if a box is mainly on the bar or its label."""
        own = max(self.bar_px.padded(2).intersection(box), self.label_px.padded(4).intersection(box))
        return own > 0.5 * box.area


def find_scale_bar(image: ImageSource) -> ScaleBar:
    """Find the scale bar and read its length.

    Args:
        image: Anything `load_image` takes.

    Raises:
        ImageError: If there is no text such as "50 µm", or no bar next to it; then measure the bar yourself and pass
            `scale_bar=(length_px, value, unit)`.
    """
    pixels = to_image(image)
    labels = _find_labels(pixels)
    if not labels:
        raise ImageError(
            'found no text such as "50 µm" or "1 cm"; measure the bar and give scale_bar=(length_px, value, unit)'
        )
    for label, value, unit in labels:
        match = _find_bar(pixels, label)
        if match is not None:
            bar, length_px = match
            scale = value / length_px
            return ScaleBar(length_px=length_px, value=value, unit=unit, units_per_px=scale, bar_px=bar, label_px=label)
    texts = ", ".join(f"{value:g} {unit}" for _, value, unit in labels)
    raise ImageError(f"found the text {texts}, but no bar near it; give scale_bar=(length_px, value, unit)")


def _find_labels(image: RgbImage) -> list[tuple[Box, float, str]]:
    """Find texts that are a length: box, value, unit; number and unit may have been read separately."""
    from visual_tools.ocr import read_text

    lines = [(line.text.strip(), line.box_px) for line in read_text(image)]
    joined = [
        (f"{number} {unit}", left.union(right))
        for number, left in lines
        for unit, right in lines
        if left.overlap_y(right) > 0.3 * left.height and 0 < -left.overlap_x(right) < 3 * left.height
        if left.right <= right.left
    ]
    labels = []
    for text, box in [*lines, *joined]:
        match = _LABEL.match(text)
        if match is None or match[2].lower() not in _UNITS:
            continue
        value, unit = float(match[1].replace(",", ".")), _UNITS[match[2].lower()]
        if value > 0:
            labels.append((box, value, unit))
    return labels


def _find_bar(image: RgbImage, label: Box) -> tuple[Box, float] | None:
    """Find the longest horizontal bar near a label, dark or light; also return its length in pixels."""
    height, width = image.shape[:2]
    reach = round(_REACH_HEIGHTS * label.height)
    area = label.padded(round(_MAX_LENGTH_SHARE * width), reach).clipped(width, height)
    grey = image[area.top : area.bottom, area.left : area.right].astype(np.int16).mean(axis=2)
    middle = float(np.median(grey))
    bars: list[tuple[Box, float]] = []
    for sign in (1, -1):
        away = sign * (grey - middle)
        strongest = float(np.percentile(away, 99.8))
        if strongest >= _MIN_CONTRAST_LEVELS:
            mask = np.asarray(away > strongest / 2)
            bars += [(bar.moved(area.left, area.top), bar.width - _tick_width(mask, bar)) for bar in _find_bars(mask)]
    near = [
        candidate
        for candidate in bars
        if _is_beside(candidate[0], label, reach) and candidate[0].width <= _MAX_LENGTH_SHARE * width
    ]
    return max(near, key=lambda candidate: candidate[1], default=None)


def _find_bars(mask: NDArray[np.bool_]) -> list[Box]:
    """Find filled rectangles that are much longer than high, with or without ticks at their ends."""
    shortest = max(round(_MIN_LENGTH_SHARE * mask.shape[1]), 8) | 1
    runs = cv2.morphologyEx(mask.view(np.uint8), cv2.MORPH_OPEN, np.ones((1, shortest), np.uint8))
    num, _, stats, _ = cv2.connectedComponentsWithStats(runs, connectivity=8)
    return [
        Box(left, top, left + width, top + height)
        for left, top, width, height, pixels in stats[1:num].tolist()
        if width >= _MIN_ASPECT * height and pixels >= _MIN_FILL * width * height
    ]


def _tick_width(mask: NDArray[np.bool_], bar: Box) -> int:
    """Return the width of the ticks at a bar's ends, 0 if there are none; length is measured between their centers."""
    tall = bar.padded(0, max(bar.height, 2)).clipped(mask.shape[1], mask.shape[0])
    is_tick = mask[tall.top : tall.bottom, bar.left : bar.right].mean(axis=0) > _TICK_FILL
    ends = [int(np.argmin(side)) for side in (is_tick[: bar.width // 4], is_tick[::-1][: bar.width // 4])]
    return min(ends)


def _is_beside(bar: Box, label: Box, reach_px: int) -> bool:
    """Return True if a bar is above or below a label, or left or right of it at the same height."""
    overlaps = bar.overlap_x(label) > 0.3 * min(bar.width, label.width)
    gap = -bar.overlap_y(label)
    if overlaps:
        return -1 <= gap <= reach_px
    return bar.overlap_y(label) > 0 and -bar.overlap_x(label) <= reach_px


_MM_PER_INCH = 25.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Sizes of one object, without `_px` in `Measurements.unit`, which is "px" if no scale is known.

    Attributes:
        number: Number in `Measurements.count`.
        area: Area in units squared.
        perimeter: Length of the outline.
        length: Long side of the smallest rotated rectangle around it.
        width: Short side of that rectangle.
        equivalent_diameter: Diameter of the circle of the same area.
        circularity: 4 pi area / perimeter^2: 1 for a circle, 0.79 for a square.
        angle_deg: Direction of the long side, counterclockwise from the x axis as displayed, 0 to 180.
        centroid_px: Mean x and y of its pixels.
        box_px: Smallest upright box.
        is_at_border: True if it touches the edge of the image, so that it may be larger than measured.
        outline_px: (N, 2) int, x and y of its outermost pixels.
    """

    number: int
    area: float
    perimeter: float
    length: float
    width: float
    equivalent_diameter: float
    circularity: float
    angle_deg: float
    centroid_px: tuple[float, float]
    box_px: Box
    is_at_border: bool
    outline_px: Outline = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Measurements(ResultSequence[Measurement]):
    """Sizes of all objects; behaves as a sequence of `Measurement`.

    Attributes:
        objects: Measurements in reading order.
        unit: Unit of all lengths: "px", "mm", or the unit of the scale bar.
        units_per_px: Length of one pixel.
        count: Counted objects: masks, labels, outlines.
    """

    _items = "objects"
    objects: tuple[Measurement, ...]
    unit: str
    units_per_px: float
    count: Count

    def distance(self, start_px: tuple[float, float], end_px: tuple[float, float]) -> float:
        """Return the distance between two points of the image (x, y in pixels), in `unit`."""
        return math.dist(start_px, end_px) * self.units_per_px

    def __repr__(self) -> str:
        if not self.objects:
            return f"Measurements(0 objects, in {self.unit})"
        middle = {
            name: float(np.median([getattr(item, name) for item in self.objects]))
            for name in ("length", "width", "equivalent_diameter")
        }
        text = ", ".join(f"{name} {value:.4g}" for name, value in middle.items())
        return f"Measurements({len(self)} objects, in {self.unit} at {self.units_per_px:.4g} per px; medians: {text})"


def measure_objects(
    image: ImageSource | Count,
    *,
    mm_per_px: float | None = None,
    dpi: float | None = None,
    scale_bar: ScaleBar | tuple[float, float, str] | None = None,
    split: bool = True,
    min_area_px: int | None = None,
) -> Measurements:
    """Measure every object of an image.

    Args:
        image: An image (anything `load_image` takes), a mask (H, W) bool, or a result of `count_objects`, which has its
            own options.
        mm_per_px: Length of one pixel in mm.
        dpi: Pixels per inch of a scan; sizes are then in mm.
        scale_bar: Result of `find_scale_bar(image)`, or (length in pixels, value, unit), such as (240, 50, "µm"). A
            detected bar and its label are not measured as objects.
        split: See `count_objects`.
        min_area_px: See `count_objects`.

    Raises:
        ImageError: If it is not an image, more than one scale is given, or a scale is not above 0.

    Source: area and moments by pixel counts; the perimeter by Crofton's formula in four directions, scaled by the
        same estimate for the convex hull, whose true length is known.

    Example:
        >>> mask = np.zeros((50, 90), dtype=bool)
        >>> mask[10:30, 10:70] = True
        >>> [one.length for one in measure_objects(mask, mm_per_px=0.1)]
        [6.0]
    """
    units_per_px, unit = _find_scale(mm_per_px, dpi, scale_bar)
    count = image if isinstance(image, Count) else count_objects(image, split=split, min_area_px=min_area_px)
    objects = count.objects
    if isinstance(scale_bar, ScaleBar):
        objects = tuple(item for item in objects if not scale_bar.covers(item.box_px))
    measured = tuple(_measure(item, count.labels, units_per_px) for item in objects)
    return Measurements(objects=measured, unit=unit, units_per_px=units_per_px, count=count)


def _find_scale(
    mm_per_px: float | None, dpi: float | None, scale_bar: ScaleBar | tuple[float, float, str] | None
) -> tuple[float, str]:
    given = [name for name, value in (("mm_per_px", mm_per_px), ("dpi", dpi), ("scale_bar", scale_bar)) if value]
    if len(given) > 1:
        raise ImageError(f"found {' and '.join(given)}, expected one scale only")
    if mm_per_px is not None:
        factor, unit = mm_per_px, "mm"
    elif dpi is not None:
        factor, unit = _MM_PER_INCH / dpi if dpi > 0 else 0.0, "mm"
    elif isinstance(scale_bar, ScaleBar):
        factor, unit = scale_bar.units_per_px, scale_bar.unit
    elif scale_bar is not None:
        length_px, value, unit = scale_bar
        factor = value / length_px if length_px > 0 else 0.0
    else:
        return 1.0, "px"
    if not factor > 0:
        raise ImageError(f"found a scale of {factor} {unit} per pixel, expected more than 0")
    return factor, unit


def _measure(item: CountedObject, labels: NDArray[np.int32], units_per_px: float) -> Measurement:
    box = item.box_px
    region = np.asarray(labels[box.top : box.bottom, box.left : box.right] == item.number)
    hull = cv2.convexHull(item.outline_px)
    hull_region = np.zeros(region.shape, dtype=np.uint8)
    cv2.fillConvexPoly(hull_region, hull - (box.left, box.top), 1)
    rim_px = _find_rim(hull)
    _, (first, second), turn = cv2.minAreaRect(item.outline_px)
    length_px, width_px = max(first, second) + 2 * rim_px, min(first, second) + 2 * rim_px
    turn = turn if first >= second else turn + 90
    perimeter_px = (cv2.arcLength(hull, True) + 2 * rim_px * _sum_corners(hull)) * _roughness(region, hull_region)
    return Measurement(
        number=item.number,
        area=_round(item.area_px * units_per_px**2),
        perimeter=_round(perimeter_px * units_per_px),
        length=_round(length_px * units_per_px),
        width=_round(width_px * units_per_px),
        equivalent_diameter=_round(math.sqrt(4 * item.area_px / math.pi) * units_per_px),
        circularity=round(min(4 * math.pi * item.area_px / perimeter_px**2, 1.0), 4),
        angle_deg=round(-turn % 180, 1) % 180,
        centroid_px=item.centroid_px,
        box_px=box,
        is_at_border=item.is_at_border,
        outline_px=item.outline_px,
    )


def _find_rim(hull: NDArray[np.int32]) -> float:
    """Return the distance of the edge outside the outermost pixel centers, in pixels, from 0 to 0.5.

    An upright side is half a pixel outside; on a slanted side some center is nearly on the edge. The hull
    expanded by this distance has the area of the pixels whose centers it contains.

    Source: G. Pick, Geometrisches zur Zahlenlehre, 1899: a polygon of area A with B grid points on its edge contains
        A + B / 2 + 1 grid points.
    """
    steps = np.abs(hull - np.roll(hull, -1, axis=0)).reshape(-1, 2)
    missing = float(np.gcd(steps[:, 0], steps[:, 1]).sum()) / 2 + 1
    around, corners = float(cv2.arcLength(hull, True)), _sum_corners(hull)
    return min((math.sqrt(around**2 + 4 * corners * missing) - around) / (2 * corners), 0.5)


def _sum_corners(hull: NDArray[np.int32]) -> float:
    """Return the sum of tan(turn / 2) over the corners: sides moved out by d lengthen the outline by 2 d times this."""
    corners = hull.reshape(-1, 2).astype(np.float64)
    if len(corners) < 3:
        return 4.0
    sides = np.roll(corners, -1, axis=0) - corners
    angles = np.arctan2(sides[:, 1], sides[:, 0])
    turns = np.abs((np.roll(angles, -1) - angles + math.pi) % (2 * math.pi) - math.pi)
    return float(np.tan(np.minimum(turns, 2.4) / 2).sum())


def _roughness(region: NDArray[np.bool_], hull_region: NDArray[np.uint8]) -> float:
    """Return the ratio of the outline's length to that of the convex hull, at least 1."""
    if np.count_nonzero(region) >= np.count_nonzero(hull_region):
        return 1.0
    crofton = require("skimage.measure", "visual").perimeter_crofton
    return max(float(crofton(region) / crofton(hull_region.astype(np.bool_))), 1.0)


def _round(value: float) -> float:
    """Round to six significant digits, more than the precision of a pixel count."""
    return float(f"{value:.6g}")
