"""Search the best path between two pixels of a mask; the inner loops are compiled by numba.

All functions work on a flat image of states with a frame of walls around it, so that no neighbour needs a bounds check:
0 is a wall, 1 is free, `2 + d` has been reached by step `d` (see `make_steps`). Positions are int32.

Memory: `flood` takes 1 byte per pixel (9 if lengths are kept) and the wave front; `seek` 9 bytes per pixel (13 with
weights) and its heap.
"""

import functools
import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import require
from visual_tools.packages import cv2

DIAGONAL_PX = math.sqrt(2)
FIRST_ROOM = 1 << 12  # first size of the queue, which grows
SIGNATURES = {
    "flood": "int64(uint8[::1], float64[::1], int32[::1], int64, int64, boolean)",
    "seek": "int64(uint8[::1], float64[::1], float32[::1], int32[::1], int64, int64, boolean)",
    "trace": "int32[::1](uint8[::1], int32[::1], int64, int64)",
}


def make_steps(stride: int) -> NDArray[np.int32]:
    """Return the offsets of the eight steps in a flat image: right, down, left, up, then the diagonals after each."""
    straight = [1, stride, -1, -stride]
    diagonal = [stride + 1, stride - 1, -stride - 1, -stride + 1]
    return np.array(straight + diagonal, np.int32)


@functools.cache
def compiled(name: str) -> Callable[..., Any]:
    """Compile `flood`, `seek` or `trace`, using numba's cache on disk if possible."""
    numba = require("numba", "visual")
    loop = {"flood": _flood, "seek": _seek, "trace": _trace}[name]
    try:
        return numba.njit(SIGNATURES[name], cache=True, nogil=True)(loop)  # type: ignore[no-any-return]
    except (RuntimeError, OSError) as error:  # no cache folder, or one that cannot be read or written
        if isinstance(error, RuntimeError) and "cannot cache" not in str(error):
            raise
        return numba.njit(SIGNATURES[name], nogil=True)(loop)  # type: ignore[no-any-return]


def _flood(
    states: NDArray[np.uint8],
    lengths: NDArray[np.float64],
    steps: NDArray[np.int32],
    start: int,
    goal: int,
    diagonal: bool,
) -> int:
    """Reach pixels in order of their distance up to the goal (-1: all); return the number of reached pixels.

    Reached pixels are in one queue with two readers, one for straight and one for diagonal neighbours; the reader with
    the nearer neighbours goes first. So lengths never decrease along the queue, and the first to reach a pixel has the
    shortest path: Dijkstra's order without a heap. `lengths` is empty, or as large as `states` to receive the
    distances.
    """
    queue, distances = np.empty(FIRST_ROOM, np.int32), np.empty(FIRST_ROOM, np.float64)
    ring = FIRST_ROOM - 1
    queue[0], distances[0] = start, 0.0
    states[start] = 2
    if len(lengths):
        lengths[start] = 0.0
    tail, straight_at, diagonal_at = 1, 0, 0
    while straight_at < tail or (diagonal and diagonal_at < tail):
        oldest = min(straight_at, diagonal_at) if diagonal else straight_at
        if tail - oldest + 4 > ring:
            wider = np.empty(2 * ring + 2, np.int32)
            farther = np.empty(2 * ring + 2, np.float64)
            for at in range(oldest, tail):
                wider[at & (2 * ring + 1)] = queue[at & ring]
                farther[at & (2 * ring + 1)] = distances[at & ring]
            queue, distances, ring = wider, farther, 2 * ring + 1
        first, length = 0, distances[straight_at & ring] + 1.0
        if diagonal and (straight_at == tail or distances[diagonal_at & ring] + DIAGONAL_PX < length):
            first, length = 4, distances[diagonal_at & ring] + DIAGONAL_PX
            here = queue[diagonal_at & ring]
            diagonal_at += 1
        else:
            here = queue[straight_at & ring]
            straight_at += 1
        for number in range(4):
            there = here + steps[first + number]
            if states[there] != 1:
                continue
            if first and not (states[here + steps[number]] and states[here + steps[(number + 1) & 3]]):
                continue
            states[there] = 2 + first + number
            queue[tail & ring], distances[tail & ring] = there, length
            tail += 1
            if len(lengths):
                lengths[there] = length
        if goal >= 0 and states[goal] != 1:
            break
    return tail


