"""Find the shortest path through a mask, or through an image that is read as a maze.

Walls are distinguished from roads by the frame: walls enclose a maze, roads do not surround it. The surroundings of the
maze, and its openings, are found first.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource, load_image
from visual_tools.packages import cv2
from visual_tools.paths.maze_image import (
    EndLike,
    PathEnd,
    Tones,
    find_dot,
    find_label,
    find_two_dots,
    is_color,
    is_point,
    make_box_end,
    make_opening_end,
    make_point_end,
    separate_tones,
)
from visual_tools.paths.search import (
    Connectivity,
    Method,
    PathResult,
    Point,
    count_reached,
    find_path,
    gap_px,
    measure_clearance,
    measure_length,
    measure_width,
    nearest_free,
)

# Heuristics without another source; measured together in benchmarks/visual/README.md, "Mazes".
SEAL_WIDTHS = 1.5
MIN_OPENING_WIDTHS = 0.35
MIN_REGION_WIDTHS = 2.0
MIN_INSIDE_SHARE = 0.02
SMALL_SHARE = 0.2
MAZE_SHARE, SURFACE_EDGE_SHARE, MIN_SURFACE_EDGE_SHARE, SURFACE_SHARE = 0.3, 0.8, 0.5, 0.08


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Maze, separated from its surroundings.

    Attributes:
        inside: bool (H, W), free pixels that the walls enclose.
        outside: bool (H, W), the other free pixels.
        width_px: Typical width of the corridors.
    """

    inside: NDArray[np.bool_] = field(repr=False)
    outside: NDArray[np.bool_] = field(repr=False)
    width_px: float

    @property
    def has_inside(self) -> bool:
        """True if the walls enclose a relevant area."""
        return bool(np.count_nonzero(self.inside) >= MIN_INSIDE_SHARE * self.inside.size)


def find_surroundings(free: NDArray[np.bool_], width_px: float) -> Surroundings:
    """Find the outside by rolling a disc wider than the corridors around the walls, starting far away."""
    outside = free & _rolled_over(_without_clutter(free, width_px), SEAL_WIDTHS * width_px + 1)
    return Surroundings(inside=free & ~outside, outside=outside, width_px=width_px)


def admit_ends(around: Surroundings, ends: tuple[Point, Point]) -> NDArray[np.bool_]:
    """Return the pixels that a path may use: the inside and, for an end outside, the area up to its opening.

    Two ends outside get separate halves, so no path leads around the maze. Without openings everything is allowed.
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
    """Free the pixels of arrows, words and the like that would stop the disc, and of a desk around the page."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats((~free).view(np.uint8), connectivity=8)
    side_px = stats[:, [cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT]].max(axis=1)
    is_clutter = side_px < SMALL_SHARE * max(side_px[1:], default=0)
    is_clutter[0] = True
    for number in np.flatnonzero(is_clutter & (side_px >= width_px))[1 if is_clutter[0] else 0 :].tolist():
        is_clutter[number] = not _is_between_walls(labels, stats[number], number, gap_px(width_px))
    edge = np.bincount(np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]]), minlength=len(stats))
    surface = 1 + int(np.argmax(edge[1:])) if len(stats) > 1 else 0
    is_maze = (edge == 0) & (side_px > MAZE_SHARE * max(free.shape))
    is_around = edge[surface] > max(SURFACE_EDGE_SHARE * edge[1:].sum(), MIN_SURFACE_EDGE_SHARE * edge.sum())
    if surface and is_around and is_maze[1:].any():  # a part of a desk may be as bright as the page
        depth = cv2.distanceTransform((labels == surface).view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_5).max()
        is_clutter[surface] = depth > max(2 * width_px, SURFACE_SHARE * min(free.shape))
    without: NDArray[np.bool_] = is_clutter[labels]
    return without


def _is_between_walls(labels: NDArray[np.int32], stats: NDArray[np.int32], number: int, reach_px: int) -> bool:
    """Return True if a stroke almost meets the walls at two places: a part of a wall with gaps, and no arrow."""
    left, top, wide, high, _ = (int(value) for value in stats)
    margin = reach_px + 1
    part = labels[max(top - margin, 0) : top + high + margin, max(left - margin, 0) : left + wide + margin]
    near = cv2.dilate((part == number).view(np.uint8), np.ones((2 * margin + 1,) * 2, np.uint8)) > 0
    others = near & (part != number) & (part > 0)
    return int(cv2.connectedComponents(others.view(np.uint8), connectivity=8)[0]) > 2


