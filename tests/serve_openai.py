"""Any `Model` as an OpenAI-compatible server, `/v1/chat/completions` and `/v1/models`, and its requests read back.

uvicorn.run(make_app(LiteralModel(), model_id="literal"), host="127.0.0.1", port=8000)
"""

import base64
import binascii
import json
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cua.errors import ModelError, TruncatedReplyError
from cua.messages import (
    ImagePart,
    Message,
    Part,
    Reply,
    Role,
    Sampling,
    TextPart,
    ThinkPart,
    ToolCall,
    ToolResult,
    VideoPart,
)
from cua.model import Model, Tool
from envs.errors import require

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response


class BadRequestError(Exception):
    """The request is not one that we can answer; the text is for the client."""


@dataclass(slots=True, kw_only=True)
class DeclaredTool(Tool):
    """A tool that the client can run and we cannot."""

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
        The request, images decoded from their `data:` URLs.

    Raises:
        BadRequestError: Not such a request, or an image that is no `data:` URL.
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
    raise BadRequestError(f"images of type {media_type!r} are not known; known: image/png, image/jpeg, image/webp")


def _decode(url: str) -> tuple[str, bytes]:
    head, comma, encoded = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise BadRequestError(f"expected a base64 data: URL, found {url[:40]!r}: nothing is fetched from here")
    try:
        return head[len("data:") : -len(";base64")], base64.b64decode("".join(encoded.split()), validate=True)
    except binascii.Error as error:
        raise BadRequestError(f"a data: URL is not base64: {error}") from error


_PIECE_CHARS = 12


def make_app(model: Model, *, model_id: str, reasoning_field: str = "reasoning_content") -> "Starlette":
    """Wrap a model.

    Args:
        model: Who answers.
        model_id: The only id that the server knows; requests for others get 404.
        reasoning_field: `reasoning_content`, or `reasoning` as newer servers say.

    Returns:
        An ASGI application; it neither checks keys nor limits requests, so serve it on loopback.

    Raises:
        MissingDependencyError: Starlette is not installed.
    """
    applications = require("starlette.applications", "demo")
    responses = require("starlette.responses", "demo")
    routing = require("starlette.routing", "demo")

    async def list_models(request: "Request") -> "Response":
        answer: Response = responses.JSONResponse({"object": "list", "data": [{"id": model_id, "object": "model"}]})
        return answer

    async def complete(request: "Request") -> "Response":
        status, body = 200, None
        answer: Response
        try:
            asked = parse_request(await request.body())
            if asked.model != model_id:
                raise LookupError(f"the model {asked.model!r} does not exist; this server has {model_id!r}")
            reply = await _answer(model, asked)
        except BadRequestError as error:
            status, body = 400, error_json(str(error), "invalid_request_error")
        except LookupError as error:
            status, body = 404, error_json(str(error.args[0]), "model_not_found")
        except ModelError as error:
            status, body = (503 if error.retryable else 400), error_json(str(error), "model_error")
        else:
            if asked.stream:
                events = stream_events(reply, model_id, reasoning_field, asked.include_usage)
                answer = responses.StreamingResponse(_encode(events), media_type="text/event-stream")
                return answer
            body = completion_json(reply, model_id, reasoning_field)
        answer = responses.JSONResponse(body, status_code=status)
        return answer

    routes = [
        routing.Route("/v1/models", list_models),
        routing.Route("/v1/chat/completions", complete, methods=["POST"]),
    ]
    app: Starlette = applications.Starlette(routes=routes)
    return app


def error_json(message: str, code: str) -> dict[str, Any]:
    """An error body in OpenAI's form."""
    return {"error": {"message": message, "type": code, "code": code, "param": None}}


def completion_json(reply: Reply, model_id: str, reasoning_field: str = "reasoning_content") -> dict[str, Any]:
    """A reply as the body of a whole answer."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content or None}
    if reply.reasoning:
        message[reasoning_field] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = _calls_json(reply)
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
    return _head("chat.completion", model_id) | {"choices": [choice], "usage": usage_json(reply)}


def stream_events(
    reply: Reply, model_id: str, reasoning_field: str = "reasoning_content", include_usage: bool = True
) -> Iterator[dict[str, Any]]:
    """A reply as the events of a stream, cut into small pieces; the closing `[DONE]` is not among them."""
    head = _head("chat.completion.chunk", model_id)

    def event(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}

    yield event({"role": "assistant", "content": ""})
    for piece in _pieces(reply.reasoning):
        yield event({reasoning_field: piece})
    for piece in _pieces(reply.content):
        yield event({"content": piece})
    for index, call in enumerate(_calls_json(reply)):
        function = call["function"]
        first = {"index": index, "id": call["id"], "type": "function", "function": function | {"arguments": ""}}
        yield event({"tool_calls": [first]})
        for piece in _pieces(function["arguments"]):
            yield event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield event({}, _finish_reason(reply))
    if include_usage:
        yield head | {"choices": [], "usage": usage_json(reply)}


def usage_json(reply: Reply) -> dict[str, Any]:
    """Token counts in OpenAI's form."""
    usage = reply.usage
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def event_bytes(data: dict[str, Any] | str) -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"data: {text}\n\n".encode()


async def _answer(model: Model, asked: ServedRequest) -> Reply:
    try:
        return await model.generate(asked.messages, asked.tools, asked.sampling)
    except TruncatedReplyError as error:
        if error.reply is None:
            raise
        return error.reply


async def _encode(events: Iterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    for event in events:
        yield event_bytes(event)
    yield event_bytes("[DONE]")


def _head(kind: str, model_id: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": model_id}


def _finish_reason(reply: Reply) -> str:
    return "stop" if reply.finish_reason == "unknown" else reply.finish_reason


def _calls_json(reply: Reply) -> list[dict[str, Any]]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in reply.tool_calls
    ]


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE_CHARS] for start in range(0, len(text), _PIECE_CHARS)]
