"""The shortest path through a maze or a mask."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource, load_image
from visual_tools.paths.ends import EndLike, find_two_dots
from visual_tools.paths.maze import Maze, read_image, read_mask
from visual_tools.paths.search import (
    Connectivity,
    Method,
    PathResult,
    Point,
    count_reached,
    find_path,
    measure_clearance,
    measure_length,
    nearest_free,
)
from visual_tools.paths.tones import separate_tones

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
    """Read the maze; one without openings runs between its two coloured marks."""
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
