"""Reading untrusted JSON (of models, records, files, servers): any fault is a `ValueError`."""

import json
from typing import Any

MAX_DEPTH = 200
"""Objects and lists inside each other; deeper values would break whatever walks over them later."""


def read_json(text: str | bytes, *, strict: bool = True) -> Any:
    """The value that a JSON text holds.

    Args:
        text: The text; bytes are UTF-8.
        strict: Refuse raw control characters in strings, which models write.

    Raises:
        ValueError: It is no JSON (then a `json.JSONDecodeError`), or nested deeper than `MAX_DEPTH`.
    """
    try:
        value = json.loads(text, strict=strict)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    if _num_openings(text) > MAX_DEPTH and not is_shallow(value):
        raise ValueError(_too_deep())
    return value


def read_object(text: str | bytes, *, strict: bool = True) -> dict[str, Any] | None:
    """The object that a JSON text holds; None for anything else."""
    try:
        value = read_json(text, strict=strict)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def well_formed(text: str) -> str:
    """The text with lone surrogates replaced, which no UTF-8 file or request can hold; scripts of pages make them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def is_shallow(value: Any) -> bool:
    """Whether a value is nested at most `MAX_DEPTH` deep."""
    layer = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for item in layer:
            if isinstance(item, dict):
                inner += [child for child in item.values() if isinstance(child, dict | list)]
            elif isinstance(item, list):
                inner += [child for child in item if isinstance(child, dict | list)]
        if not inner:
            return True
        layer = inner
    return False


def _num_openings(text: str | bytes) -> int:
    """At least as many as the depth: most texts have so few that nothing needs to be walked."""
    if isinstance(text, bytes):
        return text.count(b"[") + text.count(b"{")
    return text.count("[") + text.count("{")


def _too_deep() -> str:
    return f"nested more than {MAX_DEPTH} deep"
