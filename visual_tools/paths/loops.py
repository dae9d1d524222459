"""The loops over pixels that find a path, written for numba, and how they are compiled.

All work on a flat image of states with a frame of walls around it, so that no neighbour needs a bounds test:
0 is a wall, 1 is free, `2 + d` has been reached by step `d` (see `make_steps`). Places are int32.

Memory: `flood` takes 1 byte a pixel (9 when lengths are kept) and the wave front; `seek` 9 bytes a pixel (13 with
weights) and its heap.
"""

import functools
import heapq
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visual_tools.require import require

DIAGONAL_PX = math.sqrt(2)
FIRST_ROOM = 1 << 12
SIGNATURES = {
    "flood": "int64(uint8[::1], float64[::1], int32[::1], int64, int64, boolean)",
    "seek": "int64(uint8[::1], float64[::1], float32[::1], int32[::1], int64, int64, boolean)",
    "trace": "int32[::1](uint8[::1], int32[::1], int64, int64)",
}


def make_steps(stride: int) -> NDArray[np.int32]:
    """Offsets of the eight steps in a flat image: right, down, left, up, then the diagonals after each of them."""
    straight = [1, stride, -1, -stride]
    diagonal = [stride + 1, stride - 1, -stride - 1, -stride + 1]
    return np.array(straight + diagonal, np.int32)


@functools.cache
def compiled(name: str) -> Callable[..., Any]:
    """`flood`, `seek` or `trace` as machine code; from numba's cache on disk where there is a place to keep one."""
    numba = require("numba", "visual")
    loop = {"flood": _flood, "seek": _seek, "trace": _trace}[name]
    try:
        return numba.njit(SIGNATURES[name], cache=True, nogil=True)(loop)  # type: ignore[no-any-return]
    except (RuntimeError, OSError) as error:  # no folder for a cache, or one that cannot be read or written
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
    """Reach pixels in the order of their distance until the goal is one of them (-1: all); how many were reached.

    Reached pixels stand in one queue. One reader takes them out for their straight neighbours, another for their
    diagonal neighbours; the reader whose neighbours are nearer goes first. So lengths never fall along the
    queue and whoever reaches a pixel first has the shortest path: Dijkstra's order without a heap.
    `lengths` is empty, or as large as `states` to be told each reached pixel's distance.
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
    """A*: reach the goal by the cheapest path, nearest to it first; how many pixels were looked at.

    A step costs its length times the mean weight of its two pixels (at least 1; no weights: 1), so the distance
    that an empty image would have never overestimates. `costs` is infinite everywhere and is filled in.
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
    """The places from start to goal, read backward from the steps by which each was reached."""
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
