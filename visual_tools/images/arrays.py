"""Convert arrays and images in any of Pillow's pixel formats to (H, W, 3) uint8 RGB in sRGB."""

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visual_tools.errors import ImageError

_SHAPES = "(H, W), (H, W, 1), (H, W, 3) or (H, W, 4)"
_GREY_DEPTHS = ("I", "F")
_PHOTOMETRIC_TAG = 262  # Source: TIFF 6.0, PhotometricInterpretation
_WHITE_IS_ZERO = 0


def image_from_array(array: NDArray[np.generic], max_pixels: int) -> NDArray[np.uint8]:
    """Convert an array to an image; an (H, W, 3) uint8 array is returned unchanged, see `load_image` for the others.

    Raises:
        ImageError: If shape, dtype or values are not those of an image.
    """
    _check_shape(array, max_pixels)
    levels = _to_levels(array)
    if levels.ndim == 2:
        levels = levels[:, :, None]
    if levels.shape[2] == 1:
        return np.repeat(levels, 3, axis=2)
    return flatten_alpha(levels) if levels.shape[2] == 4 else levels


def flatten_alpha(levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Blend an (H, W, 4) uint8 RGBA image with white: (H, W, 3) uint8."""
    result = np.empty((*levels.shape[:2], 3), np.uint8)
    rows = max(1, 2**22 // max(levels.shape[1], 1))  # processing in bands bounds the memory
    for top in range(0, levels.shape[0], rows):
        band = levels[top : top + rows]
        alpha = band[:, :, 3:].astype(np.uint32)
        result[top : top + rows] = (band[:, :, :3] * alpha + 255 * (255 - alpha) + 127) // 255
    return result


def levels_from_16_bit(values: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Scale 0 to 65535 to 0 to 255, rounded."""
    return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)


def levels_from_share(values: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Scale 0.0 to 1.0 to 0 to 255, rounded; values beyond are clipped, NaN becomes 0."""
    levels: NDArray[np.uint8] = np.rint(np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0) * 255).astype(np.uint8)
    return levels


def _check_shape(array: NDArray[np.generic], max_pixels: int) -> None:
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        hint = ""
        if array.ndim == 3 and array.shape[0] in (1, 3, 4):
            hint = " It looks like channels first: use array.transpose(1, 2, 0)."
        raise ImageError(f"found an array of shape {array.shape}, expected an image: {_SHAPES}.{hint}")
    if 0 in array.shape:
        raise ImageError(f"found an empty array of shape {array.shape}, expected an image of at least 1x1 pixels")
    check_num_pixels(array.shape[1], array.shape[0], max_pixels)


def check_num_pixels(width: int, height: int, max_pixels: int) -> None:
    """Check that an image is not larger than the caller's limit.

    Raises:
        ImageError: If it is larger.
    """
    if width * height > max_pixels:
        raise ImageError(
            f"found an image of {width}x{height} = {width * height / 1e6:.0f} megapixels, expected at most "
            f"{max_pixels / 1e6:g}. Reduce it first; in Python, max_pixels={width * height} allows it."
        )


def _to_levels(array: NDArray[np.generic]) -> NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array.astype(np.uint8, copy=False)
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype == np.uint16:
        return levels_from_16_bit(array)
    if not (np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)):
        raise ImageError(f"found an array of {array.dtype}, expected uint8 (0 to 255), uint16, bool or float (0 to 1)")
    low, high = _range_of(array)
    is_float = np.issubdtype(array.dtype, np.floating)
    top = 1.0 if is_float else 255
    if low < -1e-6 or high > top + 1e-6:
        hint = (
            "divide by 255, or use .astype(np.uint8)" if is_float and high <= 255 and low >= 0 else "rescale it first"
        )
        raise ImageError(
            f"found an array of {array.dtype} with values from {low:g} to {high:g}, expected 0 to {top:g}: {hint}"
        )
    return levels_from_share(array) if is_float else array.astype(np.uint8)


def _range_of(array: NDArray[np.generic]) -> tuple[float, float]:
    """Return the lowest and highest value, ignoring NaN."""
    if np.issubdtype(array.dtype, np.floating):
        return float(np.fmin.reduce(array, axis=None)), float(np.fmax.reduce(array, axis=None))
    return float(array.min()), float(array.max())


def array_from_image(image: Image.Image) -> NDArray[np.uint8]:
    """Convert colours as displayed, transparent parts on white, to a new, writable array."""
    if image.mode.startswith(_GREY_DEPTHS):
        return _from_deep_grey(image)
    if not image.has_transparency_data:
        return np.array(_to_srgb(image))
    straight = image.convert("RGBA")
    alpha = np.asarray(straight.getchannel("A"))
    colours = straight.convert("RGB")
    colours.info = image.info
    return flatten_alpha(np.dstack([np.asarray(_to_srgb(colours)), alpha]))


def _from_deep_grey(image: Image.Image) -> NDArray[np.uint8]:
    values = np.asarray(image)
    if image.mode != "F" and values.min() >= 0 and values.max() <= 65535:
        levels = levels_from_16_bit(values)
    else:
        levels = levels_from_share(_stretched(values.astype(np.float64)))
    if image.mode.startswith("I;16") and _is_white_zero(image):
        levels = 255 - levels
    return np.repeat(levels[:, :, None], 3, axis=2)


def _is_white_zero(image: object) -> bool:
    """Return True if a TIFF stores white as 0; Pillow inverts that for 8 bits only."""
    return bool(getattr(image, "tag_v2", {}).get(_PHOTOMETRIC_TAG) == _WHITE_IS_ZERO)


def _stretched(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values from 0 to 1 unchanged; stretch others from their lowest to their highest."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if (low >= 0.0 and high <= 1.0) or high == low:
        return values
    return (values - low) / (high - low)


def _to_srgb(image: Image.Image) -> Image.Image:
    """Convert to RGB, using the embedded profile if there is a usable one."""
    profile = image.info.get("icc_profile")
    if image.mode == "LAB":
        return _through_profile(image, None) or image.convert("L").convert("RGB")
    if profile and image.mode in ("RGB", "CMYK", "L"):
        return _through_profile(image, profile) or image.convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _through_profile(image: Image.Image, profile: bytes | None) -> Image.Image | None:
    """Convert with a profile; None if it is sRGB already, damaged, or made for another image mode."""
    from PIL import ImageCms

    try:
        stored = ImageCms.ImageCmsProfile(io.BytesIO(profile)) if profile else ImageCms.createProfile("LAB")
        if profile and "srgb" in ImageCms.getProfileDescription(stored).lower():
            return None
        return ImageCms.profileToProfile(image, stored, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return None
