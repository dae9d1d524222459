"""Tools as TypeScript declarations, as the model was trained to read them.

    # Tools

    ## functions
    namespace functions {
    // Opens a page.
    type open = (_: {
      // Where to go
      url: string,
      // Default: False
      new_tab?: boolean
    }) => any;
    }

What a declaration cannot say (a schema without `type`, `oneOf`, references to elsewhere) makes all tools compact JSON.

Source: `tool_declaration_ts.py` of moonshotai/Kimi-K2.5. Its oddities are kept, as the model knows them from training:
Python's `True` and `None` in enums and defaults, enum texts without escapes, comments of alternatives left out.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from model_runtime.chat.messages import ToolSpec
from model_runtime.errors import RequestError

_T = TypeVar("_T")

MAX_DEPTH = 100
"""Objects and lists of a tool that may stand inside each other."""

MAX_INTEGER_BITS = 10_000
"""Python writes no number of more than 4,300 digits."""

_INDENT = "  "
_SEPARATOR = ",\n"
_CONSTRAINTS = {
    "string": ("maxLength", "minLength", "pattern"),
    "number": ("maximum", "minimum"),
    "integer": ("maximum", "minimum"),
    "array": ("maxItems", "minItems"),
}
_TYPE_NAMES = {name: name for name in ("string", "number", "boolean", "null")} | {
    "integer": "number",
    "object": "{}",
    "array": "Array<any>",
}
_PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
}


class _Unsupported(Exception):
    """A declaration cannot say this."""


def declare_tools(tools: Sequence[ToolSpec]) -> str:
    """What the model reads about tools: TypeScript, or compact JSON where that cannot say it.

    Args:
        tools: In OpenAI's form. Those with another type than `function` are not declared.

    Raises:
        RequestError: Something is no JSON, nested deeper than `MAX_DEPTH`, or a number beyond `MAX_INTEGER_BITS`.
    """
    ordered = [_sort_keys(tool, f"tools.{n}", 1) for n, tool in enumerate(tools)]
    try:
        functions = [_declare(function) for function in map(_find_function, ordered) if function]
    except _Unsupported:
        functions = []
    if not functions:
        return json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))
    return "# Tools\n\n## functions\nnamespace functions {\n" + "\n".join(functions) + "\n}\n"


def _sort_keys(value: object, param: str, depth: int) -> Any:
    """A copy of JSON data with all keys in order."""
    if depth > MAX_DEPTH:
        raise RequestError(f"tools are nested deeper than {MAX_DEPTH} levels", param=param)
    if isinstance(value, Mapping):
        if odd := [key for key in value if not isinstance(key, str)]:
            raise RequestError(f"keys of tools must be strings, not {odd[0]!r}", param=param)
        return {key: _sort_keys(value[key], param, depth + 1) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_sort_keys(item, param, depth + 1) for item in value]
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise RequestError(f"a number of tools has more than {MAX_INTEGER_BITS} bits", param=param)
    if value is None or isinstance(value, str | int | float):
        return value
    raise RequestError(f"tools must be JSON, which has no {type(value).__name__}", param=param)


def _find_function(tool: object) -> dict[str, Any]:
    """The function of a tool; empty where there is nothing to declare."""
    function = _as(dict, tool).get("function") if _as(dict, tool).get("type") == "function" else None
    return _as(dict, function or {})


def _declare(function: dict[str, Any]) -> str:
    """One function: interfaces that its parameters refer to, its description, its type."""
    parameters = _as(dict, function.get("parameters") or {})
    types = _Types()
    written = types.write_object(parameters, "")
    lines = []
    if types.has_self_reference:
        lines.append(types.write_self(parameters))
        written = "parameters"
    for name, schema in list(types.definitions.items()):
        lines.append(f"{_comment_text(_as(dict, schema), '')}interface {name} {types.write(schema, '')}")
    lines.append(f"{_comment_text(function, '')}type {function.get('name', 'function')} = (_: {written}) => any;")
    return "\n".join(lines)


class _Types:
    """Types of one function's parameters, and the definitions met on the way."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self.has_self_reference = False

    def write(self, schema: object, indent: str) -> str:
        """The type of a schema; lines after its first start with `indent`."""
        if isinstance(schema, bool):
            return "any" if schema else "null"
        keys = _as(dict, schema)
        if not keys:
            return "any"
        if "$ref" in keys:
            return self._write_reference(_as(str, keys["$ref"]))
        if "anyOf" in keys:
            return " | ".join(self.write(each, indent) for each in _as(list, keys["anyOf"]))
        if "enum" in keys:
            return _write_enum(keys)
        return self._write_type(keys, indent)

    def _write_type(self, schema: dict[str, Any], indent: str) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            return " | ".join(_find(_TYPE_NAMES, each) for each in kind)
        if kind == "object":
            return self.write_object(schema, indent)
        if kind == "array":
            return self._write_array(schema, indent)
        return "number" if kind == "integer" else _as(str, kind)

    def write_object(self, schema: dict[str, Any], indent: str) -> str:
        """An object type: required properties first, both groups by name."""
        self.definitions |= _as(dict, schema.get("$defs") or {})
        inner = indent + _INDENT
        more = self._write_additional(schema.get("additionalProperties"), inner)
        rows = self._write_properties(schema, inner)
        lines = [text for _, text in sorted(rows, key=lambda row: row[0])] + more
        return "{\n" + _SEPARATOR.join(lines) + f"\n{indent}}}" if lines else "{}"

    def write_self(self, parameters: dict[str, Any]) -> str:
        """The interface of parameters that refer to themselves: properties by name."""
        lines = [text for _, text in self._write_properties(parameters, _INDENT)]
        return "interface parameters {" + (f"\n{_SEPARATOR.join(lines)}\n" if lines else "") + "}"

    def _write_properties(self, schema: dict[str, Any], indent: str) -> list[tuple[bool, str]]:
        """(is optional, text) of each property, by name."""
        names = _as(list, schema.get("required", []))
        if any(isinstance(name, list | dict) for name in names):
            raise _Unsupported
        required, rows = set(names), []
        for name, each in _as(dict, schema.get("properties", {})).items():
            is_optional = name not in required
            comment = _comment(each, indent) + _comment_default(each, indent)
            rows.append((is_optional, f"{comment}{indent}{name}{'?' * is_optional}: {self.write(each, indent)}"))
        return rows

    def _write_additional(self, schema: object, indent: str) -> list[str]:
        if schema is None:
            return []
        if isinstance(schema, bool):
            return [f"{indent}[k: string]: {'any' if schema else 'never'}"]
        return [f"{indent}[k: string]: {self.write(schema, indent)}"]

    def _write_array(self, schema: dict[str, Any], indent: str) -> str:
        items, inner = schema.get("items") or True, indent + _INDENT
        if comment := _comment(items, inner):
            return f"Array<\n{comment}{inner}{self.write(items, inner)}\n{indent}>"
        return f"Array<{self.write(items, indent)}>"

    def _write_reference(self, reference: str) -> str:
        if reference == "#":
            self.has_self_reference = True
            return "parameters"
        name = reference.split("/")[-1]
        if not reference.startswith("#/$defs/") or not isinstance(self.definitions.get(name), dict):
            raise _Unsupported
        return name


