"""Read an image of a maze: its two tones, light and dark, what is drawn over them, and the ends of a path.

Ends are points, boxes, coloured dots and letters; in a maze without openings, two coloured objects are the ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.colors.words import ColorLike, color_name, is_plain_word, parse_color, word_lut
from visual_tools.errors import ImageError
from visual_tools.ocr import read_text
from visual_tools.packages import cv2
from visual_tools.paths.search import Point

# Heuristics without another source; measured together in benchmarks/visual/README.md, "Mazes".
SAMPLES = 200_000
MIN_SPREAD = 12.0
STRONG_COLOUR, WEAK_COLOUR, FADED_SLACK = 50, 22, 10
PAGE_LEVEL = 235.0
SMALL_SIDE_PX = 256
UNEVEN_SHARE = 0.92
EndLike = Sequence[float] | NDArray[np.integer] | Box | str | None
# Heuristics without another source; measured together in benchmarks/visual/README.md, "Mazes".
COLOR_REACH = 70
MIN_DOT_PX = 4
MIN_COLOR_SHARE = 0.25
BAND_PX = 1 << 20
LOOKALIKES = {"5": "s", "0": "o", "1": "i", "|": "i", "8": "b"}
START_COLORS, GOAL_COLORS = ("green",), ("red", "orange")
"""Colours commonly used for a start and a goal."""
_JOIN_PX = 5
_MIN_SHARE = 0.1
"""Minimum size relative to the largest object; smaller ones are specks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tones:
    """Image as two tones.

    Attributes:
        light: bool (H, W), the lighter of the two.
        drawn: bool (H, W), pixels of neither tone: coloured dots and the like.
        faded_light: bool (H, W), where a drawn object fades into the light tone, not into the dark one.
        faded_dark: bool (H, W), where a drawn object fades into the dark tone, not into the light one.
    """

    light: NDArray[np.bool_]
    drawn: NDArray[np.bool_]
    faded_light: NDArray[np.bool_]
    faded_dark: NDArray[np.bool_]

    def free(self, road: Literal["light", "dark"]) -> NDArray[np.bool_]:
        """Return the free pixels if this tone is road: the tone, and drawn objects up to their rims."""
        if road == "light":
            return self.light | self.drawn | self.faded_light
        return ~self.light | self.drawn | self.faded_dark


def separate_tones(image: NDArray[np.uint8]) -> Tones:
    """Split an image along the line in colour space through its two main colours.

    Uneven lighting of a page is divided out first.

    Raises:
        ImageError: If the image has one flat colour.
    """
    axes, center = _color_axes(image)
    low, high = _span(image, axes[0], center)
    scale = 255 / (high - low)
    tone = cv2.transform(image, np.append(axes[0] * scale, -low * scale)[None])
    off = _off_axis(image, axes, center)
    gain = _light_gain(tone) if (axes[0] > 0.3).all() else None
    if gain is not None:
        tone, off = (cv2.multiply(levels, gain, dtype=cv2.CV_8U) for levels in (tone, off))
    threshold, _ = cv2.threshold(tone, 0, 255, cv2.THRESH_BINARY | cv2.THRESH_OTSU)
    return _with_drawn(tone, off, tone > threshold)


