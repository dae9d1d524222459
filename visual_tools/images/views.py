"""Look at part of an image: cut, enlarge, turn."""

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
"""A pixel as a square of 64 px is as large as anybody looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Zoom:
    """Part of an image, enlarged.

    Attributes:
        image: (H, W, 3) uint8 RGB.
        box: The part of the original that it shows.
        scale: How many times larger than in the original.
    """

    image: NDArray[np.uint8] = field(repr=False)
    box: Box
    scale: float

    def to_original(self, x_px: float, y_px: float) -> tuple[float, float]:
        """Where a point of the enlarged image lies in the original, in its pixels."""
        height, width = self.image.shape[:2]
        return self.box.left + x_px * self.box.width / width, self.box.top + y_px * self.box.height / height


def crop(image: ImageSource, box: BoxLike) -> NDArray[np.uint8]:
    """The part of an image inside a box, as an image of its own. What reaches over the border is left out.

    Args:
        image: Anything `load_image` takes.
        box: A `Box`, or left, top, right, bottom in pixels; right and bottom are just outside.

    Raises:
        ImageError: The box is empty or lies outside the image.
    """
    pixels = load_image(image)
    part = _part_of(pixels, box)
    return pixels[part.top : part.bottom, part.left : part.right].copy()


def zoom(
    image: ImageSource, box: BoxLike | None = None, scale: float | None = None, *, max_side_px: int = 1536
) -> Zoom:
    """Enlarge a part of an image, to read what is small in it.

    Args:
        image: Anything `load_image` takes.
        box: The part, as in `crop`; None is all of it.
        scale: How many times larger; None is as large as `max_side_px` allows, at most 64 (and smaller than the
            original when that is what fits).
        max_side_px: The longer side of the result at most.

    Raises:
        ImageError: The box is empty or outside; the scale is not above 0, or makes an image larger than allowed.

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
    """Turn an image counterclockwise (a negative angle turns clockwise). New corners are white.

    Multiples of 90 degrees move pixels without changing any, when the image may expand.

    Args:
        image: Anything `load_image` takes.
        degrees: The angle.
        expand: Make the image large enough for all of it; False keeps the size and cuts.

    Raises:
        ImageError: The angle is not a number.
    """
    pixels = load_image(image)
    if not math.isfinite(degrees):
        raise ImageError(f"found an angle of {degrees} degrees, expected a number")
    if degrees % 90 == 0 and (expand or degrees % 180 == 0):
        return np.ascontiguousarray(np.rot90(pixels, int(degrees // 90) % 4)).copy()
    turned = Image.fromarray(pixels).rotate(degrees, Image.Resampling.BICUBIC, expand=expand, fillcolor=(255, 255, 255))
    return np.array(turned)


def make_box(box: BoxLike) -> Box:
    """A `Box` from whatever means one; fractions of a pixel are rounded.

    Raises:
        ImageError: It does not have four finite numbers.
    """
    if isinstance(box, Box):
        return box
    try:
        left, top, right, bottom = (round(float(value)) for value in box)
    except (TypeError, ValueError, OverflowError) as error:
        raise ImageError(f"found {box!r} for a box, expected Box(left, top, right, bottom) in pixels") from error
    return Box(left, top, right, bottom)


def _part_of(image: NDArray[np.uint8], box: BoxLike) -> Box:
    """The part of a box that lies on the image."""
    height, width = image.shape[:2]
    asked = make_box(box)
    part = asked.clipped(width, height)
    if part.width <= 0 or part.height <= 0:
        raise ImageError(
            f"found {asked}, which holds no pixel of an image of {width}x{height}; "
            "expected left < right and top < bottom, in pixels of this image"
        )
    return part
