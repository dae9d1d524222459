"""Parsing of request bodies to validated pydantic models, and errors in OpenAI's JSON format.

Source: platform.openai.com, API reference, error codes; the SDK picks its exception by the status alone.
"""

import asyncio
import json
import re
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import ClientDisconnect, Request

from model_runtime.errors import BusyError, InvalidRequestError, RuntimeFault
from model_runtime.json_types import Json
from model_runtime.server.schemas import OpenModel

_OTHER_LINE_ENDS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class ClientGoneError(Exception):
    """Exception for a client that closed the connection."""


class DrainingError(BusyError):
    """Exception for a server that is shutting down; the client should retry."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("the server is shutting down; try again later", retry_after_s=retry_after_s)
        self.status, self.code = 503, "shutting_down"


class WeightsReplacedError(BusyError):
    """Exception for a request whose weights were replaced while it ran; the client should send it again."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retry_after_s=1.0)
        self.status, self.code = 503, "weights_replaced"


def error_body(error: InvalidRequestError | RuntimeFault) -> Json:
    """Return the error body for a client."""
    status = status_of(error)
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    if isinstance(error, InvalidRequestError):
        return {"error": {"message": str(error), "type": kind, "param": error.param, "code": error.code}}
    return {"error": {"message": str(error), "type": kind, "param": None, "code": "engine_unavailable"}}


def status_of(error: InvalidRequestError | RuntimeFault) -> int:
    """Return the HTTP status: the request error's own, or 503 for a server error that may be temporary."""
    return error.status if isinstance(error, InvalidRequestError) else 503


def error_headers(error: InvalidRequestError | RuntimeFault) -> dict[str, str]:
    """Return the headers of an error: when to retry."""
    if isinstance(error, BusyError):
        return {"retry-after": str(max(1, round(error.retry_after_s)))}
    return {}


def dump(body: object) -> bytes:
    """Serialize JSON in one line, also for readers that treat Unicode's other line separators as line ends."""
    text = _ENCODER.encode(body)
    return (text if text.isascii() else text.translate(_OTHER_LINE_ENDS)).encode()


RequestModel = TypeVar("RequestModel", bound=OpenModel)

_INLINE_BYTES = 64 * 1024  # larger bodies are parsed in a thread, so that the event loop is not blocked
_SHOWN_CHARS = 60  # of a foreign name or value in an error text
_SHOWN_FIELDS = 20  # ignored fields that the header names


async def read_body(request: Request, model: type[RequestModel], *, timeout_s: float) -> RequestModel:
    """Read and validate a JSON body; large ones are parsed in a thread.

    Raises:
        RequestError: If it is not JSON, nested too deep, or invalid; the text names the first invalid field.
        ClientGoneError: If the client disconnected while sending.
    """
    try:
        async with asyncio.timeout(timeout_s):
            raw = await request.body()
    except TimeoutError:
        text = f"the body did not arrive within {timeout_s:g} s; send it faster, or less of it"
        raise InvalidRequestError(text, code="request_timeout", status=408) from None
    except ClientDisconnect:
        raise ClientGoneError from None
    if len(raw) <= _INLINE_BYTES:
        return parse_body(raw, model)
    return await asyncio.to_thread(parse_body, raw, model)


def parse_body(raw: bytes, model: type[RequestModel]) -> RequestModel:
    """Parse JSON text to a model.

    Raises:
        RequestError: See `read_body`.
    """
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise _wrong_field(error, raw) from None


def ignored_fields(names: list[str]) -> str:
    """Return names of unknown fields as a header value: printable ASCII without spaces at its ends, or empty."""
    shown = [re.sub(r"[^\w.\-]", "?", name[:_SHOWN_CHARS], flags=re.ASCII) or "?" for name in names[:_SHOWN_FIELDS]]
    return ", ".join(shown + (["..."] if len(names) > _SHOWN_FIELDS else []))


def _wrong_field(error: ValidationError, raw: bytes) -> InvalidRequestError:
    first, *others = error.errors(include_url=False)
    if first["type"] == "json_invalid":
        return InvalidRequestError(
            f"the body is not valid JSON: {first['msg'].removeprefix('Invalid JSON: ')}", code="invalid_json"
        )
    same_field = [other for other in others if other["loc"][:1] == first["loc"][:1]]  # including branches of a union
    first = max([first, *same_field], key=lambda error: len(error["loc"]))
    path = ".".join(_path(first["loc"], raw))
    rest = f" ({len(others)} more)" if others else ""
    code = "missing_required_parameter" if first["type"] == "missing" else "invalid_value"
    return InvalidRequestError(f"{path or 'body'}: {_describe_error(first)}{rest}", param=path or None, code=code)


def _describe_error(error: ErrorDetails) -> str:
    """Describe the found and the expected value."""
    message = error["msg"][:1].lower() + error["msg"][1:]
    match error["type"]:
        case "missing":
            return message
        case "union_tag_invalid":
            return f"found type {_shorten(error['ctx']['tag'])}, expected one of {error['ctx']['expected_tags']}"
        case _:
            return f"found {_shorten(error['input'])}, expected: {message}"


def _path(location: tuple[int | str, ...], raw: bytes) -> list[str]:
    """Return the path of an error, without pydantic's labels for the branches of a union."""
    try:
        here = json.loads(raw)
    except (ValueError, RecursionError):
        here = None
    path = []
    for position, step in enumerate(location):
        following = location[position + 1] if position + 1 < len(location) else None
        if isinstance(here, dict) and here.get("type") == step and following in here:
            continue  # a label that has the name of a key
        is_inside = (isinstance(here, dict) and step in here) or (
            isinstance(here, list) and isinstance(step, int) and step < len(here)
        )
        if is_inside:
            here = here[step]
        is_missing = position == len(location) - 1 and isinstance(here, dict) and isinstance(step, str)
        if is_inside or is_missing:
            path.append(str(step))
    return path


def _shorten(value: object) -> str:
    text = repr(value) if not isinstance(value, dict | list) else f"{type(value).__name__} of {len(value)}"
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
