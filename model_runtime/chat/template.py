"""Chat template of Kimi K2.5, rendered to pieces, and conversion of pieces to token ids or to text for display.

    <|im_user|>user<|im_middle|>Open the mail.<|im_end|><|im_assistant|>assistant<|im_middle|><think>

Control tokens are markers, never text: no message, name or tool text can become one. Markers, untrusted text and media
remain separate until they are converted to ids.

Source: `chat_template.jinja` of moonshotai/Kimi-K2.5, and `docs/tool_call_guidance.md` of MoonshotAI/Kimi-K2.

Tools are declared in TypeScript, as in the model's training:

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

If a schema cannot be expressed (no `type`, `oneOf`, external references), all tools are declared as compact JSON.

Source: `tool_declaration_ts.py` of moonshotai/Kimi-K2.5. Its peculiarities are kept, as the model was trained with
them: Python's `True` and `None` in enums and defaults, enum texts without escapes, comments of alternatives left out.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from model_runtime.chat.messages import ChatMessage, ImagePart, Part, TextPart, ToolCall, ToolSpec
from model_runtime.errors import InvalidRequestError
from model_runtime.json_types import Json
from model_runtime.media import MediaItem, MediaSpan, Prompt
from model_runtime.tokenizer import TokenBudget, Tokenizer

_T = TypeVar("_T")

MAX_DEPTH = 100
"""Maximum nesting depth of objects and lists in a tool."""

MAX_INTEGER_BITS = 10_000
"""Maximum size of integers: Python does not write numbers of more than 4,300 digits."""

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
    """Raised for schemas that a TypeScript declaration cannot express."""


def declare_tools(tools: Sequence[ToolSpec]) -> str:
    """Return the declaration of tools: TypeScript, or compact JSON if they cannot be expressed in it.

    Args:
        tools: Tools in OpenAI's form. Those with another type than `function` are not declared.

    Raises:
        RequestError: If a value is not JSON, is nested deeper than `MAX_DEPTH`, or is a number beyond
            `MAX_INTEGER_BITS`.
    """
    ordered = [_sort_keys(tool, f"tools.{n}", 1) for n, tool in enumerate(tools)]
    try:
        functions = [_declare(function) for function in map(_find_function, ordered) if function]
    except _Unsupported:
        functions = []
    if not functions:
        return json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))
    return "# Tools\n\n## functions\nnamespace functions {\n" + "\n".join(functions) + "\n}\n"


def _sort_keys(value: object, param: str, depth: int) -> object:
    """Return a copy of JSON data with sorted keys."""
    if depth > MAX_DEPTH:
        raise InvalidRequestError(f"tools are nested deeper than {MAX_DEPTH} levels", param=param)
    if isinstance(value, Mapping):
        if odd := [key for key in value if not isinstance(key, str)]:
            raise InvalidRequestError(f"keys of tools must be strings, not {odd[0]!r}", param=param)
        return {key: _sort_keys(value[key], param, depth + 1) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_sort_keys(item, param, depth + 1) for item in value]
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise InvalidRequestError(f"a number of tools has more than {MAX_INTEGER_BITS} bits", param=param)
    if value is None or isinstance(value, str | int | float):
        return value
    raise InvalidRequestError(f"tools must be JSON, which has no {type(value).__name__}", param=param)


def _find_function(tool: object) -> Json:
    """Return the function of a tool; empty if there is nothing to declare."""
    function = _as(dict, tool).get("function") if _as(dict, tool).get("type") == "function" else None
    return _as(dict, function or {})


def _declare(function: Json) -> str:
    """Declare one function: interfaces for references of its parameters, its description, its type."""
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
    """Types of one function's parameters, and the definitions that they refer to."""

    def __init__(self) -> None:
        self.definitions: Json = {}
        self.has_self_reference = False

    def write(self, schema: object, indent: str) -> str:
        """Return the type of a schema; lines after its first start with `indent`."""
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

    def _write_type(self, schema: Json, indent: str) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            return " | ".join(_find(_TYPE_NAMES, each) for each in kind)
        if kind == "object":
            return self.write_object(schema, indent)
        if kind == "array":
            return self._write_array(schema, indent)
        return "number" if kind == "integer" else _as(str, kind)

    def write_object(self, schema: Json, indent: str) -> str:
        """Return an object type: required properties first, both groups sorted by name."""
        self.definitions |= _as(dict, schema.get("$defs") or {})
        inner = indent + _INDENT
        more = self._write_additional(schema.get("additionalProperties"), inner)
        rows = self._write_properties(schema, inner)
        lines = [text for _, text in sorted(rows, key=lambda row: row[0])] + more
        return "{\n" + _SEPARATOR.join(lines) + f"\n{indent}}}" if lines else "{}"

    def write_self(self, parameters: Json) -> str:
        """Return the interface of parameters that refer to themselves, with properties sorted by name."""
        lines = [text for _, text in self._write_properties(parameters, _INDENT)]
        return "interface parameters {" + (f"\n{_SEPARATOR.join(lines)}\n" if lines else "") + "}"

    def _write_properties(self, schema: Json, indent: str) -> list[tuple[bool, str]]:
        """Return (is optional, text) of each property, sorted by name."""
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

    def _write_array(self, schema: Json, indent: str) -> str:
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


