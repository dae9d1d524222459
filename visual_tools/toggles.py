"""Checkboxes, radio buttons and switches, whether they are on; and the small arrow at the right end of a list."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.ink import find_background, find_ink, find_runs, largest_channel
from visual_tools.require import require

_MIN_SIDE_PX = 9
MAX_SIDE_PX = 34


@dataclass(frozen=True, slots=True, kw_only=True)
class Toggle:
    """Something that is on or off.

    Attributes:
        box_px: Its outline, in pixels of the image.
        kind: Square, round, or a switch with a knob.
        is_on: Ticked, filled, or knob at the right.
    """

    box_px: Box
    kind: Literal["checkbox", "radio", "switch"]
    is_on: bool


def find_toggles(image: NDArray[np.uint8], max_side_px: int = MAX_SIDE_PX) -> list[Toggle]:
    """Toggles on an image, or better on the part of it around a label.

    Args:
        image: (H, W, 3) uint8 RGB.
        max_side_px: Height of the largest; a sharp screen has more pixels for the same box.
    """
    cv2 = require("cv2", "literal")
    if image.size == 0:
        return []
    background = find_background(image).astype(np.int16)
    difference = largest_channel(np.abs(image.astype(np.int16) - background)).astype(np.uint8)
    found: dict[Box, Toggle] = {}
    for threshold in (20, 60):
        count, labels, stats, _ = cv2.connectedComponentsWithStats(
            (difference > threshold).astype(np.uint8), connectivity=8
        )
        for index in range(1, count):
            left, top, width, height = (int(value) for value in stats[index, :4])
            box = Box(left, top, left + width, top + height)
            if any(box.intersection(known) > 0.5 * box.area for known in found):
                continue
            shape = (labels[top : box.bottom, left : box.right] == index).astype(np.uint8)
            toggle = _read(image[top : box.bottom, left : box.right], shape, box, max_side_px)
            if toggle is not None:
                found[box] = toggle
    return sorted(found.values(), key=lambda toggle: (toggle.box_px.top, toggle.box_px.left))


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
    cv2 = require("cv2", "literal")
    padded = cv2.copyMakeBorder(shape, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    contours, _ = cv2.findContours(padded, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled = np.zeros_like(padded)
    cv2.drawContours(filled, contours, -1, 1, thickness=-1)
    result: NDArray[np.uint8] = filled[1:-1, 1:-1]
    return result


def _is_outlined(shape: NDArray[np.uint8]) -> bool:
    """Whether all four sides are drawn: letters seldom touch all of their box, boxes do along half of it."""
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
    """Whether the inside holds a tick or a dot, or is filled with strong colour."""
    margin = max(3, round(box.width * 0.22))
    inner = crop[margin:-margin, margin:-margin].astype(np.int16)
    if inner.size == 0:
        return False
    spread = int((inner.max(axis=(0, 1)) - inner.min(axis=(0, 1))).max())
    middle = np.median(inner.reshape(-1, 3), axis=0)
    return spread > 60 or bool(middle.max() - middle.min() > 70)


def _read_switch(crop: NDArray[np.uint8], shape: NDArray[np.uint8], box: Box) -> Toggle | None:
    """A pill with a knob: on when the knob, the part unlike the track, stands right of the middle."""
    outline = _fill_outline(shape)
    if float(outline.mean()) < 0.85 or float(outline[:2, :2].mean()) > 0.8 or box.height < 12:
        return None
    row = crop[box.height // 2 - 1 : box.height // 2 + 2].astype(np.int16).mean(axis=0)
    inner = row[2:-2]
    left, right = inner[len(inner) // 4], inner[-len(inner) // 4]
    if int(np.abs(left - right).max()) < 24:
        return None
    ends = crop[1:3, box.width // 2 - 2 : box.width // 2 + 2].reshape(-1, 3).mean(axis=0)
    knob_right = np.abs(right - ends).max() > np.abs(left - ends).max()
    return Toggle(box_px=box, kind="switch", is_on=bool(knob_right))


def has_down_arrow(field: NDArray[np.uint8]) -> bool:
    """Whether a field's inside ends in a small mark that is wider at its top than at its bottom.

    Args:
        field: (H, W, 3) uint8 RGB, the field without its border.
    """
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
