"""Any model of ours as an OpenAI-compatible server: `/v1/chat/completions` and `/v1/models`.

uvicorn.run(make_app(LiteralModel(), model_id="literal"), host="127.0.0.1", port=8000)
"""

import json
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from cua.errors import ModelError, TruncatedReplyError
from cua.messages import Reply
from cua.model import Model
from cua.models.serve_request import BadRequestError, ServedRequest, parse_request
from envs.require import require

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

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
