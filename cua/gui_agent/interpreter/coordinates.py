"""Conversion of the coordinates that a model writes to screen pixels. The agents have no other module for this.

Three modes:

- `relative` (as Kimi K2.5 was trained): fractions of the image. A number with decimals below 2 is always
  a fraction; 0 and 1 are fractions unless the other coordinate is clearly a pixel; any other number is a
  pixel of the image that was sent. So (0.5, 0.5), (960, 0.5) and (960, 540) are all the center of a
  1920x1080 image, (1, 1) is its last pixel, and (0, 500) is a pixel on its left edge.
- `absolute`: pixels of the image that was sent; a fraction is refused with a hint.
- `qwen25`: as `relative`, but pixels refer to the image as Qwen2.5-VL resizes it.

Results of `pyautogui.position()` and `size()`, and values computed from them, are always pixels.

Offsets (`moveRel`, `dragRel`) follow the same rule with one difference: two integers are always pixels.
"""

import math
from dataclasses import dataclass
from typing import Literal

from cua.gui_agent.interpreter.limits import Refused
from cua.gui_agent.interpreter.values import is_pixels
from envs import ScreenGeometry

Mode = Literal["relative", "absolute", "qwen25"]

_FACTOR = 28
_MIN_PIXELS = 3136
_MAX_PIXELS = 12_845_056


def smart_resize(size_px: tuple[int, int]) -> tuple[int, int]:
    """Return width and height of an image after the resizing that Qwen2.5-VL applies to its input.

    Both sides become multiples of 28, and the number of pixels stays between 3136 and 12845056.

    Source: Qwen2.5-VL image processor (`smart_resize`).
    """
    width, height = size_px
    new_width, new_height = _nearest(width), _nearest(height)
    if new_width * new_height > _MAX_PIXELS:
        shrink = math.sqrt(width * height / _MAX_PIXELS)
        return _FACTOR * max(1, int(width / shrink // _FACTOR)), _FACTOR * max(1, int(height / shrink // _FACTOR))
    if new_width * new_height < _MIN_PIXELS:
        grow = math.sqrt(_MIN_PIXELS / (width * height))
        return _FACTOR * math.ceil(width * grow / _FACTOR), _FACTOR * math.ceil(height * grow / _FACTOR)
    return new_width, new_height


def _nearest(length_px: int) -> int:
    return max(_FACTOR, round(length_px / _FACTOR) * _FACTOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFrame:
    """Conversion between model coordinates and screen pixels, for one image and one mode."""

    geometry: ScreenGeometry
    mode: Mode = "relative"

    @property
    def size_px(self) -> tuple[int, int]:
        """Image size in the pixels that the model uses."""
        return smart_resize(self.geometry.sent_px) if self.mode == "qwen25" else self.geometry.sent_px

    def to_screen(self, x: float, y: float) -> tuple[int, int]:
        """Return the screen pixel of a point in model coordinates, clamped to the shown region."""
        return self.geometry.from_model(*self._fractions(x, y, pixels=False))

    def move(self, start_px: tuple[int, int], dx: float, dy: float) -> tuple[int, int]:
        """Return the screen pixel at an offset, in model coordinates, from a screen pixel."""
        pixels = isinstance(dx, int) and isinstance(dy, int)
        part_x, part_y = self._fractions(dx, dy, pixels=pixels)
        x, y = self.geometry.to_model(*start_px)
        return self.geometry.from_model(x + part_x, y + part_y)

    def from_screen(self, point_px: tuple[int, int]) -> tuple[int, int]:
        """Return the image pixel, in the model's pixels, at a screen pixel."""
        x, y = self.geometry.to_model(*point_px)
        width, height = self.size_px
        return round(x * width), round(y * height)

    def _fractions(self, x: float, y: float, *, pixels: bool) -> tuple[float, float]:
        width, height = self.size_px
        if self.mode == "absolute":
            if _has_fraction(x) or _has_fraction(y):
                raise Refused(
                    f"({x:g}, {y:g}) looks like fractions, and coordinates are pixels here: "
                    f"the image is {width}x{height}, its middle is ({width // 2}, {height // 2})"
                )
            return x / width, y / height
        together = not pixels and all(_has_fraction(v) or (abs(v) <= 1 and not is_pixels(v)) for v in (x, y))
        return (
            x if together or _has_fraction(x) else x / width,
            y if together or _has_fraction(y) else y / height,
        )


def _has_fraction(value: float) -> bool:
    """Return True if a number can only be a fraction (1.02 is a fraction beyond the edge)."""
    return abs(value) < 2 and value != int(value) and not is_pixels(value)
