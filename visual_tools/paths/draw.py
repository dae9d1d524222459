"""Draw a way so that a person sees it at a glance."""

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import ImageError
from visual_tools.images.load import ImageSource, load_image
from visual_tools.paths.result import PathResult, Point
from visual_tools.paths.search import measure_clearance
from visual_tools.require import require

LINE_COLOR, START_COLOR, GOAL_COLOR, RIM_COLOR = (225, 29, 42), (20, 150, 70), (200, 20, 40), (255, 255, 255)
LINE_SHARE, MARK_SHARE = 0.3, 0.42
SHIFT = 4


def draw_path(image: ImageSource, result: PathResult) -> NDArray[np.uint8]:
    """A red line along the way, a green disc at its start and a red ring with a dot at its goal.

    The line is about a third as wide as the corridors it runs through. Without a way only the ends are marked.

    Args:
        image: The picture that was searched, or any of the same size; a bool mask is drawn white on black.
        result: What `shortest_path` gave.

    Returns:
        A new picture, (H, W, 3) uint8 RGB.

    Raises:
        ImageError: The picture has another size than the one that was searched.
    """
    cv2 = require("cv2", "visual")
    canvas = load_image(image).copy()
    if canvas.shape[:2] != result.mask.shape:
        raise ImageError(
            f"found a picture of {canvas.shape[1]} x {canvas.shape[0]} pixels, expected the size of the one that was "
            f"searched, {result.mask.shape[1]} x {result.mask.shape[0]}"
        )
    room_px = _usual_room(result)
    if result.found:
        width = max(1, round(LINE_SHARE * room_px))
        points = (result.points_px.astype(np.int64) << SHIFT).astype(np.int32)
        line_type = cv2.LINE_AA if width > 1 else cv2.LINE_8
        cv2.polylines(canvas, [points], False, LINE_COLOR, width, line_type, SHIFT)
    for point, color in ((result.start_px, START_COLOR), (result.goal_px, GOAL_COLOR)):
        _mark(canvas, point, color, max(MARK_SHARE * room_px, 0.0), is_goal=color == GOAL_COLOR)
    return canvas


def _usual_room(result: PathResult) -> float:
    """Width in pixels of what the way runs through, where it is usual."""
    clearance = measure_clearance(result.mask)
    if result.found:
        columns, rows = result.points_px.T
        # a way that hugs the walls is nearer to them than half the width: take the roomiest place around each point
        near = require("cv2", "visual").dilate(clearance, np.ones((7, 7), np.uint8))[rows, columns]
    else:
        near = clearance[clearance > 0]
    room = 2 * float(np.median(near)) - 1 if near.size and np.isfinite(near).any() else np.inf
    return float(min(room, min(result.mask.shape) / 12, 60))


def _mark(
    canvas: NDArray[np.uint8], point: Point, color: tuple[int, int, int], radius_px: float, is_goal: bool
) -> None:
    cv2 = require("cv2", "visual")
    x, y = point
    if radius_px < 2:
        canvas[y, x] = color
        return
    center = (x << SHIFT, y << SHIFT)
    discs = [(1.0, RIM_COLOR), (0.82, color)] + ([(0.5, RIM_COLOR), (0.26, color)] if is_goal else [])
    for share, fill in discs:
        cv2.circle(canvas, center, round(share * radius_px * 2**SHIFT), fill, -1, cv2.LINE_AA, SHIFT)
