"""Cut touching objects apart: watershed of the distance to the edge, then basins without a neck between are joined.

A basin is kept when the neck to its higher neighbour is clearly narrower than the basin itself, measured relative
to its own radius, so that large and small objects in one image are judged alike.

Objects that touch without a neck, as two rods in an L, are cut from an inward corner straight across, and only where
other objects of the image say how large one is; else an arm could not be told from a neighbour.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import require
from visual_tools.packages import cv2
from visual_tools.regions.components import Outline, hull_area, trace_outline
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
    """Cut one region (a crop, no holes) into convex objects of about the typical area.

    Args:
        region: (h, w) bool.
        typical_area_px: Of objects in the image that are surely single.
    """
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
