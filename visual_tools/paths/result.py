"""What a search for a way gives."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Connectivity = Literal[4, 8]
Method = Literal["bfs", "astar", "centered"]
Point = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PathResult:
    """A way through a picture, or why there is none.

    Attributes:
        found: Whether there is a way.
        reason: Why there is none; empty when there is one.
        num_points: Pixels of the way, both ends counted.
        num_steps: Moves from pixel to pixel: `num_points - 1`.
        length_px: Sum of the moves: 1 for a straight one, the square root of 2 for a diagonal one.
        start_px: Where it begins, x and y.
        goal_px: Where it ends, x and y.
        connectivity: 4: moves right, down, left, up. 8: diagonal moves too, but never past the corner of a wall.
        method: How it was searched for.
        road: Which tones of the picture were taken for road: "light" or "dark"; "mask" when a mask was given.
        points_px: int32 (num_points, 2), x and y of each pixel in walking order; (0, 2) when there is none.
        mask: bool (H, W), the pixels on which the way was allowed to run.
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
