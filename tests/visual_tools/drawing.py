"""Images for tests: text and boxes drawn by Pillow, (H, W, 3) uint8 RGB."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont


class Canvas:
    """An image to draw on."""

    def __init__(self, width: int = 400, height: int = 200, colour: str = "white") -> None:
        self.picture = Image.new("RGB", (width, height), colour)
        self.draw: Any = ImageDraw.Draw(self.picture)

    def text(self, x: int, y: int, text: str, size: int = 18, colour: str = "black") -> "Canvas":
        self.draw.text((x, y), text, fill=colour, font=ImageFont.load_default(size))
        return self

    def box(self, left: int, top: int, right: int, bottom: int, **more: Any) -> "Canvas":
        self.draw.rectangle((left, top, right - 1, bottom - 1), **more)
        return self

    def turned_text(
        self, x: int, y: int, text: str, angle_deg: float, size: int = 18, colour: str = "black"
    ) -> "Canvas":
        """A line around the point x, y that is turned clockwise."""
        font = ImageFont.load_default(size)
        left, top, right, bottom = (round(side) for side in font.getbbox(text))
        layer = Image.new("L", (right - left + 8, bottom - top + 8), 0)
        ImageDraw.Draw(layer).text((4 - left, 4 - top), text, fill=255, font=font)
        layer = layer.rotate(-angle_deg, expand=True, resample=Image.Resampling.BICUBIC)
        self.picture.paste(colour, (x - layer.width // 2, y - layer.height // 2), layer)
        return self

    @property
    def array(self) -> NDArray[np.uint8]:
        return np.asarray(self.picture)
