"""Tools that run outside the sandbox: a user's own, and tools of MCP servers. Their results are untrusted.

A user's tool is an entry point of the group `k25.tools`: a callable that takes a `ToolContext` and returns a
`cua.model.Tool`.
"""

import asyncio
import importlib.metadata
import json
import re
from collections.abc import Callable, Mapping, Sequence

from cua.errors import ConfigError, name_choices
from cua.images import decode_image
from cua.json_text import Json, JsonMapping
from cua.messages import ImagePart, Part, TextPart, ToolResult
from cua.model import Tool
from cua.tool_agent.inputs import encode_for_model
from cua.tool_agent.profile import ToolContext, ToolMaker
from cua.tools.toolset import failed
from cua.trajectory.describe import printable
from visual_tools.sandbox.contract import KernelLimits

GROUP = "k25.tools"
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Function names that OpenAI-compatible servers accept. Source: OpenAI's API reference, `tools[].function.name`."""
MAX_DESCRIPTION_CHARS = 4000
MAX_SCHEMA_CHARS = 32_000  # descriptions and schemas are sent with every call: bounds the tokens
MAX_SCHEMA_DEPTH = 32  # bounds the recursion of the check and of validators
KIND = "outside"
"""`kind` in the data of a result: it is not a cell, and cannot be repeated from the record."""


class OutsideTool(Tool):
    """External tool with limits on time and on the size of its results.

    Only the names of its arguments are checked, because validation against an external schema may never end; the tool
    validates the values.

    Args:
        tool: Wrapped tool.
        limits: Limits: `wall_s` for a call; `output_chars` and `num_images` for its result.
        redact: Removes secrets from the results.

    Attributes:
        checked_parameters: Part of the schema that arguments are checked against.
    """

    def __init__(self, tool: Tool, *, limits: KernelLimits, redact: Callable[[str], str] = str) -> None:
        check_tool(tool)
        self.name, self.description, self.parameters = tool.name, tool.description, tool.parameters
        self.checked_parameters = _names_only(tool.parameters)
        self._tool, self._limits, self._redact = tool, limits, redact

    async def call(self, arguments: JsonMapping) -> ToolResult:
        """Call the tool, and truncate its result."""
        try:
            async with asyncio.timeout(self._limits.wall_s):
                result = await self._tool.call(arguments)
        except TimeoutError:
            return failed(f"{self.name} took longer than {self._limits.wall_s:g} s and was ended.")
        return await asyncio.to_thread(self._bounded, result)

    def _bounded(self, result: ToolResult) -> ToolResult:
        texts: list[str] = []
        images: list[ImagePart] = []
        num_lost = 0
        for part in result.parts:
            if isinstance(part, TextPart):
                texts.append(part.text)
            elif isinstance(part, ImagePart) and len(images) < self._limits.num_images:
                pixels = decode_image(part.data)
                num_lost += pixels is None
                images += [] if pixels is None else [encode_for_model(pixels)[0]]
            else:
                num_lost += 1
        if num_lost:
            texts.append(f"[{num_lost} images or other parts cannot be shown]")
        text = _cut(self._redact(_printable_lines("\n".join(texts))), self._limits.output_chars)
        parts: tuple[Part, ...] = (TextPart(text=text or "(no output)"), *images)
        return ToolResult(parts=parts, is_error=result.is_error, data={"kind": KIND})


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def _printable_lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.replace("\r\n", "\n").split("\n"))


def check_tool(tool: Tool) -> None:
    """Check that an external tool can be shown to a model.

    Raises:
        ValueError: If its name, description or schema is invalid.
    """
    for attribute in ("name", "description", "parameters", "call"):
        if not hasattr(tool, attribute):
            raise ValueError(f"a {type(tool).__name__} is not a tool: it has no {attribute!r}")
    if not isinstance(tool.name, str) or not NAME.fullmatch(tool.name):
        raise ValueError(f"a tool is called {tool.name!r:.80}; up to 64 letters, digits, - and _ were expected")
    if not isinstance(tool.description, str):
        raise ValueError(f"the tool {tool.name} has no description")
    check_schema(tool.parameters)


def check_schema(schema: object) -> None:
    """Check that an external schema is an object schema, of limited size, without external references."""
    import jsonschema

    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        raise ValueError("its schema is not of an object")
    if not _is_shallow(schema):
        raise ValueError(f"its schema is nested more than {MAX_SCHEMA_DEPTH} deep")
    text = json.dumps(schema, default=str)
    if len(text) > MAX_SCHEMA_CHARS:
        raise ValueError(f"its schema has {len(text)} characters, more than {MAX_SCHEMA_CHARS}")
    if any(not ref.startswith("#") for ref in re.findall(r'"\$(?:dynamic)?[rR]ef": "([^"]*)"', text)):
        raise ValueError("its schema refers to something outside itself")
    try:
        jsonschema.Draft202012Validator.check_schema(dict(schema))
    except jsonschema.SchemaError as error:
        raise ValueError(f"its schema is not a JSON schema: {error.message[:200]}") from None


def _is_shallow(value: object, depth: int = MAX_SCHEMA_DEPTH) -> bool:
    if isinstance(value, Mapping):
        return depth > 0 and all(_is_shallow(item, depth - 1) for item in value.values())
    if isinstance(value, list | tuple):
        return depth > 0 and all(_is_shallow(item, depth - 1) for item in value)
    return True


def _names_only(schema: JsonMapping) -> Json:
    properties, required = schema.get("properties"), schema.get("required")
    return {
        "type": "object",
        "properties": dict.fromkeys(properties, True) if isinstance(properties, Mapping) else {},
        "required": list(required) if isinstance(required, list | tuple) else [],
        "additionalProperties": schema.get("additionalProperties") is not False,
    }


def find_user_tools(names: Sequence[str]) -> dict[str, ToolMaker]:
    """Return the factories of a user's own tools, by the names of their entry points.

    Raises:
        ConfigError: If a name is unknown or cannot be loaded.
    """
    entries = {entry.name: entry for entry in importlib.metadata.entry_points(group=GROUP)}
    makers: dict[str, ToolMaker] = {}
    for name in names:
        if name not in entries:
            known = name_choices(name, entries) or " No installed package brings any."
            raise ConfigError(f"there is no tool {name!r} in the entry points {GROUP!r}.{known}")
        try:
            makers[name] = entries[name].load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"the tool {name!r} ({entries[name].value}) cannot be loaded: {error}") from error
        if not callable(makers[name]):
            raise ConfigError(f"the tool {name!r} ({entries[name].value}) is not a callable that takes a tool context")
    return makers


def make_user_tools(
    makers: Mapping[str, ToolMaker], context: ToolContext, redact: Callable[[str], str]
) -> list[OutsideTool]:
    """Make the tools."""
    tools = []
    for name, make in makers.items():
        try:
            tools.append(OutsideTool(make(context), limits=context.limits, redact=redact))
        except (ValueError, TypeError) as error:
            raise ConfigError(f"the tool {name!r} cannot be used: {error}") from error
    return tools
