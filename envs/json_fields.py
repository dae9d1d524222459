"""Validation of untrusted JSON: each field has the expected type, or the error names the location."""

import json
from collections.abc import Mapping
from typing import Any

from envs.errors import EnvSetupError

Json = dict[str, Any]
JsonMapping = Mapping[str, Any]
"""JSON object that is only read."""


def load_json(data: bytes | str, name: str) -> object:
    """Parse a JSON text.

    Args:
        data: JSON text.
        name: Name of the text in errors.

    Raises:
        EnvSetupError: If the text is not valid JSON, or nested too deep.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EnvSetupError(f"{name} is not valid JSON: {error}") from error


def as_mapping(value: object, name: str) -> JsonMapping:
    """Return the value if it is a JSON object.

    Raises:
        EnvSetupError: If it is missing or of another type.
    """
    if not isinstance(value, dict):
        raise EnvSetupError(f"{name} is {_found(value)}, expected an object")
    return value


def as_text(value: object, name: str) -> str:
    """Return the value if it is a string.

    Raises:
        EnvSetupError: If it is missing or of another type.
    """
    if not isinstance(value, str):
        raise EnvSetupError(f"{name} is {_found(value)}, expected a text")
    return value


def as_texts(value: object, name: str) -> list[str]:
    """Return the value if it is a list of strings.

    Raises:
        EnvSetupError: If it, or one of its entries, is missing or of another type.
    """
    if not isinstance(value, list):
        raise EnvSetupError(f"{name} is {_found(value)}, expected a list of texts")
    return [as_text(entry, name) for entry in value]


def _found(value: object) -> str:
    return "missing" if value is None else type(value).__name__