def _rolled_over(free: NDArray[np.bool_], radius_px: float) -> NDArray[np.bool_]:
    """Return the pixels covered by discs without walls that are connected with the far outside."""
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
    """Return one pixel in the middle of each opening in the outer walls, in reading order."""
    beyond = np.pad(around.outside, 1, constant_values=True).view(np.uint8)
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    rim = around.inside & (cv2.dilate(beyond, cross)[1:-1, 1:-1] > 0)
    _, regions, areas, _ = cv2.connectedComponentsWithStats(around.inside.view(np.uint8), connectivity=4)
    count, labels, stats, centers = cv2.connectedComponentsWithStats(rim.view(np.uint8), connectivity=8)
    openings = []
    for number in range(1, count):
        left, top, width, height, _ = stats[number]
        if max(width, height) < MIN_OPENING_WIDTHS * around.width_px:
            continue
        rows, columns = np.nonzero(labels[top : top + height, left : left + width] == number)
        nearest = int(np.argmin(np.hypot(columns + left - centers[number][0], rows + top - centers[number][1])))
        x, y = int(columns[nearest] + left), int(rows[nearest] + top)
        if areas[regions[y, x], cv2.CC_STAT_AREA] > MIN_REGION_WIDTHS * around.width_px**2:
            openings.append((y, x))
    return tuple((x, y) for y, x in sorted(openings))


# Heuristics without another source; measured together in benchmarks/visual/README.md, "Mazes".
MIN_PART_SHARE = 0.02
MAX_FRAME_GAPS = 3
SLACK_PX = 3
TOUCHED_SHARE, MIN_ROAD_SHARE, CLEAR_ROAD_SHARE = 0.04, 0.2, 0.8
LETTER_SHARE, LETTER_WIDTHS, OUTSIDE_SHARE = 0.15, 1.05, 0.4
RIM_PX = 2
LOOSE_WIDTHS = 1.5
OTHER: dict[str, Literal["light", "dark"]] = {"light": "dark", "dark": "light"}


def guess_road(light: NDArray[np.bool_]) -> Literal["light", "dark"]:
    """Choose the road tone, from the outline of the tone that the edge of the image does not have.

    If that outline is closed up to the openings, it is a frame of walls with a margin around it, so the margin's tone
    is road. If it has many gaps, it is the outer rim of roads, and the edge of the image is wall.
    """
    edge = np.concatenate([light[0], light[-1], light[:, 0], light[:, -1]])
    is_edge_light = bool(edge.mean() >= 0.5)
    is_frame = _count_gaps(light != is_edge_light) <= MAX_FRAME_GAPS
    return "light" if is_edge_light == is_frame else "dark"


