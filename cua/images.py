"""The one place that decodes images which others made: of records, results and bundles."""

from typing import TYPE_CHECKING

from visual_tools.errors import ImageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_PIXELS = 64_000_000
"""Twice an 8K screen."""

_PNG, _ANIMATION = b"\x89PNG\r\n\x1a\n", b"acTL"


def decode_image(data: bytes) -> "NDArray[np.uint8] | None":
    """The pixels of an image, (H, W, 3) uint8 RGB; None for what is damaged, no image, or too large.

    Whatever stands in the file, nothing else comes of it: texts and frames behind the first image are not read.
    """
    from visual_tools.images import load_image

    try:
        return load_image(data, max_pixels=MAX_PIXELS)
    except ImageError:
        return None


def is_still_png(data: bytes) -> bool:
    """Whether the bytes may be shown as they are: a PNG that shows one image only."""
    return data.startswith(_PNG) and _ANIMATION not in data
