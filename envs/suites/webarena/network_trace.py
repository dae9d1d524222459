"""Record the requests of a browser context as a HAR file without secrets, and read such files.

The recording has what a judge needs: addresses, methods, headers, forms, status, and JSON bodies. Values of cookies, of
authentication headers, and of password fields are replaced by `***`, except for cookies that tasks are judged by.
"""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

from envs.browser.redact import STARS
from envs.errors import EnvError
from envs.json_fields import Json, JsonMapping

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Request

JUDGED_COOKIES = frozenset(("mage-messages", "_osm_directions_engine"))
"""Cookies that audited tasks check: the shop's messages, and the routing engine of the map."""
_MAX_EVENTS = 5_000  # with the limits below: bounds memory in an episode on pages that poll
_MAX_BODY_BYTES, _MAX_BODIES_BYTES = 2**20, 32 * 2**20
_WAIT_S = 3.0
_SECRET_HEADER = re.compile("auth|token|key|secret|password", re.IGNORECASE)
_SECRET_FIELD = re.compile(r"passw|passwd|pwd|secret|token|api_?key|form_key", re.IGNORECASE)
AGENT_RESPONSE, NETWORK = "agent_response.json", "network.har"
"""Names of the files that an episode is judged by, as in webarena-verified."""
MAX_HAR_BYTES = 64 * 2**20
_STATIC = (
    ".css", ".js", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".woff", ".woff2", ".ttf", ".ico", ".webp",
)  # fmt: skip


class TraceRecorder:
    """Recorder of the requests of a browser context.

    Args:
        context: Browser context to record.
        sites: Addresses of the sites, stored in the file.
    """

    def __init__(self, context: "BrowserContext", sites: Mapping[str, str]) -> None:
        self._context = context
        self._sites = dict(sites)
        self._entries: list[Json] = []
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
        entry: Json = {}
        self._entries.append(entry)
        task = asyncio.ensure_future(self._read(request, entry, time.time()))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read(self, request: "Request", entry: Json, started_at: float) -> None:
        """Fill an entry; a request that is never answered gets no data."""
        from playwright.async_api import Error

        try:
            response = await request.response()
            headers = [_pair(header) for header in await request.headers_array()]
            answered = [_pair(header) for header in await response.headers_array()] if response is not None else []
            body = await self._body_of(request) if response is not None else None
        except Error:
            return
        kind = next((header["value"] for header in answered if header["name"].lower() == "content-type"), "")
        har_entry: Json = {
            "startedDateTime": datetime.fromtimestamp(started_at, UTC).isoformat(),
            "time": 0,
            "request": {
                "method": request.method,
                "url": _without_secrets(request.url),
                "httpVersion": "HTTP/1.1",
                "cookies": [],
                "headers": [_clean_header(header) for header in headers],
                "queryString": [],
                "headersSize": -1,
                "bodySize": -1,
            },
            "response": {
                "status": response.status if response is not None else -1,
                "statusText": response.status_text if response is not None else "",
                "httpVersion": "HTTP/1.1",
                "cookies": _cookies_of(answered),
                "headers": [_clean_header(header) for header in answered],
                "content": {"size": -1, "mimeType": kind, **({"text": body} if body is not None else {})},
                "redirectURL": next(
                    (header["value"] for header in answered if header["name"].lower() == "location"), ""
                ),
                "headersSize": -1,
                "bodySize": -1,
            },
            "cache": {},
            "timings": {"send": 0, "wait": 0, "receive": 0},
        }
        data = request.post_data_buffer
        if data is not None:
            sent = next((header["value"] for header in headers if header["name"].lower() == "content-type"), "")
            text = data[:_MAX_BODY_BYTES].decode("utf-8", "replace")
            har_entry["request"]["postData"] = {"mimeType": sent, "params": [], "text": _clean_form(text, sent)}
        entry.update(har_entry)

    async def _body_of(self, request: "Request") -> str | None:
        """Return the body of a JSON response, within the size limits."""
        response = await request.response()
        if response is None or "application/json" not in response.headers.get("content-type", ""):
            return None
        if response.status in range(300, 400) or self._body_bytes > _MAX_BODIES_BYTES:
            return None
        data = await response.body()
        self._body_bytes += len(data)
        return _clean_json(data.decode("utf-8", "replace")) if len(data) <= _MAX_BODY_BYTES else None

    async def stop(self) -> bytes:
        """Stop recording; return the HAR file of all answered requests."""
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
        """Stop recording and discard the data."""
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
    cookies = []
    for header in headers:
        for line in header["value"].split("\n") if header["name"].lower() == "set-cookie" else ():
            name, _, value = line.partition(";")[0].partition("=")
            cookies.append({"name": name.strip(), "value": value if name.strip() in JUDGED_COOKIES else STARS})
    return cookies


def _without_secrets(url: str) -> str:
    """Remove passwords from the query and the login from an address."""
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
    """Mask the values of password fields and similar in a request body; the content type may be wrong."""
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


