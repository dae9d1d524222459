"""Count the objects of an image: find them, separate touching ones, drop specks, number them.

Touching objects are separated by a watershed of the distance to the edge, then basins without a neck between them are
joined. A basin is kept if the neck to its higher neighbour is clearly narrower than the basin, measured relative to its
own radius, so that large and small objects in one image are treated alike. Objects that touch without a neck, such as
two rods in an L, are cut straight across from an inward corner, and only if other objects of the image show the typical
size; otherwise an arm could not be distinguished from a neighbour.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.images.files import ImageSource
from visual_tools.packages import cv2
from visual_tools.regions.binary import Color, Foreground, Method, binarize
from visual_tools.regions.components import Components, Outline, find_components, hull_area, is_frame, trace_outline
from visual_tools.regions.inputs import Mask

# Heuristics without another source; measured together in benchmarks/visual/README.md, "Counting and size".
_MIN_NECK_DEPTH = 0.12
"""Share of the smaller object's radius by which a neck must be narrower than the object."""

_MIN_NECK_DEPTH_PX = 1.0
_CRUMB_SHARE = 0.06
"""Share of the largest piece's area below which a piece is a bump of its neighbour."""

_CONVEX_SOLIDITY = 0.975
_MIN_SOLIDITY_GAIN = 0.02
_MIN_SOLIDITY = 0.85
_CLUSTER_AREAS = 2.5

_HOLE_SHARES = (0.35, 0.12, 0.0)
"""Share of the region's radius below which a hole is inside an object; larger holes are gaps between objects."""

_ALL, _HEAD, _TAIL = slice(None), slice(None, -1), slice(1, None)
_NEIGHBOURS = (
    ((_ALL, _HEAD), (_ALL, _TAIL)),
    ((_HEAD, _ALL), (_TAIL, _ALL)),
    ((_HEAD, _HEAD), (_TAIL, _TAIL)),
    ((_HEAD, _TAIL), (_TAIL, _HEAD)),
)
"""Pairs of array views that align each pixel with a neighbour: right, below, and both diagonals."""