def _write_enum(schema: Json) -> str:
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
    """Return the comment lines above a property: its description, and its constraints in one line."""
    if not isinstance(schema, dict):
        return ""
    kind = schema.get("type")
    is_plain = isinstance(kind, str) and not schema.keys() & {"$ref", "anyOf", "enum"}
    names = _CONSTRAINTS.get(str(kind), ()) if is_plain else ()
    bounds = [f"{name}: {schema[name]}" for name in names if name in schema]
    return _comment_text(schema, indent) + (f"{indent}// {', '.join(bounds)}\n" if bounds else "")


def _comment_text(schema: Json, indent: str) -> str:
    """Return the description as a comment; its empty lines stay empty."""
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


def _find(table: Mapping[str, object], key: object) -> Any:
    if not isinstance(key, str) or key not in table:
        raise _Unsupported
    return table[key]


@dataclass(frozen=True, slots=True)
class ControlToken:
    """A control token by its text, for example `ControlToken("<|im_end|>")`. Only the template creates markers."""

    text: str


Piece = str | ControlToken | MediaItem
"""Untrusted text, a control token, or media, which takes `num_tokens` placeholder tokens."""


_MIDDLE, _END = ControlToken("<|im_middle|>"), ControlToken("<|im_end|>")
_SYSTEM, _ASSISTANT = ControlToken("<|im_system|>"), ControlToken("<|im_assistant|>")
_OPENING = {"user": ControlToken("<|im_user|>"), "assistant": _ASSISTANT}
_THINK, _THINK_END = ControlToken("<think>"), ControlToken("</think>")
_MEDIA, _MEDIA_CONTENT, _MEDIA_END = (
    ControlToken("<|media_begin|>"),
    ControlToken("<|media_content|>"),
    ControlToken("<|media_end|>"),
)
_CALLS, _CALLS_END = ControlToken("<|tool_calls_section_begin|>"), ControlToken("<|tool_calls_section_end|>")
_CALL, _ARGUMENTS, _CALL_END = (
    ControlToken("<|tool_call_begin|>"),
    ControlToken("<|tool_call_argument_begin|>"),
    ControlToken("<|tool_call_end|>"),
)


