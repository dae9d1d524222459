"""Draw marks onto an image, and a grid with coordinates to name positions in it."""

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor, ImageDraw, ImageFont

from visual_tools.errors import ImageError, MissingPackageError, find_package_dir
from visual_tools.images.files import ImageSource, load_image
from visual_tools.images.views import BoxLike, make_box
from visual_tools.packages import cv2

Color = str | Sequence[int]
"""CSS name or code ("red", "#ff8800"), or red, green, blue from 0 to 255."""
_FAR_PX = 2.0**28
"""Maximum coordinate that is drawn: OpenCV takes int32, with some bits of fraction."""
_LIGHT = 140  # brightness above which black text is readable
# Distances of grid lines that are easy to count
_STEPS = (5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 2500, 5000)
_NUM_LINES = 12
_STRENGTH = 0.65
"""Opacity of the grid lines, chosen by appearance."""
_DASH_PX = 4  # short, so that dashes hide little


Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


@lru_cache(maxsize=32)
def load_font(size_px: int) -> Font:
    """Load DejaVu Sans, which covers most alphabets, from matplotlib; otherwise Pillow's own font."""
    try:
        path = find_package_dir("matplotlib", "sandbox") / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"
        return ImageFont.truetype(str(path), size_px)
    except (MissingPackageError, OSError):
        return ImageFont.load_default(size_px)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointMark:
    """Ring with a dot at its center.

    Attributes:
        x_px: Column.
        y_px: Row.
        label: Text next to it.
        color: Colour of ring and label.
    """

    x_px: float
    y_px: float
    label: str = ""
    color: Color = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxMark:
    """Rectangular frame.

    Attributes:
        box: A `Box`, or left, top, right, bottom in pixels.
        label: Text above its top left corner.
        color: Colour of frame and label.
    """

    box: BoxLike
    label: str = ""
    color: Color = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathMark:
    """Line through points.

    Attributes:
        points: x and y of each, in pixels: (N, 2).
        label: Text at its first point.
        color: Colour of line and label.
        width_px: Thickness; None adapts to the size of the image.
        is_closed: True to join the last point to the first.
    """

    points: Sequence[Sequence[float]] | NDArray[np.generic] = field(repr=False)
    label: str = ""
    color: Color = "red"
    width_px: int | None = None
    is_closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMark:
    """Text on its own background.

    Attributes:
        x_px: Left edge of the text.
        y_px: Lower edge of the text.
        text: Text to draw.
        color: Colour of the background; the letters are black or white, whichever is more readable.
    """

    x_px: float
    y_px: float
    text: str
    color: Color = "red"


Mark = PointMark | BoxMark | PathMark | TextMark


def annotate(image: ImageSource, marks: Mark | Iterable[Mark]) -> NDArray[np.uint8]:
    """Draw marks onto a copy of an image, in the given order, with the labels on top.

    Lines and letters are scaled to the image; marks are clipped at the border, labels are moved inside.

    Args:
        image: Anything `load_image` takes.
        marks: One mark or several.

    Returns:
        (H, W, 3) uint8 RGB, a new image.

    Raises:
        ImageError: If a mark, a colour or a coordinate is invalid.

    Example:
        >>> image = annotate(np.zeros((90, 160, 3), np.uint8), [BoxMark(box=(10, 30, 60, 80), label="door")])
    """
    pixels = load_image(image).copy()
    listed = [marks] if isinstance(marks, Mark) else list(marks)
    line_px = choose_line_px(pixels)
    for mark in listed:
        if not isinstance(mark, Mark):
            raise ImageError(f"found a mark {mark!r}, expected PointMark, BoxMark, PathMark or TextMark")
        _draw_shape(pixels, mark, line_px)
    labels = [label for mark in listed if (label := _label_of(mark, line_px))[2]]
    if not labels:
        return pixels
    canvas = Image.fromarray(pixels)
    draw = ImageDraw.Draw(canvas)
    for x_px, y_px, text, color in labels:
        draw_label(draw, canvas.size, (x_px, y_px), text, color)
    return np.array(canvas)


def choose_line_px(image: NDArray[np.uint8]) -> int:
    """Return the line thickness that is visible when the whole image is viewed."""
    longer_px = max(image.shape[:2])
    return 1 if longer_px <= 150 else 1 + max(1, round(longer_px / 500))


