"""The two coloured things of a maze that has no openings: where its way begins and ends."""

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.colors.words import color_name
from visual_tools.paths.ends import MIN_DOT_PX
from visual_tools.require import require

START_COLORS, GOAL_COLORS = ("green",), ("red", "orange")
"""What people draw a start and a goal with."""

_JOIN_PX = 5
_MIN_SHARE = 0.1
"""A thing smaller than this share of the largest one is a speck."""


def find_two_dots(image: NDArray[np.uint8], drawn: NDArray[np.bool_]) -> tuple[str, str] | None:
    """Colours of the start and of the goal; None unless exactly two things are drawn in colour.

    Args:
        image: (H, W, 3) uint8 RGB.
        drawn: bool (H, W), what is neither of the picture's two main tones.

    Returns:
        Plain words. A green thing is the start, a red one the goal; else the upper one is the start, and the
        left one of two at the same height.
    """
    cv2 = require("cv2", "visual")
    near = cv2.dilate(drawn.view(np.uint8), np.ones((_JOIN_PX, _JOIN_PX), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(near, connectivity=8)
    areas = np.bincount(labels[drawn], minlength=count)
    things = [label for label in range(1, count) if areas[label] >= max(MIN_DOT_PX, _MIN_SHARE * areas[1:].max())]
    if len(things) != 2:
        return None
    things.sort(key=lambda label: (int(stats[label][cv2.CC_STAT_TOP]), int(stats[label][cv2.CC_STAT_LEFT])))
    first, second = (_color(image, drawn, labels, label, stats) for label in things)
    is_swapped = second in START_COLORS or (first in GOAL_COLORS and second not in GOAL_COLORS)
    return (second, first) if is_swapped and first not in START_COLORS else (first, second)


def _color(
    image: NDArray[np.uint8], drawn: NDArray[np.bool_], labels: NDArray[np.int32], label: int, stats: NDArray[np.int32]
) -> str:
    left, top, width, height = (int(value) for value in stats[label][:4])
    box = Box(left, top, left + width, top + height)
    window = np.s_[box.top : box.bottom, box.left : box.right]
    pixels = image[window][drawn[window] & (labels[window] == label)]
    red, green, blue = (int(value) for value in np.median(pixels, axis=0))
    return color_name((red, green, blue))
