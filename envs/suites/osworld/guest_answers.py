"""Validation of a guest server's responses: only 200 with the fields of its route is valid, all else is a fault.

This module needs only the standard library: `official_runner` loads it by path in the Python of OSWorld's evaluators.

Source: the routes of `desktop_env/server` of xlang-ai/OSWorld and of xlang-ai/osworld-server, and their responses.
"""

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_OK, _BAD_REQUEST, _NOT_FOUND, _SERVER_ERROR = 200, 400, 404, 500
FOREIGN = "a proxy or login page answers in place of the guest server"
_SIGN_IN = frozenset((401, 403, 407, 511))
_MAX_SHOWN_CHARS = 300
_MAX_SIDE_PX = 2**15
_PNG_START, _PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"
_Kind = type | tuple[type, ...]


class Fault(NamedTuple):
    """Reason why a response is rejected.

    Attributes:
        text: The reason, in one clause.
        is_foreign: True if something other than the guest server responded.
    """

    text: str
    is_foreign: bool = False


def find_fault(path: str, status: int, headers: Mapping[str, str], data: bytes) -> Fault | None:
    """Return the fault of a response, None if it is valid for its route.

    Args:
        path: The route, such as `/execute`.
        status: HTTP status.
        headers: Headers by name; looked up in lower case.
        data: The whole body.
    """
    if 300 <= status < 400:
        place = headers.get("location", "")[:_MAX_SHOWN_CHARS]
        return Fault(f"a redirect ({status}) to {place or 'nowhere'}: {FOREIGN}", is_foreign=True)
    if status in _SIGN_IN:
        return Fault(f"{status}: {_message(data)}; the token is wrong, or {FOREIGN}", is_foreign=True)
    if status != _OK:
        return Fault(f"{status}: {_message(data)}")
    if path == "/file":
        return None if _is_file(headers) else Fault(f"{describe(data)}, which is not sent as a file", _is_html(data))
    if _is_html(data):
        return Fault(f"{describe(data)}: {FOREIGN}", is_foreign=True)
    why = _ROUTES.get(path, _why_error)(data)
    return Fault(why) if why else None


def is_absent(path: str, status: int, data: bytes) -> bool:
    """Return True if the guest server itself reports that a file, folder or window does not exist."""
    if path == "/window_size":
        return status == _SERVER_ERROR  # upstream's server fails if none exists
    is_known = status == _NOT_FOUND or (status == _BAD_REQUEST and path == "/list_directory")
    return is_known and isinstance(parse_json(data), dict)


def parse_json(data: bytes) -> Any:
    """Return the JSON value of a response; None if it is not JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def describe(data: bytes) -> str:
    """Describe an unexpected body in a few words."""
    if not data:
        return "empty"
    if data.startswith(_PNG_START):
        is_cut = _PNG_END not in data[-64:]
        return f"a PNG cut off after {len(data)} bytes" if is_cut else f"a damaged PNG of {len(data)} bytes"
    text = " ".join(data[:_MAX_SHOWN_CHARS].decode("utf-8", "replace").split())
    return f"{'an HTML page of ' if _is_html(data) else ''}{len(data)} bytes, {text[:80]!r}"


def png_size_px(png: bytes) -> tuple[int, int]:
    """Return width and height of a PNG file."""
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def _message(data: bytes) -> str:
    """Return the message of an error response."""
    body = parse_json(data)
    text = body.get("message") or body.get("error") if isinstance(body, dict) else None
    return str(text)[:_MAX_SHOWN_CHARS] if text else describe(data)


def _is_html(data: bytes) -> bool:
    return (
        data[:_MAX_SHOWN_CHARS].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<!", b"<html", b"<head", b"<body"))
    )


def _is_file(headers: Mapping[str, str]) -> bool:
    """Return True if the headers describe an attachment: the body alone cannot distinguish a file from a page."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return headers.get("content-disposition", "").startswith("attachment") or kind == "application/octet-stream"


def _why_error(data: bytes) -> str | None:
    """Return the error of a route without a known response format: only a `status` other than `success` is one."""
    body = parse_json(data)
    return _message(data) if isinstance(body, dict) and body.get("status", "success") != "success" else None


