"""Draw a path so that a person sees it at a glance."""

import math

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource, load_image
from visual_tools.paths.search import PathResult, Point, measure_width
from visual_tools.require import require

LINE_COLOR, START_COLOR, GOAL_COLOR, RIM_COLOR = (225, 29, 42), (20, 150, 70), (200, 20, 40), (255, 255, 255)
LINE_SHARE, MARK_SHARE = 0.3, 0.42
SHIFT = 4


def draw_path(image: ImageSource, result: PathResult) -> NDArray[np.uint8]:
    """A red line along the path, a green disc at its start and a red ring with a dot at its goal.

    The line is about a third as wide as the corridors; where the path hugs a wall it shows only on its side of it.
    Without a path only the ends are marked.

    Args:
        image: The image that was searched, or any of the same size; a bool mask is drawn white on black.
        result: What `shortest_path` gave.

    Returns:
        A new image, (H, W, 3) uint8 RGB.

    Raises:
        ImageError: The image has another size than the one that was searched.
    """
    canvas = load_image(image).copy()
    if canvas.shape[:2] != result.mask.shape:
        raise ImageError(
            f"found a picture of {canvas.shape[1]} x {canvas.shape[0]} pixels, expected the size of the one that was "
            f"searched, {result.mask.shape[1]} x {result.mask.shape[0]}"
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
    """Width in pixels of the corridors, as far as marks of that size fit the image."""
    return min(measure_width(mask), float(min(mask.shape)) / 12, 60.0)


def _draw_line(result: PathResult, width_px: int) -> NDArray[np.uint8]:
    """How far the line covers each pixel, (H, W) 0 to 255; nothing of it on walls or across them."""
    cv2 = require("cv2", "visual")
    line = np.zeros(result.mask.shape, np.uint8)
    points = (result.points_px.astype(np.int64) << SHIFT).astype(np.int32)
    cv2.polylines(line, [points], False, 255, width_px, cv2.LINE_AA if width_px > 1 else cv2.LINE_8, SHIFT)
    near = np.zeros_like(line)
    near[result.points_px[:, 1], result.points_px[:, 0]] = line[result.points_px[:, 1], result.points_px[:, 0]] = 255
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    for _ in range(
        math.ceil(width_px / math.sqrt(2)) + 1
    ):  # where one gets in so many steps; the other side of a thin wall is farther
        near = cv2.dilate(near, cross)
        near[~result.mask] = 0
    return np.minimum(line, near)


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
