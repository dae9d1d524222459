"""Tools of a chat request: what the model is told of them, what it may call, and the grammar that holds it to that."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from model_runtime.chat.messages import ToolSpec
from model_runtime.engine.grammar.tools import make_tools_grammar
from model_runtime.engine.sampling.params import GrammarSpec
from model_runtime.errors import RequestError
from model_runtime.server.schemas.chat import ChatRequest, ObjectFormat, SchemaFormat, ToolChoice

NO_CALLS = GrammarSpec(kind="regex", text=r"(?s:.*)")
"""Any text and no control token: for requests that declare tools and forbid calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """Tools of a request.

    Attributes:
        declared: As the template takes them; they stay declared where calls are forbidden, so that the beginning of
            a running conversation stays the same and keeps its place in the prefix cache.
        with_calls: Whether calls are passed on.
        max_calls: How many; None for any number.
        grammar: What the answer must match, response format included.
    """

    declared: tuple[ToolSpec, ...] = ()
    with_calls: bool = True
    max_calls: int | None = None
    grammar: GrammarSpec | None = None


async def load_tools(asked: ChatRequest, max_tools: int) -> ToolUse:
    """The tools of a request; schemas are looked through in a thread.

    Raises:
        RequestError: See `read_tools`.
    """
    if not asked.tools and asked.response_format is None:
        return read_tools(asked, max_tools)
    return await asyncio.to_thread(read_tools, asked, max_tools)


def read_tools(asked: ChatRequest, max_tools: int) -> ToolUse:
    """The tools of a request.

    Raises:
        RequestError: There are too many, two have one name, or the choice names none of them.
    """
    declared = _declared(asked, max_tools)
    choice = asked.tool_choice or ("auto" if declared else "none")
    if not declared and choice not in ("none", "auto"):
        text = f"tool_choice is {_shown(choice)}, and there are no tools; declare one, or leave it out"
        raise RequestError(text, param="tool_choice")
    names = [tool["function"]["name"] for tool in declared]
    if isinstance(choice, ToolChoice) and choice.function.name not in names:
        known = ", ".join(names[:20])
        text = f"tool_choice names {choice.function.name[:64]!r}; the declared tools are {known}"
        raise RequestError(text, param="tool_choice")
    content = _content_grammar(asked)
    if not declared or choice == "none":
        return ToolUse(declared=declared, with_calls=False, grammar=content or (NO_CALLS if declared else None))
    if content is not None and choice == "auto":
        text = "response_format is set beside tools; set tool_choice to none for an answer, or to required for calls"
        raise RequestError(text, param="response_format", code="unsupported_parameter")
    is_parallel = asked.parallel_tool_calls is not False
    may_call = declared
    if isinstance(choice, ToolChoice):
        may_call = tuple(tool for tool in declared if tool["function"]["name"] == choice.function.name)
        is_parallel = False
    grammar = make_tools_grammar(
        may_call,
        tool_choice="auto" if choice == "auto" else "required",
        parallel=is_parallel,
        first_index=sum(len(message.tool_calls or ()) for message in asked.messages if message.role == "assistant"),
    )
    return ToolUse(declared=declared, max_calls=None if is_parallel else 1, grammar=grammar)


def _declared(asked: ChatRequest, max_tools: int) -> tuple[dict[str, Any], ...]:
    tools = asked.tools or []
    if len(tools) > max_tools:
        text = f"the request declares {len(tools)} tools; at most {max_tools} are taken"
        raise RequestError(text, param="tools", code="too_many_tools")
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.function.name in seen:
            path = f"tools.{index}.function.name"
            raise RequestError(f"{path}: a second tool is called {tool.function.name!r}; names must differ", param=path)
        seen.add(tool.function.name)
    return tuple(tool.model_dump(exclude_unset=True) for tool in tools)


def _content_grammar(asked: ChatRequest) -> GrammarSpec | None:
    wanted = asked.response_format
    if isinstance(wanted, ObjectFormat):
        return GrammarSpec(kind="json_object")
    if isinstance(wanted, SchemaFormat):
        schema = wanted.json_schema.schema_
        if schema is None:
            path = "response_format.json_schema.schema"
            raise RequestError(
                f"{path}: missing; expected a JSON schema", param=path, code="missing_required_parameter"
            )
        return GrammarSpec(kind="json_schema", text=json.dumps(schema, ensure_ascii=False))
    return None


def _shown(choice: object) -> str:
    return choice.function.name[:64] if isinstance(choice, ToolChoice) else str(choice)
