"""Tool calls as a grammar: K2.5's own form, with the arguments held to each tool's schema.

    <|tool_calls_section_begin|>
    <|tool_call_begin|>functions.NAME:INDEX<|tool_call_argument_begin|>{...}<|tool_call_end|>    once or more
    <|tool_calls_section_end|>

all in one line. INDEX counts the calls of the whole conversation.

Source: `docs/tool_call_guidance.md` of MoonshotAI/Kimi-K2; rules with a parameter: llguidance's docs/parametric.md.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from model_runtime.engine.grammar import JSON_OPTIONS, check_schema, check_size
from model_runtime.engine.sampling.params import GrammarSpec
from model_runtime.errors import RequestError

MAX_CALLS = 128
MAX_SCHEMAS = 2_000
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    param: str
    name: str
    schema: str
    is_strict: bool


def make_tools_grammar(
    tools: Sequence[Mapping[str, Any]], *, tool_choice: str, parallel: bool, first_index: int
) -> GrammarSpec | None:
    """What a reply must match so that its tool calls can be read.

    `auto` allows any text and then a section, or none. `required` and the name of a tool want a section at once: a
    model that would rather talk could put it off for ever otherwise. Arguments of tools with `strict` follow their
    schema to the letter; of others, the keywords that the grammar knows.

    Args:
        tools: As OpenAI's API has them.
        tool_choice: `auto`, `required`, or the name of a tool, of which there is one call then.
        parallel: Several calls in a section, up to 128.
        first_index: Index of the first call: how many the conversation has had.

    Returns:
        The grammar; None where nothing is to be held to: `auto` without a strict tool.

    Raises:
        RequestError: No such tool, or a schema that cannot be followed.
    """
    if tool_choice == "auto" and not any(tool.get("function", {}).get("strict") is True for tool in tools):
        return None
    read = [_read_tool(tool, f"tools.{place}.function") for place, tool in enumerate(tools)]
    names = [tool.name for tool in read]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise RequestError(f"two tools are called {twice[0]!r}", param="tools")
    if tool_choice not in ("auto", "required"):
        read, parallel = [tool for tool in read if tool.name == tool_choice], False
    if not read:
        known = ", ".join(names[:20]) or "none"
        raise RequestError(f"tool_choice is {tool_choice!r}; the tools are: {known}", param="tool_choice")
    _check_schemas(read)
    start = "TEXT section?" if tool_choice == "auto" else "section"
    return GrammarSpec(kind="lark", text=_make_lark(read, start, range(first_index, first_index + _count(parallel))))


def _check_schemas(tools: Sequence[_Tool]) -> None:
    """Raise for the first tool whose schema cannot be followed, before it is lost among the others."""
    first = {tool.schema: tool for tool in reversed(tools)}
    if len(first) > MAX_SCHEMAS:
        text = f"there are {len(first)} tools with schemas of their own; at most {MAX_SCHEMAS} can be followed"
        raise RequestError(text, param="tools")
    for tool in first.values():
        options = JSON_OPTIONS | {"lenient": not tool.is_strict}
        check_schema(tool.schema, options, param=f"{tool.param}.parameters")


def _count(parallel: bool) -> int:
    return MAX_CALLS if parallel else 1


def _read_tool(tool: Mapping[str, Any], param: str) -> _Tool:
    function = tool.get("function", {})
    name, schema = function.get("name"), function.get("parameters")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        text = f"a tool's name is {name!r}; expected letters, digits, '_', '-' and '.', 256 at most"
        raise RequestError(text, param=f"{param}.name")
    if schema is None:
        schema = {"type": "object", "additionalProperties": False}
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise RequestError("parameters must be a schema of an object", param=f"{param}.parameters")
    check_size(schema, param=f"{param}.parameters")
    is_strict = function.get("strict") is True
    options = JSON_OPTIONS | {"lenient": not is_strict}
    text = json.dumps({"type": "object"} | schema | {"x-guidance": options})
    return _Tool(param=param, name=name, schema=text, is_strict=is_strict)


def _make_lark(tools: Sequence[_Tool], start: str, indices: range) -> str:
    schemas = {tool.schema: f"args_{place}" for place, tool in enumerate(tools)}
    calls = '"functions.{}:" index::_ <|tool_call_argument_begin|> {}'
    lines = (
        "%llguidance {}",
        f"start: {start}",
        f"section: <|tool_calls_section_begin|> calls::{indices.start} <|tool_calls_section_end|>",
        f"calls::_: call::_ | call::_ calls::incr(_) %if lt(_, {indices.stop - 1})",
        "call::_: <|tool_call_begin|> tool::_ <|tool_call_end|>",
        "tool::_: " + "\n | ".join(calls.format(tool.name, schemas[tool.schema]) for tool in tools),
        "index::_: " + "\n | ".join(f'"{index}" %if eq(_, {index})' for index in indices),
        *(f"{rule}: %json {schema}" for schema, rule in schemas.items()),
        r"TEXT: /(.|\n)*/",
    )
    return "\n".join(lines) + "\n"
