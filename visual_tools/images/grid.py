"""A grid with coordinates over a picture, to name places in it."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from visual_tools.errors import ImageError
from visual_tools.images.fonts import load_font
from visual_tools.images.load import ImageSource, load_image

_STEPS = (5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 2500, 5000)
_NUM_LINES = 12
_STRENGTH = 0.65
_DASH_PX = 4


def overlay_grid(image: ImageSource, step_px: int | None = None) -> NDArray[np.uint8]:
    """A copy of a picture with a line every `step_px` pixels and the coordinates at the border.

    Lines are dashed dark and light, labels are dark on a light ground, so both are seen on any picture.
    Labels that would touch each other are left out.

    Args:
        image: Anything `load_image` takes.
        step_px: Pixels between lines; None chooses a round number for about a dozen lines.

    Returns:
        (H, W, 3) uint8 RGB, a new picture of the same size: coordinates read from it are those of the original.

    Raises:
        ImageError: The step is below 2 pixels.
    """
    picture = load_image(image).copy()
    height, width = picture.shape[:2]
    step = choose_step_px(width, height) if step_px is None else int(step_px)
    if step < 2:
        raise ImageError(f"found step_px={step_px}, expected at least 2 pixels, or None to choose one")
    thickness = max(1, round(max(width, height) / 2000))
    for x in range(step, width, step):
        _draw_dashes(picture[:, x : x + thickness])
    for y in range(step, height, step):
        _draw_dashes(picture[y : y + thickness].transpose(1, 0, 2))
    canvas = Image.fromarray(picture)
    _draw_labels(canvas, step)
    return np.array(canvas)


def choose_step_px(width: int, height: int) -> int:
    """A round number that gives about a dozen lines over the longer side."""
    return next((step for step in _STEPS if max(width, height) / step <= _NUM_LINES), _STEPS[-1])


def _draw_dashes(strip: NDArray[np.uint8]) -> None:
    """Blend dashes, dark and light in turn, into a strip (length, thickness, 3), in place."""
    dash = _DASH_PX * strip.shape[1]
    levels = np.where(np.arange(len(strip)) // dash % 2 == 0, 40, 225)[:, None, None]
    strip[:] = np.rint(strip * (1 - _STRENGTH) + levels * _STRENGTH).astype(np.uint8)


def _draw_labels(canvas: Image.Image, step: int) -> None:
    """Columns along the top, rows along the left side."""
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
