"""Decoding of images from untrusted sources: records, results and bundles. No other module decodes these."""

from typing import TYPE_CHECKING

from visual_tools.errors import ImageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_PIXELS = 64_000_000
"""Limit on the size of an image: twice an 8K screen."""

_PNG, _ANIMATION = b"\x89PNG\r\n\x1a\n", b"acTL"


def decode_image(data: bytes) -> "NDArray[np.uint8] | None":
    """Decode the pixels of an image, (H, W, 3) uint8 RGB; None if the data is damaged, not an image, or too large.

    Only the first image of the file is read, no texts or further frames.
    """
    from visual_tools.images.files import load_image

    try:
        return load_image(data, max_pixels=MAX_PIXELS)
    except ImageError:
        return None


def is_still_png(data: bytes) -> bool:
    """Return True if the bytes can be displayed unchanged: a PNG with a single image."""
    return data.startswith(_PNG) and _ANIMATION not in data
