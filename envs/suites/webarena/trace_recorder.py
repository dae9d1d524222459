"""Records the requests of a browser's context as a HAR file without secrets.

Recorded is what a judge needs: addresses, methods, headers, forms, status, and bodies of JSON. Values of cookies,
of headers that sign somebody in, and of fields for passwords are `***`, but for cookies that tasks are judged by.
"""

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from envs.browser.redact import STARS

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Request

JUDGED_COOKIES = frozenset(("mage-messages", "_osm_directions_engine"))
"""What audited tasks look at: a shop's message, and how a map looks for ways."""
_MAX_EVENTS = 5_000
_MAX_BODY_BYTES, _MAX_BODIES_BYTES = 2**20, 32 * 2**20
_WAIT_S = 3.0
_SECRET_HEADER = re.compile("auth|token|key|secret|password", re.IGNORECASE)
_SECRET_FIELD = re.compile(r"passw|passwd|pwd|secret|token|api_?key|form_key", re.IGNORECASE)


class TraceRecorder:
    """Records the requests of a browser's context.

    Args:
        context: Whose requests.
        sites: Where the sites are, for the file.
    """

    def __init__(self, context: "BrowserContext", sites: Mapping[str, str]) -> None:
        self._context = context
        self._sites = dict(sites)
        self._entries: list[dict[str, Any]] = []
        self._reading: set[asyncio.Task[None]] = set()
        self._num_left_out = 0
        self._body_bytes = 0
        context.on("request", self._note)

    def _note(self, request: "Request") -> None:
        if not request.url.startswith(("http://", "https://")):
            return
        if len(self._entries) >= _MAX_EVENTS:
            self._num_left_out += 1
            return
        entry: dict[str, Any] = {}
        self._entries.append(entry)
        task = asyncio.ensure_future(self._read(request, entry, time.time()))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read(self, request: "Request", entry: dict[str, Any], started_at: float) -> None:
        """Fill an entry; a request that is never answered has none."""
        from playwright.async_api import Error

        try:
            response = await request.response()
            headers = [_pair(one) for one in await request.headers_array()]
            answered = [_pair(one) for one in await response.headers_array()] if response is not None else []
            body = await self._body_of(request) if response is not None else None
        except Error:
            return
        kind = next((one["value"] for one in answered if one["name"].lower() == "content-type"), "")
        found: dict[str, Any] = {
            "startedDateTime": datetime.fromtimestamp(started_at, UTC).isoformat(),
            "time": 0,
            "request": {
                "method": request.method,
                "url": _without_secrets(request.url),
                "httpVersion": "HTTP/1.1",
                "cookies": [],
                "headers": [_clean_header(one) for one in headers],
                "queryString": [],
                "headersSize": -1,
                "bodySize": -1,
            },
            "response": {
                "status": response.status if response is not None else -1,
                "statusText": response.status_text if response is not None else "",
                "httpVersion": "HTTP/1.1",
                "cookies": _cookies_of(answered),
                "headers": [_clean_header(one) for one in answered],
                "content": {"size": -1, "mimeType": kind, **({"text": body} if body is not None else {})},
                "redirectURL": next((one["value"] for one in answered if one["name"].lower() == "location"), ""),
                "headersSize": -1,
                "bodySize": -1,
            },
            "cache": {},
            "timings": {"send": 0, "wait": 0, "receive": 0},
        }
        data = request.post_data_buffer
        if data is not None:
            sent = next((one["value"] for one in headers if one["name"].lower() == "content-type"), "")
            text = data[:_MAX_BODY_BYTES].decode("utf-8", "replace")
            found["request"]["postData"] = {"mimeType": sent, "params": [], "text": _clean_form(text, sent)}
        entry.update(found)

    async def _body_of(self, request: "Request") -> str | None:
        """The body of an object in JSON, while there is room."""
        response = await request.response()
        if response is None or "application/json" not in response.headers.get("content-type", ""):
            return None
        if response.status in range(300, 400) or self._body_bytes > _MAX_BODIES_BYTES:
            return None
        data = await response.body()
        self._body_bytes += len(data)
        return _clean_json(data.decode("utf-8", "replace")) if len(data) <= _MAX_BODY_BYTES else None

    async def stop(self) -> bytes:
        """Record no more; the HAR file of all that was answered."""
        self._context.remove_listener("request", self._note)
        if self._reading:
            await asyncio.wait(set(self._reading), timeout=_WAIT_S)
        self._cancel()
        log = {
            "version": "1.2",
            "creator": {"name": "cua-k25", "version": "1"},
            "browser": {"name": "chromium", "version": ""},
            "pages": [],
            "entries": [entry for entry in self._entries if entry],
            "_sites": self._sites,
        }
        if self._num_left_out:
            log["comment"] = f"{self._num_left_out} more requests are left out"
        return json.dumps({"log": log}, ensure_ascii=False, indent=1).encode("utf-8", "replace")

    def close(self) -> None:
        """Record no more, and forget what was recorded."""
        self._context.remove_listener("request", self._note)
        self._cancel()

    def _cancel(self) -> None:
        for task in list(self._reading):
            task.cancel()