def parse_color(color: Color) -> tuple[int, int, int]:
    """Parse a colour to red, green, blue from 0 to 255.

    Raises:
        ImageError: If it is not a colour.
    """
    if isinstance(color, str):
        try:
            red, green, blue = ImageColor.getrgb(color.strip())[:3]
            return red, green, blue
        except ValueError as error:
            near = difflib.get_close_matches(color.lower(), ImageColor.colormap, n=3)
            hint = f"; near are {', '.join(near)}" if near else ""
            raise ImageError(f"found the colour {color!r}, expected a CSS name, #rrggbb or (r, g, b){hint}") from error
    values = [int(value) for value in color]
    if len(values) != 3 or not all(0 <= value <= 255 for value in values):
        raise ImageError(f"found the colour {tuple(values)}, expected red, green and blue from 0 to 255")
    return values[0], values[1], values[2]


def draw_label(
    draw: ImageDraw.ImageDraw,
    size: tuple[int, int],
    left_bottom: tuple[float, float],
    text: str,
    color: tuple[int, int, int],
) -> None:
    """Draw text on a coloured background, moved to stay inside an image of this width and height."""
    size_px = max(11, min(48, round(max(size) / 60)))
    font = load_font(size_px)
    left, top, right, bottom = draw.multiline_textbbox((0, 0), text, font=font)
    pad = max(2, round(size_px / 6))
    width, height = right - left + 2 * pad, bottom - top + 2 * pad
    x = min(max(left_bottom[0], 0), max(size[0] - width, 0))
    y = min(max(left_bottom[1] - height, 0), max(size[1] - height, 0))
    draw.rectangle((x, y, x + width - 1, y + height - 1), fill=color)
    lightness = 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2]
    ink = (0, 0, 0) if lightness > _LIGHT else (255, 255, 255)
    draw.multiline_text((x + pad - left, y + pad - top), text, font=font, fill=ink)


def _draw_shape(image: NDArray[np.uint8], mark: Mark, line_px: int) -> None:
    color = parse_color(mark.color)
    if isinstance(mark, PathMark):
        _draw_line(image, _check_points(mark.points), color, mark.width_px or line_px, mark.is_closed)
    elif isinstance(mark, BoxMark):
        box = make_box(mark.box)
        right, bottom = max(box.right - 1, box.left), max(box.bottom - 1, box.top)
        corners = [(box.left, box.top), (right, box.top), (right, bottom), (box.left, bottom)]
        _draw_line(image, _check_points(corners), color, line_px, True)
    elif isinstance(mark, PointMark):
        _draw_point(image, _check_points([(mark.x_px, mark.y_px)])[0], color, line_px)


def _draw_line(
    image: NDArray[np.uint8], points: NDArray[np.int32], color: tuple[int, int, int], width_px: int, is_closed: bool
) -> None:
    if len(points) == 1:
        points = np.repeat(points, 2, axis=0)
    cv2.polylines(image, [points[:, None]], is_closed, color, max(1, int(width_px)), cv2.LINE_8)


def _draw_point(image: NDArray[np.uint8], point: NDArray[np.int32], color: tuple[int, int, int], line_px: int) -> None:
    """Draw a coloured ring between two thin ones that make it visible on its own colour."""
    center, radius = (int(point[0]), int(point[1])), 3 * line_px + 2
    edge = (0, 0, 0) if sum(color) > 3 * _LIGHT else (255, 255, 255)
    cv2.circle(image, center, radius, edge, 3 * line_px, cv2.LINE_AA)
    cv2.circle(image, center, radius, color, line_px, cv2.LINE_AA)
    cv2.circle(image, center, max(line_px - 1, 0), color, -1)


def _check_points(points: Sequence[Sequence[float]] | NDArray[np.generic]) -> NDArray[np.int32]:
    try:
        values = np.asarray(points, np.float64)
    except (TypeError, ValueError) as error:
        raise ImageError("found points that are not numbers, expected x and y in pixels for each") from error
    if values.ndim != 2 or values.shape[1] != 2 or not len(values):
        raise ImageError(f"found points of shape {values.shape}, expected (N, 2): x and y in pixels for each")
    if not np.isfinite(values).all():
        raise ImageError("found a point with a coordinate that is not a finite number, expected pixels")
    return np.rint(np.clip(values, -_FAR_PX, _FAR_PX)).astype(np.int32)


