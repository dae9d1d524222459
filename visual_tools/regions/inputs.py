"""Validation of inputs: an image (anything that `load_image` takes) or a mask."""

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource, load_image

RgbImage = NDArray[np.uint8]
Mask = NDArray[np.bool_]


def is_mask(image: object) -> bool:
    """Return True for a mask: an (H, W) array of bool, or of integers that are 0 and one other value, 1 or 255."""
    if not isinstance(image, np.ndarray) or image.ndim != 2 or image.size == 0:
        return False
    if image.dtype == np.bool_:
        return True
    if not np.issubdtype(image.dtype, np.integer):
        return False
    top = int(image.max())
    return top in (0, 1, 255) and not bool(np.any((image != 0) & (image != top)))


def to_mask(image: ImageSource) -> Mask | None:
    """Return the mask if the input is one, or None if it is an image.

    Raises:
        ImageError: If it is a mask without pixels.
    """
    if isinstance(image, np.ndarray) and image.size == 0:
        raise ImageError(f"found an empty array of shape {image.shape}, expected at least 1x1 pixels")
    if not is_mask(image):
        return None
    mask = np.asarray(image)
    return np.ascontiguousarray(mask if mask.dtype == np.bool_ else mask != 0)


def to_image(image: ImageSource) -> RgbImage:
    """Convert an image or a mask to (H, W, 3) uint8 RGB.

    Raises:
        ImageError: If it is neither.
    """
    return load_image(np.asarray(image) != 0) if is_mask(image) else load_image(image)