def _write_enum(schema: dict[str, Any]) -> str:
    values = _as(list, schema["enum"])
    kinds = schema.get("type", "")
    if isinstance(kinds, list):
        if not 1 <= len(kinds) <= 2 or (len(kinds) == 2 and "null" not in kinds):
            raise _Unsupported
        kinds = next((kind for kind in kinds if kind != "null"), "null")
    expected = _PYTHON_TYPES.get(kinds, object) if isinstance(kinds, str) else object
    if not all(value is None or isinstance(value, expected) for value in values):
        raise _Unsupported
    return " | ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in values)


def _comment(schema: object, indent: str) -> str:
    """Lines above a property: its description, and in one line what bounds it."""
    if not isinstance(schema, dict):
        return ""
    kind = schema.get("type")
    is_plain = isinstance(kind, str) and not schema.keys() & {"$ref", "anyOf", "enum"}
    names = _CONSTRAINTS.get(str(kind), ()) if is_plain else ()
    bounds = [f"{name}: {schema[name]}" for name in names if name in schema]
    return _comment_text(schema, indent) + (f"{indent}// {', '.join(bounds)}\n" if bounds else "")


def _comment_text(schema: dict[str, Any], indent: str) -> str:
    """The description; its empty lines stay empty."""
    text = _as(str, schema.get("description") or "")
    return "".join(f"{indent}// {line}\n" if line else "\n" for line in text.split("\n")) if text else ""


def _comment_default(schema: object, indent: str) -> str:
    default = schema.get("default") if isinstance(schema, dict) else None
    if default is None:
        return ""
    written = repr(default) if isinstance(default, int | float) else json.dumps(default, ensure_ascii=False)
    return f"{indent}// Default: {written}\n"


def _as(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind):
        raise _Unsupported
    return value


def _find(table: Mapping[str, Any], key: object) -> Any:
    if not isinstance(key, str) or key not in table:
        raise _Unsupported
    return table[key]
