"""Set-of-marks: numbered boxes on a screenshot around what can be used, and what a number stands for.

Source: Yang et al., Set-of-Mark Prompting Unleashes Extraordinary Visual Grounding in GPT-4V (arXiv 2310.11441).
"""

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING

from envs import Element, Observation

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

_COLOURS = ((200, 20, 20), (20, 90, 200), (10, 120, 40), (150, 40, 170), (160, 90, 0), (0, 110, 120))
_FONT_PX = 13
_PAD_PX = 2


def draw_marks(observation: Observation) -> bytes:
    """The screenshot with a box and a number around each of the observation's elements, PNG.

    The number stands above the right end of its box, away from where texts begin, or inside where there is no room
    above. Without elements the screenshot is given back as it is.
    """
    if not observation.elements or not observation.screenshot:
        return observation.screenshot
    from PIL import Image, ImageDraw

    image = Image.open(io.BytesIO(observation.screenshot)).convert("RGB")
    draw = ImageDraw.Draw(image)
    for element in observation.elements:
        _draw_mark(draw, element, image.size)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _draw_mark(draw: "ImageDraw", element: Element, size_px: tuple[int, int]) -> None:
    from PIL import ImageFont

    width, height = size_px
    colour = _COLOURS[element.number % len(_COLOURS)]
    left, top, right, bottom = (
        round(side * (width - 1 if at % 2 == 0 else height - 1)) for at, side in enumerate(element.box)
    )
    draw.rectangle((left, top, max(right, left), max(bottom, top)), outline=colour, width=2)
    font = ImageFont.load_default(size=_FONT_PX)
    text = str(element.number)
    label_width = round(draw.textlength(text, font=font)) + 2 * _PAD_PX
    label_height = _FONT_PX + _PAD_PX
    x = max(0, min(right, width - 1) - label_width)
    y = top - label_height if top >= label_height else top
    draw.rectangle((x, y, x + label_width, y + label_height), fill=colour)
    draw.text((x + _PAD_PX, y), text, fill=(255, 255, 255), font=font)


def mark_points(observation: Observation) -> Mapping[int, tuple[int, int]]:
    """The middle of each element's box by its number, screen frame."""
    geometry = observation.geometry
    return {
        element.number: geometry.from_model(
            (element.box[0] + element.box[2]) / 2, (element.box[1] + element.box[3]) / 2
        )
        for element in observation.elements
    }
