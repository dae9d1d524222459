"""Check a path independently of the search that found it, and draw it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource, load_image
from visual_tools.packages import cv2
from visual_tools.paths.search import (
    DIAGONAL_PX,
    Connectivity,
    PathResult,
    Point,
    close_gaps,
    find_path,
    measure_length,
    measure_lengths,
    measure_width,
    nearest_free,
)

TOLERANCE_PX = 1e-6  # rounding of sums of diagonal moves
BAND_PX = 1 << 21  # pixels that are checked at a time; bounds memory
MAX_PROBLEMS = 5  # listed problems of one kind
MIN_CORRIDOR_WIDTHS = 10.0
"""Area of a maze in squares of its corridor; plain drawings have up to 6, the mazes of the benchmark more than 70."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathCheck:
    """Result of checking a path.

    Attributes:
        is_valid: True if it has the correct ends, each move is allowed and no wall is touched.
        is_shortest: True if it is valid and no path is shorter; proven, see `check_path`.
        problems: Errors with their positions, one per line; at most five of a kind.
        length_px: Length of the path.
        shortest_px: Lower bound for the length of any path between its ends; 0 if the path is not valid.
    """

    is_valid: bool
    is_shortest: bool
    problems: tuple[str, ...]
    length_px: float
    shortest_px: float


def check_path(
    mask: NDArray[np.bool_],
    points: NDArray[np.integer] | Sequence[Sequence[int]],
    *,
    start: Point | None = None,
    goal: Point | None = None,
    connectivity: Connectivity = 4,
) -> PathCheck:
    """Check each move of a path, and prove that no path is shorter.

    The proof: a number for each pixel is computed, 0 at the start. Then it is verified, for every pair of neighbours on
    the mask, that their numbers differ by at most the length of the move between them. Every path is a sum of such
    moves, so none is shorter than the number at the goal. The verification does not depend on how the numbers were
    computed; wrong numbers can only make it fail.

    Args:
        mask: bool (H, W), True where a path may run.
        points: int (N, 2), x and y of each pixel in walking order.
        start: Required start; None accepts any.
        goal: Required end; None accepts any.
        connectivity: 4, or 8 with diagonal moves that do not pass the corner of a wall.

    Returns:
        The errors, if any. Takes about 17 bytes of memory per pixel.

    Raises:
        ImageError: If mask or points have the wrong shape.

    Source: weak duality of shortest paths and feasible potentials, A. Schrijver, "Combinatorial Optimization", 8.2.

    Example:
        >>> check_path(np.ones((3, 3), bool), [(0, 0), (1, 0), (1, 1)]).is_shortest
        True
        >>> check_path(np.ones((3, 3), bool), [(0, 0), (1, 1)]).problems
        ('point 1: the move from (0, 0) to (1, 1) is not one of 4 directions',)
    """
    free, path = _as_mask(mask), _as_points(points)
    problems = _check_ends(path, start, goal) + _check_walls(free, path) + _check_moves(free, path, connectivity)
    length_px = measure_length(path)
    if problems:
        return PathCheck(
            is_valid=False, is_shortest=False, problems=tuple(problems), length_px=length_px, shortest_px=0.0
        )
    first, last = (int(path[0, 0]), int(path[0, 1])), (int(path[-1, 0]), int(path[-1, 1]))
    lengths = measure_lengths(free, first, connectivity)
    shortest_px = float(lengths[last[1], last[0]])
    wrong = _verify_bound(free, lengths, connectivity)
    if wrong:
        problems.append(wrong)
    elif length_px > shortest_px + TOLERANCE_PX:
        problems.append(f"the way is {length_px:.6g} px long, the shortest from {first} to {last} {shortest_px:.6g} px")
    return PathCheck(
        is_valid=True,
        is_shortest=not problems,
        problems=tuple(problems),
        length_px=length_px,
        shortest_px=shortest_px,
    )


