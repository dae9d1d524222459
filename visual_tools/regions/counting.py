"""Count the objects of an image: find them, cut touching ones apart, drop specks, number them.

Touching objects are cut by a watershed of the distance to the edge, then basins without a neck between are joined. A
basin is kept when the neck to its higher neighbour is clearly narrower than the basin itself, measured relative to its
own radius, so that large and small objects in one image are judged alike. Objects that touch without a neck, as two
rods in an L, are cut from an inward corner straight across, and only where other objects of the image say how large
one is; else an arm could not be told from a neighbour.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.images import ImageSource
from visual_tools.packages import cv2
from visual_tools.regions.binary import Color, Foreground, Method, binarize
from visual_tools.regions.components import Components, Outline, find_components, hull_area, is_frame, trace_outline
from visual_tools.regions.inputs import Mask

# Rules of thumb without another source; measured together in benchmarks/visual/README.md, "Counting and size".
_MIN_NECK_DEPTH = 0.12
"""A neck is one when it is narrower than the smaller object by this share of its radius."""

_MIN_NECK_DEPTH_PX = 1.0
_CRUMB_SHARE = 0.06
"""A piece with less than this share of the largest one's area is a bump of its neighbour."""

_CONVEX_SOLIDITY = 0.975
_MIN_SOLIDITY_GAIN = 0.02
_MIN_SOLIDITY = 0.85
_CLUSTER_AREAS = 2.5

_HOLE_SHARES = (0.35, 0.12, 0.0)
"""Holes with a radius below this share of the region's are taken for holes in an object, larger ones for gaps."""

_ALL, _HEAD, _TAIL = slice(None), slice(None, -1), slice(1, None)
_NEIGHBOURS = (
    ((_ALL, _HEAD), (_ALL, _TAIL)),
    ((_HEAD, _ALL), (_TAIL, _ALL)),
    ((_HEAD, _HEAD), (_TAIL, _TAIL)),
    ((_HEAD, _TAIL), (_TAIL, _HEAD)),
)
"""Views on an array that lay each pixel on a neighbour: right, below, and both diagonals."""

_MAX_SPLIT_PIXELS = 1_500_000
CONVEX = 0.955
_CLEARLY_LARGER = 1.35
_SURELY_SEVERAL = 1.6
_MIN_PART_SHARE = 0.2
"""A piece has at least this share of the typical object's area."""
_MIN_GAIN = 0.04
"""Of convexity by a cut; none is asked of a region so large that it is surely several."""
_INWARD_DEG = 20.0
_ROUGH_SHARE = 0.06
_CUT_COST = 0.03
_MAX_SAMPLES = 120
_MAX_TRIES = 10
_MAX_CUTS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A region cut into parts: labels (h, w) int32 with 1 to `num`, 0 is outside."""

    labels: NDArray[np.int32]
    num: int

    def regions(self) -> list[tuple[tuple[slice, slice], Mask]]:
        """For each part, by number, its place in `labels` (rows, columns) and its mask there."""
        places = require("scipy.ndimage", "visual").find_objects(self.labels, self.num)
        return [
            (place, np.asarray(self.labels[place] == number))
            for number, place in enumerate(places, start=1)
            if place is not None
        ]


def separate(region: Mask, typical_area_px: float = 0.0) -> Parts:
    """Cut one region (a crop with its mask, holes not filled) into the objects that touch in it.

    Holes in an object are filled, gaps between objects are left. Which is which, shape alone cannot say: all are
    filled first, then only ever smaller ones, as long as the parts become clearly more convex by it.

    Args:
        region: (h, w) bool.
        typical_area_px: Of the regions in the image. A region that is not clearly larger stays in one piece when its
            parts would not be convex: they are limbs of one thing.
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
    """One region with its holes filled, in one piece."""
    return Parts(labels=_fill_holes(region, None).astype(np.int32), num=1)


