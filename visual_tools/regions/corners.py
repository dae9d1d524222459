"""Cut objects apart that touch without a neck, as two rods in an L: from an inward corner straight across.

Only where other objects of the picture say how large one is; else an arm could not be told from a neighbour.
"""

import math

import numpy as np
from numpy.typing import NDArray

from visual_tools.regions.inputs import Mask
from visual_tools.regions.outlines import Outline, hull_area, trace_outline
from visual_tools.regions.separate import Parts
from visual_tools.require import require

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


def cut_at_corners(region: Mask, typical_area_px: float) -> Parts:
    """Cut one region (a crop, no holes) into convex objects of about the typical area.

    Args:
        region: (h, w) bool.
        typical_area_px: Of objects in the picture that are surely single.
    """
    cv2 = require("cv2", "visual")
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
    cv2 = require("cv2", "visual")
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
    cv2 = require("cv2", "visual")
    return float(cv2.contourArea(outline)) + float(cv2.arcLength(outline, True)) / 2 + 1