def _label_of(mark: Mark, line_px: int) -> tuple[float, float, str, tuple[int, int, int]]:
    """Return left, bottom, text and colour of a mark's label."""
    color = parse_color(mark.color)
    if isinstance(mark, TextMark):
        if not (math.isfinite(mark.x_px) and math.isfinite(mark.y_px)):
            raise ImageError(f"found a text at {mark.x_px}, {mark.y_px}, expected pixels")
        return mark.x_px, mark.y_px, mark.text, color
    if isinstance(mark, BoxMark):
        box = make_box(mark.box)
        return box.left - line_px // 2, box.top, mark.label, color
    first = (mark.x_px, mark.y_px) if isinstance(mark, PointMark) else tuple(_check_points(mark.points)[0])
    return first[0] + 4 * line_px + 4, first[1] - 4 * line_px, mark.label, color


def overlay_grid(image: ImageSource, step_px: int | None = None) -> NDArray[np.uint8]:
    """Return a copy of an image with a line every `step_px` pixels and the coordinates at the border.

    Lines are dashed dark and light, labels are dark on a light background, so both are visible on any image.
    Labels that would touch each other are left out.

    Args:
        image: Anything `load_image` takes.
        step_px: Pixels between lines; None selects a round number for about a dozen lines.

    Returns:
        (H, W, 3) uint8 RGB, a new image of the same size: its coordinates are those of the original.

    Raises:
        ImageError: If the step is below 2 pixels.
    """
    drawn = load_image(image).copy()
    height, width = drawn.shape[:2]
    step = choose_step_px(width, height) if step_px is None else int(step_px)
    if step < 2:
        raise ImageError(f"found step_px={step_px}, expected at least 2 pixels, or None to choose one")
    thickness = max(1, round(max(width, height) / 2000))
    for x in range(step, width, step):
        _draw_dashes(drawn[:, x : x + thickness])
    for y in range(step, height, step):
        _draw_dashes(drawn[y : y + thickness].transpose(1, 0, 2))
    canvas = Image.fromarray(drawn)
    _draw_labels(canvas, step)
    return np.array(canvas)


def choose_step_px(width: int, height: int) -> int:
    """Return a round step that gives about a dozen lines along the longer side."""
    return next((step for step in _STEPS if max(width, height) / step <= _NUM_LINES), _STEPS[-1])


def _draw_dashes(strip: NDArray[np.uint8]) -> None:
    """Blend dashes, alternating dark and light, into a strip (length, thickness, 3), in place."""
    dash = _DASH_PX * strip.shape[1]
    levels = np.where(np.arange(len(strip)) // dash % 2 == 0, 40, 225)[:, None, None]
    strip[:] = np.rint(strip * (1 - _STRENGTH) + levels * _STRENGTH).astype(np.uint8)


def _draw_labels(canvas: Image.Image, step: int) -> None:
    """Draw the column numbers along the top and the row numbers along the left side."""
    draw = ImageDraw.Draw(canvas)
    size_px = max(9, min(40, round(max(canvas.size) / 90)))
    font = load_font(size_px)
    row_height = size_px + 4
    free_from = 0.0
    for x in range(0, canvas.width, step):
        length = draw.textlength(str(x), font=font) + 4
        left = min(x + 2, canvas.width - length) if x else 0
        if left >= free_from and left + length <= canvas.width:
            _draw_label(draw, (left, 0), str(x), length, size_px)
            free_from = left + length + 3
    free_from = row_height + 2.0
    for y in range(step, canvas.height, step):
        length = draw.textlength(str(y), font=font) + 4
        top = min(y + 2, canvas.height - row_height)
        if top >= free_from and length <= canvas.width:
            _draw_label(draw, (0, top), str(y), length, size_px)
            free_from = top + row_height + 3


def _draw_label(draw: ImageDraw.ImageDraw, at: tuple[float, float], text: str, length: float, size_px: int) -> None:
    draw.rectangle((*at, at[0] + length - 1, at[1] + size_px + 3), fill=(255, 255, 225), outline=(120, 120, 120))
    draw.text((at[0] + 2, at[1] + size_px / 2 + 2), text, font=load_font(size_px), fill=(0, 0, 0), anchor="lm")
