"""What may be compared: pictures in any usual layout, made (H, W, 3) uint8 RGB."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import ImageError


def as_rgb(image: Any, name: str = "image") -> NDArray[np.uint8]:
    """The picture as (H, W, 3) uint8 RGB: grey is repeated, alpha is laid over white, bool becomes 0 and 255.

    Args:
        image: uint8 or bool array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4); or a Pillow picture.
        name: What to call it in an error.

    Raises:
        ImageError: Another shape or type of number, or no pixels.
    """
    if not isinstance(image, np.ndarray) and hasattr(image, "convert"):
        image = np.asarray(image.convert("RGBA" if "A" in image.getbands() else "RGB"))
    if not isinstance(image, np.ndarray):
        raise ImageError(f"{name} is a {type(image).__name__}, not an array of pixels; load_image(path) makes one")
    if image.dtype == np.bool_:
        image = image.astype(np.uint8) * np.uint8(255)
    if image.dtype != np.uint8:
        raise ImageError(f"{name} holds {image.dtype}, not uint8; scale it to 0..255 and use .astype('uint8')")
    if image.ndim == 2:
        image = image[:, :, None]
    if image.ndim != 3 or image.shape[2] not in (1, 3, 4):
        raise ImageError(f"{name} has shape {image.shape}, not (H, W), (H, W, 3) or (H, W, 4)")
    if image.size == 0:
        raise ImageError(f"{name} is empty: its shape is {image.shape}")
    if image.shape[2] == 1:
        return np.repeat(image, 3, axis=2)
    return _over_white(image) if image.shape[2] == 4 else image


def _over_white(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    alpha = image[:, :, 3:]
    if (alpha == 255).all():
        return np.ascontiguousarray(image[:, :, :3])
    share = alpha.astype(np.float32) / 255
    return np.rint(image[:, :, :3] * share + 255 * (1 - share)).astype(np.uint8)