def _color_axes(image: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the main axis of the colours, from dark to light, the two axes across it, and the mean colour."""
    step = max(1, int(np.sqrt(image.shape[0] * image.shape[1] / SAMPLES)))
    sample = image[::step, ::step].reshape(-1, 3).astype(np.float64)
    center = sample.mean(axis=0)
    spread, axes = np.linalg.eigh(np.cov(sample - center, rowvar=False) if len(sample) > 1 else np.zeros((3, 3)))
    if np.sqrt(spread[-1]) < MIN_SPREAD:
        raise ImageError(
            "the image has (nearly) one flat colour, so there are no walls in it. Expected a maze or a map in two "
            "tones; give a bool mask of the free pixels if you have one"
        )
    axes = axes[:, ::-1].T
    return axes * np.where(axes.sum(axis=1) < 0, -1.0, 1.0)[:, None], center


def _span(image: NDArray[np.uint8], axis: NDArray[np.float64], center: NDArray[np.float64]) -> tuple[float, float]:
    step = max(1, int(np.sqrt(image.shape[0] * image.shape[1] / SAMPLES)))
    low, high = np.percentile(image[::step, ::step].reshape(-1, 3) @ axis, (0.5, 99.5))
    return (float(low), float(high)) if (axis <= 0.3).any() else (0.0, float(high))


def _light_gain(tone: NDArray[np.uint8]) -> NDArray[np.float32] | None:
    """Return the factor per pixel that makes the page equally bright, or None if it is.

    The page's brightness is estimated from the lightest spots around each position.
    """
    height, width = tone.shape
    shrink = max(1, min(height, width) / SMALL_SIDE_PX)
    size = (max(1, round(width / shrink)), max(1, round(height / shrink)))
    small = cv2.dilate(tone, np.ones((3, 3), np.uint8))
    small = cv2.resize(small, size, interpolation=cv2.INTER_AREA)
    window = max(3, min(size) // 8 | 1)
    page = cv2.dilate(small, np.ones((window, window), np.uint8))
    page = cv2.GaussianBlur(page, (0, 0), window / 2)
    page = np.maximum(page, np.percentile(page, 95) / 2)
    if page.min() > UNEVEN_SHARE * page.max():
        return None
    gain: NDArray[np.float32] = PAGE_LEVEL / page.astype(np.float32)
    return cv2.resize(gain, (width, height), interpolation=cv2.INTER_LINEAR)  # type: ignore[no-any-return]


def _off_axis(image: NDArray[np.uint8], axes: NDArray[np.float64], center: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return the distance of each pixel's colour from the line between the two tones, to a twelfth: (H, W) uint8."""
    matrix = np.column_stack([axes[1:], 128 - axes[1:] @ center])
    across = cv2.absdiff(cv2.transform(image, matrix), (128, 128, 128, 0))
    first, second = across[..., 0], across[..., 1]
    diagonal = cv2.addWeighted(first, np.sqrt(0.5), second, np.sqrt(0.5), 0)
    distance: NDArray[np.uint8] = np.maximum(np.maximum(first, second), diagonal)
    return distance


def _with_drawn(tone: NDArray[np.uint8], off: NDArray[np.uint8], light: NDArray[np.bool_]) -> Tones:
    """Add the pixels far from the line between the two tones, and the adjacent ones that fade out."""
    drawn = off > STRONG_COLOUR
    window = np.ones((7, 7), np.uint8)
    faded = (off > WEAK_COLOUR) & (cv2.dilate(drawn.view(np.uint8), window) > 0)
    darkest = cv2.erode(np.where(drawn, tone, np.uint8(255)), window)
    lightest = cv2.dilate(np.where(drawn, tone, np.uint8(0)), window)
    return Tones(
        light=light,
        drawn=drawn,
        faded_light=faded & (cv2.add(tone, FADED_SLACK) >= darkest),
        faded_dark=faded & (cv2.subtract(tone, FADED_SLACK) <= lightest),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PathEnd:
    """Requested end, located on the image.

    Attributes:
        name: "start" or "goal", for messages.
        point_px: x and y.
        box_px: Bounding box of the dot, the letter, or the point.
        is_dot: True if it is a coloured region, which is free regardless of its tone.
        is_point: True if its extent is unknown.
    """

    name: str
    point_px: Point
    box_px: Box
    is_dot: bool
    is_point: bool = False


def is_point(end: EndLike) -> bool:
    """Return True if an end is given as x and y."""
    return not isinstance(end, str | Box) and end is not None and len(end) == 2


def make_point_end(name: str, end: Sequence[float], shape: tuple[int, ...]) -> PathEnd:
    """Make an end from x and y.

    Raises:
        ImageError: If it is outside the image.
    """
    x, y = (round(float(value)) for value in end)
    if not (0 <= x < shape[1] and 0 <= y < shape[0]):
        raise ImageError(
            f"the {name} ({x}, {y}) lies outside the image of {shape[1]} x {shape[0]} pixels; expected x from 0 "
            f"to {shape[1] - 1} and y from 0 to {shape[0] - 1}"
        )
    return PathEnd(name=name, point_px=(x, y), box_px=Box(x, y, x + 1, y + 1), is_dot=False, is_point=True)


def make_box_end(name: str, box: Box, shape: tuple[int, ...]) -> PathEnd:
    """Make an end at the center of a box.

    Raises:
        ImageError: If it is outside the image.
    """
    inner = box.clipped(shape[1], shape[0])
    if inner.area == 0:
        raise ImageError(f"the {name} {box} lies outside the image of {shape[1]} x {shape[0]} pixels")
    x, y = inner.center
    return PathEnd(name=name, point_px=(int(x), int(y)), box_px=inner, is_dot=False)


def make_opening_end(point: Point) -> PathEnd:
    """Make an end in an opening of the outer walls."""
    return PathEnd(name="opening", point_px=point, box_px=Box(*point, point[0] + 1, point[1] + 1), is_dot=False)


def is_color(end: EndLike) -> bool:
    """Return True if an end is given as a colour: a word, a hex string or three numbers."""
    if isinstance(end, Box) or end is None or is_point(end):
        return False
    if is_plain_word(end):  # type: ignore[arg-type]
        return True
    try:
        parse_color(end)  # type: ignore[arg-type]
    except ImageError:
        return not isinstance(end, str)
    return True


def find_dot(name: str, image: NDArray[np.uint8], drawn: NDArray[np.bool_], color: ColorLike, rank: int) -> PathEnd:
    """Find the largest region of a colour (rank 0), or the second largest (rank 1).

    Raises:
        ImageError: If there is no such region.
    """
    for area, is_shaded in ((drawn, False), (drawn, True), (None, False)):
        left, top, mask = _match(image, color, area, is_shaded)
        box = Box(left, top, left + mask.shape[1], top + mask.shape[0])
        if area is not None:
            mask = _complete(mask, area[box.top : box.bottom, box.left : box.right])
        region = _region(mask, rank)
        if region is not None:
            (x, y), box_px = region
            return PathEnd(name=name, point_px=(x + left, y + top), box_px=box_px.moved(left, top), is_dot=True)
    which = "a second region" if rank else "a region"
    raise ImageError(
        f"found nothing {color!r} for the {name}, expected {which} of at least {MIN_DOT_PX} pixels of that "
        "colour. Give the colour it really has, or the point (x, y)"
    )


def find_label(name: str, page: NDArray[np.uint8], text: str) -> PathEnd:
    """Find text on a page from which the walls have been removed.

    Raises:
        ImageError: If it is not found, or found more than once.
    """
    wanted = text.strip().casefold()
    lines = read_text(page)
    words = [word for line in lines for word in line.words]
    boxes = [box for word, box in words if word.casefold() == wanted]
    boxes = boxes or [line.box_px for line in lines if line.text.casefold() == wanted]
    boxes = boxes or [box for word, box in words if LOOKALIKES.get(word) == wanted]
    if len(boxes) != 1:
        there = ", ".join(repr(line.text) for line in lines) or "no writing"
        raise ImageError(
            f"found {len(boxes)} times {text!r} for the {name}; the image reads: {there}. Expected a colour, writing "
            "that is there once, a Box, or the point (x, y)"
        )
    return make_box_end(name, boxes[0], page.shape)


def _match(
    image: NDArray[np.uint8], color: ColorLike, area: NDArray[np.bool_] | None, is_shaded: bool
) -> tuple[int, int, NDArray[np.bool_]]:
    """Find pixels of a colour everywhere, or only in a mask: left, top, and a mask that begins there."""
    if area is None:
        band = max(1, BAND_PX // image.shape[1])
        tops = range(0, image.shape[0], band)
        return 0, 0, np.concatenate([_is_color(image[top : top + band], color, False) for top in tops])
    rows, columns = np.flatnonzero(area.any(axis=1)), np.flatnonzero(area.any(axis=0))
    if not len(rows):
        return 0, 0, np.zeros((1, 1), np.bool_)
    part = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    mask = np.zeros(area[part].shape, np.bool_)
    mask[area[part]] = _is_color(image[part][area[part]], color, is_shaded)
    return int(columns[0]), int(rows[0]), mask


def _is_color(pixels: NDArray[np.uint8], color: ColorLike, is_shaded: bool) -> NDArray[np.bool_]:
    """Return which pixels have a colour; `is_shaded`: at any brightness."""
    if is_plain_word(color) and not is_shaded:
        coarse = pixels >> 2
        named: NDArray[np.bool_] = word_lut(color)[coarse[..., 0], coarse[..., 1], coarse[..., 2]]
        return named
    wanted = np.array(parse_color(color), np.float32)
    seen = pixels.astype(np.float32)
    if is_shaded:
        wanted *= 255 / max(1.0, float(wanted.max()))
        seen *= 255 / np.maximum(1, seen.max(axis=-1, keepdims=True))
    near: NDArray[np.bool_] = np.abs(seen - wanted).sum(axis=-1) <= COLOR_REACH * (1 + is_shaded)
    return near


def _complete(mask: NDArray[np.bool_], drawn: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Extend a mask to whole drawn objects of which a good part has the colour: dots have rims and shaded sides."""
    count, things = cv2.connectedComponents(drawn.view(np.uint8), connectivity=8)
    share = np.bincount(things[mask], minlength=count) / np.bincount(things.ravel(), minlength=count)
    share[0] = 0
    whole: NDArray[np.bool_] = (share >= MIN_COLOR_SHARE)[things]
    return whole


def _region(mask: NDArray[np.bool_], rank: int) -> tuple[Point, Box] | None:
    """Return the largest connected region of a mask (rank 0) or the next one, as its central pixel and its box."""
    closed = cv2.morphologyEx(np.pad(mask, 2).view(np.uint8), cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))[2:-2, 2:-2]
    count, labels, stats, centers = cv2.connectedComponentsWithStats(np.ascontiguousarray(closed), connectivity=8)
    order = 1 + np.argsort(-stats[1:, cv2.CC_STAT_AREA], kind="stable")
    if count <= 1 + rank or stats[order[rank], cv2.CC_STAT_AREA] < MIN_DOT_PX:
        return None
    number = int(order[rank])
    left, top, width, height, _ = (int(value) for value in stats[number])
    rows, columns = np.nonzero(labels[top : top + height, left : left + width] == number)
    middle = int(np.argmin(np.hypot(columns + left - centers[number][0], rows + top - centers[number][1])))
    return (int(columns[middle]) + left, int(rows[middle]) + top), Box(left, top, left + width, top + height)


def find_two_dots(image: NDArray[np.uint8], drawn: NDArray[np.bool_]) -> tuple[str, str] | None:
    """Return the colours of the start and of the goal; None unless exactly two objects are drawn in colour.

    Args:
        image: (H, W, 3) uint8 RGB.
        drawn: bool (H, W), pixels of neither of the image's two main tones.

    Returns:
        Common names. A green object is the start, a red one the goal; otherwise the upper one is the start, and the
        left one of two at the same height.
    """
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
