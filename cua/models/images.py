"""Encoding of images in requests: PNG unchanged, or re-encoded as WebP or JPEG.

For a self-hosted K2.5, screenshots should be sent as WebP at quality 75 (`webp:75`), as its authors recommend;
hosted servers accept PNG.
"""

import asyncio
import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cua.errors import ConfigError, ModelError, name_choices
from cua.messages import ImagePart

if TYPE_CHECKING:
    from PIL import Image

ImageKind = Literal["png", "webp", "jpeg"]
_KINDS: dict[str, ImageKind] = {"png": "png", "webp": "webp", "jpeg": "jpeg", "jpg": "jpeg"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFormat:
    """Encoding of images in requests.

    Attributes:
        kind: Image format; `png` sends every image unchanged.
        quality: 1 to 100; ignored for PNG.
    """

    kind: ImageKind = "png"
    quality: int = 75

    @classmethod
    def parse(cls, text: str) -> "ImageFormat":
        """Parse `png`, `webp`, `webp:75` or `jpeg:90`.

        Raises:
            ConfigError: If the name is unknown or the quality is not 1 to 100.
        """
        name, _, quality = text.strip().lower().partition(":")
        kind = _KINDS.get(name)
        if kind is None:
            raise ConfigError(f"unknown image format {text!r}.{name_choices(name, _KINDS)} Example: webp:75")
        if not quality:
            return cls(kind=kind)
        if not (quality.isascii() and quality.isdigit() and 1 <= int(quality) <= 100) or kind == "png":
            raise ConfigError(
                f"image format {text!r}: expected png, or webp/jpeg with a quality from 1 to 100: webp:75"
            )
        return cls(kind=kind, quality=int(quality))

    def __str__(self) -> str:
        return self.kind if self.kind == "png" else f"{self.kind}:{self.quality}"


def encode_image(part: ImagePart, image_format: ImageFormat) -> ImagePart:
    """Re-encode an image at the same size in pixels. Blocking: about 50 ms for a full-HD screenshot.

    Raises:
        ModelError: If the bytes are not an image, or the encoder refuses it (WebP is limited to 16383 px per side).
    """
    if image_format.kind == "png" or part.media_type == f"image/{image_format.kind}":
        return part
    from PIL import Image

    from visual_tools.images.files import BROKEN_FILE

    try:
        with Image.open(io.BytesIO(part.data)) as image:
            out = io.BytesIO()
            # Opaque RGB: JPEG has no alpha, and a model would see transparent screenshots differently.
            # WebP method 1 takes half the time of the default and gives 15 % more bytes at the same image quality.
            _flatten(image).save(out, format=image_format.kind, quality=image_format.quality, method=1)
    except BROKEN_FILE as error:
        raise ModelError(
            f"an image of the conversation cannot be sent as {image_format}: {error}", retryable=False
        ) from error
    return ImagePart(data=out.getvalue(), media_type="image/webp" if image_format.kind == "webp" else "image/jpeg")


def _flatten(image: "Image.Image") -> "Image.Image":
    from PIL import Image

    if not image.has_transparency_data:
        return image.convert("RGB")
    white = Image.new("RGBA", image.size, "white")
    white.alpha_composite(image.convert("RGBA"))
    return white.convert("RGB")


def data_url(data: bytes, media_type: str) -> str:
    """Build a `data:` URL."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"


class ImageEncoder:
    """Encoder of images as `data:` URLs, outside of the event loop, with a cache of the most recent ones.

    Requests repeat the images of earlier requests; each image is encoded once.
    """

    def __init__(self, image_format: ImageFormat, *, max_remembered: int = 8) -> None:
        self._format = image_format
        self._max_remembered = max_remembered
        self._urls: dict[ImagePart, str] = {}

    async def data_url(self, part: ImagePart) -> str:
        """Return the `data:` URL of an image."""
        url = self._urls.pop(part, "") or await asyncio.to_thread(self._encode, part)
        self._urls[part] = url
        while len(self._urls) > self._max_remembered:
            del self._urls[next(iter(self._urls))]
        return url

    def _encode(self, part: ImagePart) -> str:
        encoded = encode_image(part, self._format)
        return data_url(encoded.data, encoded.media_type)
