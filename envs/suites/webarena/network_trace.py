"""The requests of an episode, as a HAR file has them."""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from envs.errors import EnvError

if TYPE_CHECKING:
    pass

AGENT_RESPONSE, NETWORK = "agent_response.json", "network.har"
"""Names of the files that an episode is judged by, as webarena-verified has them."""
MAX_HAR_BYTES = 64 * 2**20
_STATIC = (
    ".css", ".js", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".woff", ".woff2", ".ttf", ".ico", ".webp",
)  # fmt: skip


@dataclass(frozen=True)
class Event:
    """A request and its response, as an entry of a HAR file has them.

    Attributes:
        entry: That entry.
    """

    entry: Mapping[str, Any]

    @property
    def url(self) -> str:
        """Its address."""
        return str(self.entry["request"]["url"])

    @property
    def method(self) -> str:
        """`GET`, `POST`, ..."""
        return str(self.entry["request"]["method"])

    @property
    def status(self) -> Any:
        """Of the response."""
        return self.entry["response"]["status"]

    def header(self, name: str) -> str | None:
        """Of the request; None: it has none of that name."""
        return self._headers.get(name.lower())

    @cached_property
    def _headers(self) -> dict[str, str]:
        return {header["name"].lower(): header["value"] for header in self.entry["request"]["headers"]}

    @cached_property
    def form(self) -> dict[str, Any] | None:
        """The fields that were sent; None: none, or of a kind that nobody compares."""
        return _parse_body(self.entry["request"].get("postData"))

    @cached_property
    def content(self) -> dict[str, Any] | None:
        """The object that came back as JSON; None: something else."""
        return _parse_body(self.entry["response"].get("content"))

    @cached_property
    def cookies(self) -> dict[str, str]:
        """Set by the response."""
        return {one["name"]: unquote(one.get("value", "")) for one in self.entry["response"].get("cookies", [])}

    @property
    def counts(self) -> bool:
        """Whether it is more than a part of a page, such as an image."""
        return not urlsplit(self.url).path.endswith(_STATIC)

    @property
    def is_navigation(self) -> bool:
        """Whether a page was opened by it."""
        if self.method != "GET":
            return False
        accept = (self.header("accept") or "").lower()
        if self.header("sec-fetch-user") is None:
            return accept.startswith("text/html")
        wanted = {"sec-fetch-dest": "document", "sec-fetch-mode": "navigate", "sec-fetch-user": "?1"}
        return "text/html" in accept and all((self.header(name) or "").lower() == one for name, one in wanted.items())


def _parse_body(body: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not body or not body.get("text"):
        return None
    kind, text = body.get("mimeType", ""), body["text"]
    if "application/x-www-form-urlencoded" in kind:
        return {name: values[0] for name, values in parse_qs(text, keep_blank_values=True).items()}
    if "application/json" in kind:
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(text)
            if isinstance(found, dict):
                return found
    boundary = re.search(r"boundary=([^;\s]+)", kind) if "multipart/form-data" in kind else None
    return _parse_multipart(text, boundary[1]) if boundary is not None else None


def _parse_multipart(text: str, boundary: str) -> dict[str, Any]:
    found = {}
    for part in text.split(f"--{boundary}"):
        head, cut, body = part.strip().partition("\r\n\r\n")
        if not cut:
            head, cut, body = part.strip().partition("\n\n")
        lines = [line for line in head.split("\r\n") if line.lower().startswith("content-disposition:")]
        name = re.search(r'name="([^"]+)"', lines[0]) if cut and lines else None
        if name is not None:
            found[name[1]] = body.rstrip("\r\n")
    return found


def pick(data: Mapping[str, Any] | None, wanted: Mapping[str, Any], *, is_open: bool = False) -> Any:
    """What is wanted of an object, by key: a name, a path `$.a[0].b`, or a pattern of names.

    Args:
        data: The object.
        wanted: Its keys are what is looked for.
        is_open: Names that there are not are there, with None.
    """
    if not data:
        return None
    found = {}
    for key in map(str.strip, wanted):
        if key.startswith("$") or _is_pattern(key):
            found[key] = _pick_by_path(data, key)
        elif key in data or is_open:
            found[key] = data.get(key)
    return found


def _pick_by_path(data: Mapping[str, Any], path: str) -> Any:
    """The value at a path; several of them as a tuple, none as None."""
    pattern = path[2:] if path.startswith("$.^") and path.endswith("$") else path
    if _is_pattern(pattern):
        matches = [value for name, value in data.items() if re.match(pattern, name)]
    else:
        steps = _STEP.findall(path)
        matches = _walk(data, steps)
        if not matches:
            matches = _walk(
                {name: _json_or_text(one) if isinstance(one, str) else one for name, one in data.items()}, steps
            )
        if "?(" in path:
            return tuple(matches) or None
    return tuple(matches) if len(matches) > 1 else matches[0] if matches else None


_STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\['([^']*)'\]|\[(\d+)\]|\[\?\(@\.(\w+)\s*==\s*([^)]+)\)\]")


def _walk(data: Any, steps: Sequence[tuple[str, ...]]) -> list[Any]:
    found = [data]
    for name, quoted, index, key, value in steps:
        key_wanted, after = name or quoted, []
        for one in found:
            if key_wanted and isinstance(one, Mapping) and key_wanted in one:
                after.append(one[key_wanted])
            elif index and isinstance(one, list) and int(index) < len(one):
                after.append(one[int(index)])
            elif key and isinstance(one, list):
                after += [item for item in one if isinstance(item, Mapping) and _is_literal(item.get(key), value)]
        found = after
    return found


def _is_literal(value: object, literal: str) -> bool:
    return value is not None and str(value) == literal.strip().strip("'\"")


def _is_pattern(name: str) -> bool:
    return len(name) >= 2 and name.startswith("^") and name.endswith("$")


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A HAR file that was read.

    Attributes:
        events: In the file's order.
        sites: Where the sites were, by name; empty where the file does not say.
    """

    events: tuple[Event, ...]
    sites: Mapping[str, str]


def read_har(data: bytes, where: str) -> Trace:
    """Read a HAR file.

    Raises:
        EnvError: It is none.
    """
    try:
        log = json.loads(data)["log"]
        events = tuple(Event(entry) for entry in log["entries"])
        for event in events:
            _ = event.url, event.method, event.status, event.header("accept"), event.cookies
        sites = {str(name): str(url) for name, url in (log.get("_sites") or {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EnvError(f"{where} is no HAR file: {type(error).__name__}: {error}", retryable=False) from error
    return Trace(events=events, sites=sites)
