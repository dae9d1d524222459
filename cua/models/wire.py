"""Conversion of messages and tools to the JSON of `/v1/chat/completions`."""

import asyncio
import base64
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from cua.errors import ConfigError, ModelError, name_choices
from cua.json_text import Json, well_formed
from cua.messages import ImagePart, Message, Part, TextPart, ThinkPart, VideoPart
from cua.model import Tool

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


MAX_REMEMBERED_BYTES = 64 * 2**20
"""Limit on the encoded messages that a `RequestEncoder` keeps."""


async def to_wire(messages: Sequence[Message], encoder: ImageEncoder, *, keep_reasoning: bool = False) -> list[Json]:
    """Convert a conversation to request messages.

    Parts keep their order; a single text part becomes a plain string. Reasoning is sent back to the server, as
    `reasoning_content`, only inside the running tool loop (after the last answer without tool calls): K2.5
    requires it there, and its chat template drops it everywhere else.

    Args:
        messages: Conversation.
        encoder: Encoder of images.
        keep_reasoning: True to include all reasoning, for a reader that is not a server.

    Raises:
        ModelError: If an image cannot be encoded.
    """
    loop_start = 0 if keep_reasoning else start_of_tool_loop(messages)
    return [await _message(message, encoder, index >= loop_start) for index, message in enumerate(messages)]


class RequestEncoder:
    """Encoder of requests, with a cache of the most recent messages.

    A request repeats the messages of earlier requests; each message is converted and encoded once.

    Args:
        image_format: Encoding of images.
        max_bytes: Limit on the cached messages, as encoded.
    """

    def __init__(self, image_format: ImageFormat, *, max_bytes: int = MAX_REMEMBERED_BYTES) -> None:
        self._images = ImageEncoder(image_format)
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._encoded: dict[tuple[Message, bool], bytes] = {}

    async def encode(self, fields: Json, messages: Sequence[Message]) -> bytes:
        """Return the JSON of a request: `fields`, which must not be empty, and `messages` as in `to_wire`.

        Raises:
            ModelError: If an image cannot be encoded.
        """
        loop_start = start_of_tool_loop(messages)
        encoded = [await self._message(message, index >= loop_start) for index, message in enumerate(messages)]
        return b'%s,"messages":[%s]}' % (_dump(fields)[:-1], b",".join(encoded))

    async def encode_media(self, messages: Sequence[Message]) -> list[Json]:
        """Return the images and videos of messages as parts, in order.

        Raises:
            ModelError: If an image cannot be encoded.
        """
        parts = [part for message in messages for part in message.parts]
        return [await _part(part, self._images) for part in parts if isinstance(part, ImagePart | VideoPart)]

    async def _message(self, message: Message, in_tool_loop: bool) -> bytes:
        key = (message, in_tool_loop)
        encoded = self._encoded.get(key)
        if encoded is None:
            encoded = _dump(await _message(message, self._images, in_tool_loop))
        self._num_bytes += len(encoded) - len(self._encoded.pop(key, b""))
        self._encoded[key] = encoded  # the most recent one is the last
        while self._num_bytes > self._max_bytes:
            self._num_bytes -= len(self._encoded.pop(next(iter(self._encoded))))
        return encoded


def _dump(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def start_of_tool_loop(messages: Sequence[Message]) -> int:
    """Return the index after the last assistant message without tool calls; 0 if there is none."""
    finals = [i for i, message in enumerate(messages) if message.role == "assistant" and not message.tool_calls]
    return finals[-1] + 1 if finals else 0


def move_tool_images(messages: Sequence[Message]) -> list[Message]:
    """Move the images of tool results to a user message after the last result of each round.

    Some servers accept only text in tool messages. The texts that name the images are moved with them.
    """
    moved: list[Message] = []
    held: list[Part] = []
    for message in messages:
        if message.role != "tool" and held:
            moved.append(Message(role="user", parts=tuple(held)))
            held = []
        if message.role == "tool" and any(isinstance(part, ImagePart) for part in message.parts):
            text = TextPart(text=message.text + "\n(The images follow in the next message.)")
            held += message.parts
            message = replace(message, parts=(text,))
        moved.append(message)
    return [*moved, Message(role="user", parts=tuple(held))] if held else moved


def tools_to_wire(tools: Sequence[Tool]) -> list[Json]:
    """Convert tools to the value of the request's `tools`."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
        }
        for tool in tools
    ]


async def _message(message: Message, encoder: ImageEncoder, in_tool_loop: bool) -> Json:
    wire: Json = {"role": message.role, "content": await _content(message.parts, encoder)}
    if message.name is not None:
        wire["name"] = message.name
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        wire["content"] = wire["content"] or None
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": well_formed(call.arguments)},
            }
            for call in message.tool_calls
        ]
    reasoning = "".join(part.text for part in message.parts if isinstance(part, ThinkPart))
    if reasoning and in_tool_loop:
        wire["reasoning_content"] = well_formed(reasoning)
    return wire


async def _content(parts: Sequence[Part], encoder: ImageEncoder) -> str | list[Json]:
    visible = [part for part in parts if not isinstance(part, ThinkPart)]
    if not visible:
        return ""
    if len(visible) == 1 and isinstance(visible[0], TextPart):
        return well_formed(visible[0].text)
    return [await _part(part, encoder) for part in visible]


async def _part(part: TextPart | ImagePart | VideoPart, encoder: ImageEncoder) -> Json:
    match part:
        case TextPart():
            return {"type": "text", "text": well_formed(part.text)}
        case ImagePart():
            return {"type": "image_url", "image_url": {"url": await encoder.data_url(part)}}
        case VideoPart():
            return {"type": "video_url", "video_url": {"url": data_url(part.data, part.media_type)}}
