"""What a caller may hand in: a picture (colour or grey) or a mask, told apart and checked once."""

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import ImageError

Picture = NDArray[np.uint8]
Mask = NDArray[np.bool_]


def is_mask(image: NDArray[np.generic]) -> bool:
    """Whether an array is a mask: (H, W) bool, or (H, W) with 0 and one other value such as 1 or 255."""
    if not isinstance(image, np.ndarray) or image.ndim != 2 or image.size == 0:
        return False
    if image.dtype == np.bool_:
        return True
    if not np.issubdtype(image.dtype, np.integer):
        return False
    top = int(image.max())
    return top in (0, 1, 255) and not bool(np.any((image != 0) & (image != top)))


def check_array(image: NDArray[np.generic]) -> None:
    """Refuse what cannot be a picture or a mask.

    Raises:
        ImageError: Not an array, empty, or of another shape or type.
    """
    if not isinstance(image, np.ndarray):
        raise ImageError(
            f"found {type(image).__name__}, expected a numpy array; read a file with visual_tools.load_image(path)"
        )
    fits = image.ndim == 2 or (image.ndim == 3 and image.shape[2] in (1, 3, 4))
    if not fits or image.size == 0:
        raise ImageError(
            f"found an array of shape {image.shape}, expected a picture (H, W, 3) or a mask (H, W), at least 1x1"
        )
    if image.dtype not in (np.dtype(np.uint8), np.dtype(np.bool_)) and not is_mask(image):
        raise ImageError(
            f"found {image.dtype}, expected uint8 (0 to 255) for a picture or bool for a mask; "
            "for floats from 0 to 1 use (image * 255).astype(np.uint8)"
        )


def to_mask(image: NDArray[np.generic]) -> Mask | None:
    """The mask, when the array is one; None when it is a picture.

    Raises:
        ImageError: It is neither.
    """
    check_array(image)
    if not is_mask(image):
        return None
    return image.view(np.bool_) if image.dtype == np.bool_ else np.asarray(image != 0)


def to_picture(image: NDArray[np.generic]) -> Picture:
    """(H, W, 3) uint8 RGB of a picture that may be grey, have transparency (laid on white), or be a mask.

    Raises:
        ImageError: It is no picture.
    """
    check_array(image)
    mask = to_mask(image)
    if mask is not None:
        return np.repeat(mask.astype(np.uint8)[:, :, None] * np.uint8(255), 3, axis=2)
    picture = np.asarray(image, dtype=np.uint8)
    if picture.ndim == 2:
        picture = picture[:, :, None]
    if picture.shape[2] == 1:
        return np.repeat(picture, 3, axis=2)
    if picture.shape[2] == 4:
        alpha = picture[:, :, 3:].astype(np.uint16)
        mixed = picture[:, :, :3] * alpha + np.uint16(255) * (255 - alpha)
        return ((mixed + 127) // 255).astype(np.uint8)
    return picture