def _check_ends(path: NDArray[np.int64], start: Point | None, goal: Point | None) -> list[str]:
    problems = []
    for name, verb, wanted, at in (("start", "begins", start, 0), ("goal", "ends", goal, -1)):
        if wanted is not None and tuple(path[at].tolist()) != tuple(wanted):
            problems.append(f"the way {verb} at {tuple(path[at].tolist())}, not at the {name} {tuple(wanted)}")
    return problems


def _check_walls(free: NDArray[np.bool_], path: NDArray[np.int64]) -> list[str]:
    x, y = path.T
    inside = (x >= 0) & (y >= 0) & (x < free.shape[1]) & (y < free.shape[0])
    beside = np.flatnonzero(~inside)
    on_wall = np.flatnonzero(inside)[~free[y[inside], x[inside]]]
    return _list(beside, lambda at: f"point {at}: {tuple(path[at].tolist())} lies outside the mask") + _list(
        on_wall, lambda at: f"point {at}: {tuple(path[at].tolist())} lies on a wall"
    )


def _check_moves(free: NDArray[np.bool_], path: NDArray[np.int64], connectivity: int) -> list[str]:
    moves = np.abs(np.diff(path, axis=0))
    is_straight, is_diagonal = moves.sum(axis=1) == 1, (moves == 1).all(axis=1)
    wrong = np.flatnonzero(~(is_straight | (is_diagonal & (connectivity == 8)))) + 1
    problems = _list(
        wrong, lambda at: f"point {at}: the move {_move(path, at)} is not one of {connectivity} directions"
    )
    if connectivity == 8:
        at = np.flatnonzero(is_diagonal) + 1
        at = at[((path[at] >= 0) & (path[at - 1] >= 0)).all(axis=1)]
        at = at[(np.maximum(path[at], path[at - 1]) < free.shape[::-1]).all(axis=1)]
        squeezed = ~(free[path[at, 1], path[at - 1, 0]] & free[path[at - 1, 1], path[at, 0]])
        problems += _list(
            at[squeezed], lambda at: f"point {at}: the move {_move(path, at)} passes the corner of a wall"
        )
    return problems


