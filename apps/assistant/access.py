"""Access control of the app: one user with the token, from the app's own pages or the user's own programs.

Any web page may send requests to 127.0.0.1, and so may the agent's own browser. So each request needs the token (in
the start URL once, then in a cookie; or as a bearer), must name a host of the app (against DNS rebinding), and must
not come from another page (`Origin`, `Sec-Fetch-Site`). Responses have a content security policy under which the page
can load nothing from other hosts, and of Gradio's own routes, only those that the page needs are allowed.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import json
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from apps.assistant.errors import FILE_TOO_LARGE, MAX_FILE_BYTES
from apps.assistant.wording import invalid_object, phrase

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MIN_TOKEN_CHARS = 16  # a token of the user's own must not be guessable at one try per half second
MAX_BODY_BYTES = MAX_FILE_BYTES + 2**20  # the largest upload with its framing
MAX_JSON_BYTES = 2 * 2**20  # bounds memory; commands have some hundred bytes
_WRONG_TOKEN_S = 0.5  # delay of the answer to a wrong token: slows guessing
_UPLOADS = ("/gradio_api/upload", "/api/files")
_DETAILS = {"loc", "msg", "type"}  # of an error in the list of a request that does not match its schema
_SAFE_METHODS = ("GET", "HEAD")
_GRADIO = re.compile(
    r"/(config|theme\.css|favicon\.ico|robots\.txt|manifest\.json|assets/[\w./+-]+|static/[\w./+-]+|svelte/[\w./+-]+)"
    r"|/gradio_api/(queue/join|queue/data|heartbeat/\w+|upload|upload_progress|startup-events|reset|cancel|theme\.css"
    r"|info)/?"
)
_OURS = re.compile(r"/|/login|/assistant/[\w.-]+|/api(/.*)?")
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; media-src 'self' blob:; object-src 'none'; "
    "frame-src 'none'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_LOGIN = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Assistant</title><style>body{font:16px/1.5 system-ui,sans-serif;max-width:32rem;margin:15vh auto;padding:0 1rem;
color-scheme:light dark}input,button{font:inherit;padding:.5rem .7rem}</style>
<h1>Assistant</h1><p>Open the address that the terminal shows, or enter the token from that address.</p>
<form method="post" action="/login"><label>Token
<input name="token" type="password" autocomplete="off" autofocus></label>
<button>Open</button></form></html>"""


def is_loopback(host: str) -> bool:
    """Return True if a host to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def make_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(32)


class Access:
    """Access middleware for all requests.

    Args:
        app: Protected application.
        token: Token that allows access.
        host: Host on which the app listens.
        port: Port on which the app listens.
        hosts: Further host names of the app.
        has_room: Returns True if uploads may use more disk space.
    """

    def __init__(
        self,
        app: App,
        *,
        token: str,
        host: str,
        port: int,
        hosts: Iterable[str] = (),
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        self._app = app
        self._has_room = has_room
        self._token = token
        self._cookie = f"k25_assistant_{port}"
        self._pass = hmac.new(token.encode(), b"cookie", hashlib.sha256).hexdigest()
        self._port = port
        self._names = {"127.0.0.1", "localhost", "::1", host.lower(), *(name.lower() for name in hosts)}
        self._takes_addresses = not is_loopback(host)
        if self._takes_addresses:
            self._names.add(socket.gethostname().lower())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refuse_stranger(scope, headers)
        if refusal is not None:
            await _refuse(scope, send, *refusal)
            return
        if scope["type"] == "http" and await self._log_in(scope, receive, send):
            return
        if not self._knows(headers):
            await self._ask_token(scope, send)
            return
        path = scope["path"]
        if not (_OURS.fullmatch(path) or _GRADIO.fullmatch(path)) or ".." in path:
            await _refuse(scope, send, 404, "there is nothing here")
            return
        if int(headers.get("content-length", "0") or 0) > _most_bytes(path):
            text = FILE_TOO_LARGE if _is_upload(path) else f"more than {MAX_JSON_BYTES >> 20} MB are not accepted"
            await _refuse(scope, send, 413, text)
            return
        if _is_upload(path) and not self._has_room():
            await _refuse(scope, send, 413, "uploads take too much of the disk; restart the app")
            return
        await self._app(scope, _limited(receive, _most_bytes(path)), _hardened(send, path))

    def _refuse_stranger(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return 400, f"this app is not {host[:100]!r}"
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return 403, "requests from pages of other origins are refused"
        is_visit = scope["type"] == "http" and scope["method"] in _SAFE_METHODS and scope["path"] == "/"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not is_visit:
            return 403, "requests from pages of other origins are refused"
        if scope["type"] == "websocket" and origin is None and "authorization" not in headers:
            return 403, "a connection needs an origin or a bearer token"
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        if port != self._port:
            return False
        if name in self._names:
            return True
        try:
            return self._takes_addresses and bool(ipaddress.ip_address(name))  # a rebound name is not an address
        except ValueError:
            return False

    def _knows(self, headers: dict[str, str]) -> bool:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return _same(bearer.strip(), self._token)
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and _same(cookie.value, self._pass)

    async def _log_in(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Read a token from the URL or the form; return True if the request contained one."""
        given = None
        if scope["method"] == "GET" and scope["path"] == "/":
            given = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token")
        elif scope["method"] == "POST" and scope["path"] == "/login":
            body = await _read(receive, 10_000)
            given = dict(parse_qsl(body.decode("latin-1"))).get("token", "")
        if given is None:
            return False
        if not _same(given, self._token):
            await asyncio.sleep(_WRONG_TOKEN_S)
            await self._ask_token(scope, send)
            return True
        cookie = f"{self._cookie}={self._pass}; HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000"
        headers = [(b"location", b"/"), (b"set-cookie", cookie.encode()), (b"referrer-policy", b"no-referrer")]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return True

    async def _ask_token(self, scope: Scope, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] in ("/", "/login"):
            await _answer(send, 401, _LOGIN.encode(), "text/html; charset=utf-8")
        else:
            await _refuse(scope, send, 401, "the token is missing or wrong")


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _is_upload(path: str) -> bool:
    return path.rstrip("/") in _UPLOADS