def _seek(
    states: NDArray[np.uint8],
    costs: NDArray[np.float64],
    weights: NDArray[np.float32],
    steps: NDArray[np.int32],
    start: int,
    goal: int,
    diagonal: bool,
) -> int:
    """Reach the goal by the cheapest path with A*; return the number of examined pixels.

    A step costs its length times the mean weight of its two pixels (at least 1; no weights: 1), so the distance
    on an empty image never overestimates. `costs` must be infinite everywhere and is filled in.
    """
    stride = steps[1]
    goal_x, goal_y = goal % stride, goal // stride
    costs[start] = 0.0
    states[start] = 2
    heap = [(0.0, 0.0, start)]
    looked_at = 0
    while heap:
        _, ahead, here = heapq.heappop(heap)
        if -ahead > costs[here]:
            continue
        looked_at += 1
        if here == goal:
            break
        for number in range(8 if diagonal else 4):
            there = here + steps[number]
            if states[there] == 0:
                continue
            length = 1.0
            if number >= 4:
                if not (states[here + steps[number - 4]] and states[here + steps[(number + 1) & 3]]):
                    continue
                length = DIAGONAL_PX
            if len(weights):
                length *= 0.5 * (weights[here] + weights[there])
            cost = costs[here] + length
            if cost < costs[there] - 1e-9:
                costs[there] = cost
                states[there] = 2 + number
                x, y = abs(there % stride - goal_x), abs(there // stride - goal_y)
                left = max(x, y) + (DIAGONAL_PX - 1.0) * min(x, y) if diagonal else float(x + y)
                heapq.heappush(heap, (cost + left, -cost, there))
    return looked_at


def _trace(states: NDArray[np.uint8], steps: NDArray[np.int32], start: int, goal: int) -> NDArray[np.int32]:
    """Return the positions from start to goal, traced backward by the steps that reached them."""
    num_points, here = 1, goal
    while here != start:
        here -= steps[states[here] - 2]
        num_points += 1
    places = np.empty(num_points, np.int32)
    here = goal
    for at in range(num_points - 1, -1, -1):
        places[at] = here
        if at:
            here -= steps[states[here] - 2]
    return places


Connectivity = Literal[4, 8]
Method = Literal["bfs", "astar", "centered"]
Point = tuple[int, int]
CENTER_WEIGHT = 15.0
GAP_SHARE, MIN_GAP_PX, MAX_GAP_SHARE = 0.12, 3, 0.34
"""Gap that may be a flaw of the drawing, of a corridor's width; in no case more than a third of it."""
NO_LENGTHS = np.empty(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathResult:
    """Path through an image, or the reason why there is none.

    Attributes:
        found: True if there is a path.
        reason: Why there is no path; empty if there is one.
        num_points: Pixels of the path, including both ends.
        num_steps: Moves from pixel to pixel: `num_points - 1`.
        length_px: Sum of the moves: 1 for a straight one, the square root of 2 for a diagonal one.
        start_px: Start, x and y.
        goal_px: End, x and y.
        connectivity: 4: moves right, down, left, up. 8: diagonal moves too, but never past the corner of a wall.
        method: Search method.
        road: Tone of the image that was treated as road: "light" or "dark"; "mask" if a mask was given.
        points_px: int32 (num_points, 2), x and y of each pixel in walking order; (0, 2) if there is no path.
        mask: bool (H, W), pixels on which the path was allowed.
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
    """Return the pixels of the best path over True pixels of (H, W), int32 (N, 2) x and y; None if there is none."""
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
    """Return the number of pixels that can be reached from `start`."""
    states, stride = make_states(free)
    place = start[0] + 1 + (start[1] + 1) * stride
    return int(compiled("flood")(states, NO_LENGTHS, make_steps(stride), place, -1, False))


def measure_lengths(free: NDArray[np.bool_], start: Point, connectivity: int) -> NDArray[np.float64]:
    """Return the length of the shortest path from `start` to each pixel, (H, W), infinite if there is none."""
    states, stride = make_states(free)
    lengths = np.full(states.size, np.inf)
    place = start[0] + 1 + (start[1] + 1) * stride
    compiled("flood")(states, lengths, make_steps(stride), place, -1, connectivity == 8)
    return lengths.reshape(-1, stride)[1:-1, 1:-1]


def measure_length(points: NDArray[np.integer]) -> float:
    """Return the length of a path in pixels, summed such that equal paths have bit-identical lengths."""
    diagonal = int(np.count_nonzero(np.abs(np.diff(points, axis=0)).sum(axis=1) == 2))
    return len(points) - 1 - diagonal + diagonal * math.sqrt(2)


def make_states(free: NDArray[np.bool_]) -> tuple[NDArray[np.uint8], int]:
    """Make flat states with a frame of walls around them; also return the length of their rows."""
    return np.pad(free.view(np.uint8), 1).ravel(), free.shape[1] + 2


def measure_clearance(free: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the distance of each pixel's center from the nearest wall pixel's center, (H, W); walls are 0.

    The edge of the image is not a wall. Without walls all distances are infinite.
    """
    if free.all():
        return np.full(free.shape, np.inf, np.float32)
    distance: NDArray[np.float32] = cv2.distanceTransform(free.view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return distance


def measure_width(free: NDArray[np.bool_]) -> float:
    """Return the typical width of the corridors of a mask in pixels."""
    if free.all():
        return float(min(free.shape))
    return corridor_width(cv2.distanceTransform(free.view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_5))


def corridor_width(clearance: NDArray[np.float32]) -> float:
    """Return the typical width of the corridors in pixels: the median along the ridge of the wall distances."""
    ridge = clearance[(clearance > 0) & (clearance >= cv2.dilate(clearance, np.ones((3, 3), np.uint8)))]
    return float(2 * np.median(ridge) - 1) if ridge.size and np.isfinite(ridge).all() else float(min(clearance.shape))


def gap_px(corridor_px: float) -> int:
    """Return the largest width of a gap that may be a flaw of the drawing, by the width of the corridors."""
    return round(min(max(GAP_SHARE * corridor_px, MIN_GAP_PX), MAX_GAP_SHARE * corridor_px))


def close_gaps(free: NDArray[np.bool_], corridor_px: float) -> NDArray[np.bool_]:
    """Return a mask without the places that are much narrower than its corridors: gaps between strokes of a pen."""
    most_px = gap_px(corridor_px)
    if most_px < 1:
        return free
    margin, size = most_px + 1, (most_px + 1, most_px + 1)
    walls = np.pad((~free).view(np.uint8), margin, mode="edge")
    closed = cv2.morphologyEx(walls, cv2.MORPH_CLOSE, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, size))
    return np.ascontiguousarray(closed[margin:-margin, margin:-margin] == 0)


def nearest_free(free: NDArray[np.bool_], point: Point, reach_px: float) -> Point | None:
    """Return the free pixel nearest to a point, in a square of that reach around it; None if there is none."""
    x, y = point
    reach = max(2, round(reach_px))
    top, left = max(0, y - reach), max(0, x - reach)
    rows, columns = np.nonzero(free[top : y + reach + 1, left : x + reach + 1])
    if not len(rows):
        return None
    nearest = int(np.argmin(np.hypot(columns + left - x, rows + top - y)))
    return int(columns[nearest]) + left, int(rows[nearest]) + top


def _center_weights(free: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the weight of each pixel of the framed image: 1 in the middle of a corridor, more toward its walls."""
    clearance = measure_clearance(np.pad(free, 1))
    half = (corridor_width(clearance) + 1) / 2
    weights: NDArray[np.float32] = 1 + CENTER_WEIGHT * (1 - np.minimum(clearance / np.float32(half), 1)) ** 2
    return weights.ravel()
