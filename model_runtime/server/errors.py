"""Errors as OpenAI's API words them: `{"error": {"message", "type", "param", "code"}}`.

Source: platform.openai.com, API reference, error codes; the SDK picks its exception by the status alone.
"""

import json
from typing import Any

from model_runtime.errors import BusyError, RequestError, RuntimeFault

Json = dict[str, Any]

_OTHER_LINE_ENDS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class ClientGoneError(Exception):
    """The client closed the connection; nobody reads the answer."""


class DrainingError(BusyError):
    """The server is about to leave; another one, or the next, will answer."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("the server is shutting down; try again later", retry_after_s=retry_after_s)
        self.status, self.code = 503, "shutting_down"


def error_body(error: RequestError | RuntimeFault) -> Json:
    """The body that tells a client what went wrong."""
    status = status_of(error)
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    if isinstance(error, RequestError):
        return {"error": {"message": str(error), "type": kind, "param": error.param, "code": error.code}}
    return {"error": {"message": str(error), "type": kind, "param": None, "code": "engine_unavailable"}}


def status_of(error: RequestError | RuntimeFault) -> int:
    """HTTP status: the request's own, or 503 for a fault of ours that another try may not meet."""
    return error.status if isinstance(error, RequestError) else 503


def error_headers(error: RequestError | RuntimeFault) -> dict[str, str]:
    """Headers that go with it: when to come again."""
    if isinstance(error, BusyError):
        return {"retry-after": str(max(1, round(error.retry_after_s)))}
    return {}


def dump(body: Any) -> bytes:
    """JSON as it goes over the wire, in one line also for readers that take Unicode's other line ends for one."""
    text = _ENCODER.encode(body)
    return (text if text.isascii() else text.translate(_OTHER_LINE_ENDS)).encode()