def _most_bytes(path: str) -> int:
    return MAX_BODY_BYTES if _is_upload(path) else MAX_JSON_BYTES


def _limited(receive: Receive, most_bytes: int) -> Receive:
    """Limit the size of a request body; a longer one ends as if the client had disconnected."""
    taken = 0

    async def limited() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b"") or b"")
        return {"type": "http.disconnect"} if taken > most_bytes else message

    return limited


def _hardened(send: Send, path: str) -> Send:
    """Add security headers to responses, and remove headers that would let other pages read them.

    Errors of Gradio's routes, which have several forms, get the form of the API.
    """
    status, failed = 200, b""

    async def hardened(message: Message) -> None:
        nonlocal status, failed
        if message["type"] == "http.response.start":
            status = message["status"]
            kept = [
                (name, value)
                for name, value in message.get("headers", [])
                if not name.lower().startswith(b"access-control-")
            ]
            given = {name.lower() for name, _ in kept}
            more = dict(_HEADERS)
            if path.startswith(("/api", "/gradio_api")) or path == "/":
                more["cache-control"] = "no-store"
            kept += [(name.encode(), value.encode()) for name, value in more.items() if name.encode() not in given]
            message = {**message, "headers": kept}
        if status < 400:
            await send(message)
        elif message["type"] == "http.response.body":
            failed += message.get("body", b"")
            if not message.get("more_body"):
                await _answer(send, status, _documented(status, failed), "application/json")

    return hardened


def _documented(status: int, body: bytes) -> bytes:
    """Return the body of an error in the documented form."""
    try:
        found = json.loads(body)
    except ValueError:
        found = {"detail": body.decode(errors="replace")}
    fields = found if isinstance(found, dict) else {}
    if isinstance(fields.get("error"), str):
        return body
    detail = fields.get("detail")
    if isinstance(detail, list) and all(
        isinstance(each, dict) and {"loc", "msg", "type"} <= each.keys() for each in detail
    ):
        return json.dumps(invalid_object(detail)).encode()
    text = detail if isinstance(detail, str) and detail else HTTPStatus(status).phrase
    return json.dumps({"error": phrase(text)}).encode()


async def _read(receive: Receive, most_bytes: int) -> bytes:
    body = b""
    while len(body) <= most_bytes:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            break
    return body[:most_bytes]


async def _refuse(scope: Scope, send: Send, status: int, text: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 4000 + status, "reason": text[:100]})
        return
    await _answer(send, status, json.dumps({"error": phrase(text)}).encode(), "application/json")


async def _answer(send: Send, status: int, body: bytes, media_type: str) -> None:
    headers = {**_HEADERS, "content-type": media_type, "content-length": str(len(body)), "cache-control": "no-store"}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
