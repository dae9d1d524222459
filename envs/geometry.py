"""Size of a screen and of its screenshot, and conversion between their coordinates."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenGeometry:
    """Relation between a screenshot and the screen.

    There are three frames. The *model* frame is fractions of the screenshot, (0, 0) top left and (1, 1) bottom right.
    The *sent* frame is pixels of the screenshot that the model receives. The *screen* frame is used by input devices:
    X11 root pixels on a desktop, CSS pixels of the viewport in a browser. `Action` coordinates are always in the screen
    frame.

    Attributes:
        native_px: Width and height of the captured region in the screen frame.
        sent_px: Width and height of the screenshot in pixels.
        offset_px: Top left corner of the region in the screen frame (for example of a second monitor).
    """

    native_px: tuple[int, int]
    sent_px: tuple[int, int]
    offset_px: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        if min(*self.native_px, *self.sent_px) < 1:
            raise ValueError(f"a screen needs at least 1x1 px, got native {self.native_px}, sent {self.sent_px}")

    def from_model(self, x: float, y: float) -> tuple[int, int]:
        """Convert a point in the model frame to a screen pixel, clamped to the region, so 1.0 is its last pixel."""
        width, height = self.native_px
        return self._clamp(x * width, y * height)

    def from_sent(self, x_px: float, y_px: float) -> tuple[int, int]:
        """Convert a point in the sent frame to a screen pixel, clamped to the region."""
        return self.from_model(x_px / self.sent_px[0], y_px / self.sent_px[1])

    def to_model(self, x_px: int, y_px: int) -> tuple[float, float]:
        """Convert a screen pixel to the model frame; `from_model` maps the result back to the same pixel."""
        width, height = self.native_px
        return (x_px - self.offset_px[0]) / width, (y_px - self.offset_px[1]) / height

    def to_sent(self, x_px: int, y_px: int) -> tuple[float, float]:
        """Convert a screen pixel to the sent frame."""
        x, y = self.to_model(x_px, y_px)
        return x * self.sent_px[0], y * self.sent_px[1]

    def _clamp(self, x_px: float, y_px: float) -> tuple[int, int]:
        width, height = self.native_px
        left, top = self.offset_px
        return left + min(max(round(x_px), 0), width - 1), top + min(max(round(y_px), 0), height - 1)


MIN_SIDE_PX, MAX_SIDE_PX = 64, 16_384
"""Minimum and maximum side of a page or a private display."""


def parse_size(name: str, text: str) -> tuple[int, int]:
    """Parse width and height in pixels from a text such as `1280x720`.

    Raises:
        ValueError: If the text does not have that form, or a side is out of range.
    """
    width, _, height = text.lower().partition("x")
    if not all(side.isascii() and side.isdigit() and len(side) <= 5 for side in (width, height)):
        raise ValueError(f"{name} is {text!r}, expected WIDTHxHEIGHT such as 1280x720")
    size = int(width), int(height)
    if min(size) < MIN_SIDE_PX or max(size) > MAX_SIDE_PX:
        raise ValueError(f"{name} is {text!r}, expected sides from {MIN_SIDE_PX} to {MAX_SIDE_PX} px")
    return size
