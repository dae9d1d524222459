"""The shortest path through a maze or a mask: from free pixels and two ends to the pixels of the best path."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource, load_image
from visual_tools.paths.ends import EndLike, find_two_dots
from visual_tools.paths.loops import compiled, make_steps
from visual_tools.paths.maze import Maze, read_image, read_mask
from visual_tools.paths.tones import separate_tones
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


ROADS = ("auto", "light", "dark")
METHODS: tuple[Method, ...] = ("bfs", "astar", "centered")


def shortest_path(
    image: ImageSource | NDArray[np.bool_],
    *,
    start: EndLike = None,
    goal: EndLike = None,
    connectivity: Connectivity = 4,
    clearance_px: float = 0.0,
    method: Method = "bfs",
    road: Literal["auto", "light", "dark"] = "auto",
) -> PathResult:
    """Find the shortest path from start to goal, exact in pixels.

    An image is split into its two main tones, one of which is road. Things in other colours count as road, and so
    does loose ink at the ends (a letter, a drawn ant). What lies around the maze is no road: the path does not lead
    around it. A mask is taken as it is.

    Takes 1 byte a pixel of a mask (A* 9, centered 13), and about 20 bytes a pixel of an image.

    Args:
        image: Image (array, path, bytes) or bool (H, W), True where the path may run.
        start: `(x, y)`; a colour (`"green"`, `"#00c800"`, `(0, 200, 0)`) whose largest region is meant; writing on the
            image (`"S"`, `"Start"`); a `Box` around the thing; None for an opening in the outer walls. With neither
            end given and no openings, the two coloured things on the image are the ends, a green one the start.
        goal: Likewise. The same colour as the start means its second largest region.
        connectivity: 4: moves right, down, left, up, each of length 1. 8: diagonal ones too, of length sqrt(2), but
            not past the corner of a wall: both pixels beside the move are free. Both reach the same pixels.
        clearance_px: Keep farther than this from the middle of each wall pixel (0: anywhere free; the edge of the
            image is no wall).
        method: "bfs" and "astar" give a path than which none is shorter; A* is quick when the goal lies straight
            ahead, BFS in mazes. "centered" keeps to the middle of the corridors and is longer.
        road: Which tone is road. "auto" takes light, or dark if the ends lie on dark or only dark joins them.

    Returns:
        The path, or `found=False` with the reason.

    Raises:
        ImageError: An end cannot be found or lies outside the image, the openings are not exactly two, or the
            image has no two tones.

    Source: reached pixels in order of their length as in E. W. Dijkstra, "A note on two problems in connexion with
        graphs", 1959; A* with the distances of an empty image, P. E. Hart et al., 1968.

    Example:
        >>> free = np.array([[1, 1, 1], [0, 0, 1], [1, 1, 1]], bool)
        >>> shortest_path(free, start=(0, 0), goal=(0, 2)).num_steps
        6
    """
    _check_options(connectivity, clearance_px, method, road)
    mask = _as_mask(image)
    maze = read_mask(mask, start, goal) if mask is not None else _read(load_image(image), road, start, goal)
    return _solve(maze, connectivity, clearance_px, method)


def _read(image: NDArray[np.uint8], road: Literal["auto", "light", "dark"], start: EndLike, goal: EndLike) -> Maze:
    """The maze; one without openings goes from one of its two coloured things to the other."""
    tones = separate_tones(image)
    try:
        return read_image(image, tones, road, start, goal)
    except ImageError:
        dots = find_two_dots(image, tones.drawn) if start is None and goal is None else None
        if dots is None:
            raise
    return read_image(image, tones, road, *dots)


def _solve(maze: Maze, connectivity: Connectivity, clearance_px: float, method: Method) -> PathResult:
    allowed, ends = maze.allowed, (maze.start, maze.goal)
    if clearance_px > 0:
        clearance = measure_clearance(maze.free)
        allowed = allowed & (clearance > clearance_px)
        ends = (_with_room(allowed, maze, maze.start), _with_room(allowed, maze, maze.goal))
    reason = _blocked(maze, allowed, ends, clearance_px)
    points = None if reason else find_path(allowed, *ends, connectivity, method)
    if points is None:
        reason = reason or _no_path(allowed, ends)
        points = np.empty((0, 2), np.int32)
    return PathResult(
        found=not reason,
        reason=reason,
        num_points=len(points),
        num_steps=max(0, len(points) - 1),
        length_px=measure_length(points) if len(points) else 0.0,
        start_px=ends[0],
        goal_px=ends[1],
        connectivity=connectivity,
        method=method,
        road=maze.road,
        points_px=points,
        mask=allowed,
    )


def _with_room(allowed: NDArray[np.bool_], maze: Maze, point: Point) -> Point:
    """On an image, an end too near to a wall moves to the next pixel with room, within a corridor's width."""
    return point if maze.road == "mask" else nearest_free(allowed, point, maze.width_px) or point


def _blocked(maze: Maze, allowed: NDArray[np.bool_], ends: tuple[Point, Point], clearance_px: float) -> str:
    """Why an end cannot be stood on, or an empty text."""
    for name, (x, y) in zip(("start", "goal"), ends, strict=True):
        if not maze.free[y, x]:
            return f"the {name} ({x}, {y}) lies on a wall"
        if not allowed[y, x]:
            return f"the {name} ({x}, {y}) is not farther than clearance_px={clearance_px:g} from the nearest wall"
    return ""


def _no_path(allowed: NDArray[np.bool_], ends: tuple[Point, Point]) -> str:
    counts = [count_reached(allowed, end) for end in ends]
    name, number = ("start", 0) if counts[0] <= counts[1] else ("goal", 1)
    return (
        f"walls separate start {ends[0]} and goal {ends[1]}: from the {name} {counts[number]} pixels can be reached, "
        f"from the other end {counts[1 - number]}"
    )


def _as_mask(image: Any) -> NDArray[np.bool_] | None:
    """The argument as a mask if it is one: (H, W) bool, or (H, W) of nothing but 0 and 1."""
    if not isinstance(image, np.ndarray) or image.ndim != 2:
        return None
    if image.size == 0:
        raise ImageError(f"found an empty mask of shape {image.shape}, expected at least one pixel")
    if image.dtype != np.bool_ and not (image.dtype.kind in "iu" and image.min() >= 0 and image.max() <= 1):
        return None
    return np.ascontiguousarray(image, dtype=np.bool_)


def _check_options(connectivity: int, clearance_px: float, method: str, road: str) -> None:
    if connectivity not in (4, 8):
        raise ImageError(f"found connectivity={connectivity!r}, expected 4 or 8")
    if not clearance_px >= 0:
        raise ImageError(f"found clearance_px={clearance_px!r}, expected 0 or more pixels")
    if method not in METHODS:
        raise ImageError(f"found method={method!r}, expected one of {', '.join(map(repr, METHODS))}")
    if road not in ROADS:
        raise ImageError(f"found road={road!r}, expected one of {', '.join(map(repr, ROADS))}")
