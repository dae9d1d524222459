"""Limits on grammars, and how JSON is written under one.

The limits keep a hostile schema from stalling everybody: with them the worst that was found took about a second to be
refused, and a tenth of a second a token to be followed.
"""

import json
from typing import Any

from model_runtime.errors import RequestError

MAX_TEXT_CHARS = 2**20
MAX_LARK_CHARS = 8 * 2**20
MAX_MEMBERS = 1_000
"""Members of one object in a schema, or objects and lists in one list of it. Optional properties cost the square of
their number: a mask of 1,000 takes up to 60 ms, one of 2,000 a quarter of a second."""

MAX_DEPTH = 100
MAX_VALUES = 20_000
PARSER_LIMITS: dict[str, Any] = {
    "max_items_in_row": 20_000,
    "step_max_items": 200_000,
    "max_grammar_size": 100_000,
    "max_lexer_states": 50_000,
    "verbose_errors": False,
}
JSON_OPTIONS: dict[str, Any] = {
    "whitespace_flexible": True,
    "whitespace_pattern": r"[ \n\r\t]{1,64}",  # a model can lose itself in blanks without end
    "item_separator": ",",
    "key_separator": ":",
    "coerce_one_of": False,
    "lenient": False,
}


def parse_schema(text: str, *, param: str) -> dict[str, Any]:
    """A JSON schema within the limits.

    Raises:
        RequestError: It is no JSON object, or too large.
    """
    if len(text) > MAX_TEXT_CHARS:
        raise RequestError(f"the schema has {len(text)} characters; at most {MAX_TEXT_CHARS} are taken", param=param)
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the schema is no JSON: {error}", param=param) from error
    if not isinstance(schema, dict):
        raise RequestError(f"the schema is of type {type(schema).__name__}; an object was expected", param=param)
    check_size(schema, param=param)
    return schema


def check_size(schema: dict[str, Any], *, param: str) -> None:
    """Raise when a schema is too deep, too wide or too large.

    Raises:
        RequestError: It breaks a limit.
    """
    level: list[dict[str, Any] | list[Any]] = [schema]
    num_values = 0
    for _ in range(MAX_DEPTH):
        inner = [_find_inner(value) for value in level]
        if any(len(value) > MAX_MEMBERS for value in level if isinstance(value, dict)) or any(
            len(found) > MAX_MEMBERS for found in inner
        ):
            text = f"an object or list of the schema has more than {MAX_MEMBERS} members"
            raise RequestError(f"{text}; only lists of plain values may be longer", param=param)
        level = [value for found in inner for value in found]
        num_values += len(level)
        if num_values > MAX_VALUES:
            raise RequestError(f"the schema has more than {MAX_VALUES} objects and lists", param=param)
        if not level:
            return
    raise RequestError(f"the schema is nested more than {MAX_DEPTH} deep", param=param)


def _find_inner(value: dict[str, Any] | list[Any]) -> list[dict[str, Any] | list[Any]]:
    members = value.values() if isinstance(value, dict) else value
    return [member for member in members if isinstance(member, dict | list)]
