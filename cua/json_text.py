"""Parsing of untrusted JSON (from models, records, files, servers): any error is a `ValueError`."""

import json
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
JsonMapping = Mapping[str, Any]
"""JSON object that is only read."""
MAX_DEPTH = 200
"""Limit on nested objects and lists; deeper values would cause recursion errors in later code."""


def read_json(text: str | bytes, *, strict: bool = True) -> Any:
    """Parse a JSON text.

    Args:
        text: Text; bytes are UTF-8.
        strict: True to refuse raw control characters in strings, which models write.

    Raises:
        ValueError: If it is not JSON (then a `json.JSONDecodeError`), or is nested deeper than `MAX_DEPTH`.
    """
    try:
        value = json.loads(text, strict=strict)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    if _num_openings(text) > MAX_DEPTH and not is_shallow(value):
        raise ValueError(_too_deep())
    return value


def read_object(text: str | bytes, *, strict: bool = True) -> Json | None:
    """Parse a JSON object; None for anything else."""
    try:
        value = read_json(text, strict=strict)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def well_formed(text: str) -> str:
    """Replace lone surrogates, which scripts of pages create and UTF-8 files and requests cannot contain."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


_CONTAINERS = frozenset({dict, list})


def is_shallow(value: Any) -> bool:
    """Return True if a value that was parsed from JSON is nested at most `MAX_DEPTH` deep."""
    layer = [value] if type(value) in _CONTAINERS else []
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for item in layer:
            children = item.values() if type(item) is dict else item
            if not _CONTAINERS.isdisjoint(map(type, children)):  # lists of numbers, such as token ids, are left here
                inner += [child for child in children if type(child) in _CONTAINERS]
        if not inner:
            return True
        layer = inner
    return False


def _num_openings(text: str | bytes) -> int:
    """Count opening brackets, an upper bound of the depth: for most texts it is so low that no check is needed."""
    if isinstance(text, bytes):
        return text.count(b"[") + text.count(b"{")
    return text.count("[") + text.count("{")


def _too_deep() -> str:
    return f"nested more than {MAX_DEPTH} deep"