def solidity(region: Mask) -> float:
    """Area over the area of the convex hull, 0 to 1."""
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
    """Pairs of touching basins (N, 2) and the height of the pass between them (N,)."""
    pairs, heights = [], []
    for first, second in _NEIGHBOURS:
        one, other = basins[first], basins[second]
        meet = (one != other) & (one > 0) & (other > 0)
        pairs.append(np.stack((np.minimum(one, other)[meet], np.maximum(one, other)[meet]), axis=1))
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
    """New number (from 1) of each basin: joined are those that have no neck between, and crumbs with what they lie at.

    The highest pass goes first, so that what is joined grows from the inside.
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
            one, other = (find(int(basin)) for basin in pairs[index])
            lower = min(top[one], top[other])
            has_no_neck = lower - passes[index] < max(_MIN_NECK_DEPTH * lower, _MIN_NECK_DEPTH_PX)
            if one != other and (has_no_neck or (is_for_crumbs and min(size[one], size[other]) < least)):
                leader[other] = one
                top[one], size[one] = max(top[one], top[other]), size[one] + size[other]
    roots = np.array([find(basin) for basin in range(len(heights))])
    _, numbers = np.unique(roots, return_inverse=True)
    return numbers.astype(np.int32)


def _distance(region: Mask) -> NDArray[np.float32]:
    """Distance to the nearest pixel outside, in pixels; outside the crop is outside."""
    padded = np.pad(region, 1).view(np.uint8)
    distance: NDArray[np.float32] = cv2.distanceTransform(padded, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return np.ascontiguousarray(distance[1:-1, 1:-1])


def _label_outside(region: Mask) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Labels of the pieces that are not the region, and for each label whether it is a hole."""
    num, labels = cv2.connectedComponents(np.pad(~region, 1, constant_values=True).view(np.uint8), connectivity=4)
    is_hole = np.ones(num, dtype=bool)
    is_hole[[0, labels[0, 0]]] = False  # 0 is the region, the frame of padding belongs to what is outside
    return labels[1:-1, 1:-1], is_hole


def _has_holes(region: Mask) -> bool:
    return bool(_label_outside(region)[1].any())


def _fill_holes(region: Mask, max_radius_px: float | None) -> Mask:
    """Fill holes; with a radius only those whose inscribed circle is smaller."""
    labels, is_hole = _label_outside(region)
    if max_radius_px is not None and is_hole.any():
        radii = np.zeros(len(is_hole))
        np.maximum.at(radii, labels.ravel(), _distance(~region).ravel())
        is_hole &= radii < max_radius_px
    return np.asarray(region | is_hole[labels])


def _mean_solidity(parts: Parts) -> float:
    """Of the parts, each weighing its area."""
    regions = [region for _, region in parts.regions()]
    weights = [max(int(np.count_nonzero(region)), 1) for region in regions]
    return float(np.average([solidity(region) for region in regions], weights=weights))


def _resize(region: Mask, scale: float) -> Mask:
    size = (max(round(region.shape[1] * scale), 1), max(round(region.shape[0] * scale), 1))
    return np.asarray(cv2.resize(region.astype(np.uint8) * 255, size, interpolation=cv2.INTER_AREA) > 127)


def _enlarge(labels: NDArray[np.int32], region: Mask) -> NDArray[np.int32]:
    """Labels of a smaller copy on the full region: each pixel gets the nearest label."""
    ndimage = require("scipy.ndimage", "visual")
    nearest = ndimage.distance_transform_edt(labels == 0, return_distances=False, return_indices=True)
    full = cv2.resize(labels[tuple(nearest)].astype(np.float32), region.shape[::-1], interpolation=cv2.INTER_NEAREST)
    return np.where(region, full.astype(np.int32), 0)


def cut_at_corners(region: Mask, typical_area_px: float) -> Parts:
    """Cut one region, (h, w) bool without holes, into convex objects of about the area of surely single ones."""
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
    if not np.all(labels[region]):  # what lies outside the largest outline goes to the first piece
        labels[region & (labels == 0)] = 1
    return Parts(labels=labels, num=len(done))


def _find_cut(outline: Outline, region: Mask, typical_area_px: float) -> tuple[Outline, Outline] | None:
    """The two pieces of the best cut, None when no cut makes the pieces clearly more convex."""
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
    """Indices of corners that point inwards, those that do so most first."""
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
    """Where a cut from `start` may end: straight through the inside, and short beside the way round the outline."""
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
    """Pixels inside an outline, its own among them."""
    return float(cv2.contourArea(outline)) + float(cv2.arcLength(outline, True)) / 2 + 1


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