def _count_gaps(inner: NDArray[np.bool_]) -> int:
    """Count how often the convex outline of the large parts of a mask leaves them, by more than a few pixels inward."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(inner.view(np.uint8), connectivity=8)
    areas = stats[1:, cv2.CC_STAT_AREA]
    if count == 1:
        return MAX_FRAME_GAPS + 1
    is_large = np.append(False, areas >= MIN_PART_SHARE * areas.sum())
    if not is_large.any():  # many small parts, such as letters
        return MAX_FRAME_GAPS + 1
    large = is_large[labels]
    filled = np.flatnonzero(large.any(axis=1))
    first = large[filled].argmax(axis=1)
    last = large.shape[1] - 1 - large[filled, ::-1].argmax(axis=1)
    rims = np.concatenate([np.column_stack([first, filled]), np.column_stack([last, filled])]).astype(np.int32)
    hull = cv2.convexHull(rims)[:, 0].astype(np.float64)
    sides = np.roll(hull, -1, axis=0) - hull
    counts = np.maximum(1, np.ceil(np.hypot(*sides.T))).astype(int)
    along = np.concatenate(
        [hull[at] + sides[at] * np.linspace(0, 1, n, endpoint=False)[:, None] for at, n in enumerate(counts)]
    )
    inward = hull.mean(axis=0) - along
    inward /= np.maximum(1e-9, np.hypot(*inward.T))[:, None]
    columns, rows = np.rint(along + np.arange(SLACK_PX + 1)[:, None, None] * inward).astype(int).transpose(2, 0, 1)
    on = large[rows, columns].any(axis=0)
    return int(np.count_nonzero(on & ~np.roll(on, -1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Maze:
    """Image with the decision which tone is road.

    Attributes:
        road: Tone that is treated as road, or "mask" if a mask was given.
        free: bool (H, W), not a wall.
        allowed: bool (H, W), free and not around the outside.
        start: x and y, snapped to the road.
        goal: x and y, snapped to the road.
        on_road: Degree to which the ends are on the road rather than on walls, 0 to 1.
        width_px: Typical width of the corridors.
    """

    road: Literal["light", "dark", "mask"]
    free: NDArray[np.bool_] = field(repr=False)
    allowed: NDArray[np.bool_] = field(repr=False)
    start: Point
    goal: Point
    on_road: float
    width_px: float

    @property
    def is_connected(self) -> bool:
        """True if there is any path between the ends."""
        on = self.allowed[self.start[::-1]] and self.allowed[self.goal[::-1]]
        return bool(on) and find_path(self.allowed, self.start, self.goal, 4, "bfs") is not None

    @property
    def is_enclosed(self) -> bool:
        """True if walls surround the road up to an entry and an exit, as they do in a maze."""
        around = find_surroundings(self.free, self.width_px)
        return around.has_inside and len(find_openings(around)) <= 2


def read_mask(free: NDArray[np.bool_], start: EndLike, goal: EndLike) -> Maze:
    """Read a mask; by default the ends are its two openings, and the outside is then excluded.

    Raises:
        ImageError: If an end is outside the mask, or the openings are ambiguous.
    """
    first = _place_on_mask("start", start, free.shape)
    last = _place_on_mask("goal", goal, free.shape)
    allowed, width_px = free, 0.0
    if first is None or last is None:
        width_px = measure_width(free)
        around = find_surroundings(free, width_px)
        first, last = _fill_from_openings([first, last], around)
        allowed = admit_ends(around, (first.point_px, last.point_px))
    places = first.point_px, last.point_px
    return Maze(
        road="mask", free=free, allowed=allowed, start=places[0], goal=places[1], on_road=1.0, width_px=width_px
    )


def read_image(
    image: NDArray[np.uint8], tones: Tones, road: Literal["auto", "light", "dark"], start: EndLike, goal: EndLike
) -> Maze:
    """Read an image with the road tone that its frame suggests, or the other tone if the ends fit that better.

    Raises:
        ImageError: If an end is not found, or the openings are ambiguous.
    """
    if road != "auto":
        return _read_road(image, tones, road, start, goal)
    guess = guess_road(tones.light)
    try:
        maze = _read_road(image, tones, guess, start, goal)
    except ImageError as problem:
        try:
            return _read_road(image, tones, OTHER[guess], start, goal)
        except ImageError:
            raise problem from None
    is_connected = maze.is_connected
    if is_connected and maze.on_road > TOUCHED_SHARE:  # a corridor may be narrower than the dot at its end
        return maze
    try:
        other = _read_road(image, tones, OTHER[guess], start, goal)
    except ImageError:
        return maze
    if maze.on_road <= MIN_ROAD_SHARE:
        return other if other.on_road > maze.on_road else maze
    is_other = other.on_road >= CLEAR_ROAD_SHARE or (other.on_road > TOUCHED_SHARE and not maze.is_enclosed)
    return other if not is_connected and is_other and other.is_connected else maze


def _read_road(
    image: NDArray[np.uint8], tones: Tones, road: Literal["light", "dark"], start: EndLike, goal: EndLike
) -> Maze:
    free = tones.free(road)
    width_px = measure_width(free)
    ends: list[PathEnd | None] = []
    for name, given in (("start", start), ("goal", goal)):
        rank = int(name == "goal" and is_color(start) and _same(start, goal))
        ends.append(_find_end(name, given, image, tones.drawn, free, rank))
    on_road = min([_road_share(free, tones.drawn, end, width_px) for end in ends if end is not None] or [1.0])
    for end in ends:
        if end is not None:
            _free_loose_ink(free, end, width_px)
    around = find_surroundings(free, width_px)
    first, last = _fill_from_openings(ends, around)
    places = _snap(free, around, first.point_px, width_px), _snap(free, around, last.point_px, width_px)
    allowed = admit_ends(around, places)
    return Maze(
        road=road, free=free, allowed=allowed, start=places[0], goal=places[1], on_road=on_road, width_px=width_px
    )


def _find_end(
    name: str, given: EndLike, image: NDArray[np.uint8], drawn: NDArray[np.bool_], free: NDArray[np.bool_], rank: int
) -> PathEnd | None:
    if given is None:
        return None
    if isinstance(given, Box):
        return make_box_end(name, given, image.shape)
    if is_point(given):
        return make_point_end(name, given, image.shape)  # type: ignore[arg-type]
    if is_color(given):
        return find_dot(name, image, drawn, given, rank)  # type: ignore[arg-type]
    return find_label(name, _without_walls(image, free), str(given))


def _place_on_mask(name: str, given: EndLike, shape: tuple[int, ...]) -> PathEnd | None:
    if given is None:
        return None
    if isinstance(given, Box):
        return make_box_end(name, given, shape)
    if is_point(given):
        return make_point_end(name, given, shape)  # type: ignore[arg-type]
    raise ImageError(f"found {given!r} for the {name} on a mask, expected a point (x, y), a Box or None (an opening)")


def _fill_from_openings(ends: list[PathEnd | None], around: Surroundings) -> list[PathEnd]:
    """Use openings for the ends that were not given: the first and second, or the one farther from the given end."""
    given = [end for end in ends if end is not None]
    if len(given) == 2:
        return given
    openings = list(find_openings(around)) if around.has_inside else []
    if len(openings) not in (2, 2 - len(given)):
        positions = ", ".join(f"({x}, {y})" for x, y in openings[:12]) or "none"
        raise ImageError(
            f"found {len(openings)} openings in the outer walls ({positions}), expected two, a start and a goal; "
            "give start and goal as points (x, y) or as colours"
        )
    if given:
        openings.sort(key=lambda opening: -math.dist(opening, given[0].point_px))
    places = iter(openings)
    return [end or make_opening_end(next(places)) for end in ends]


def _same(first: EndLike, second: EndLike) -> bool:
    return is_color(second) and str(first).casefold() == str(second).casefold()


def _road_share(free: NDArray[np.bool_], drawn: NDArray[np.bool_], end: PathEnd, width_px: float) -> float:
    """Return the share of road around a dot; for points and boxes, 1 if their center is road (or loose ink on it)."""
    if not end.is_dot:
        lone = free.copy() if not free[end.point_px[::-1]] else free
        if lone is not free:
            _free_loose_ink(lone, end, width_px)
        return float(lone[end.point_px[::-1]])
    box = end.box_px.padded(5).clipped(free.shape[1], free.shape[0])
    window = np.s_[box.top : box.bottom, box.left : box.right]
    dot = drawn[window].view(np.uint8)
    ring = (cv2.dilate(dot, np.ones((9, 9), np.uint8)) > 0) & (cv2.dilate(dot, np.ones((3, 3), np.uint8)) == 0)
    return float(free[window][ring].mean()) if ring.any() else 1.0


def _free_loose_ink(free: NDArray[np.bool_], end: PathEnd, width_px: float) -> None:
    """Remove, in place, ink that is not connected to a wall: a small mark around a point, or the content of a box."""
    height, width = free.shape
    crop = end.box_px.padded(math.ceil(3 * width_px) + 3).clipped(width, height)
    box = end.box_px.padded(RIM_PX).moved(-crop.left, -crop.top)
    x, y = end.point_px[0] - crop.left, end.point_px[1] - crop.top
    part = free[crop.top : crop.bottom, crop.left : crop.right]
    _, labels, stats, _ = cv2.connectedComponentsWithStats((~part).view(np.uint8), connectivity=8)
    for number, (left, top, wide, high, _) in enumerate(stats.tolist()):
        ink = Box(left, top, left + wide, top + high)
        is_small = max(wide, high) <= LOOSE_WIDTHS * width_px and Box(1, 1, crop.width - 1, crop.height - 1).contains(
            ink
        )
        is_its_own = is_small and ink.has_point(x, y) if end.is_point else box.contains(ink)
        if number and is_its_own:
            part[labels == number] = True


def _snap(free: NDArray[np.bool_], around: Surroundings, point: Point, width_px: float) -> Point:
    """Return the nearest road pixel within a corridor's width, inside the maze if there is one; or the point itself."""
    if free[point[::-1]]:
        return point
    inside = nearest_free(around.inside, point, width_px)
    return inside or nearest_free(free, point, width_px) or point