def render_chat(
    messages: Sequence[ChatMessage],
    tools: Sequence[ToolSpec] = (),
    *,
    thinking: bool = True,
    preserve_thinking: bool = False,
    add_generation_prompt: bool = True,
) -> list[Piece]:
    """Render a conversation for the model.

    Reasoning is kept only in a running tool loop: assistant turns up to the last one without tool calls show an empty
    block.

    Args:
        messages: Messages in order. There is no default system prompt.
        tools: Tools that the model may call.
        thinking: True to let the model reason before it answers, and to show its reasoning in the running tool loop.
        preserve_thinking: True to show all earlier reasoning as well (from K2.6 on; K2.5 was trained without).
        add_generation_prompt: True to end with the opening of an assistant message.
    """
    pieces: list[Piece] = []
    if declaration := declare_tools(tools) if tools else "":
        pieces += (_SYSTEM, "tool_declare", _MIDDLE, declaration, _END)
    first_kept = 0 if preserve_thinking else _find_running_loop(messages)
    for index, message in enumerate(messages):
        pieces += (_OPENING.get(message.role, _SYSTEM), message.name or message.role, _MIDDLE)
        pieces += _body(message, keep_reasoning=thinking and index >= first_kept)
        pieces.append(_END)
    if add_generation_prompt:
        pieces += (_ASSISTANT, "assistant", _MIDDLE, _THINK)
        if not thinking:
            pieces.append(_THINK_END)
    return pieces


def _find_running_loop(messages: Sequence[ChatMessage]) -> int:
    """Return the index after the last assistant message without tool calls."""
    answers = (n for n in range(len(messages) - 1, -1, -1) if messages[n].role == "assistant")
    return next((n + 1 for n in answers if not messages[n].tool_calls), 0)


def _body(message: ChatMessage, *, keep_reasoning: bool) -> Iterator[Piece]:
    if message.role == "assistant":
        yield _THINK
        yield message.reasoning or "" if keep_reasoning else ""
        yield _THINK_END
    elif message.role == "tool":
        yield f"## Return of {message.tool_call_id or ''}\n"
    for part in message.parts:
        yield from _content(part)
    if message.role == "assistant" and message.tool_calls:
        yield from _calls(message.tool_calls)


def _content(part: Part) -> Iterator[Piece]:
    if isinstance(part, TextPart):
        yield part.text
    elif isinstance(part, ImagePart):
        yield from _media("image", part.item)
        yield "\n"
    else:
        for timestamp, item in part.chunks:
            yield timestamp
            yield from _media("video", item)
        yield "\n"


def _media(kind: str, item: MediaItem) -> Iterator[Piece]:
    yield from (_MEDIA, kind, _MEDIA_CONTENT, item, _MEDIA_END)


def _calls(calls: Iterable[ToolCall]) -> Iterator[Piece]:
    yield _CALLS
    for call in calls:
        yield from (_CALL, call.id, _ARGUMENTS, call.arguments, _CALL_END)
    yield _CALLS_END


def encode_chat(pieces: Iterable[Piece], tokenizer: Tokenizer, budget: TokenBudget | None = None) -> Prompt:
    """Return token ids of a rendered conversation, with repeated media placeholders.

    Adjacent texts are joined first, so that the ids are those of the whole text.

    Raises:
        RequestError: If the prompt exceeds the budget.
    """
    ids: list[int] = []
    media: list[MediaSpan] = []
    for piece in _join_texts(pieces):
        if isinstance(piece, str):
            ids += tokenizer.encode(piece, budget)
            continue
        if budget is not None:
            budget.spend(1 if isinstance(piece, ControlToken) else piece.num_tokens)
        if isinstance(piece, ControlToken):
            ids.append(tokenizer.special.id_of(piece.text))
        else:
            media.append(MediaSpan(offset=len(ids), item=piece))
            ids += [tokenizer.special.media_pad] * piece.num_tokens
    return Prompt(token_ids=tuple(ids), media=tuple(media))


def show_chat(pieces: Iterable[Piece]) -> str:
    """Return the text of a rendered conversation for display, with one `<|media_pad|>` for each media item.

    Markers and text that spells markers look the same in it: never tokenize it.
    """
    return "".join(_show(piece) for piece in pieces)


def _show(piece: Piece) -> str:
    if isinstance(piece, MediaItem):
        return "<|media_pad|>"
    return piece.text if isinstance(piece, ControlToken) else piece


def _join_texts(pieces: Iterable[Piece]) -> Iterator[Piece]:
    texts: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
            continue
        if texts:
            yield "".join(texts)
            texts.clear()
        yield piece
    if texts:
        yield "".join(texts)
