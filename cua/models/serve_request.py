"""The other side of the wire: an OpenAI-compatible request read back into messages."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cua.messages import ImagePart, Message, Part, Role, Sampling, TextPart, ThinkPart, ToolCall, ToolResult, VideoPart
from cua.model import Tool


class BadRequestError(Exception):
    """The request is not one that we can answer; the text is for the client."""


@dataclass(slots=True, kw_only=True)
class DeclaredTool:
    """A tool that the client can run and we cannot; implements `cua.model.Tool`."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Refuse: the tool lives with the client."""
        return ToolResult(parts=(TextPart(text=f"{self.name} runs with the client, not here"),), is_error=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRequest:
    """A request as a model takes it."""

    model: str
    messages: tuple[Message, ...]
    tools: Sequence[Tool]
    sampling: Sampling
    stream: bool
    include_usage: bool


class _In(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Url(_In):
    url: str


class _Part(_In):
    type: str
    text: str = ""
    image_url: _Url | None = None
    video_url: _Url | None = None


class _Function(_In):
    name: str
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    arguments: str = "{}"


class _Call(_In):
    id: str
    function: _Function


class _Message(_In):
    role: Role
    content: str | list[_Part] | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class _Tool(_In):
    function: _Function


class _StreamOptions(_In):
    include_usage: bool = False


class _Request(_In):
    model: str
    messages: list[_Message] = Field(min_length=1)
    tools: list[_Tool] | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None


def parse_request(body: bytes) -> ServedRequest:
    """Read the body of a `/v1/chat/completions` request.

    Args:
        body: JSON, as the client sent it.

    Returns:
        The request, pictures decoded from their `data:` URLs.

    Raises:
        BadRequestError: Not such a request, or a picture that is no `data:` URL.
    """
    try:
        request = _Request.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise BadRequestError(f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}") from None
    return ServedRequest(
        model=request.model,
        messages=tuple(_message(message) for message in request.messages),
        tools=[
            DeclaredTool(
                name=tool.function.name, description=tool.function.description, parameters=tool.function.parameters
            )
            for tool in request.tools or ()
        ],
        sampling=Sampling(
            temperature=request.temperature,
            top_p=request.top_p,
            max_tokens=request.max_tokens or request.max_completion_tokens,
            seed=request.seed,
            stop=(request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ()),
        ),
        stream=bool(request.stream),
        include_usage=request.stream_options is not None and request.stream_options.include_usage,
    )


def _tool(function: _Function) -> DeclaredTool:
    return DeclaredTool(name=function.name, description=function.description, parameters=function.parameters)


def _message(message: _Message) -> Message:
    content = message.content or []
    parts: list[Part] = [TextPart(text=content)] if isinstance(content, str) else [_part(part) for part in content]
    if message.reasoning_content:
        parts.insert(0, ThinkPart(text=message.reasoning_content))
    return Message(
        role=message.role,
        parts=tuple(parts),
        tool_calls=tuple(
            ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments)
            for call in message.tool_calls or ()
        ),
        tool_call_id=message.tool_call_id,
        name=message.name,
    )


def _part(part: _Part) -> Part:
    if part.type == "text":
        return TextPart(text=part.text)
    url = part.image_url or part.video_url
    if url is None:
        raise BadRequestError(f"a content part of type {part.type!r} is not known; known: text, image_url, video_url")
    media_type, data = _decode(url.url)
    if part.video_url is not None:
        return VideoPart(data=data, media_type=media_type)
    match media_type:
        case "image/png" | "image/jpeg" | "image/webp":
            return ImagePart(data=data, media_type=media_type)
    raise BadRequestError(f"pictures of type {media_type!r} are not known; known: image/png, image/jpeg, image/webp")


def _decode(url: str) -> tuple[str, bytes]:
    head, comma, encoded = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise BadRequestError(f"expected a base64 data: URL, found {url[:40]!r}: nothing is fetched from here")
    try:
        return head[len("data:") : -len(";base64")], base64.b64decode("".join(encoded.split()), validate=True)
    except binascii.Error as error:
        raise BadRequestError(f"a data: URL is not base64: {error}") from error
