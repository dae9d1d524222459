"""Crop, zoom and rotate images."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visual_tools.box import Box
from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource, load_image

BoxLike = Box | Sequence[float]
"""A `Box`, or left, top, right, bottom."""

_MAX_SCALE = 64.0
"""Maximum scale: a pixel becomes a square of 64 px."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Zoom:
    """Enlarged part of an image.

    Attributes:
        image: (H, W, 3) uint8 RGB.
        box: Part of the original that it shows.
        scale: Size relative to the original.
    """

    image: NDArray[np.uint8] = field(repr=False)
    box: Box
    scale: float

    def to_original(self, x_px: float, y_px: float) -> tuple[float, float]:
        """Map a point of the enlarged image to the original, in its pixels."""
        height, width = self.image.shape[:2]
        return self.box.left + x_px * self.box.width / width, self.box.top + y_px * self.box.height / height


def crop(image: ImageSource, box: BoxLike) -> NDArray[np.uint8]:
    """Return the part of an image inside a box as a separate image, clipped at the border.

    Args:
        image: Anything `load_image` takes.
        box: A `Box`, or left, top, right, bottom in pixels; right and bottom are exclusive.

    Raises:
        ImageError: If the box is empty or outside the image.
    """
    pixels = load_image(image)
    part = _part_of(pixels, box)
    return pixels[part.top : part.bottom, part.left : part.right].copy()


def zoom(
    image: ImageSource, box: BoxLike | None = None, scale: float | None = None, *, max_side_px: int = 1536
) -> Zoom:
    """Enlarge a part of an image, to make small details readable.

    Args:
        image: Anything `load_image` takes.
        box: Part to enlarge, as in `crop`; None is the whole image.
        scale: Scale factor; None is the largest that `max_side_px` allows, at most 64 (below 1 if the part is larger
            than `max_side_px`).
        max_side_px: Maximum longer side of the result.

    Raises:
        ImageError: If the box is empty or outside; the scale is not above 0, or makes the image larger than allowed.

    Example:
        >>> view = zoom(np.zeros((100, 200, 3), np.uint8), (50, 10, 70, 20), scale=8)
        >>> view.to_original(80, 40)
        (60.0, 15.0)
    """
    part = crop(image, box) if box is not None else load_image(image)
    height, width = part.shape[:2]
    left_top = _part_of(load_image(image), box) if box is not None else Box(0, 0, width, height)
    fitting = max_side_px / max(width, height)
    if scale is None:
        scale = min(fitting, _MAX_SCALE)
    if not (math.isfinite(scale) and scale > 0):
        raise ImageError(f"found the scale {scale}, expected a number above 0")
    if scale > fitting:
        raise ImageError(
            f"{width}x{height} pixels at scale {scale:g} are more than max_side_px={max_side_px}; "
            f"take a scale of at most {math.floor(fitting * 100) / 100:g}, a smaller box or a larger max_side_px"
        )
    size = max(1, round(width * scale)), max(1, round(height * scale))
    enlarged = Image.fromarray(part).resize(size, Image.Resampling.LANCZOS)
    return Zoom(image=np.array(enlarged), box=left_top, scale=scale)


def rotate(image: ImageSource, degrees: float, *, expand: bool = True) -> NDArray[np.uint8]:
    """Rotate an image counterclockwise (a negative angle rotates clockwise). New corners are white.

    Rotation by multiples of 90 degrees is lossless if `expand` is True.

    Args:
        image: Anything `load_image` takes.
        degrees: Angle in degrees.
        expand: True to enlarge the image to contain all of it; False to keep the size and clip.

    Raises:
        ImageError: If the angle is not a number.
    """
    pixels = load_image(image)
    if not math.isfinite(degrees):
        raise ImageError(f"found an angle of {degrees} degrees, expected a number")
    if degrees % 90 == 0 and (expand or degrees % 180 == 0):
        return np.ascontiguousarray(np.rot90(pixels, int(degrees // 90) % 4)).copy()
    turned = Image.fromarray(pixels).rotate(degrees, Image.Resampling.BICUBIC, expand=expand, fillcolor=(255, 255, 255))
    return np.array(turned)


def make_box(box: BoxLike) -> Box:
    """Convert a value to a `Box`; fractions of a pixel are rounded.

    Raises:
        ImageError: If it does not have four finite numbers.
    """
    if isinstance(box, Box):
        return box
    try:
        left, top, right, bottom = (round(float(value)) for value in box)
    except (TypeError, ValueError, OverflowError) as error:
        raise ImageError(f"found {box!r} for a box, expected Box(left, top, right, bottom) in pixels") from error
    return Box(left, top, right, bottom)


def _part_of(image: NDArray[np.uint8], box: BoxLike) -> Box:
    """Return the part of a box that is inside the image."""
    height, width = image.shape[:2]
    asked = make_box(box)
    part = asked.clipped(width, height)
    if part.width <= 0 or part.height <= 0:
        raise ImageError(
            f"found {asked}, which holds no pixel of an image of {width}x{height}; "
            "expected left < right and top < bottom, in pixels of this image"
        )
    return part
