"""Detect widgets on a screenshot by flat regions of colour and by lines.

Rectangles: buttons, input fields, cells, panels. Toggles: checkboxes, radio buttons and switches, with their state.
Also the small arrow at the right end of a drop-down list.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.ink import find_background, find_ink, find_runs, largest_channel
from visual_tools.packages import LazyPackage

cv2 = LazyPackage("cv2", "literal")

_EDGE_STEP = 4
"""Minimum difference, of 255, between neighbouring pixels at an edge.

Gradients of buttons are below; borders and fills of pale designs (#f8f9fa on white is 7) are above.
"""

_MIN_SIDE_PX = 9
_MIN_FILL = 0.86
_MIN_NOTCHED_FILL = 0.55
_MIN_SIDE_COVER = 0.65
"""Minimum cover of each of the four sides if a letter close to a border cuts a notch into a low field."""

_MAX_CARET_PX = (3, 60)
"""Maximum width of a text caret including adjacent pixels, and maximum height of a field that it divides."""

_CARET_HEIGHT_PX = (9, 48)
_CARET_CONTRAST = 90
_NEAR_CARET_PX = 4
_MIN_LINE_PX = 48
_MAX_LINE_THICKNESS_PX = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Rectangle:
    """Region of one colour with straight sides (corners may be round); its text and icons are holes in it.

    Attributes:
        box_px: Box without the border.
        colour: Fill colour, RGB, 0 to 255.
        fill: Share of the box that the region and its holes cover, 0 to 1; slightly lower with round corners.
    """

    box_px: Box
    colour: tuple[int, int, int]
    fill: float


def without_carets(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the image without text carets directly after a letter, which join it and divide its field.

    A caret is a stroke of one colour, one or two pixels wide, on a plain background, taller than the letters before it
    at both ends; no letter's stem is (an l ends at the baseline).
    """
    least, most = _CARET_HEIGHT_PX
    if image.shape[0] <= least or image.shape[1] <= _NEAR_CARET_PX:
        return image
    steps = largest_channel(cv2.absdiff(image[:, 1:], image[:, :-1]))
    is_end = (steps[:, :-1] > _CARET_CONTRAST) & (steps[:, 1:] == 0)
    tall = cv2.morphologyEx(is_end.astype(np.uint8), cv2.MORPH_OPEN, np.ones((least, 1), np.uint8))
    plain = image
    for left, top, width, height, _ in cv2.connectedComponentsWithStats(tall, connectivity=4)[2][1:].tolist():
        caret = _find_caret(image, left, top, top + height) if width == 1 and height <= most else None
        if caret is not None:
            plain = image.copy() if plain is image else plain
            plain[caret.top : caret.bottom, caret.left : caret.right] = image[top, left + 1]
    return plain


def _find_caret(image: NDArray[np.uint8], right: int, top: int, bottom: int) -> Box | None:
    """Return the caret whose last column is known, or None."""
    if right < _NEAR_CARET_PX or right + _NEAR_CARET_PX >= image.shape[1] or top < 1 or bottom >= image.shape[0]:
        return None
    ground, colour = image[top, right + 1], image[top, right]
    beside = image[top - 1 : bottom + 1, right + 1 : right + _NEAR_CARET_PX]
    ends = image[[top - 1, bottom], right]
    if (beside != ground).any() or (ends != ground).any() or (image[top:bottom, right] != colour).any():
        return None
    left = right - 1 if (image[top:bottom, right - 1] == colour).all() else right
    letters = image[top - 1 : bottom + 1, left - _NEAR_CARET_PX : left]
    rows = np.flatnonzero((letters != ground).any(axis=(1, 2)))
    is_taller = rows.size > 0 and rows[0] > 1 and rows[-1] < letters.shape[0] - 2
    return Box(left, top, right + 1, bottom) if is_taller else None


def find_edges(image: NDArray[np.uint8], min_step: int = _EDGE_STEP) -> NDArray[np.uint8]:
    """Return where colour changes by more than `min_step` to the right or lower neighbour: (H, W) uint8, 0 or 1."""
    edges = np.zeros(image.shape[:2], dtype=np.uint8)
    if image.shape[0] > 1:
        edges[:-1] |= largest_channel(cv2.absdiff(image[1:], image[:-1])) > min_step
    if image.shape[1] > 1:
        edges[:, :-1] |= largest_channel(cv2.absdiff(image[:, 1:], image[:, :-1])) > min_step
    return edges


def find_rectangles(
    image: NDArray[np.uint8], min_side_px: int = _MIN_SIDE_PX, barriers: Sequence[Box] = ()
) -> list[Rectangle]:
    """Find flat rectangular regions, smallest first, including nested ones.

    A field that a text caret divides is returned as one region.

    Args:
        image: (H, W, 3) uint8 RGB.
        min_side_px: Minimum side; smaller regions are left out.
        barriers: Boxes that no region may enter, such as a label that interrupts a border.
    """
    flat = 1 - find_edges(image)
    for barrier in barriers:
        inside = barrier.clipped(image.shape[1], image.shape[0])
        flat[inside.top : inside.bottom, inside.left : inside.right] = 0
    count, labels, stats, _ = cv2.connectedComponentsWithStats(flat, connectivity=4)
    rectangles = []
    wanted = (stats[:, cv2.CC_STAT_WIDTH] >= min_side_px) & (stats[:, cv2.CC_STAT_HEIGHT] >= min_side_px)
    wanted &= stats[:, cv2.CC_STAT_AREA] >= 0.3 * stats[:, cv2.CC_STAT_WIDTH] * stats[:, cv2.CC_STAT_HEIGHT]
    wanted[0] = False
    for index in np.flatnonzero(wanted[:count]):
        left, top, width, height = (int(value) for value in stats[index, :4])
        mask = (labels[top : top + height, left : left + width] == index).astype(np.uint8)
        fill = _outline_area(mask) / (width * height)
        if fill < _MIN_FILL and not (fill > _MIN_NOTCHED_FILL and height < 90 and _has_four_sides(mask)):
            continue
        colour = np.median(image[top : top + height, left : left + width][mask.astype(bool)], axis=0)
        red, green, blue = (int(value) for value in colour)
        # An edge pixel is left of or above its step, so the region starts at the correct pixel on either side.
        box = Box(left, top, left + width + 1, top + height + 1).clipped(image.shape[1], image.shape[0])
        rectangles.append(Rectangle(box_px=box, colour=(red, green, blue), fill=min(fill, 1.0)))
    return sorted(_join_at_carets(image, rectangles), key=lambda rectangle: rectangle.box_px.area)


def _join_at_carets(image: NDArray[np.uint8], rectangles: Sequence[Rectangle]) -> list[Rectangle]:
    """Join neighbours divided only by a text caret; unlike the line between two cells, it stops before the border."""
    ends: dict[int, list[Rectangle]] = {}
    for right in sorted(rectangles, key=lambda rectangle: rectangle.box_px.left):
        near = range(right.box_px.left - _MAX_CARET_PX[0], right.box_px.left + 2)
        beside = (each for x in near for each in ends.get(x, ()))
        left = next((each for each in beside if _is_caret_between(image, each, right)), None)
        if left is not None:
            ends[left.box_px.right].remove(left)
            box = left.box_px.union(right.box_px)
            right = Rectangle(box_px=box, colour=left.colour, fill=min(left.fill, right.fill))
        ends.setdefault(right.box_px.right, []).append(right)
    return [rectangle for group in ends.values() for rectangle in group]


def _is_caret_between(image: NDArray[np.uint8], left: Rectangle, right: Rectangle) -> bool:
    left_box, right_box = left.box_px, right.box_px
    if max(left_box.height, right_box.height) > _MAX_CARET_PX[1]:
        return False
    if (
        abs(left_box.top - right_box.top) > 1
        or abs(left_box.bottom - right_box.bottom) > 1
        or left.colour != right.colour
    ):
        return False
    top, bottom = max(left_box.top, right_box.top), min(left_box.bottom, right_box.bottom)
    gap = image[top:bottom, left_box.right - 2 : right_box.left + 2].astype(np.int16)
    ends = np.abs(gap[[0, -1]] - np.array(left.colour)).max(axis=(1, 2))
    return bool((ends <= _EDGE_STEP).any())


def _outline_area(mask: NDArray[np.uint8]) -> float:
    """Return the pixels inside the outer outline of the only component of a mask, including holes."""
    padded = cv2.copyMakeBorder(mask, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    contours, _ = cv2.findContours(padded, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    largest = max(contours, key=len)
    return float(cv2.contourArea(largest)) + len(largest) / 2 + 1


def _has_four_sides(mask: NDArray[np.uint8]) -> bool:
    sides = (mask[:2].max(axis=0), mask[-2:].max(axis=0), mask[:, :2].max(axis=1), mask[:, -2:].max(axis=1))
    return all(float(side.mean()) >= _MIN_SIDE_COVER for side in sides)


def find_lines(image: NDArray[np.uint8]) -> list[Box]:
    """Find horizontal rules (separators, the line below a flat input), top to bottom, (H, W, 3) uint8 RGB."""
    if image.shape[0] < 2 or image.shape[1] < _MIN_LINE_PX:
        return []
    below = np.zeros(image.shape[:2], dtype=np.uint8)
    below[:-1] = largest_channel(cv2.absdiff(image[1:], image[:-1])) > _EDGE_STEP
    runs = cv2.morphologyEx(below, cv2.MORPH_OPEN, np.ones((1, _MIN_LINE_PX | 1), np.uint8))
    joined = cv2.morphologyEx(runs, cv2.MORPH_CLOSE, np.ones((_MAX_LINE_THICKNESS_PX | 1, 1), np.uint8))
    count, _, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    lines = []
    for index in range(1, count):
        left, top, width, height = (int(value) for value in stats[index, :4])
        if width >= _MIN_LINE_PX and 2 <= height <= _MAX_LINE_THICKNESS_PX + 1:
            lines.append(Box(left, top + 1, left + width, top + height))
    return sorted(lines, key=lambda box: (box.top, box.left))


def find_dialog(image: NDArray[np.uint8], rectangles: Sequence[Rectangle]) -> Box | None:
    """Find the panel of a modal dialog: horizontally centered, much brighter than the dimmed page around it."""
    if not rectangles:
        return None
    height, width = image.shape[:2]
    border = np.concatenate((image[:8].reshape(-1, 3), image[:, :8].reshape(-1, 3), image[:, -8:].reshape(-1, 3)))
    around = float(np.median(border.mean(axis=1)))
    panels = [
        rectangle.box_px
        for rectangle in rectangles
        if 0.015 * width * height < rectangle.box_px.area < 0.7 * width * height
        and abs(rectangle.box_px.center[0] - width / 2) < 0.06 * width
        and rectangle.box_px.left > 8
        and around < 0.72 * float(np.mean(rectangle.colour))
        and float(np.mean(rectangle.colour)) > 40
    ]
    return max(panels, key=lambda box: box.area, default=None)


MAX_TOGGLE_PX = 34
_MIN_KNOB_STEP = 18  # a white knob on the pale grey of phones


@dataclass(frozen=True, slots=True, kw_only=True)
class Toggle:
    """Widget that is on or off.

    Attributes:
        box_px: Outline, in pixels of the image.
        kind: Square, round, or a switch with a knob.
        is_on: True if ticked, filled, or with the knob at the right.
    """

    box_px: Box
    kind: Literal["checkbox", "radio", "switch"]
    is_on: bool


def find_toggles(image: NDArray[np.uint8], max_side_px: int = MAX_TOGGLE_PX) -> list[Toggle]:
    """Find toggles of at most `max_side_px` on an (H, W, 3) uint8 RGB image, preferably the part around a label."""
    if image.size == 0:
        return []
    background = find_background(image).astype(np.int16)
    difference = largest_channel(np.abs(image.astype(np.int16) - background)).astype(np.uint8)
    toggles: dict[Box, Toggle] = {}
    for threshold in (20, 60):
        count, labels, stats, _ = cv2.connectedComponentsWithStats(
            (difference > threshold).astype(np.uint8), connectivity=8
        )
        for index in range(1, count):
            left, top, width, height = (int(value) for value in stats[index, :4])
            box = Box(left, top, left + width, top + height)
            if any(box.intersection(known) > 0.5 * box.area for known in toggles):
                continue
            shape = (labels[top : box.bottom, left : box.right] == index).astype(np.uint8)
            toggle = _read(image[top : box.bottom, left : box.right], shape, box, max_side_px)
            if toggle is not None:
                toggles[box] = toggle
    return sorted(toggles.values(), key=lambda toggle: (toggle.box_px.top, toggle.box_px.left))


def _read(crop: NDArray[np.uint8], shape: NDArray[np.uint8], box: Box, max_side_px: int) -> Toggle | None:
    if not (_MIN_SIDE_PX <= box.height <= max_side_px and _MIN_SIDE_PX <= box.width <= 2.6 * max_side_px):
        return None
    ratio = box.width / box.height
    if 1.5 <= ratio <= 2.6:
        return _read_switch(crop, shape, box)
    if not 0.85 <= ratio <= 1.18:
        return None
    outline = _fill_outline(shape)
    coverage = float(outline.mean())
    corner = max(box.width // 6, 1)
    corners = float(
        np.mean(
            [
                outline[:corner, :corner].mean(),
                outline[:corner, -corner:].mean(),
                outline[-corner:, :corner].mean(),
                outline[-corner:, -corner:].mean(),
            ]
        )
    )
    is_round = corners < 0.35
    if coverage < (0.72 if is_round else 0.9):
        return None
    if not _is_outlined(shape):
        return None
    return Toggle(box_px=box, kind="radio" if is_round else "checkbox", is_on=_is_marked(crop, box))


def _fill_outline(shape: NDArray[np.uint8]) -> NDArray[np.uint8]:
    padded = cv2.copyMakeBorder(shape, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    contours, _ = cv2.findContours(padded, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled = np.zeros_like(padded)
    cv2.drawContours(filled, contours, -1, 1, thickness=-1)
    result: NDArray[np.uint8] = filled[1:-1, 1:-1]
    return result


def _is_outlined(shape: NDArray[np.uint8]) -> bool:
    """Return True if all four sides are drawn.

    Letters seldom touch all sides of their box; boxes do along half of it.
    """
    height, width = shape.shape
    third = slice(height // 3, height - height // 3), slice(width // 3, width - width // 3)
    sides = (
        shape[:2, third[1]].max(axis=0),
        shape[-2:, third[1]].max(axis=0),
        shape[third[0], :2].max(axis=1),
        shape[third[0], -2:].max(axis=1),
    )
    return all(float(side.mean()) > 0.9 for side in sides)


def _is_marked(crop: NDArray[np.uint8], box: Box) -> bool:
    """Return True if the inside contains a tick or a dot, or is filled with strong colour."""
    margin = max(3, round(box.width * 0.22))
    inner = crop[margin:-margin, margin:-margin].astype(np.int16)
    if inner.size == 0:
        return False
    spread = int((inner.max(axis=(0, 1)) - inner.min(axis=(0, 1))).max())
    middle = np.median(inner.reshape(-1, 3), axis=0)
    return spread > 60 or bool(middle.max() - middle.min() > 70)


def _read_switch(crop: NDArray[np.uint8], shape: NDArray[np.uint8], box: Box) -> Toggle | None:
    """Read a switch: on if the knob, the part that differs from the track, is right of the center."""
    outline = _fill_outline(shape)
    if float(outline.mean()) < 0.85 or float(outline[:2, :2].mean()) > 0.8 or box.height < 12:
        return None
    row = crop[box.height // 2 - 1 : box.height // 2 + 2].astype(np.int16).mean(axis=0)
    inner = row[2:-2]
    left, right = inner[len(inner) // 4], inner[-len(inner) // 4]
    if int(np.abs(left - right).max()) < _MIN_KNOB_STEP:
        return None
    ends = crop[1:3, box.width // 2 - 2 : box.width // 2 + 2].reshape(-1, 3).mean(axis=0)
    knob_right = np.abs(right - ends).max() > np.abs(left - ends).max()
    return Toggle(box_px=box, kind="switch", is_on=bool(knob_right))


def has_down_arrow(field: NDArray[np.uint8]) -> bool:
    """Return True if a field's inside ends in a small mark that is wider at its top than at its bottom."""
    height, width = field.shape[:2]
    reach = min(44, width // 3)
    if reach < 8 or height < 12:
        return False
    ink = find_ink(field[2:-2, width - reach : width - 1])
    runs = find_runs(ink.any(axis=0), max_gap=1)
    if not runs:
        return False
    start, end = runs[-1]
    rows = np.flatnonzero(ink[:, start:end].any(axis=1))
    mark = ink[rows[0] : rows[-1] + 1, start:end]
    if not (5 <= mark.shape[1] <= 22 and 3 <= mark.shape[0] <= 18):
        return False
    return _narrows_down(mark)


def _narrows_down(mark: NDArray[np.bool_]) -> bool:
    columns = np.arange(mark.shape[1])
    reach = [float(np.ptp(columns[row])) + 1 if row.any() else 0.0 for row in mark]
    third = max(len(reach) // 3, 1)
    top, bottom = float(np.mean(reach[:third])), float(np.mean(reach[-third:]))
    return mark.shape[0] <= 0.85 * mark.shape[1] and top > 1.5 * bottom