_MAX_SPLIT_PIXELS = 1_500_000
CONVEX = 0.955
_CLEARLY_LARGER = 1.35
_SURELY_SEVERAL = 1.6
_MIN_PART_SHARE = 0.2
"""Minimum area of a piece, as a share of the typical object's area."""
_MIN_GAIN = 0.04
"""Minimum gain in convexity by a cut; not required for a region so large that it surely contains several objects."""
_INWARD_DEG = 20.0
_ROUGH_SHARE = 0.06
_CUT_COST = 0.03
_MAX_SAMPLES = 120
_MAX_TRIES = 10
_MAX_CUTS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Region cut into parts: labels (h, w) int32 with 1 to `num`, 0 is outside."""

    labels: NDArray[np.int32]
    num: int

    def regions(self) -> list[tuple[tuple[slice, slice], Mask]]:
        """Return for each part, by number, its position in `labels` (rows, columns) and its mask there."""
        places = require("scipy.ndimage", "visual").find_objects(self.labels, self.num)
        return [
            (place, np.asarray(self.labels[place] == number))
            for number, place in enumerate(places, start=1)
            if place is not None
        ]


def separate(region: Mask, typical_area_px: float = 0.0) -> Parts:
    """Cut one region (a crop with its mask, holes not filled) into the objects that touch in it.

    Holes in an object are filled, gaps between objects are kept. Shape alone does not distinguish them, so all are
    filled first, then only smaller and smaller ones, while the parts become clearly more convex.

    Args:
        region: (h, w) bool.
        typical_area_px: Typical area of the regions in the image. A region that is not clearly larger stays in one
            piece if its parts would not be convex, since they are then limbs of one object.
    """
    best = _separate_solid(_fill_holes(region, None))
    if _has_holes(region):
        rating = _mean_solidity(best)
        radius = float(_distance(region).max())
        for share in _HOLE_SHARES:
            parts = _separate_solid(_fill_holes(region, share * radius))
            gained = _mean_solidity(parts)
            if parts.num > 1 and gained > rating + _MIN_SOLIDITY_GAIN:
                best, rating = parts, gained
    could_be_one = np.count_nonzero(region) < _CLUSTER_AREAS * typical_area_px
    return fill(region) if best.num > 1 and could_be_one and _mean_solidity(best) < _MIN_SOLIDITY else best


def fill(region: Mask) -> Parts:
    """Return one region with its holes filled, in one piece."""
    return Parts(labels=_fill_holes(region, None).astype(np.int32), num=1)


def solidity(region: Mask) -> float:
    """Return the area divided by the area of the convex hull, 0 to 1."""
    outline = trace_outline(region)
    return min(float(np.count_nonzero(region)) / hull_area(outline), 1.0) if len(outline) else 0.0


def _separate_solid(region: Mask) -> Parts:
    whole = Parts(labels=region.astype(np.int32), num=1)
    if solidity(region) >= _CONVEX_SOLIDITY:
        return whole
    scale = min(1.0, (_MAX_SPLIT_PIXELS / region.size) ** 0.5)
    parts = _cut_at_necks(region if scale == 1.0 else _resize(region, scale))
    if parts.num == 1:
        return whole
    return parts if scale == 1.0 else Parts(labels=_enlarge(parts.labels, region), num=parts.num)


def _cut_at_necks(region: Mask) -> Parts:
    segmentation = require("skimage.segmentation", "visual")
    distance = cv2.GaussianBlur(_distance(region), (0, 0), 1.0)
    distance[~region] = 0
    peaks = (distance >= cv2.dilate(distance, np.ones((5, 5), np.uint8))) & region
    num, markers = cv2.connectedComponents(peaks.view(np.uint8), connectivity=8)
    if num <= 2:
        return Parts(labels=region.astype(np.int32), num=1)
    basins = segmentation.watershed(-distance, markers, mask=region, connectivity=2)
    heights = np.zeros(num)
    np.maximum.at(heights, markers[peaks], distance[peaks])
    numbers = _join_basins(heights, np.bincount(basins.ravel(), minlength=num), *_find_necks(basins, distance))
    return Parts(labels=numbers[basins], num=int(numbers.max()))


def _find_necks(
    basins: NDArray[np.int32], distance: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Find pairs of touching basins (N, 2) and the height of the pass between them (N,)."""
    pairs, heights = [], []
    for first, second in _NEIGHBOURS:
        first_basins, second_basins = basins[first], basins[second]
        meet = (first_basins != second_basins) & (first_basins > 0) & (second_basins > 0)
        pairs.append(
            np.stack(
                (np.minimum(first_basins, second_basins)[meet], np.maximum(first_basins, second_basins)[meet]), axis=1
            )
        )
        heights.append(np.minimum(distance[first], distance[second])[meet])
    both = np.concatenate(pairs).astype(np.int64)
    unique, place = np.unique(both, axis=0, return_inverse=True)
    passes = np.zeros(len(unique))
    np.maximum.at(passes, place.ravel(), np.concatenate(heights))
    return unique, passes


def _join_basins(
    heights: NDArray[np.float64],
    areas: NDArray[np.int64],
    pairs: NDArray[np.int64],
    passes: NDArray[np.float64],
) -> NDArray[np.int32]:
    """Return the new number (from 1) of each basin after joining.

    Basins without a neck between them are joined, and tiny ones with their neighbour. The highest pass is processed
    first, so that joined basins grow from the inside.
    """
    leader = list(range(len(heights)))
    top, size = heights.tolist(), areas.tolist()
    least = 0.0

    def find(basin: int) -> int:
        while leader[basin] != basin:
            leader[basin] = leader[leader[basin]]
            basin = leader[basin]
        return basin

    order = np.argsort(-passes)
    for is_for_crumbs in (False, True):
        if is_for_crumbs:
            least = _CRUMB_SHARE * max(size[find(basin)] for basin in range(1, len(heights)))
        for index in order:
            kept, joined = (find(int(basin)) for basin in pairs[index])
            lower = min(top[kept], top[joined])
            has_no_neck = lower - passes[index] < max(_MIN_NECK_DEPTH * lower, _MIN_NECK_DEPTH_PX)
            if kept != joined and (has_no_neck or (is_for_crumbs and min(size[kept], size[joined]) < least)):
                leader[joined] = kept
                top[kept], size[kept] = max(top[kept], top[joined]), size[kept] + size[joined]
    roots = np.array([find(basin) for basin in range(len(heights))])
    _, numbers = np.unique(roots, return_inverse=True)
    return numbers.astype(np.int32)


