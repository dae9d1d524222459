"""The body of a request: bytes to a checked pydantic model, and what is wrong with them in one line."""

import asyncio
import json
import re
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import ClientDisconnect, Request

from model_runtime.errors import RequestError
from model_runtime.server.errors import ClientGoneError
from model_runtime.server.schemas import OpenModel

Asked = TypeVar("Asked", bound=OpenModel)

_INLINE_BYTES = 64 * 1024
_SHOWN_CHARS = 60
_SHOWN_FIELDS = 20


async def read_body(request: Request, model: type[Asked], *, timeout_s: float) -> Asked:
    """Read and check a JSON body; large ones are read in a thread.

    Raises:
        RequestError: It is no JSON, nested too deep, or does not fit; the text names the first wrong field.
        ClientGoneError: The client left while sending.
    """
    try:
        async with asyncio.timeout(timeout_s):
            raw = await request.body()
    except TimeoutError:
        text = f"the body did not arrive within {timeout_s:g} s; send it faster, or less of it"
        raise RequestError(text, code="request_timeout", status=408) from None
    except ClientDisconnect:
        raise ClientGoneError from None
    if len(raw) <= _INLINE_BYTES:
        return parse_body(raw, model)
    return await asyncio.to_thread(parse_body, raw, model)


def parse_body(raw: bytes, model: type[Asked]) -> Asked:
    """JSON text to a model.

    Raises:
        RequestError: See `read_body`.
    """
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise _wrong_field(error, raw) from None


def ignored_fields(names: list[str]) -> str:
    """Names of unknown fields, as the value of a header: printable ASCII without blanks at its ends, or nothing."""
    shown = [re.sub(r"[^\w.\-]", "?", name[:_SHOWN_CHARS], flags=re.ASCII) or "?" for name in names[:_SHOWN_FIELDS]]
    return ", ".join(shown + (["..."] if len(names) > _SHOWN_FIELDS else []))


def _wrong_field(error: ValidationError, raw: bytes) -> RequestError:
    first, *others = error.errors(include_url=False)
    if first["type"] == "json_invalid":
        return RequestError(
            f"the body is not valid JSON: {first['msg'].removeprefix('Invalid JSON: ')}", code="invalid_json"
        )
    same_field = [one for one in others if one["loc"][:1] == first["loc"][:1]]  # branches of a union among them
    first = max([first, *same_field], key=lambda one: len(one["loc"]))
    path = ".".join(_path(first["loc"], raw))
    rest = f" ({len(others)} more)" if others else ""
    code = "missing_required_parameter" if first["type"] == "missing" else "invalid_value"
    return RequestError(f"{path or 'body'}: {_say(first)}{rest}", param=path or None, code=code)


def _say(error: ErrorDetails) -> str:
    """What was found and what was expected."""
    said = error["msg"][:1].lower() + error["msg"][1:]
    match error["type"]:
        case "missing":
            return said
        case "union_tag_invalid":
            return f"found type {_shorten(error['ctx']['tag'])}, expected one of {error['ctx']['expected_tags']}"
        case _:
            return f"found {_shorten(error['input'])}, expected: {said}"


def _path(location: tuple[int | str, ...], raw: bytes) -> list[str]:
    """Where an error is, without pydantic's own words for the branches of a union."""
    try:
        here: Any = json.loads(raw)
    except (ValueError, RecursionError):
        here = None
    path = []
    for position, step in enumerate(location):
        is_inside = (isinstance(here, dict) and step in here) or (
            isinstance(here, list) and isinstance(step, int) and step < len(here)
        )
        if is_inside:
            here = here[step]
        is_missing = position == len(location) - 1 and isinstance(here, dict) and isinstance(step, str)
        if is_inside or is_missing:
            path.append(str(step))
    return path


def _shorten(value: Any) -> str:
    text = repr(value) if not isinstance(value, dict | list) else f"{type(value).__name__} of {len(value)}"
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
