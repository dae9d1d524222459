"""Pictures as they come from outside: checked before they are decoded, then 8-bit RGB.

Colours follow PIL's plain `convert("RGB")`, as the release's processor: an alpha channel is dropped, not blended.
Two things differ from it on purpose: pictures are turned upright by their EXIF or XMP tag (as transformers loads them),
and of 16-bit grey the high byte is taken (PIL would cut everything above 255 to white).
"""

import struct
import zlib
from io import BytesIO

import numpy as np
from PIL import Image, UnidentifiedImageError

from model_runtime.errors import MediaError
from model_runtime.processor.containers import MAX_SCANNED_PIXELS, MAX_SCANS, Drawn, cut_down
from model_runtime.processor.options import MediaLimits

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
UNREADABLE = (
    OSError,  # PIL's own errors and "image file is truncated" among them
    ValueError,
    SyntaxError,  # a broken PNG
    EOFError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    MemoryError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""How to turn a picture with that orientation. Source: EXIF, tag 0x0112, as Pillow's `ImageOps.exif_transpose`."""


def decode_image(data: bytes, limits: MediaLimits) -> Image.Image:
    """Decode a picture; of an animated one, its first frame.

    Raises:
        MediaError: It is no picture of a known format, is broken, or breaks a limit.
    """
    check_bytes(len(data), limits.max_image_bytes, "picture")
    drawn = cut_down(data)
    _check_drawn(drawn, limits)
    try:
        with Image.open(BytesIO(drawn.data), formats=FORMATS) as image:
            check_pixels(image.width, image.height, limits)
            image.load()
            turn = _UPRIGHT.get(drawn.orientation)
            return to_rgb(image if turn is None else image.transpose(turn))
    except UnidentifiedImageError as error:
        text = f"{_describe(data)} is not a picture, or only the beginning of one: expected {', '.join(FORMATS)}"
        raise MediaError(text, code="invalid_media") from error
    except UNREADABLE as error:
        text = f"the picture cannot be decoded, it may be cut off or damaged: {error}"
        raise MediaError(text, code="invalid_media") from error


def _check_drawn(drawn: Drawn, limits: MediaLimits) -> None:
    """Refuse by the header alone what would take long to open or to decode.

    Raises:
        MediaError: It breaks a limit.
    """
    width, height = drawn.size or (1, 1)
    if width * height > limits.max_pixels:
        check_pixels(width, height, limits)
    if drawn.num_scans > MAX_SCANS or drawn.num_scans * width * height > max(MAX_SCANNED_PIXELS, limits.max_pixels):
        text = f"the JPEG draws its {width} x {height} pixels in {drawn.num_scans} scans, which takes too long"
        raise MediaError(f"{text}: save it anew", code="media_too_large")


def to_rgb(image: Image.Image) -> Image.Image:
    """8-bit RGB of a picture of any mode."""
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I"):
        grey = np.asarray(image).astype(np.uint16) >> 8
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if image.mode == "P" and "transparency" in image.info:
        return image.convert("RGBA").convert("RGB")  # the same colours, without PIL's warning
    return image.convert("RGB")


def check_bytes(size_bytes: int, limit_bytes: int, what: str) -> None:
    """Refuse nothing at all, and too much.

    Raises:
        MediaError: The data are empty or too many.
    """
    if not size_bytes:
        raise MediaError(f"the {what} is empty: 0 bytes", code="invalid_media")
    if size_bytes > limit_bytes:
        text = f"the {what} has {size_bytes} bytes, at most {limit_bytes} are taken: send a smaller one"
        raise MediaError(text, code="media_too_large")


def check_pixels(width: int, height: int, limits: MediaLimits) -> None:
    """Refuse what would take too much memory once decoded.

    Raises:
        MediaError: There are too many pixels, or none.
    """
    if width < 1 or height < 1:
        raise MediaError(f"the picture has the size {width} x {height}", code="invalid_media")
    if width * height > limits.max_pixels:
        text = f"the picture has {width} x {height} pixels, at most {limits.max_pixels} are decoded: send a smaller one"
        raise MediaError(text, code="media_too_large")


def _describe(data: bytes) -> str:
    """The first bytes, for whoever sent something else."""
    return f"what begins with {data[:8]!r} ({len(data)} bytes)"
