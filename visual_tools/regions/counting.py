"""Count the objects of an image: find them, cut touching ones apart, drop specks, number them."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.images import ImageSource
from visual_tools.packages import cv2
from visual_tools.regions.binary import Color, Foreground, Method, binarize
from visual_tools.regions.components import Components, Outline, find_components, is_frame, trace_outline
from visual_tools.regions.inputs import Mask
from visual_tools.regions.separate import CONVEX, Parts, cut_at_corners, fill, separate, solidity

# Rules of thumb without another source; measured together in benchmarks/visual/README.md, "Counting and size".
_SPECK_SHARE = 0.06
"""Of the typical object's area; a ball of a quarter of the typical diameter still counts."""

_MIN_AREA_PX = 6
_MIN_PEERS = 2
_PEER_CONVEX = 0.9
_ROW_SHARE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedObject:
    """One object.

    Attributes:
        number: From 1, rows from top to bottom, in each from left to right; also its value in `Count.labels`.
        area_px: Pixels, its holes filled.
        box_px: The smallest upright box around it.
        centroid_px: Mean x and y of its pixels.
        equivalent_diameter_px: Diameter of the circle of the same area.
        is_at_border: Touches the edge of the image, so a part of it may be missing.
        was_touching: Was cut from a neighbour that it touches.
        outline_px: (N, 2) int, x and y of its outermost pixels in turn.
    """

    number: int
    area_px: int
    box_px: Box
    centroid_px: tuple[float, float]
    equivalent_diameter_px: float
    is_at_border: bool
    was_touching: bool
    outline_px: Outline = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Count:
    """How many objects, and each of them.

    Attributes:
        count: All of them, those at the border too.
        num_at_border: Of these, how many touch the edge of the image.
        num_split: Of these, how many were cut from a touching neighbour.
        num_specks: Regions too small beside the typical object, which are not counted.
        objects: In reading order.
        mask: (H, W) bool, where objects are.
        labels: (H, W) int32, the number of the object at each pixel, 0 is background.
    """

    count: int
    num_at_border: int
    num_split: int
    num_specks: int
    objects: tuple[CountedObject, ...]
    mask: Mask
    labels: NDArray[np.int32]

    def __repr__(self) -> str:
        text = f"Count({self.count} objects, {self.num_at_border} at the border, {self.num_split} cut from neighbours"
        text += f", {self.num_specks} specks left out"
        if self.objects:
            sizes = np.array([found.equivalent_diameter_px for found in self.objects])
            text += f"; diameter {sizes.min():.1f} to {sizes.max():.1f} px, median {np.median(sizes):.1f}"
        return text + ")"


def count_objects(
    image: ImageSource,
    *,
    method: Method = "auto",
    threshold: float | None = None,
    color: Color | None = None,
    foreground: Foreground = "auto",
    split: bool = True,
    min_area_px: int | None = None,
) -> Count:
    """Count objects on a background that is found by itself, also under uneven light.

    Args:
        image: An image (anything `load_image` takes), or a mask (H, W) bool.
        method: How objects are told from the background, see `binarize`.
        threshold: See `binarize`.
        color: Count what has this colour: a name, "#rrggbb" or RGB.
        foreground: "dark" or "light" counts only what is darker or lighter than the background.
        split: Cut touching objects apart. Switch it off for shapes with narrow waists, such as letters or animals.
        min_area_px: Smaller regions are specks; left out, a small share of the typical object.

    Raises:
        ImageError: No image and no mask, or an argument of `binarize` is wrong.

    Example:
        >>> mask = np.zeros((40, 80), dtype=bool)
        >>> mask[10:30, 10:30] = mask[10:30, 50:70] = True
        >>> count_objects(mask).count
        2
    """
    mask = binarize(image, method=method, threshold=threshold, color=color, foreground=foreground).mask
    regions = find_components(mask)
    is_speck = regions.areas_px < (_MIN_AREA_PX if min_area_px is None else min_area_px)
    labels, touching = _separate_regions(regions, is_speck, split)
    found = _describe(labels, touching)
    typical = _find_typical_area(np.array([one.area_px for one in found], dtype=np.int64))
    floor = max(_SPECK_SHARE * typical, _MIN_AREA_PX) if min_area_px is None else min_area_px
    kept = _in_reading_order([one for one in found if one.area_px >= floor])
    return _make_count(kept, labels, num_specks=int(is_speck.sum()) + len(found) - len(kept))


