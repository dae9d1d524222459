"""ASGI middleware that every request passes: id, key, size, drain, log line, counts."""

import hashlib
import hmac
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from model_runtime.errors import RequestError
from model_runtime.server.body import dump, error_body, error_headers
from model_runtime.server.metrics import AccessLogRecord, Metrics, make_request_id
from model_runtime.server.options import ServerOptions
from model_runtime.server.state import Drain

OPEN_PATHS = frozenset({"/health"})
_SHOWN_PATH_CHARS = 120


class RequestMiddleware:
    """ASGI middleware around the whole application.

    Args:
        app: What comes behind.
        options: Keys and limits.
        metrics: Told of each request that ends.
        drain: Says whether the server still takes requests.
    """

    def __init__(self, app: ASGIApp, *, options: ServerOptions, metrics: Metrics, drain: Drain) -> None:
        self._app = app
        self._options = options
        self._metrics = metrics
        self._drain = drain
        self._key_digests = [_digest(key) for key in options.api_keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        path = scope["path"].encode("unicode_escape").decode()[:_SHOWN_PATH_CHARS]
        record = AccessLogRecord(
            request_id=make_request_id(headers.get("x-request-id", "")), method=scope["method"], path=path
        )
        scope.setdefault("state", {})["access_log_record"] = record

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = record.request_id
            await send(message)

        with self._drain.counting():
            try:
                await self._pass(scope, headers, receive, send_marked)
            except Exception:
                record.late_status = 500
                raise
            finally:
                self._metrics.count(record, getattr(scope.get("route"), "path", "other"))
                record.log()

    async def _pass(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        try:
            self._check(scope, headers)
        except RequestError as error:
            await _refuse(error, send)
        else:
            await self._app(scope, self._limited(receive), send)

    def _check(self, scope: Scope, headers: Headers) -> None:
        if scope["path"] not in OPEN_PATHS and self._key_digests:
            self._check_key(headers.get("authorization", ""))
        if scope["method"] == "POST":
            self._drain.check(self._options.retry_after_s)
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self._options.max_body_bytes:
            raise _too_large(self._options.max_body_bytes)

    def _check_key(self, header: str) -> None:
        kind, _, key = header.partition(" ")
        digest = _digest(key.strip())
        matches = [hmac.compare_digest(digest, known) for known in self._key_digests]
        if kind.lower() != "bearer" or not any(matches):
            found = "an unknown key" if header else "no key"
            text = f"found {found}; expected the header 'Authorization: Bearer KEY' with a key of this server"
            raise RequestError(text, code="invalid_api_key", status=401)

    def _limited(self, receive: Receive) -> Receive:
        most, found = self._options.max_body_bytes, 0

        async def receive_limited() -> Message:
            nonlocal found
            message = await receive()
            found += len(message.get("body", b""))
            if found > most:
                raise _too_large(most)
            return message

        return receive_limited


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _too_large(most: int) -> RequestError:
    text = f"the body is larger than {most} bytes; send fewer or smaller images"
    return RequestError(text, code="request_too_large", status=413)


async def _refuse(error: RequestError, send: Send) -> None:
    body = dump(error_body(error))
    headers: dict[str, Any] = {"content-type": "application/json", "content-length": str(len(body))}
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    pairs = [(name.encode(), value.encode()) for name, value in (headers | error_headers(error)).items()]
    await send({"type": "http.response.start", "status": error.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
