"""Fields of a server's JSON, each read by itself: a value of another type than expected counts as absent."""

import io
import json
from collections.abc import Mapping
from typing import Any

from cua.json_text import well_formed

_MAX_COUNT = 2**53
_TEXT_PARTS = (None, "text", "output_text")


def text_of(value: object) -> str:
    """Text: a string, a number, a text part, or a list of these."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(text_of(part) for part in value)
    if isinstance(value, dict):
        return text_of(value.get("text")) if value.get("type") in _TEXT_PARTS else ""
    return json.dumps(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def name_of(value: object) -> str:
    """A name or an id; servers send ids as integers, too."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def count_of(value: object) -> int | None:
    """A whole number from 0 on, also as a float or as digits in a string."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < _MAX_COUNT else None


def number_of(value: object) -> float | None:
    """A number as a float."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_COUNT
    return float(value) if is_number else None  # type: ignore[arg-type]


def object_of(value: object) -> Mapping[str, Any]:
    """An object."""
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    """A list; an object alone is a list of one."""
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []


def json_of(value: object) -> str:
    """JSON text: a string as it is, any other value written as JSON, None as nothing."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


class GrowingText:
    """A text put together from pieces. Half of a surrogate pair waits for its other half; alone it becomes U+FFFD."""

    def __init__(self) -> None:
        self._written = io.StringIO()
        self._half = ""

    def add(self, piece: str) -> str:
        """Append a piece; returns what of the text became complete."""
        piece = self._half + piece
        self._half = piece[-1:] if "\ud800" <= piece[-1:] <= "\udbff" else ""
        whole = well_formed(piece[:-1] if self._half else piece)
        self._written.write(whole)
        return whole

    @property
    def is_empty(self) -> bool:
        """True if nothing was added but empty pieces."""
        return not (self._written.tell() or self._half)

    def __str__(self) -> str:
        return self._written.getvalue() + well_formed(self._half)
