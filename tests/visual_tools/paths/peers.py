"""Shortest lengths by SciPy's csgraph, to compare with; small masks only."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from visual_tools.paths.search import Point


def scipy_length(free: NDArray[np.bool_], start: Point, goal: Point, connectivity: int) -> float:
    """Length in pixels of the shortest way, infinite when there is none."""
    numbers = np.arange(free.size).reshape(free.shape)
    one, other, length = [], [], []
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        if down and right and connectivity == 4:
            continue
        rows = slice(None, -1) if down else slice(None)
        first, second = ((slice(None, -1), slice(1, None)) if right else (slice(None), slice(None)))[
            :: -1 if right < 0 else 1
        ]
        here, there = np.s_[rows, first], np.s_[down:, second]
        fits = free[here] & free[there]
        if down and right:
            fits &= free[rows, second] & free[down:, first]
        one.append(numbers[here][fits])
        other.append(numbers[there][fits])
        length.append(np.full(int(fits.sum()), np.hypot(down, right)))
    graph = sparse.csr_matrix(
        (np.concatenate(length), (np.concatenate(one), np.concatenate(other))), (free.size, free.size)
    )
    distances = csgraph.dijkstra(graph, directed=False, indices=numbers[start[1], start[0]])
    return float(distances[numbers[goal[1], goal[0]]])