def _fields(*, is_success: bool = True, **kinds: _Kind) -> Callable[[bytes], str | None]:
    """Make the check of a JSON object; with `is_success`, its `status` must be `success` if it has one."""

    def why_wrong(data: bytes) -> str | None:
        body = parse_json(data)
        if not isinstance(body, dict):
            return f"{describe(data)}, expected a JSON object"
        if is_success and body.get("status", "success") != "success":
            return f"status {body['status']!r:.40}: {_message(data)}"
        for name, kind in kinds.items():
            value = body.get(name, ...)
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
                shown = "missing" if value is ... else f"{value!r:.80}"
                return f"{name} is {shown}, expected {_name_of(kind)}"
        return None

    return why_wrong


def _name_of(kind: _Kind) -> str:
    return kind.__name__ if isinstance(kind, type) else " or ".join(part.__name__ for part in kind)


def _words(*words: str) -> Callable[[bytes], str | None]:
    """Make the check of a sentence that must contain one of these words."""

    def why_wrong(data: bytes) -> str | None:
        text = data.decode("utf-8", "replace").lower()
        has_word = any(word in text for word in words)
        return _why_error(data) or (None if has_word else f"{describe(data)}, expected {' or '.join(words)!r}")

    return why_wrong


def _why_no_size(data: bytes) -> str | None:
    why = _fields(width=int, height=int)(data)
    body = parse_json(data)
    if why is None and not all(0 < body[name] <= _MAX_SIDE_PX for name in ("width", "height")):
        why = f"{body!r:.200}"
    return why and f"{why}: expected width and height in pixels"


def _why_no_point(data: bytes) -> str | None:
    body = parse_json(data)
    is_point = isinstance(body, list) and [type(value) for value in body] == [int, int]
    return None if is_point else f"{describe(data)}, expected [x, y]"


def _why_no_png(data: bytes) -> str | None:
    """Check that a PNG is complete: lengths and checksums of its chunks, from the header to the end."""
    at = len(_PNG_START)
    while data.startswith(_PNG_START) and len(data) >= at + 12:
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        end = at + 12 + size
        is_right = (kind, size) == (b"IHDR", 13) if at == len(_PNG_START) else kind != b"IHDR"
        if not is_right or data[end - 4 : end] != zlib.crc32(data[at + 4 : end - 4]).to_bytes(4, "big"):
            break
        if kind == b"IEND":
            return None
        at = end
    return describe(data)


def _why_no_tree(data: bytes) -> str | None:
    why = _fields(directory_tree=dict)(data)
    if why is None and not isinstance(parse_json(data)["directory_tree"].get("children"), list):
        why = f"{describe(data)}, expected a folder with children"
    return why


def _why_no_recording(data: bytes) -> str | None:
    return None if data[4:8] == b"ftyp" else f"{describe(data)}, expected an mp4 file"


def _why_no_name(data: bytes) -> str | None:
    return None if data.strip().isalnum() else f"{describe(data)}, expected the name of a system"


_execution = _fields(returncode=int, output=str, error=str)
_window = _words("success", "done", "there is no window")
_ROUTES: Mapping[str, Callable[[bytes], str | None]] = {
    "/execute": _execution,
    "/setup/execute": _execution,
    "/run_bash_script": _fields(is_success=False, returncode=int, output=str, error=str),
    "/screenshot": _why_no_png,
    "/terminal": _fields(output=(str, type(None))),
    "/accessibility": _fields(AT=str),
    "/screen_size": _why_no_size,
    "/window_size": _why_no_size,
    "/cursor_position": _why_no_point,
    "/platform": _why_no_name,
    "/desktop_path": _fields(desktop_path=str),
    "/list_directory": _why_no_tree,
    "/start_recording": _fields(status=str),
    "/end_recording": _why_no_recording,
    "/setup/launch": _words("launched successfully"),
    "/setup/open_file": _words("success"),
    "/setup/activate_window": _window,
    "/setup/close_window": _window,
    "/setup/change_wallpaper": _words("success"),
    "/setup/upload": _words("uploaded"),
}
"""Checks of the body of a 200 response, by route; each returns the fault or None."""
