"""Show differences: both images beside each other, each difference numbered in both."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from visual_tools.box import Box
from visual_tools.diff.result import Difference, Differences, as_rgb
from visual_tools.errors import ImageError

_COLOURS = {
    "removed": "#d7263d",
    "added": "#1b8a3a",
    "moved": "#2a5bd7",
    "recoloured": "#b5179e",
    "changed": "#d9720a",
}
_MAX_SIDE_PX = 1100  # of each image as drawn
_GAP_PX = 16
_PAD_PX = 6


def draw_diff(first: Any, second: Any, result: Differences) -> NDArray[np.uint8]:
    """Both images side by side with a numbered frame around each difference, and a list of them below.

    What moved has a thin frame at its old place in the second image, with a line to the new one.

    Args:
        first: The first image, or the one image with two halves; not changed.
        second: The second image; None for the one image with two halves.
        result: What `pixel_diff` gave for them.

    Returns:
        (H, W, 3) uint8, a new image.

    Raises:
        ImageError: An image is missing or unfit.

    Example:
        >>> save_image(draw_diff(before, after, pixel_diff(before, after)), "differences.png")
    """
    images, corners = _images(first, second, result)
    factor = min(1.0, _MAX_SIDE_PX / max(max(image.shape[:2]) for image in images))
    size_px = max(13, round(0.022 * factor * max(images[0].shape[:2])))
    panels = [_framed(image, result, at, corners[at], factor, size_px) for at, image in enumerate(images)]
    width = sum(panel.width for panel in panels) + _GAP_PX
    height = max(panel.height for panel in panels)
    below = _legend(result, width)
    sheet = Image.new("RGB", (width, height + below.height), "white")
    sheet.paste(panels[0], (0, 0))
    sheet.paste(panels[1], (panels[0].width + _GAP_PX, 0))
    sheet.paste(below, (0, height))
    return np.asarray(sheet)


def _images(first: Any, second: Any, result: Differences) -> tuple[list[NDArray[np.uint8]], list[tuple[int, int]]]:
    """Both images, and where the (0, 0) of each lies in the frame of its boxes."""
    halves = result.halves
    if halves is None:
        if second is None:
            raise ImageError("the second picture is missing: these differences are between two pictures")
        return [as_rgb(first, "first"), as_rgb(second, "second")], [(0, 0), (0, 0)]
    boxes = halves.first_box, halves.second_box
    return [halves.first, halves.second], [(box.left, box.top) for box in boxes]


def _framed(
    image: NDArray[np.uint8], result: Differences, at: int, corner: tuple[int, int], factor: float, size_px: int
) -> Image.Image:
    """One image, faded a little, with its frames and numbers."""
    size = max(round(image.shape[1] * factor), 1), max(round(image.shape[0] * factor), 1)
    panel = Image.fromarray(image).resize(size, Image.Resampling.LANCZOS if factor < 1 else Image.Resampling.BOX)
    panel = Image.blend(panel, Image.new("RGB", size, "white"), 0.15)
    draw: Any = ImageDraw.Draw(panel)
    tags = [_place(one, at, corner, factor, size) for one in result.differences]
    for one, box in zip(result.differences, tags, strict=True):
        colour = _COLOURS.get(one.kind, "#d9720a")
        if one.kind == "moved" and at == 1:
            _draw_trail(draw, _old_place(one, result, corner, factor, size), box, colour)
        draw.rectangle((box.left - 1, box.top - 1, box.right, box.bottom), outline="white", width=4)
        draw.rectangle((box.left, box.top, box.right - 1, box.bottom - 1), outline=colour, width=2)
    for one, box in zip(result.differences, tags, strict=True):
        _draw_tag(draw, str(one.number), box, _COLOURS.get(one.kind, "#d9720a"), size_px, size)
    return panel


def _place(one: Difference, at: int, corner: tuple[int, int], factor: float, size: tuple[int, int]) -> Box:
    box = one.second_box if at else one.first_box
    return _scaled(box.moved(-corner[0], -corner[1]), factor, size)


def _scaled(box: Box, factor: float, size: tuple[int, int]) -> Box:
    edges = [round(side * factor) for side in (box.left, box.top, box.right, box.bottom)]
    return Box(*edges).padded(_PAD_PX).clipped(*size)


def _old_place(
    one: Difference, result: Differences, corner: tuple[int, int], factor: float, size: tuple[int, int]
) -> Box:
    """Where in the second image a moved thing would stand had it not moved."""
    box = one.first_box
    if result.halves is not None:
        box = box.moved(-result.halves.first_box.left, -result.halves.first_box.top)
        return _scaled(result.transform.map_box(box), factor, size)
    return _scaled(result.transform.map_box(box).moved(-corner[0], -corner[1]), factor, size)


def _draw_trail(draw: Any, old: Box, new: Box, colour: str) -> None:
    draw.rectangle((old.left, old.top, old.right - 1, old.bottom - 1), outline=colour, width=1)
    if old.intersection(new) == 0:
        draw.line((*old.center, *new.center), fill=colour, width=2)


def _draw_tag(draw: Any, text: str, box: Box, colour: str, size_px: int, size: tuple[int, int]) -> None:
    """The number on a plate above the frame, or below where there is no room."""
    font = ImageFont.load_default(size_px)
    left, top, right, bottom = (int(side) for side in draw.textbbox((0, 0), text, font=font))
    width, height = right - left + 8, bottom - top + 6
    x = min(max(box.left, 0), max(size[0] - width, 0))
    y = box.top - height if box.top >= height else min(box.bottom, max(size[1] - height, 0))
    draw.rectangle((x, y, x + width - 1, y + height - 1), fill=colour)
    draw.text((x + 4 - left, y + 3 - top), text, fill="white", font=font)


def _legend(result: Differences, width: int) -> Image.Image:
    """What was found, in words, as many columns as fit."""
    font = ImageFont.load_default(16)
    items = [(f"{one.number}  {one.kind}", _COLOURS.get(one.kind, "#d9720a")) for one in result.differences]
    if not items:
        items = [(result.reason if result.reason else "no differences", "#333333")]
    column_px = 150 if result.differences else width
    columns = max(1, (width - 10) // column_px)
    rows = -(-len(items) // columns)
    strip = Image.new("RGB", (width, 24 * rows + 16), "white")
    draw: Any = ImageDraw.Draw(strip)
    for at, (text, colour) in enumerate(items):
        draw.text((10 + at % columns * column_px, 10 + at // columns * 24), text, fill=colour, font=font)
    return strip