def _clean_value(value: object) -> Any:
    if isinstance(value, dict):
        return {
            name: STARS if isinstance(field, str) and field and _SECRET_FIELD.search(name) else _clean_value(field)
            for name, field in value.items()
        }
    return [_clean_value(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class NetworkEvent:
    """Request and response of one HAR entry.

    Attributes:
        entry: The HAR entry.
    """

    entry: JsonMapping

    @property
    def url(self) -> str:
        """Address of the request."""
        return str(self.entry["request"]["url"])

    @property
    def method(self) -> str:
        """HTTP method of the request, `GET`, `POST`, ..."""
        return str(self.entry["request"]["method"])

    @property
    def status(self) -> Any:
        """HTTP status of the response."""
        return self.entry["response"]["status"]

    def header(self, name: str) -> str | None:
        """Return a header of the request; None if it is missing."""
        return self._headers.get(name.lower())

    @cached_property
    def _headers(self) -> dict[str, str]:
        return {header["name"].lower(): header["value"] for header in self.entry["request"]["headers"]}

    @cached_property
    def form(self) -> Json | None:
        """Form fields of the request; None if it has none, or their content type is not compared."""
        return _parse_body(self.entry["request"].get("postData"))

    @cached_property
    def content(self) -> Json | None:
        """JSON object of the response; None for any other content."""
        return _parse_body(self.entry["response"].get("content"))

    @cached_property
    def cookies(self) -> dict[str, str]:
        """Cookies set by the response."""
        return {
            cookie["name"]: unquote(cookie.get("value", "")) for cookie in self.entry["response"].get("cookies", [])
        }

    @property
    def counts(self) -> bool:
        """True unless it is a static part of a page, such as an image."""
        return not urlsplit(self.url).path.endswith(_STATIC)

    @property
    def is_navigation(self) -> bool:
        """True if the request opened a page."""
        if self.method != "GET":
            return False
        accept = (self.header("accept") or "").lower()
        if self.header("sec-fetch-user") is None:
            return accept.startswith("text/html")
        wanted = {"sec-fetch-dest": "document", "sec-fetch-mode": "navigate", "sec-fetch-user": "?1"}
        return "text/html" in accept and all(
            (self.header(name) or "").lower() == expected for name, expected in wanted.items()
        )


def _parse_body(body: JsonMapping | None) -> Json | None:
    if not body or not body.get("text"):
        return None
    kind, text = body.get("mimeType", ""), body["text"]
    if "application/x-www-form-urlencoded" in kind:
        return {name: values[0] for name, values in parse_qs(text, keep_blank_values=True).items()}
    if "application/json" in kind:
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(text)
            if isinstance(value, dict):
                return value
    boundary = re.search(r"boundary=([^;\s]+)", kind) if "multipart/form-data" in kind else None
    return _parse_multipart(text, boundary[1]) if boundary is not None else None


def _parse_multipart(text: str, boundary: str) -> Json:
    fields = {}
    for part in text.split(f"--{boundary}"):
        head, cut, body = part.strip().partition("\r\n\r\n")
        if not cut:
            head, cut, body = part.strip().partition("\n\n")
        lines = [line for line in head.split("\r\n") if line.lower().startswith("content-disposition:")]
        name = re.search(r'name="([^"]+)"', lines[0]) if cut and lines else None
        if name is not None:
            fields[name[1]] = body.rstrip("\r\n")
    return fields


def pick(data: JsonMapping | None, wanted: JsonMapping, *, is_open: bool = False) -> Any:
    """Select the wanted values of an object, by key: a name, a path `$.a[0].b`, or a pattern of names.

    Args:
        data: The object.
        wanted: Mapping whose keys are selected.
        is_open: True to include missing names, with the value None.
    """
    if not data:
        return None
    selected = {}
    for key in map(str.strip, wanted):
        if key.startswith("$") or _is_pattern(key):
            selected[key] = _pick_by_path(data, key)
        elif key in data or is_open:
            selected[key] = data.get(key)
    return selected


def _pick_by_path(data: Mapping[str, object], path: str) -> Any:
    """Return the value at a path; several values as a tuple, None if there is none."""
    pattern = path[2:] if path.startswith("$.^") and path.endswith("$") else path
    if _is_pattern(pattern):
        matches = [value for name, value in data.items() if re.match(pattern, name)]
    else:
        steps = _STEP.findall(path)
        matches = _walk(data, steps)
        if not matches:
            matches = _walk(
                {name: parse_json(value) if isinstance(value, str) else value for name, value in data.items()}, steps
            )
        if "?(" in path:
            return tuple(matches) or None
    return tuple(matches) if len(matches) > 1 else matches[0] if matches else None


_STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\['([^']*)'\]|\[(\d+)\]|\[\?\(@\.(\w+)\s*==\s*([^)]+)\)\]")


def _walk(data: object, steps: Sequence[tuple[str, ...]]) -> list[Any]:
    nodes = [data]
    for name, quoted, index, key, value in steps:
        key_wanted, after = name or quoted, []
        for node in nodes:
            if key_wanted and isinstance(node, Mapping) and key_wanted in node:
                after.append(node[key_wanted])
            elif index and isinstance(node, list) and int(index) < len(node):
                after.append(node[int(index)])
            elif key and isinstance(node, list):
                after += [item for item in node if isinstance(item, Mapping) and _is_literal(item.get(key), value)]
        nodes = after
    return nodes


def _is_literal(value: object, literal: str) -> bool:
    return value is not None and str(value) == literal.strip().strip("'\"")


def _is_pattern(name: str) -> bool:
    return len(name) >= 2 and name.startswith("^") and name.endswith("$")


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Parsed HAR file.

    Attributes:
        events: Events in the order of the file.
        sites: Addresses of the sites by name; empty if the file does not contain them.
    """

    events: tuple[NetworkEvent, ...]
    sites: Mapping[str, str]


def read_har(data: bytes, name: str) -> Trace:
    """Read a HAR file.

    Raises:
        EnvError: If the data is not a HAR file.
    """
    try:
        log = json.loads(data)["log"]
        events = tuple(NetworkEvent(entry) for entry in log["entries"])
        for event in events:
            _ = event.url, event.method, event.status, event.header("accept"), event.cookies
        sites = {str(site): str(url) for site, url in (log.get("_sites") or {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EnvError(f"{name} is not a HAR file: {type(error).__name__}: {error}", retryable=False) from error
    return Trace(events=events, sites=sites)