def _pair(header: Any) -> dict[str, str]:
    return {"name": header["name"], "value": header["value"]}


def _clean_header(header: Mapping[str, str]) -> dict[str, str]:
    name, value = header["name"], header["value"]
    if name.lower() == "cookie":
        value = "; ".join(_clean_cookie(*pair.partition("=")) for pair in value.split("; "))
    elif name.lower() == "set-cookie":
        first, cut, rest = value.partition(";")
        value = f"{_clean_cookie(*first.partition('='))}{cut}{rest}"
    elif _SECRET_HEADER.search(name):
        value = STARS
    elif name.lower() in ("referer", "location"):
        value = _without_secrets(value)
    return {"name": name, "value": value}


def _clean_cookie(name: str, cut: str, value: str) -> str:
    return f"{name}{cut}{value if name.strip() in JUDGED_COOKIES or not value else STARS}"


def _cookies_of(headers: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    found = []
    for header in headers:
        for line in header["value"].split("\n") if header["name"].lower() == "set-cookie" else ():
            name, _, value = line.partition(";")[0].partition("=")
            found.append({"name": name.strip(), "value": value if name.strip() in JUDGED_COOKIES else STARS})
    return found


def _without_secrets(url: str) -> str:
    """An address whose query has no password, and that has no login."""
    parts = urlsplit(url)
    netloc = parts.netloc.rpartition("@")[2]
    query = parts.query
    if _SECRET_FIELD.search(query):
        query = "&".join(_clean_pair(pair) for pair in query.split("&"))
    if (netloc, query) == (parts.netloc, parts.query):
        return url
    return parts._replace(netloc=netloc, query=query).geturl()


def _clean_pair(pair: str) -> str:
    name, cut, value = pair.partition("=")
    return f"{name}{cut}{STARS}" if value and _SECRET_FIELD.search(unquote(name)) else pair


def _clean_form(text: str, kind: str) -> str:
    """What was sent, without the values of fields for passwords and the like; its kind may be told wrongly."""
    if "application/x-www-form-urlencoded" in kind and _SECRET_FIELD.search(unquote(text)):
        pairs = parse_qsl(text, keep_blank_values=True)
        return urlencode([(name, STARS if value and _SECRET_FIELD.search(name) else value) for name, value in pairs])
    if "multipart/form-data" in kind:
        return re.sub(_PART, _clean_part, text)
    cleaned = _clean_json(text)
    return cleaned if cleaned != text else re.sub(_SECRET_PAIR, rf"\g<1>{STARS}", text)


_SECRET_PAIR = re.compile(
    r"((?:passw|pwd|secret|token|api_?key|form_key)[\w\]\[-]{0,40}[\"']?\s{0,4}[=:]\s{0,4}[\"']?)[^&\s\"']+",
    re.IGNORECASE,
)
_PART = re.compile(r'(name="([^"]*)"(?:\r?\n[^\r\n]+){0,20}\r?\n\r?\n)[^\r\n]+', re.IGNORECASE)


def _clean_part(part: re.Match[str]) -> str:
    return f"{part[1]}{STARS}" if _SECRET_FIELD.search(part[2]) else part[0]


def _clean_json(text: str) -> str:
    if not _SECRET_FIELD.search(text):
        return text
    try:
        return json.dumps(_clean_value(json.loads(text)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _clean_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: STARS if isinstance(one, str) and one and _SECRET_FIELD.search(name) else _clean_value(one)
            for name, one in value.items()
        }
    return [_clean_value(one) for one in value] if isinstance(value, list) else value
