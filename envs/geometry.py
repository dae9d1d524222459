"""The one place where model coordinates become pixels, and pixels become model coordinates."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenGeometry:
    """How a screenshot relates to the screen that it shows.

    Three frames are in play. The *model* frame is fractions of the screenshot, (0, 0) top left and
    (1, 1) bottom right. The *sent* frame is pixels of the screenshot as the model gets it. The
    *screen* frame is what input devices use: X11 root pixels on a desktop, CSS pixels of the
    viewport in a browser. `Action` coordinates are always in the screen frame.

    Attributes:
        native_px: Width and height of the shown region in the screen frame.
        sent_px: Width and height of the screenshot in pixels.
        offset_px: Top left corner of the region in the screen frame (a second monitor, say).
    """

    native_px: tuple[int, int]
    sent_px: tuple[int, int]
    offset_px: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        if min(*self.native_px, *self.sent_px) < 1:
            raise ValueError(f"a screen needs at least 1x1 px, got native {self.native_px}, sent {self.sent_px}")

    def from_model(self, x: float, y: float) -> tuple[int, int]:
        """Screen pixel of a point given in fractions; clamped onto the region, so 1.0 is its last pixel."""
        width, height = self.native_px
        return self._clamp(x * width, y * height)

    def from_sent(self, x_px: float, y_px: float) -> tuple[int, int]:
        """Screen pixel of a point given in pixels of the sent screenshot; clamped onto the region."""
        return self.from_model(x_px / self.sent_px[0], y_px / self.sent_px[1])

    def to_model(self, x_px: int, y_px: int) -> tuple[float, float]:
        """Fractions of a screen pixel; `from_model` of the result is the same pixel again."""
        width, height = self.native_px
        return (x_px - self.offset_px[0]) / width, (y_px - self.offset_px[1]) / height

    def to_sent(self, x_px: int, y_px: int) -> tuple[float, float]:
        """Position of a screen pixel in the sent screenshot, in its pixels."""
        x, y = self.to_model(x_px, y_px)
        return x * self.sent_px[0], y * self.sent_px[1]

    def _clamp(self, x_px: float, y_px: float) -> tuple[int, int]:
        width, height = self.native_px
        left, top = self.offset_px
        return left + min(max(round(x_px), 0), width - 1), top + min(max(round(y_px), 0), height - 1)


MIN_SIDE_PX, MAX_SIDE_PX = 64, 16_384
"""Smallest and largest side of a page or a private display."""


def parse_size(name: str, text: str) -> tuple[int, int]:
    """Width and height in pixels of a text such as `1280x720`.

    Raises:
        ValueError: It is not of that form, or a side is out of range.
    """
    width, _, height = text.lower().partition("x")
    if not all(side.isascii() and side.isdigit() and len(side) <= 5 for side in (width, height)):
        raise ValueError(f"{name} is {text!r}, expected WIDTHxHEIGHT such as 1280x720")
    size = int(width), int(height)
    if min(size) < MIN_SIDE_PX or max(size) > MAX_SIDE_PX:
        raise ValueError(f"{name} is {text!r}, expected sides from {MIN_SIDE_PX} to {MAX_SIDE_PX} px")
    return size