def _without_walls(image: NDArray[np.uint8], free: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return the image with large non-road parts painted as road, so that only text is left."""
    width_px = measure_width(free)
    outside = find_surroundings(free, width_px).outside
    _, labels, stats, centers = cv2.connectedComponentsWithStats((~free).view(np.uint8), connectivity=8)
    side_px = stats[:, [cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT]].max(axis=1)
    share = cv2.blur(outside.astype(np.float32), (2 * round(width_px) + 1,) * 2)
    columns, rows = centers.astype(int).T
    is_around = share[rows, columns] > OUTSIDE_SHARE
    is_wall = side_px > np.where(is_around, LETTER_SHARE * max(free.shape), LETTER_WIDTHS * width_px)
    is_wall[0] = False
    walls = cv2.dilate(is_wall[labels].view(np.uint8), np.ones((5, 5), np.uint8)) > 0
    page = image.copy()
    page[walls] = np.median(image[::7, ::7][free[::7, ::7]], axis=0)
    return page


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

    An image is split into its two main tones, one of which is road. Objects in other colours count as road, and so does
    loose ink at the ends (a letter, a drawn ant). The surroundings of the maze are not road: the path does not lead
    around it. A mask is used unchanged.

    Takes 1 byte per pixel of a mask (A* 9, centered 13), and about 20 bytes per pixel of an image.

    Args:
        image: Image (array, path, bytes) or bool (H, W), True where the path may run.
        start: `(x, y)`; a colour (`"green"`, `"#00c800"`, `(0, 200, 0)`), whose largest region is used; text on the
            image (`"S"`, `"Start"`); a `Box` around the object; None for an opening in the outer walls. If neither
            end is given and there are no openings, the two coloured objects are the ends, a green one the start.
        goal: Like `start`. The same colour as the start selects its second largest region.
        connectivity: 4: moves right, down, left, up, each of length 1. 8: diagonal ones too, of length sqrt(2), but
            not past the corner of a wall: both adjacent pixels must be free. Both reach the same pixels.
        clearance_px: Minimum distance from the center of each wall pixel, exclusive (0: anywhere free; the edge of the
            image is not a wall).
        method: "bfs" and "astar" give a shortest path; A* is faster if the goal is straight ahead, BFS in mazes.
            "centered" keeps to the middle of the corridors and is longer.
        road: Tone of the road. "auto" uses light, or dark if the ends are on dark or only dark connects them.

    Returns:
        The path, or `found=False` with the reason.

    Raises:
        ImageError: If an end cannot be found or is outside the image, the openings are not exactly two, or the
            image does not have two tones.

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
    """Read the maze; without openings, the path runs between its two coloured marks."""
    tones = separate_tones(image)
    dots = find_two_dots(image, tones.drawn) if start is None and goal is None else None
    if dots is None:
        return read_image(image, tones, road, start, goal)
    try:
        return _read_road(image, tones, guess_road(tones.light) if road == "auto" else road, None, None)
    except ImageError:
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
    """Move an end of an image that is too near to a wall to the nearest allowed pixel within a corridor's width."""
    return point if maze.road == "mask" else nearest_free(allowed, point, maze.width_px) or point


def _blocked(maze: Maze, allowed: NDArray[np.bool_], ends: tuple[Point, Point], clearance_px: float) -> str:
    """Return the reason why an end cannot be used, or an empty text."""
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


def _as_mask(image: object) -> NDArray[np.bool_] | None:
    """Return the argument as a mask if it is one: (H, W) bool, or (H, W) of only 0 and 1."""
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
