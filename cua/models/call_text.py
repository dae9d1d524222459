"""Names and arguments of tool calls as models and servers write them, read as the model meant them."""

import ast
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from cua.json_text import read_json, well_formed
from cua.messages import ToolCall
from cua.model import Tool

_MAX_LITERAL_CHARS = 20_000
_MAX_LAYERS = 3
_MAX_NAME_CHARS = 64


def named(call: ToolCall, tools: Sequence[Tool]) -> ToolCall:
    """The call with a tool's name and with arguments that are one JSON object, as far as that can be had.

    The name is the server's; else the id holds it (`functions.zoom:3`, `functionszoom3`), or the arguments do
    (`{"name": "zoom", ...}`); or, where the call has none, the keys of the arguments fit one tool only.

    Args:
        call: As the server sent it; its name may be empty.
        tools: What the model may call.
    """
    arguments = plain_arguments(call.arguments)
    known = {tool.name for tool in tools}
    name = _known_name(call.name, known) or _known_name(call.id, known)
    if not name:
        name, arguments = _name_inside(arguments, known)
    if not name and not call.name and not call.id.startswith("functions."):
        name = _name_by_keys(arguments, tools)
    return replace(call, name=name or bare_name(call.name) or bare_name(call.id), arguments=arguments)


def bare_name(name: str) -> str:
    """A tool's name without what some parsers leave on it: `functions.ipython:3` is `ipython`."""
    bare = name.strip().removeprefix("functions.").partition(":")[0].strip()
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", bare)[:_MAX_NAME_CHARS]


def plain_arguments(text: str) -> str:
    """Arguments as the text of one JSON object; as they are, where none can be made of them.

    A JSON object stays as it was written. A fenced one, one in a JSON string, one with raw line ends or lone surrogates
    and a Python literal are written as JSON.
    """
    if text.strip() in ("", "null"):
        return "{}"
    value: Any = text
    for _ in range(_MAX_LAYERS):
        if isinstance(value, str):
            value = _value_in(value)
    if not isinstance(value, dict):
        return well_formed(text)
    is_plain = "\\ud" not in text.lower() and _is_json_object(text)
    try:
        return text if is_plain else well_formed(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return well_formed(text)


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(read_json(text), dict)
    except ValueError:
        return False


def _value_in(text: str) -> Any:
    """Value of a text of JSON, or of a Python literal; None where it is neither."""
    stripped = text.strip()
    if stripped.startswith("```"):
        stripped = stripped.partition("\n")[2].removesuffix("```").strip()
    try:
        return read_json(stripped, strict=False)
    except ValueError:
        pass
    if len(stripped) > _MAX_LITERAL_CHARS or not stripped.startswith(("{", "'", '"')):
        return None
    try:
        return ast.literal_eval(stripped)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _known_name(text: str, known: Collection[str]) -> str:
    """Name of the tool that a name or an id means; "" when no tool fits."""
    said = "".join(text.split())
    for candidate in (said, said.removeprefix("functions").lstrip("._")):
        fitting = [name for name in known if candidate.startswith(name)]
        for name in sorted(fitting, key=len, reverse=True):
            if re.fullmatch(r"[:_.-]?\d*", candidate[len(name) :]):
                return name
    return ""


def _name_inside(arguments: str, known: Collection[str]) -> tuple[str, str]:
    """A tool's name found in the arguments, and the arguments without it."""
    value = _value_in(arguments)
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return "", arguments
    name = _known_name(value["name"], known)
    if not name:
        return "", arguments
    rest = {key: item for key, item in value.items() if key != "name"}
    inner = rest.get("arguments", rest.get("parameters")) if len(rest) == 1 else None
    return name, plain_arguments(inner) if isinstance(inner, str) else json.dumps(inner or rest, ensure_ascii=False)


def _name_by_keys(arguments: str, tools: Sequence[Tool]) -> str:
    """The only tool that takes these arguments. Source: SGLang's detector for Kimi K2."""
    value = _value_in(arguments)
    if not isinstance(value, dict) or not value:
        return ""
    fitting = [
        tool.name
        for tool in tools
        if value.keys() <= set(tool.parameters.get("properties", {}))
        and set(tool.parameters.get("required", ())) <= value.keys()
    ]
    return fitting[0] if len(fitting) == 1 else ""
