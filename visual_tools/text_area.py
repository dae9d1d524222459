"""A stretch of picture that holds one line of text, in whatever direction the text runs."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.require import require

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextArea:
    """A rectangle, turned as its text is.

    Attributes:
        box: Around it, upright, in pixels of the picture.
        center: Its middle, x and y in pixels of the picture.
        length_px: Along the text.
        thickness_px: Across the text.
        angle_deg: Where the text runs, clockwise from "to the right", 0 to 360: 90 is downward, 180 upside down.
    """

    box: Box
    center: Point
    length_px: float
    thickness_px: float
    angle_deg: float

    @classmethod
    def from_box(cls, box: Box, angle_deg: float = 0.0) -> "TextArea":
        """All of a box, with text that runs along one of its sides: `angle_deg` is 0, 90, 180 or 270."""
        length, thickness = (box.width, box.height) if angle_deg % 180 == 0 else (box.height, box.width)
        return cls(box=box, center=box.center, length_px=length, thickness_px=thickness, angle_deg=angle_deg)

    @classmethod
    def turned(cls, center: Point, length_px: float, thickness_px: float, angle_deg: float) -> "TextArea":
        """One that is turned by any angle."""
        blank = Box(0, 0, 0, 0)
        area = cls(
            box=blank, center=center, length_px=length_px, thickness_px=thickness_px, angle_deg=angle_deg % 360.0
        )
        return replace(area, box=box_around(area.corners()))

    @property
    def is_along_sides(self) -> bool:
        """Whether its sides are those of its box: cut without any resampling."""
        return self.angle_deg % 90 == 0

    def moved(self, x_px: int, y_px: int) -> "TextArea":
        """The same size, elsewhere."""
        x, y = self.center
        return replace(self, box=self.box.moved(x_px, y_px), center=(x + x_px, y + y_px))

    def reversed(self) -> "TextArea":
        """The same rectangle with text that runs the other way."""
        return replace(self, angle_deg=(self.angle_deg + 180.0) % 360.0)

    def corners(self) -> tuple[Point, Point, Point, Point]:
        """Its corners in pixels of the picture: from where the text begins at its top, clockwise as one reads it."""
        length, thickness = self.length_px, self.thickness_px
        return (
            self.to_picture(0, 0),
            self.to_picture(length, 0),
            self.to_picture(length, thickness),
            self.to_picture(0, thickness),
        )

    def to_picture(self, along_px: float, across_px: float) -> Point:
        """A point of the cut, in pixels from its upper left corner, to one of the picture."""
        cos, sin = self._direction()
        along, across = along_px - self.length_px / 2, across_px - self.thickness_px / 2
        return self.center[0] + along * cos - across * sin, self.center[1] + along * sin + across * cos

    def cut(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Its pixels turned so that the text runs to the right: (H, W, 3) uint8 in and out."""
        if self.is_along_sides:
            box = self.box
            return np.rot90(image[box.top : box.bottom, box.left : box.right], k=round(self.angle_deg) // 90)
        cv2 = require("cv2", "literal")
        cos, sin = self._direction()
        left, top = self.to_picture(0.5, 0.5)  # the middle of the first pixel, whose index is 0, 0 in both
        matrix = np.array([[cos, -sin, left - 0.5], [sin, cos, top - 0.5]])
        size = max(round(self.length_px), 1), max(round(self.thickness_px), 1)
        flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
        cut: NDArray[np.uint8] = cv2.warpAffine(image, matrix, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
        return cut

    def _direction(self) -> Point:
        if self.is_along_sides:
            return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[round(self.angle_deg) // 90 % 4]
        angle = math.radians(self.angle_deg)
        return math.cos(angle), math.sin(angle)


def box_around(points: tuple[Point, ...]) -> Box:
    """The smallest box around points, in whole pixels."""
    xs, ys = zip(*points, strict=True)
    return Box(math.floor(min(xs)), math.floor(min(ys)), math.ceil(max(xs)), math.ceil(max(ys)))
