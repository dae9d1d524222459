"""What lies around a maze, and the openings through which one gets in."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.paths.search import Point
from visual_tools.require import require

# Rules of thumb without another source; measured together in benchmarks/visual/README.md, "Mazes".
SEAL_WIDTHS = 1.5
MIN_OPENING_WIDTHS = 0.35
MIN_REGION_WIDTHS = 2.0
MIN_INSIDE_SHARE = 0.02
SMALL_SHARE = 0.2
MAZE_SHARE, DESK_EDGE_SHARE, DESK_SHARE = 0.3, 0.8, 0.08


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """A maze told from what is around it.

    Attributes:
        inside: bool (H, W), free pixels that the walls enclose.
        outside: bool (H, W), the other free pixels.
        width_px: The usual width of the corridors.
    """

    inside: NDArray[np.bool_] = field(repr=False)
    outside: NDArray[np.bool_] = field(repr=False)
    width_px: float

    @property
    def has_inside(self) -> bool:
        """Whether the walls enclose anything worth the name."""
        return bool(np.count_nonzero(self.inside) >= MIN_INSIDE_SHARE * self.inside.size)


def find_surroundings(free: NDArray[np.bool_], width_px: float) -> Surroundings:
    """Roll a disc wider than the corridors around the walls: where it gets from afar is outside.

    Args:
        free: (H, W), True between the walls.
        width_px: The usual width of the corridors.
    """
    outside = free & _rolled_over(_without_clutter(free, width_px), SEAL_WIDTHS * width_px + 1)
    return Surroundings(inside=free & ~outside, outside=outside, width_px=width_px)


def admit_ends(around: Surroundings, ends: tuple[Point, Point]) -> NDArray[np.bool_]:
    """Pixels that a path may use: the inside and, for an end outside, what lies between it and its opening.

    Two ends outside get separate halves, so no path leads around the maze. Without openings nothing is forbidden.
    """
    outer = [bool(around.outside[y, x]) for x, y in ends]
    if around.has_inside and not any(outer):
        return around.inside
    openings = find_openings(around)
    if len(openings) < sum(outer) or not around.has_inside:
        return around.inside | around.outside
    allowed = around.inside.copy()
    rows, columns = np.ogrid[: allowed.shape[0], : allowed.shape[1]]
    first, second = (np.hypot(np.float32(columns - x), np.float32(rows - y)) for x, y in ends)
    for is_outer, end, here, there in zip(outer, ends, (first, second), (second, first), strict=True):
        if is_outer:
            reach = min(math.dist(end, opening) for opening in openings) + around.width_px
            allowed |= around.outside & (here <= reach) & (here < there - 2 if all(outer) else True)
    return allowed


def _without_clutter(free: NDArray[np.bool_], width_px: float) -> NDArray[np.bool_]:
    """Free too where arrows, words and the like would hold up the disc, or a desk around the page."""
    cv2 = require("cv2", "visual")
    _, labels, stats, _ = cv2.connectedComponentsWithStats((~free).view(np.uint8), connectivity=8)
    side_px = stats[:, [cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT]].max(axis=1)
    is_clutter = side_px < SMALL_SHARE * max(side_px[1:], default=0)
    is_clutter[0] = True
    edge = np.bincount(np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]]), minlength=len(stats))
    desk = 1 + int(np.argmax(edge[1:])) if len(stats) > 1 else 0
    is_maze = (edge == 0) & (side_px > MAZE_SHARE * max(free.shape))
    if desk and edge[desk] > DESK_EDGE_SHARE * edge.sum() and is_maze[1:].any():
        depth = cv2.distanceTransform((labels == desk).view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_5).max()
        is_clutter[desk] = depth > max(2 * width_px, DESK_SHARE * min(free.shape))
    without: NDArray[np.bool_] = is_clutter[labels]
    return without


def _rolled_over(free: NDArray[np.bool_], radius_px: float) -> NDArray[np.bool_]:
    """Pixels covered by discs without walls that hang together with the far outside."""
    cv2 = require("cv2", "visual")
    margin = math.ceil(2 * radius_px) + 2
    padded = np.pad(free, margin, constant_values=True).view(np.uint8)
    if padded.all():
        return free
    roomy = (cv2.distanceTransform(padded, cv2.DIST_L2, cv2.DIST_MASK_5) > radius_px).view(np.uint8)
    cv2.floodFill(roomy, None, (0, 0), 2)
    near: NDArray[np.bool_] = (
        cv2.distanceTransform((roomy != 2).view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_5) < radius_px
    )
    return near[margin:-margin, margin:-margin]


def find_openings(around: Surroundings) -> tuple[Point, ...]:
    """One pixel in the middle of each opening through which one gets in, in reading order."""
    cv2 = require("cv2", "visual")
    beyond = np.pad(around.outside, 1, constant_values=True).view(np.uint8)
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    rim = around.inside & (cv2.dilate(beyond, cross)[1:-1, 1:-1] > 0)
    _, regions, areas, _ = cv2.connectedComponentsWithStats(around.inside.view(np.uint8), connectivity=4)
    count, labels, stats, centers = cv2.connectedComponentsWithStats(rim.view(np.uint8), connectivity=8)
    found = []
    for number in range(1, count):
        left, top, width, height, _ = stats[number]
        if max(width, height) < MIN_OPENING_WIDTHS * around.width_px:
            continue
        rows, columns = np.nonzero(labels[top : top + height, left : left + width] == number)
        nearest = int(np.argmin(np.hypot(columns + left - centers[number][0], rows + top - centers[number][1])))
        x, y = int(columns[nearest] + left), int(rows[nearest] + top)
        if areas[regions[y, x], cv2.CC_STAT_AREA] > MIN_REGION_WIDTHS * around.width_px**2:
            found.append((y, x))
    return tuple((x, y) for y, x in sorted(found))
