"""What lies around a maze, and the openings through which one gets in."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.paths.result import Point
from visual_tools.require import require

SEAL_WIDTHS = 1.5
MIN_OPENING_WIDTHS = 0.35
MIN_REGION_WIDTHS = 2.0
MIN_INSIDE_SHARE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """A maze told from what is around it.

    Attributes:
        outside: bool (H, W), free pixels that are not part of the maze.
        openings_px: One pixel in the middle of each opening, in reading order.
        has_inside: Whether the walls enclose anything at all.
    """

    outside: NDArray[np.bool_] = field(repr=False)
    openings_px: tuple[Point, ...]
    has_inside: bool


def find_surroundings(free: NDArray[np.bool_], width_px: float) -> Surroundings:
    """Roll a disc wider than the corridors around the walls: where it gets from afar is outside.

    Args:
        free: (H, W), True between the walls.
        width_px: The usual width of the corridors.
    """
    outside = free & _rolled_over(free, SEAL_WIDTHS * width_px + 1)
    inside = free & ~outside
    if np.count_nonzero(inside) < MIN_INSIDE_SHARE * free.size:
        return Surroundings(outside=outside, openings_px=(), has_inside=False)
    return Surroundings(outside=outside, openings_px=_find_openings(inside, outside, width_px), has_inside=True)


def admit_ends(
    free: NDArray[np.bool_], around: Surroundings, ends: tuple[Point, Point], width_px: float
) -> NDArray[np.bool_]:
    """Pixels that a way may use: the inside and, for an end outside, what lies between it and its opening.

    Two ends outside get separate halves, so no way leads around the maze. Without an opening nothing is forbidden.
    """
    outer = [bool(around.outside[y, x]) for x, y in ends]
    if not around.has_inside or (any(outer) and len(around.openings_px) < sum(outer)):
        return free
    allowed = free & ~around.outside
    if any(outer):
        rows, columns = np.ogrid[: free.shape[0], : free.shape[1]]
        first, second = (np.hypot(columns - x, rows - y) for x, y in ends)
        for is_outer, here, there, (x, y) in zip(outer, (first, second), (second, first), ends, strict=True):
            if is_outer:
                reach = min(math.dist((x, y), opening) for opening in around.openings_px) + width_px
                allowed |= around.outside & (here <= reach) & (here < there - 2 if all(outer) else True)
    return allowed


def _rolled_over(free: NDArray[np.bool_], radius_px: float) -> NDArray[np.bool_]:
    """Pixels covered by discs without walls that hang together with the far outside."""
    cv2 = require("cv2", "visual")
    margin = math.ceil(2 * radius_px) + 2
    padded = np.pad(free, margin, constant_values=True).view(np.uint8)
    if padded.all():
        return free
    roomy = (cv2.distanceTransform(padded, cv2.DIST_L2, cv2.DIST_MASK_PRECISE) > radius_px).view(np.uint8)
    cv2.floodFill(roomy, None, (0, 0), 2)
    near = cv2.distanceTransform((roomy != 2).view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE) < radius_px
    return near[margin:-margin, margin:-margin]  # type: ignore[no-any-return]


def _find_openings(inside: NDArray[np.bool_], outside: NDArray[np.bool_], width_px: float) -> tuple[Point, ...]:
    cv2 = require("cv2", "visual")
    beyond = np.pad(outside, 1, constant_values=True).view(np.uint8)
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    rim = inside & (cv2.dilate(beyond, cross)[1:-1, 1:-1] > 0)
    _, regions, areas, _ = cv2.connectedComponentsWithStats(inside.view(np.uint8), connectivity=4)
    count, labels, stats, centers = cv2.connectedComponentsWithStats(rim.view(np.uint8), connectivity=8)
    found = []
    for number in range(1, count):
        left, top, width, height, _ = stats[number]
        rows, columns = np.nonzero(labels[top : top + height, left : left + width] == number)
        nearest = int(np.argmin(np.hypot(columns + left - centers[number][0], rows + top - centers[number][1])))
        x, y = int(columns[nearest] + left), int(rows[nearest] + top)
        region_px = areas[regions[y, x], cv2.CC_STAT_AREA]
        if max(width, height) >= MIN_OPENING_WIDTHS * width_px and region_px > MIN_REGION_WIDTHS * width_px**2:
            found.append((y, x))
    return tuple((x, y) for y, x in sorted(found))
