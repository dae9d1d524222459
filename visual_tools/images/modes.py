"""From Pillow's many pixel formats to (H, W, 3) uint8 RGB in sRGB."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visual_tools.images.arrays import flatten_alpha, levels_from_16_bit, levels_from_share

_GREY_DEPTHS = ("I", "F")
_PHOTOMETRIC_TAG = 262
_WHITE_IS_ZERO = 0


def array_from_picture(picture: Image.Image) -> NDArray[np.uint8]:
    """Colours as a screen shows them, transparent parts on white; a fresh, writable array."""
    if picture.mode.startswith(_GREY_DEPTHS):
        return _from_deep_grey(picture)
    if not picture.has_transparency_data:
        return np.array(_to_srgb(picture))
    straight = picture.convert("RGBA")
    alpha = np.asarray(straight.getchannel("A"))
    colours = straight.convert("RGB")
    colours.info = picture.info
    return flatten_alpha(np.dstack([np.asarray(_to_srgb(colours)), alpha]))


def _from_deep_grey(picture: Image.Image) -> NDArray[np.uint8]:
    values = np.asarray(picture)
    if picture.mode != "F" and values.min() >= 0 and values.max() <= 65535:
        levels = levels_from_16_bit(values)
    else:
        levels = levels_from_share(_stretched(values.astype(np.float64)))
    if picture.mode.startswith("I;16") and _is_white_zero(picture):
        levels = 255 - levels
    return np.repeat(levels[:, :, None], 3, axis=2)


def _is_white_zero(picture: Any) -> bool:
    """Whether a TIFF stores white as 0; Pillow turns that round for 8 bits only."""
    return bool(getattr(picture, "tag_v2", {}).get(_PHOTOMETRIC_TAG) == _WHITE_IS_ZERO)


def _stretched(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values from 0 to 1 as they are, others from their lowest to their highest."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if (low >= 0.0 and high <= 1.0) or high == low:
        return values
    return (values - low) / (high - low)


def _to_srgb(picture: Image.Image) -> Image.Image:
    """As RGB; through the embedded profile where there is one that can be used."""
    profile = picture.info.get("icc_profile")
    if picture.mode == "LAB":
        return _through_profile(picture, None) or picture.convert("L").convert("RGB")
    if profile and picture.mode in ("RGB", "CMYK", "L"):
        return _through_profile(picture, profile) or picture.convert("RGB")
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _through_profile(picture: Image.Image, profile: bytes | None) -> Image.Image | None:
    """None when the profile is sRGB already, damaged, or made for another kind of picture."""
    from PIL import ImageCms

    try:
        stored = ImageCms.ImageCmsProfile(io.BytesIO(profile)) if profile else ImageCms.createProfile("LAB")
        if profile and "srgb" in ImageCms.getProfileDescription(stored).lower():
            return None
        return ImageCms.profileToProfile(picture, stored, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return None
