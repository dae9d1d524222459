"""Convert everything that a cell displays to one form: text, and at most one PNG within the limits."""

import base64
import io
from collections.abc import Mapping
from typing import Any

from PIL import Image, ImageOps

from visual_tools.sandbox.contract import KernelLimits

ORIGINAL_KEY, LEFT_OUT_KEY = "original_px", "left_out"
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_TEXT_TYPES = ("text/markdown", "text/plain")
_MAX_DECODED_PX = 200_000_000  # bounds the memory that a displayed image takes in the kernel
_PNG_LEVEL = 3  # speed against size: images are sent once, over a local socket
_SHRINK = 0.75  # factor for the side, until the file is small enough

Bundle = tuple[dict[str, object], dict[str, object]]


def to_png(image: Image.Image, limits: KernelLimits) -> tuple[bytes, dict[str, object]]:
    """Encode an image as PNG within the limits; also return its size before reduction."""
    original = list(image.size)
    image = _to_displayable(image)
    side = min(max(image.size), limits.image_side_px)
    while True:
        small = ImageOps.contain(image, (side, side), Image.Resampling.LANCZOS) if side < max(image.size) else image
        file = io.BytesIO()
        small.save(file, "PNG", compress_level=_PNG_LEVEL)
        if file.tell() <= limits.image_bytes or side < 64:
            return file.getvalue(), {ORIGINAL_KEY: original}
        side = int(side * _SHRINK)


def _to_displayable(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        low, high = image.getextrema()
        scale = 255 / (high - low) if high > low else 1.0  # type: ignore[operator]
        return image.convert("F").point(lambda value: (value - low) * scale).convert("L")
    if image.mode in ("L", "LA", "RGB", "RGBA", "1", "P"):
        return image
    return image.convert("RGB")


def tidy(data: Mapping[str, Any], metadata: Mapping[str, Any] | None, limits: KernelLimits) -> Bundle:
    """Reduce a displayed object's MIME bundle, with images as bytes or base64 text, to one text and one PNG."""
    text = next((str(data[kind]) for kind in _TEXT_TYPES if data.get(kind)), "")
    kind = next((kind for kind in _IMAGE_TYPES if data.get(kind)), None)
    text, about_text = _clip(text, limits.output_chars)
    if kind is None:
        return ({"text/plain": text} if text else {}), about_text
    try:
        png, about = _fit(kind, _bytes_of(data[kind]), dict((metadata or {}).get(kind) or {}), limits)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return {"text/plain": f"{text}\n(the displayed image cannot be read: {error})".strip()}, {}
    return {"text/plain": text, "image/png": base64.b64encode(png).decode()}, about_text | {"image/png": about}


def _clip(text: str, max_chars: int) -> tuple[str, dict[str, object]]:
    """Keep head and tail, each as long as the whole returned text may be; record how much is missing between."""
    left_out = len(text) - 2 * max_chars
    if left_out <= 0:
        return text, {}
    return text[:max_chars] + text[-max_chars:], {"text/plain": {LEFT_OUT_KEY: left_out}}


def _bytes_of(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | bytearray) else base64.b64decode(str(value))


def _fit(kind: str, file: bytes, about: Mapping[str, object], limits: KernelLimits) -> tuple[bytes, dict[str, object]]:
    with Image.open(io.BytesIO(file)) as image:
        if image.width * image.height > _MAX_DECODED_PX:
            raise ValueError(f"{image.width}x{image.height} px is too large")
        is_fine = kind == "image/png" and max(image.size) <= limits.image_side_px and len(file) <= limits.image_bytes
        if is_fine and image.format == "PNG":
            return file, {ORIGINAL_KEY: about.get(ORIGINAL_KEY, list(image.size))}
        return to_png(image, limits)
