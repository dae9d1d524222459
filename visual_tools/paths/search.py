"""From a mask of free pixels and two of them to the pixels of the best path, and what such a search gives."""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visual_tools.paths.loops import compiled, make_steps
from visual_tools.require import require

Connectivity = Literal[4, 8]
Method = Literal["bfs", "astar", "centered"]
Point = tuple[int, int]
CENTER_WEIGHT = 15.0
NO_LENGTHS = np.empty(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathResult:
    """A path through an image, or why there is none.

    Attributes:
        found: Whether there is a path.
        reason: Why there is none; empty when there is one.
        num_points: Pixels of the path, both ends counted.
        num_steps: Moves from pixel to pixel: `num_points - 1`.
        length_px: Sum of the moves: 1 for a straight one, the square root of 2 for a diagonal one.
        start_px: Where it begins, x and y.
        goal_px: Where it ends, x and y.
        connectivity: 4: moves right, down, left, up. 8: diagonal moves too, but never past the corner of a wall.
        method: How it was searched for.
        road: Which tones of the image were taken for road: "light" or "dark"; "mask" when a mask was given.
        points_px: int32 (num_points, 2), x and y of each pixel in walking order; (0, 2) when there is none.
        mask: bool (H, W), the pixels on which the path was allowed to run.
    """

    found: bool
    reason: str
    num_points: int
    num_steps: int
    length_px: float
    start_px: Point
    goal_px: Point
    connectivity: Connectivity
    method: Method
    road: Literal["light", "dark", "mask"]
    points_px: NDArray[np.int32] = field(repr=False)
    mask: NDArray[np.bool_] = field(repr=False)


def find_path(
    free: NDArray[np.bool_], start: Point, goal: Point, connectivity: int, method: Method
) -> NDArray[np.int32] | None:
    """Pixels of the best path, int32 (N, 2) x and y, or None when the goal cannot be reached.

    Args:
        free: (H, W), True where the path may run; both ends must be.
        start: x and y.
        goal: x and y.
        connectivity: 4 or 8.
        method: "bfs" and "astar" give a shortest path, "centered" one in the middle of the corridors.
    """
    states, stride = make_states(free)
    steps = make_steps(stride)
    first, last = (point[0] + 1 + (point[1] + 1) * stride for point in (start, goal))
    diagonal = connectivity == 8
    if method == "bfs":
        compiled("flood")(states, NO_LENGTHS, steps, first, last, diagonal)
    else:
        weights = _center_weights(free) if method == "centered" else np.empty(0, np.float32)
        compiled("seek")(states, np.full(states.size, np.inf), weights, steps, first, last, diagonal)
    if states[last] == 1:
        return None
    places = compiled("trace")(states, steps, first, last)
    return np.stack([places % stride - 1, places // stride - 1], axis=1)


def count_reached(free: NDArray[np.bool_], start: Point) -> int:
    """How many pixels can be reached from one."""
    states, stride = make_states(free)
    place = start[0] + 1 + (start[1] + 1) * stride
    return int(compiled("flood")(states, NO_LENGTHS, make_steps(stride), place, -1, False))


def measure_lengths(free: NDArray[np.bool_], start: Point, connectivity: int) -> NDArray[np.float64]:
    """Length of the shortest path from `start` to each pixel, (H, W), infinite where there is none."""
    states, stride = make_states(free)
    lengths = np.full(states.size, np.inf)
    place = start[0] + 1 + (start[1] + 1) * stride
    compiled("flood")(states, lengths, make_steps(stride), place, -1, connectivity == 8)
    return lengths.reshape(-1, stride)[1:-1, 1:-1]


def measure_length(points: NDArray[np.integer]) -> float:
    """Length of a path in pixels, counted so that equal paths have equal lengths to the last bit."""
    diagonal = int(np.count_nonzero(np.abs(np.diff(points, axis=0)).sum(axis=1) == 2))
    return len(points) - 1 - diagonal + diagonal * math.sqrt(2)


def make_states(free: NDArray[np.bool_]) -> tuple[NDArray[np.uint8], int]:
    """Flat states with a frame of walls around them, and the length of their rows."""
    return np.pad(free.view(np.uint8), 1).ravel(), free.shape[1] + 2


def measure_clearance(free: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Distance of each pixel's centre from the nearest wall pixel's centre, (H, W); walls are 0.

    The edge of the image is no wall. An image without walls is infinitely far from them.
    """
    cv2 = require("cv2", "visual")
    if free.all():
        return np.full(free.shape, np.inf, np.float32)
    distance: NDArray[np.float32] = cv2.distanceTransform(free.view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return distance


def measure_width(free: NDArray[np.bool_]) -> float:
    """The usual width of the corridors of a mask in pixels."""
    cv2 = require("cv2", "visual")
    if free.all():
        return float(min(free.shape))
    return corridor_width(cv2.distanceTransform(free.view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_5))


def corridor_width(clearance: NDArray[np.float32]) -> float:
    """The usual width of the corridors in pixels: the median over the ridge of the distances from the walls."""
    cv2 = require("cv2", "visual")
    ridge = clearance[(clearance > 0) & (clearance >= cv2.dilate(clearance, np.ones((3, 3), np.uint8)))]
    return float(2 * np.median(ridge) - 1) if ridge.size and np.isfinite(ridge).all() else float(min(clearance.shape))


def nearest_free(free: NDArray[np.bool_], point: Point, reach_px: float) -> Point | None:
    """The free pixel nearest to a point, in a square of that reach around it; None when there is none."""
    x, y = point
    reach = max(2, round(reach_px))
    top, left = max(0, y - reach), max(0, x - reach)
    rows, columns = np.nonzero(free[top : y + reach + 1, left : x + reach + 1])
    if not len(rows):
        return None
    nearest = int(np.argmin(np.hypot(columns + left - x, rows + top - y)))
    return int(columns[nearest]) + left, int(rows[nearest]) + top


def _center_weights(free: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Weight of each pixel of the framed image: 1 in the middle of a corridor, more toward its walls."""
    clearance = measure_clearance(np.pad(free, 1))
    half = (corridor_width(clearance) + 1) / 2
    weights: NDArray[np.float32] = 1 + CENTER_WEIGHT * (1 - np.minimum(clearance / np.float32(half), 1)) ** 2
    return weights.ravel()
