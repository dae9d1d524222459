"""Where a way begins and ends: points, boxes, coloured dots and letters on a picture."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.colors.words import ColorLike, is_plain_word, parse_color, word_lut
from visual_tools.errors import ImageError
from visual_tools.ocr import read_text
from visual_tools.paths.result import Point
from visual_tools.require import require

EndLike = Sequence[float] | NDArray[np.integer] | Box | str | None

COLOR_REACH = 70
MIN_DOT_PX = 4
BAND_PX = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One end as it was asked for, found on the picture.

    Attributes:
        name: "start" or "goal", for messages.
        point_px: x and y.
        box_px: Around what belongs to it: the dot, the letter, the point.
        is_dot: Whether it is a coloured region, which is free whatever its tone.
        is_point: Whether nothing is known about what belongs to it.
    """

    name: str
    point_px: Point
    box_px: Box
    is_dot: bool
    is_point: bool = False


def is_point(end: EndLike) -> bool:
    """Whether an end is given as x and y."""
    return not isinstance(end, str | Box) and end is not None and len(end) == 2


def make_point_end(name: str, end: Sequence[float], shape: tuple[int, ...]) -> End:
    """An end given as x and y.

    Raises:
        ImageError: It lies beside the picture.
    """
    x, y = (round(float(value)) for value in end)
    if not (0 <= x < shape[1] and 0 <= y < shape[0]):
        raise ImageError(
            f"the {name} ({x}, {y}) lies outside the picture of {shape[1]} x {shape[0]} pixels; expected x from 0 "
            f"to {shape[1] - 1} and y from 0 to {shape[0] - 1}"
        )
    return End(name=name, point_px=(x, y), box_px=Box(x, y, x + 1, y + 1), is_dot=False, is_point=True)


def make_box_end(name: str, box: Box, shape: tuple[int, ...]) -> End:
    """An end given as a box: its middle.

    Raises:
        ImageError: It lies beside the picture.
    """
    inner = box.clipped(shape[1], shape[0])
    if inner.area == 0:
        raise ImageError(f"the {name} {box} lies outside the picture of {shape[1]} x {shape[0]} pixels")
    x, y = inner.center
    return End(name=name, point_px=(int(x), int(y)), box_px=inner, is_dot=False)


def is_color(end: EndLike) -> bool:
    """Whether an end is given as a colour: a word, a hex string or three numbers."""
    if isinstance(end, Box) or end is None or is_point(end):
        return False
    if is_plain_word(end):  # type: ignore[arg-type]
        return True
    try:
        parse_color(end)  # type: ignore[arg-type]
    except ImageError:
        return not isinstance(end, str)
    return True


def find_dot(name: str, image: NDArray[np.uint8], drawn: NDArray[np.bool_], color: ColorLike, rank: int) -> End:
    """The largest region of a colour (rank 0), or the second largest (rank 1).

    Args:
        name: "start" or "goal".
        image: (H, W, 3) uint8 RGB.
        drawn: (H, W), where something is drawn over the two tones; searched first.
        color: As `visual_tools.color_share` takes it.
        rank: 1 when start and goal have the same colour and this is the goal.

    Raises:
        ImageError: There is no such region.
    """
    cv2 = require("cv2", "visual")
    for where in (drawn, None):
        mask = cv2.morphologyEx(_match(image, color, where), cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
        count, labels, stats, centers = cv2.connectedComponentsWithStats(mask, connectivity=8)
        largest = 1 + np.argsort(-stats[1:, cv2.CC_STAT_AREA], kind="stable")
        if count > 1 + rank and stats[largest[rank], cv2.CC_STAT_AREA] >= MIN_DOT_PX:
            number = int(largest[rank])
            left, top, width, height, _ = (int(value) for value in stats[number])
            rows, columns = np.nonzero(labels[top : top + height, left : left + width] == number)
            away = np.hypot(columns + left - centers[number][0], rows + top - centers[number][1])
            middle = int(np.argmin(away))
            point = (int(columns[middle]) + left, int(rows[middle]) + top)
            return End(name=name, point_px=point, box_px=Box(left, top, left + width, top + height), is_dot=True)
    which = "a second region" if rank else "a region"
    raise ImageError(
        f"found nothing {color!r} for the {name}, expected {which} of at least {MIN_DOT_PX} pixels of that "
        "colour. Give the colour it really has, or the point (x, y)"
    )


def find_label(name: str, page: NDArray[np.uint8], text: str) -> End:
    """Writing on a page from which the walls have been taken away.

    Raises:
        ImageError: It does not stand there, or more than once.
    """
    wanted = text.strip().casefold()
    lines = read_text(page)
    found = [box for line in lines for word, box in line.words if word.casefold() == wanted]
    found = found or [line.box_px for line in lines if line.text.casefold() == wanted]
    if len(found) != 1:
        there = ", ".join(repr(line.text) for line in lines) or "no writing"
        raise ImageError(
            f"found {len(found)} times {text!r} for the {name}; the picture reads: {there}. Expected a colour, writing "
            "that is there once, a Box, or the point (x, y)"
        )
    return make_box_end(name, found[0], page.shape)


def _match(image: NDArray[np.uint8], color: ColorLike, where: NDArray[np.bool_] | None) -> NDArray[np.uint8]:
    """Pixels of a colour, (H, W) 0 or 1, everywhere or only in a mask."""
    if where is not None:
        mask = np.zeros(where.shape, np.uint8)
        mask[where] = _is_color(image[where], color)
        return mask
    band = max(1, BAND_PX // image.shape[1])
    tops = range(0, image.shape[0], band)
    return np.concatenate([_is_color(image[top : top + band], color) for top in tops]).astype(np.uint8)


def _is_color(pixels: NDArray[np.uint8], color: ColorLike) -> NDArray[np.bool_]:
    if is_plain_word(color):
        coarse = pixels >> 2
        named: NDArray[np.bool_] = word_lut(color)[coarse[..., 0], coarse[..., 1], coarse[..., 2]]
        return named
    wanted = np.array(parse_color(color), np.int16)
    near: NDArray[np.bool_] = np.abs(pixels - wanted).sum(axis=-1, dtype=np.int32) <= COLOR_REACH
    return near