def _verify_bound(free: NDArray[np.bool_], lengths: NDArray[np.float64], connectivity: int) -> str:
    """Describe where two neighbours' numbers differ by more than the length of the move; empty if nowhere."""
    band = max(1, BAND_PX // free.shape[1])
    for top in range(0, len(free), band):
        part, number = free[top : top + band + 1], lengths[top : top + band + 1]
        fits = _is_bounded(part[:, 1:] & part[:, :-1], number[:, 1:], number[:, :-1], 1.0)
        fits &= _is_bounded(part[1:] & part[:-1], number[1:], number[:-1], 1.0)
        if connectivity == 8:
            room = part[1:, 1:] & part[1:, :-1] & part[:-1, 1:] & part[:-1, :-1]
            fits &= _is_bounded(room, number[1:, 1:], number[:-1, :-1], DIAGONAL_PX)
            fits &= _is_bounded(room, number[1:, :-1], number[:-1, 1:], DIAGONAL_PX)
        if not fits:
            return f"not proven: the numbers in the rows from {top} do not fit together"
    return ""


def _is_bounded(pair: NDArray[np.bool_], here: NDArray[np.float64], there: NDArray[np.float64], move_px: float) -> bool:
    """Return True if neighbours differ by at most a move, or both are infinite (never reached)."""
    here_px, there_px = here[pair], there[pair]
    known = np.isfinite(here_px)
    if not np.array_equal(known, np.isfinite(there_px)):
        return False
    return bool((np.abs(here_px[known] - there_px[known]) <= move_px + 1e-9).all())


def _move(path: NDArray[np.int64], at: int) -> str:
    return f"from {tuple(path[at - 1].tolist())} to {tuple(path[at].tolist())}"


def _list(places: NDArray[np.intp], text: Callable[[int], str]) -> list[str]:
    more = [f"and {len(places) - MAX_PROBLEMS} more of these"] if len(places) > MAX_PROBLEMS else []
    return [text(int(at)) for at in places[:MAX_PROBLEMS]] + more


def _as_mask(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if not isinstance(mask, np.ndarray) or mask.ndim != 2 or mask.size == 0 or mask.dtype.kind not in "biu":
        shape = getattr(mask, "shape", type(mask).__name__)
        raise ImageError(f"found a mask of shape {shape}, expected a bool array (H, W), True where a way may run")
    return np.ascontiguousarray(mask, dtype=np.bool_)


def _as_points(points: object) -> NDArray[np.int64]:
    path = np.asarray(points)
    if path.ndim != 2 or path.shape[1:] != (2,) or len(path) == 0 or path.dtype.kind not in "iu":
        raise ImageError(
            f"found points of shape {path.shape} and type {path.dtype}, expected whole numbers (N, 2), x and y"
        )
    return path.astype(np.int64)


def has_maze(result: PathResult) -> bool:
    """Return True if walls matter to a path: they are between its ends, or form corridors around it.

    Args:
        result: Result of `shortest_path` with a path.
    """
    sight = np.zeros(result.mask.shape, np.uint8)
    cv2.line(sight, result.start_px, result.goal_px, 1)
    if not result.mask[sight > 0].all():
        return True
    return bool(np.count_nonzero(result.mask) > MIN_CORRIDOR_WIDTHS * measure_width(result.mask) ** 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowGaps:
    """Places of a path that are much narrower than its corridors, and the path without such places.

    Attributes:
        points_px: Places on the path, x and y, in walking order.
        width_px: Width of the narrowest.
        corridor_px: Typical width of the corridors.
        length_px: Length of the best path that needs no such place; None if there is none.
    """

    points_px: tuple[Point, ...]
    width_px: int
    corridor_px: float
    length_px: float | None


def find_narrow_gaps(result: PathResult) -> NarrowGaps | None:
    """Find gaps in the walls that a path depends on and that may be flaws of the drawing; None if there are none.

    Args:
        result: Result of `shortest_path` with a path.
    """
    corridor_px = measure_width(result.mask)
    wide = close_gaps(result.mask, corridor_px)
    crossed = [run for run in _runs(result, wide) if _is_gap(wide, result, run, round(corridor_px))]
    ends = [nearest_free(wide, end, corridor_px) for end in (result.start_px, result.goal_px)]
    if not crossed or ends[0] is None or ends[1] is None:
        return None
    points = find_path(wide, ends[0], ends[1], result.connectivity, result.method)
    clearance = cv2.distanceTransform(result.mask.view(np.uint8), cv2.DIST_L1, cv2.DIST_MASK_3)
    clearance[wide] = 0
    ridge = cv2.dilate(clearance, np.ones((5, 5), np.uint8))
    widths = []
    for first, last in crossed:
        x, y = result.points_px[first : last + 1].T
        widths.append(max(2 * int(ridge[y, x].min()) - 1, 1))
    middles = [result.points_px[(first + last) // 2].tolist() for first, last in crossed]
    return NarrowGaps(
        points_px=tuple((x, y) for x, y in middles),
        width_px=min(widths),
        corridor_px=corridor_px,
        length_px=None if points is None else measure_length(points),
    )


def _runs(result: PathResult, wide: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return first and last index of each part of a path through narrow places, its ends left out."""
    x, y = result.points_px.T
    edges = np.diff(np.concatenate(([False], ~wide[y, x], [False])).astype(np.int8))
    pairs = zip(np.flatnonzero(edges == 1).tolist(), (np.flatnonzero(edges == -1) - 1).tolist(), strict=True)
    return [(first, last) for first, last in pairs if first > 0 and last < len(x) - 1]


def _is_gap(wide: NDArray[np.bool_], result: PathResult, run: tuple[int, int], reach_px: int) -> bool:
    """Return True if there is no way around a narrow place nearby, as there is around a rough corner."""
    first, last = run[0] - 1, run[1] + 1
    x, y = result.points_px[first : last + 1].T
    left, top = max(int(x.min()) - reach_px, 0), max(int(y.min()) - reach_px, 0)
    part = np.ascontiguousarray(wide[top : int(y.max()) + reach_px + 1, left : int(x.max()) + reach_px + 1])
    ends = [(int(x[at]) - left, int(y[at]) - top) for at in (0, -1)]
    around = find_path(part, ends[0], ends[1], 4, "bfs")
    return around is None or len(around) > 2 * (last - first) + reach_px


LINE_COLOR, START_COLOR, GOAL_COLOR, RIM_COLOR = (225, 29, 42), (20, 150, 70), (200, 20, 40), (255, 255, 255)
LINE_SHARE, MARK_SHARE = 0.3, 0.42  # of the passage's width: walls stay visible, and marks are easy to see
SHIFT = 4  # fractional bits of OpenCV's coordinates


def draw_path(image: ImageSource, result: PathResult) -> NDArray[np.uint8]:
    """Draw a red line along the path, a green disc at its start and a red ring with a dot at its goal.

    The line is about a third as wide as the corridors; where the path is close to a wall, only the path's side of the
    wall is painted. Without a path only the ends are marked.

    Args:
        image: The searched image, or any of the same size; a bool mask is drawn white on black.
        result: Result of `shortest_path`.

    Returns:
        A new image, (H, W, 3) uint8 RGB.

    Raises:
        ImageError: If the image has another size than the searched one.
    """
    canvas = load_image(image).copy()
    if canvas.shape[:2] != result.mask.shape:
        raise ImageError(
            f"found an image of {canvas.shape[1]} x {canvas.shape[0]} pixels, expected the size of the searched image, "
            f"{result.mask.shape[1]} x {result.mask.shape[0]}"
        )
    room_px = _usual_room(result.mask)
    if result.found:
        line = _draw_line(result, max(1, round(LINE_SHARE * room_px)))
        touched = line > 0
        share = line[touched, None] / np.float32(255)
        canvas[touched] = np.rint(share * LINE_COLOR + (1 - share) * canvas[touched])
    for point, color in ((result.start_px, START_COLOR), (result.goal_px, GOAL_COLOR)):
        _mark(canvas, point, color, max(MARK_SHARE * room_px, 0.0), is_goal=color == GOAL_COLOR)
    return canvas


def _usual_room(mask: NDArray[np.bool_]) -> float:
    """Return the width of the corridors in pixels, limited such that marks of that size fit the image."""
    return min(measure_width(mask), float(min(mask.shape)) / 12, 60.0)


def _draw_line(result: PathResult, width_px: int) -> NDArray[np.uint8]:
    """Return the coverage of each pixel by the line, (H, W) 0 to 255; 0 on walls and across them."""
    line = np.zeros(result.mask.shape, np.uint8)
    points = (result.points_px.astype(np.int64) << SHIFT).astype(np.int32)
    cv2.polylines(line, [points], False, 255, width_px, cv2.LINE_AA if width_px > 1 else cv2.LINE_8, SHIFT)
    near = np.zeros_like(line)
    near[result.points_px[:, 1], result.points_px[:, 0]] = line[result.points_px[:, 1], result.points_px[:, 0]] = 255
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    for _ in range(
        math.ceil(width_px / math.sqrt(2)) + 1
    ):  # pixels reachable in this number of steps; the other side of a thin wall is farther
        near = cv2.dilate(near, cross)
        near[~result.mask] = 0
    return np.minimum(line, near)


def _mark(
    canvas: NDArray[np.uint8], point: Point, color: tuple[int, int, int], radius_px: float, is_goal: bool
) -> None:
    x, y = point
    if radius_px < 2:
        canvas[y, x] = color
        return
    center = (x << SHIFT, y << SHIFT)
    discs = [(1.0, RIM_COLOR), (0.82, color)] + ([(0.5, RIM_COLOR), (0.26, color)] if is_goal else [])
    for share, fill in discs:
        cv2.circle(canvas, center, round(share * radius_px * 2**SHIFT), fill, -1, cv2.LINE_AA, SHIFT)