def _distance(region: Mask) -> NDArray[np.float32]:
    """Return the distance to the nearest outside pixel, in pixels; everything beyond the crop is outside."""
    padded = np.pad(region, 1).view(np.uint8)
    distance: NDArray[np.float32] = cv2.distanceTransform(padded, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return np.ascontiguousarray(distance[1:-1, 1:-1])


def _label_outside(region: Mask) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Label the pieces outside the region, and return for each label whether it is a hole."""
    num, labels = cv2.connectedComponents(np.pad(~region, 1, constant_values=True).view(np.uint8), connectivity=4)
    is_hole = np.ones(num, dtype=bool)
    is_hole[[0, labels[0, 0]]] = False  # 0 is the region; the padding frame is not a hole
    return labels[1:-1, 1:-1], is_hole


def _has_holes(region: Mask) -> bool:
    return bool(_label_outside(region)[1].any())


def _fill_holes(region: Mask, max_radius_px: float | None) -> Mask:
    """Fill holes; if a radius is given, only those with a smaller inscribed circle."""
    labels, is_hole = _label_outside(region)
    if max_radius_px is not None and is_hole.any():
        radii = np.zeros(len(is_hole))
        np.maximum.at(radii, labels.ravel(), _distance(~region).ravel())
        is_hole &= radii < max_radius_px
    return np.asarray(region | is_hole[labels])


def _mean_solidity(parts: Parts) -> float:
    """Return the mean solidity of the parts, weighted by area."""
    regions = [region for _, region in parts.regions()]
    weights = [max(int(np.count_nonzero(region)), 1) for region in regions]
    return float(np.average([solidity(region) for region in regions], weights=weights))


def _resize(region: Mask, scale: float) -> Mask:
    size = (max(round(region.shape[1] * scale), 1), max(round(region.shape[0] * scale), 1))
    return np.asarray(cv2.resize(region.astype(np.uint8) * 255, size, interpolation=cv2.INTER_AREA) > 127)


def _enlarge(labels: NDArray[np.int32], region: Mask) -> NDArray[np.int32]:
    """Scale labels of a smaller copy to the full region: each pixel gets the nearest label."""
    ndimage = require("scipy.ndimage", "visual")
    nearest = ndimage.distance_transform_edt(labels == 0, return_distances=False, return_indices=True)
    full = cv2.resize(labels[tuple(nearest)].astype(np.float32), region.shape[::-1], interpolation=cv2.INTER_NEAREST)
    return np.where(region, full.astype(np.int32), 0)


def cut_at_corners(region: Mask, typical_area_px: float) -> Parts:
    """Cut one region, (h, w) bool without holes, into convex objects with about the area of surely single ones."""
    waiting: list[Outline] = [trace_outline(region)]
    done: list[Outline] = []
    while waiting:
        outline = waiting.pop()
        pieces = None if len(done) + len(waiting) > _MAX_CUTS else _find_cut(outline, region, typical_area_px)
        if pieces is None:
            done.append(outline)
        else:
            waiting += pieces
    labels = np.zeros(region.shape, dtype=np.int32)
    for number, outline in enumerate(done, start=1):
        cv2.fillPoly(labels, [outline], number)
    labels[~region] = 0
    if not np.all(labels[region]):  # pixels outside the largest outline belong to the first piece
        labels[region & (labels == 0)] = 1
    return Parts(labels=labels, num=len(done))


def _find_cut(outline: Outline, region: Mask, typical_area_px: float) -> tuple[Outline, Outline] | None:
    """Return the two pieces of the best cut, or None if no cut makes the pieces clearly more convex."""
    area = _enclosed(outline)
    whole = min(area / hull_area(outline), 1.0) if len(outline) > 3 else 1.0
    if whole >= CONVEX or area < _CLEARLY_LARGER * typical_area_px:
        return None
    side = math.sqrt(typical_area_px)
    best, best_score = None, whole + (0 if area > _SURELY_SEVERAL * typical_area_px else _MIN_GAIN)
    for start in _find_inward_corners(outline, _ROUGH_SHARE * side):
        for end in _find_ends(outline, start, region):
            first, second = _split(outline, start, end)
            areas = _enclosed(first), _enclosed(second)
            if min(areas) < _MIN_PART_SHARE * typical_area_px:
                continue
            convex = (areas[0] ** 2 / hull_area(first) + areas[1] ** 2 / hull_area(second)) / sum(areas)
            score = convex - _CUT_COST * math.dist(outline[start], outline[end]) / side
            if score > best_score:
                best, best_score = (first, second), score
    return best


def _find_inward_corners(outline: Outline, rough_px: float) -> list[int]:
    """Return the indices of corners that point inwards, sharpest first."""
    corners = cv2.approxPolyDP(outline, max(rough_px, 1.5), True).reshape(-1, 2).astype(np.float64)
    if len(corners) < 4:
        return []
    before, after = corners - np.roll(corners, 1, axis=0), np.roll(corners, -1, axis=0) - corners
    turns = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    angles = np.degrees(np.arctan2(turns, (before * after).sum(axis=1)))
    inward = -angles * np.sign(angles.sum())
    order = [index for index in np.argsort(-inward) if inward[index] > _INWARD_DEG]
    return [int(np.flatnonzero((outline == corners[index]).all(axis=1))[0]) for index in order[:_MAX_TRIES]]


def _find_ends(outline: Outline, start: int, region: Mask) -> list[int]:
    """Return possible ends of a cut from `start`: straight through the inside, short relative to the outline."""
    count = len(outline)
    candidates = np.arange(0, count, max(count // _MAX_SAMPLES, 1))
    around = np.abs(candidates - start)
    around = np.minimum(around, count - around)
    candidates = candidates[around > count / 20]
    around = around[around > count / 20]
    straight = np.hypot(*(outline[candidates] - outline[start]).T)
    steps = np.linspace(0.1, 0.9, 9)
    between = outline[start] + steps[:, None, None] * (outline[candidates] - outline[start])[None]
    x, y = np.rint(between).astype(int).transpose(2, 0, 1)
    is_inside = region[y, x].all(axis=0)
    ratio = np.where(is_inside, straight / around, np.inf)
    order = np.argsort(ratio)
    chosen: list[int] = []
    for index in order[np.isfinite(ratio[order])]:
        if all(abs(int(candidates[index]) - other) > count / 30 for other in chosen):
            chosen.append(int(candidates[index]))
        if len(chosen) == _MAX_TRIES:
            break
    return chosen


def _split(outline: Outline, start: int, end: int) -> tuple[Outline, Outline]:
    low, high = min(start, end), max(start, end)
    return outline[low : high + 1], np.concatenate((outline[high:], outline[: low + 1]))


def _enclosed(outline: NDArray[np.int32]) -> float:
    """Return the number of pixels inside an outline, including the outline."""
    return float(cv2.contourArea(outline)) + float(cv2.arcLength(outline, True)) / 2 + 1


# Heuristics without another source; measured together in benchmarks/visual/README.md, "Counting and size".
_SPECK_SHARE = 0.06
"""Share of the typical object's area; a ball of a quarter of the typical diameter is still counted."""

_MIN_AREA_PX = 6
_MIN_PEERS = 2
_PEER_CONVEX = 0.9
_ROW_SHARE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedObject:
    """One counted object.

    Attributes:
        number: Number from 1, in rows from top to bottom, left to right; also its value in `Count.labels`.
        area_px: Number of pixels, with its holes filled.
        box_px: Smallest upright box around it.
        centroid_px: Mean x and y of its pixels.
        equivalent_diameter_px: Diameter of the circle of the same area.
        is_at_border: True if it touches the edge of the image, so that a part of it may be missing.
        was_touching: True if it was cut from a neighbour that it touches.
        outline_px: (N, 2) int, x and y of its outermost pixels in order.
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
    """Number of objects, and each object.

    Attributes:
        count: Number of objects, including those at the border.
        num_at_border: Number of these that touch the edge of the image.
        num_split: Number of these that were cut from a touching neighbour.
        num_specks: Number of regions too small relative to the typical object, which are not counted.
        objects: Objects in reading order.
        mask: (H, W) bool, True on objects.
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
            sizes = np.array([item.equivalent_diameter_px for item in self.objects])
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
    """Count objects on a background that is detected automatically, also under uneven light.

    Args:
        image: An image (anything `load_image` takes), or a mask (H, W) bool.
        method: Method that separates objects from the background, see `binarize`.
        threshold: See `binarize`.
        color: Colour of the objects to count: a name, "#rrggbb" or RGB.
        foreground: "dark" or "light" to count only what is darker or lighter than the background.
        split: True to separate touching objects. Use False for shapes with narrow waists, such as letters or animals.
        min_area_px: Area below which regions are specks; by default a small share of the typical object.

    Raises:
        ImageError: If it is neither an image nor a mask, or an argument of `binarize` is wrong.

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
    objects = _describe(labels, touching)
    typical = _find_typical_area(np.array([item.area_px for item in objects], dtype=np.int64))
    floor = max(_SPECK_SHARE * typical, _MIN_AREA_PX) if min_area_px is None else min_area_px
    kept = _in_reading_order([item for item in objects if item.area_px >= floor])
    return _make_count(kept, labels, num_specks=int(is_speck.sum()) + len(objects) - len(kept))


def _separate_regions(
    regions: Components, is_speck: NDArray[np.bool_], split: bool
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Label single objects; also return for each label (0 is none) whether it was cut from a neighbour."""
    height, width = regions.labels.shape
    typical = _find_typical_area(regions.areas_px[~is_speck])
    cut_regions = []
    largest_first = np.argsort(-regions.areas_px, kind="stable")  # objects inside others are painted over them
    for index in largest_first[~is_speck[largest_first]].tolist():
        box = Box(*regions.boxes_px[index].tolist())
        if is_frame(int(regions.areas_px[index]), box, width, height):
            continue
        region = np.asarray(regions.labels[box.top : box.bottom, box.left : box.right] == index + 1)
        cut_regions.append((box, separate(region, typical) if split else fill(region)))
    return _paint(_recut(cut_regions) if split else cut_regions, (height, width))


def _recut(cut_regions: list[tuple[Box, Parts]]) -> list[tuple[Box, Parts]]:
    """Cut again the regions that are larger and less convex than the objects that are surely single."""
    single: list[int] = []
    odd: list[tuple[int, tuple[slice, slice], Mask]] = []
    for index, (_, parts) in enumerate(cut_regions):
        for place, region in parts.regions():
            convex = solidity(region)
            if convex >= _PEER_CONVEX:
                single.append(int(np.count_nonzero(region)))
            if convex < CONVEX:
                odd.append((index, place, region))
    if len(single) < _MIN_PEERS:
        return cut_regions
    typical = _find_typical_area(np.array(single))
    for index, place, region in odd:
        pieces = cut_at_corners(region, typical)
        if pieces.num > 1:
            box, parts = cut_regions[index]
            labels = parts.labels.copy()
            added = pieces.labels > 1
            labels[place][added] = pieces.labels[added] + parts.num - 1
            cut_regions[index] = (box, Parts(labels=labels, num=parts.num + pieces.num - 1))
    return cut_regions


def _paint(cut_regions: list[tuple[Box, Parts]], shape: tuple[int, int]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Paint all parts into one label image; also return for each label (0 is none) if it was cut from a neighbour."""
    labels = np.zeros(shape, dtype=np.int32)
    touching = [False]
    for box, parts in cut_regions:
        inside = parts.labels > 0
        crop = labels[box.top : box.bottom, box.left : box.right]
        crop[inside] = parts.labels[inside] + (len(touching) - 1)
        touching += [parts.num > 1] * parts.num
    return labels, np.array(touching)


def _find_typical_area(areas: NDArray[np.integer]) -> float:
    """Return the area-weighted median area, 0 for no areas; many specks or one giant do not shift it."""
    if not len(areas):
        return 0.0
    ordered = np.sort(areas)
    weights = np.cumsum(np.sqrt(ordered))
    return float(ordered[np.searchsorted(weights, weights[-1] / 2)])


def _describe(labels: NDArray[np.int32], touching: NDArray[np.bool_]) -> list[CountedObject]:
    """Convert every label to an object that keeps the number of its label."""
    ndimage = require("scipy.ndimage", "visual")
    height, width = labels.shape
    objects = []
    for number, place in enumerate(ndimage.find_objects(labels), start=1):
        if place is None:
            continue
        top, left, bottom, right = place[0].start, place[1].start, place[0].stop, place[1].stop
        region = np.asarray(labels[place] == number)
        moments = cv2.moments(region.view(np.uint8), binaryImage=True)
        area = int(moments["m00"])
        objects.append(
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
    return objects


def _in_reading_order(objects: list[CountedObject]) -> list[CountedObject]:
    """Sort objects into rows from top to bottom (a row is as high as the typical object), each from left to right."""
    if not objects:
        return []
    pitch = _ROW_SHARE * float(np.median([item.box_px.height for item in objects]))
    rows: list[list[CountedObject]] = []
    for item in sorted(objects, key=lambda item: item.centroid_px[1]):
        if not rows or item.centroid_px[1] > rows[-1][0].centroid_px[1] + pitch:
            rows.append([])
        rows[-1].append(item)
    return [item for row in rows for item in sorted(row, key=lambda item: item.centroid_px[0])]


def _make_count(kept: list[CountedObject], labels: NDArray[np.int32], num_specks: int) -> Count:
    numbers = np.zeros(int(labels.max(initial=0)) + 1, dtype=np.int32)
    for number, item in enumerate(kept, start=1):
        numbers[item.number] = number
    objects = tuple(replace(item, number=number) for number, item in enumerate(kept, start=1))
    final = numbers[labels]
    return Count(
        count=len(objects),
        num_at_border=sum(item.is_at_border for item in objects),
        num_split=sum(item.was_touching for item in objects),
        num_specks=num_specks,
        objects=objects,
        mask=np.asarray(final > 0),
        labels=final,
    )
