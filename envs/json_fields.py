"""Read JSON that others wrote: each field of the type that is expected, or an error that names the place."""

import json
from collections.abc import Mapping
from typing import Any

from envs.errors import EnvSetupError


def load_json(data: bytes | str, where: str) -> Any:
    """The value that a JSON text holds.

    Args:
        data: The text.
        where: Its name in an error.

    Raises:
        EnvSetupError: It is no JSON, or nested too deep.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EnvSetupError(f"{where} is no JSON: {error}") from error


def as_mapping(value: object, where: str) -> Mapping[str, Any]:
    """The value, an object.

    Raises:
        EnvSetupError: It is missing or something else.
    """
    if not isinstance(value, dict):
        raise EnvSetupError(f"{where} is {_found(value)}, expected an object")
    return value


def as_text(value: object, where: str) -> str:
    """The value, a text.

    Raises:
        EnvSetupError: It is missing or something else.
    """
    if not isinstance(value, str):
        raise EnvSetupError(f"{where} is {_found(value)}, expected a text")
    return value


def as_texts(value: object, where: str) -> list[str]:
    """The value, a list of texts.

    Raises:
        EnvSetupError: It is missing or something else, or one of its entries is.
    """
    if not isinstance(value, list):
        raise EnvSetupError(f"{where} is {_found(value)}, expected a list of texts")
    return [as_text(entry, where) for entry in value]


def _found(value: object) -> str:
    return "missing" if value is None else type(value).__name__
