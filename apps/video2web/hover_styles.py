"""What a hover does to an element, as style: its ground, its ink, a shift, a scale, a shadow, a border."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.video2web.interactions import Interaction
from visual_tools.errors import require
from visual_tools.ink import find_background
from visual_tools.pages.text_blocks import ink_color

_MIN_STEP = 8
_REACH_PX = 14
_MIN_SIDE_PX = 16
_MIN_GAIN = 0.6  # a move explains the change when it leaves at most so much of it
_SCALES = tuple(round(1 + step / 100, 2) for step in (2, 3, 4, 5, 6, 8, 10, 12, -2, -3, -4, -5))
_MIN_SHADOW_LEVELS, _MIN_SHADOW_SHARE = 6.0, 0.25

Pixels = NDArray[np.uint8]


def find_hover_style(one: Interaction) -> tuple[dict[str, str], dict[str, str]]:
    """The style of the element under the pointer, and of what is in it.

    Args:
        one: A hover; its box holds all that changes, shadows too.
    """
    before, after = one.before, one.after
    style: dict[str, str] = {}
    inner: dict[str, str] = {}
    move = find_move(before, after)
    if move:
        style["transform"] = move
    grounds = [_ground(image) for image in (before, after)]
    if _is_other(*grounds):
        style["background"] = "rgb({}, {}, {})".format(*grounds[1])
    inks = [[round(level) for level in ink_color(_inner(image))] for image in (before, after)]
    if _is_other(*inks):
        style["color"] = inner["color"] = "rgb({}, {}, {})".format(*inks[1])
    if move.startswith("translate"):
        depth = find_shadow(before, after)
        if depth:
            style["box-shadow"] = f"0 12px 24px rgba(0, 0, 0, {depth})"
    if "background" in style:
        inner["background"] = "transparent"
    return style, inner


def _inner(image: Pixels) -> Pixels:
    """A box without its edge, where it is large enough."""
    height, width = image.shape[:2]
    down, across = (3 if height > _MIN_SIDE_PX else 0), (3 if width > _MIN_SIDE_PX else 0)
    return np.ascontiguousarray(image[down : height - down, across : width - across])


def _ground(image: Pixels) -> list[int]:
    return [int(level) for level in find_background(_inner(image))]


def _is_other(first: Sequence[int], second: Sequence[int]) -> bool:
    return max(abs(one - other) for one, other in zip(first, second, strict=True)) >= _MIN_STEP


def find_move(before: Pixels, after: Pixels) -> str:
    """The shift or the scale that makes of one image the other, as CSS; "" where neither explains the change."""
    cv2 = require("cv2", "visual")
    height, width = before.shape[:2]
    reach = min(_REACH_PX, height // 4, width // 4)
    if min(height, width) < _MIN_SIDE_PX or reach < 2:
        return ""
    still = float(np.abs(before.astype(np.int16) - after).mean())
    core = np.ascontiguousarray(before[reach : height - reach, reach : width - reach])
    scores = cv2.matchTemplate(after, core, cv2.TM_SQDIFF)
    row, column = np.unravel_index(int(scores.argmin()), scores.shape)
    right, down = int(column) - reach, int(row) - reach
    moved = after[row : row + core.shape[0], column : column + core.shape[1]]
    left = float(np.abs(core.astype(np.int16) - moved).mean())
    at_rest = after[reach : height - reach, reach : width - reach]
    stays = float(np.abs(core.astype(np.int16) - at_rest).mean())
    if (right or down) and left < _MIN_GAIN * stays:
        return f"translate({right}px, {down}px)"
    best, least = 1.0, _MIN_GAIN * still
    for scale in _SCALES:
        matrix = np.array([[scale, 0, width / 2 * (1 - scale)], [0, scale, height / 2 * (1 - scale)]], np.float32)
        grown = cv2.warpAffine(before, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE)
        off = float(np.abs(grown.astype(np.int16) - after).mean())
        if off < least:
            best, least = scale, off
    return f"scale({best:g})" if best != 1 else ""


def find_shadow(before: Pixels, after: Pixels) -> float:
    """How dark a shadow is that comes at the edges of a box, 0 to 0.5; 0 for none."""
    height, width = before.shape[:2]
    edge = np.ones((height, width), np.bool_)
    edge[: height * 3 // 4, 8 : width - 8] = False
    darker = before.astype(np.int16).mean(axis=2) - after.mean(axis=2)
    dark = darker[edge & (darker > _MIN_SHADOW_LEVELS)]
    if dark.size < _MIN_SHADOW_SHARE * edge.sum():
        return 0.0
    return round(float(min(np.percentile(dark, 80) / 255 * 1.6, 0.5)), 2)