def _separate_regions(
    regions: Components, is_speck: NDArray[np.bool_], split: bool
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Labels of single objects, and for each (0 is none) whether it was cut from a neighbour."""
    height, width = regions.labels.shape
    typical = _find_typical_area(regions.areas_px[~is_speck])
    found = []
    largest_first = np.argsort(-regions.areas_px, kind="stable")  # what lies inside another is drawn over it
    for index in largest_first[~is_speck[largest_first]].tolist():
        box = Box(*regions.boxes_px[index].tolist())
        if is_frame(int(regions.areas_px[index]), box, width, height):
            continue
        region = np.asarray(regions.labels[box.top : box.bottom, box.left : box.right] == index + 1)
        found.append((box, separate(region, typical) if split else fill(region)))
    return _paint(_recut(found) if split else found, (height, width))


def _recut(found: list[tuple[Box, Parts]]) -> list[tuple[Box, Parts]]:
    """Cut once more what is larger and less convex than the objects that are surely single."""
    single: list[int] = []
    odd: list[tuple[int, tuple[slice, slice], Mask]] = []
    for index, (_, parts) in enumerate(found):
        for place, region in parts.regions():
            convex = solidity(region)
            if convex >= _PEER_CONVEX:
                single.append(int(np.count_nonzero(region)))
            if convex < CONVEX:
                odd.append((index, place, region))
    if len(single) < _MIN_PEERS:
        return found
    typical = _find_typical_area(np.array(single))
    for index, place, region in odd:
        pieces = cut_at_corners(region, typical)
        if pieces.num > 1:
            box, parts = found[index]
            labels = parts.labels.copy()
            added = pieces.labels > 1
            labels[place][added] = pieces.labels[added] + parts.num - 1
            found[index] = (box, Parts(labels=labels, num=parts.num + pieces.num - 1))
    return found


def _paint(found: list[tuple[Box, Parts]], shape: tuple[int, int]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """One label image of all parts, and for each label (0 is none) whether it was cut from a neighbour."""
    labels = np.zeros(shape, dtype=np.int32)
    touching = [False]
    for box, parts in found:
        inside = parts.labels > 0
        crop = labels[box.top : box.bottom, box.left : box.right]
        crop[inside] = parts.labels[inside] + (len(touching) - 1)
        touching += [parts.num > 1] * parts.num
    return labels, np.array(touching)


def _find_typical_area(areas: NDArray[np.integer]) -> float:
    """The median, each area weighing its side: a mass of specks does not pull it down, nor one giant up; 0 for none."""
    if not len(areas):
        return 0.0
    ordered = np.sort(areas)
    weights = np.cumsum(np.sqrt(ordered))
    return float(ordered[np.searchsorted(weights, weights[-1] / 2)])


def _describe(labels: NDArray[np.int32], touching: NDArray[np.bool_]) -> list[CountedObject]:
    """Every label as an object that still has the number of its label."""
    ndimage = require("scipy.ndimage", "visual")
    height, width = labels.shape
    found = []
    for number, place in enumerate(ndimage.find_objects(labels), start=1):
        if place is None:
            continue
        top, left, bottom, right = place[0].start, place[1].start, place[0].stop, place[1].stop
        region = np.asarray(labels[place] == number)
        moments = cv2.moments(region.view(np.uint8), binaryImage=True)
        area = int(moments["m00"])
        found.append(
            CountedObject(
                number=number,
                area_px=area,
                box_px=Box(left, top, right, bottom),
                centroid_px=(round(left + moments["m10"] / area, 2), round(top + moments["m01"] / area, 2)),
                equivalent_diameter_px=round(math.sqrt(4 * area / math.pi), 2),
                is_at_border=left == 0 or top == 0 or right == width or bottom == height,
                was_touching=bool(touching[number]),
                outline_px=trace_outline(region, left, top),
            )
        )
    return found


def _in_reading_order(found: list[CountedObject]) -> list[CountedObject]:
    """Rows from top to bottom (a row is as high as the typical object), in each from left to right."""
    if not found:
        return []
    pitch = _ROW_SHARE * float(np.median([one.box_px.height for one in found]))
    rows: list[list[CountedObject]] = []
    for one in sorted(found, key=lambda item: item.centroid_px[1]):
        if not rows or one.centroid_px[1] > rows[-1][0].centroid_px[1] + pitch:
            rows.append([])
        rows[-1].append(one)
    return [one for row in rows for one in sorted(row, key=lambda item: item.centroid_px[0])]


def _make_count(kept: list[CountedObject], labels: NDArray[np.int32], num_specks: int) -> Count:
    numbers = np.zeros(int(labels.max(initial=0)) + 1, dtype=np.int32)
    for number, one in enumerate(kept, start=1):
        numbers[one.number] = number
    objects = tuple(replace(one, number=number) for number, one in enumerate(kept, start=1))
    final = numbers[labels]
    return Count(
        count=len(objects),
        num_at_border=sum(one.is_at_border for one in objects),
        num_split=sum(one.was_touching for one in objects),
        num_specks=num_specks,
        objects=objects,
        mask=np.asarray(final > 0),
        labels=final,
    )
