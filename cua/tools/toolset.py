"""Tools of a run by name; their arguments are checked before each call."""

import traceback
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from cua.errors import ConfigError, ModelAccessError, TrajectoryError, UnavailableError, name_choices
from cua.json_text import Json, JsonMapping, read_json
from cua.messages import TextPart, ToolCall, ToolResult
from cua.model import Tool
from envs.foreign import contained, describe_error
from visual_tools.errors import SandboxError

UNUSABLE = "is_unusable"
"""Key in the data of a result: the call was malformed, like a reply that cannot be parsed."""


def failed(text: str, *, is_unusable: bool = False) -> ToolResult:
    """Return an error result with a message for the model."""
    return ToolResult(parts=(TextPart(text=text),), is_error=True, data={UNUSABLE: True} if is_unusable else {})


class Toolset:
    """Tools of a run, by name.

    Args:
        tools: Tools that run inside the sandbox, if there is one.
        outside: Tools that run outside it.
        folder: Working folder of the sandbox, for a task that evaluates its content.

    Attributes:
        tools: All tools, in the order in which the model is shown them.
        outside_names: Names of the tools that run outside any sandbox.
        repeatable: Names of the tools whose calls may be repeated after a crash (`is_repeatable`), because repeating
            a call has no further effect.
    """

    def __init__(self, tools: Sequence[Tool], outside: Sequence[Tool] = (), folder: Path | None = None) -> None:
        self.folder = folder
        self.tools = (*tools, *outside)
        self.outside_names = frozenset(tool.name for tool in outside)
        self.repeatable = frozenset(tool.name for tool in self.tools if tool.is_repeatable)
        self._by_name = {tool.name: tool for tool in self.tools}
        if len(self._by_name) != len(self.tools):
            raise ConfigError(f"two tools have the same name: {', '.join(sorted(tool.name for tool in self.tools))}")

    async def dispatch(self, call: ToolCall) -> ToolResult:
        """Run one call.

        Returns:
            Result of the tool; or one with `is_error` for an unknown tool, arguments that are not JSON or do
            not fit the schema, and a tool that failed.

        Raises:
            SandboxError: If code cannot be run any more, through no fault of the model.
            ModelAccessError: If a tool that calls a model itself is refused permanently.
            UnavailableError: If its model did not answer for too long.
            TrajectoryError: If a tool cannot record its actions.
        """
        tool = self._by_name.get(call.name)
        if tool is None:
            return failed(f"There is no tool {call.name!r}.{name_choices(call.name, self._by_name)}", is_unusable=True)
        arguments = _read_json(call.arguments)
        if isinstance(arguments, str):
            return failed(f"The arguments of {call.name} cannot be read: {arguments}", is_unusable=True)
        wrong = describe_schema_error(arguments, tool.checked_parameters or tool.parameters)
        if wrong:
            return failed(f"The arguments of {call.name} do not fit: {wrong}", is_unusable=True)
        try:
            with contained():
                return await tool.call(arguments)
        except (SandboxError, ModelAccessError, UnavailableError, TrajectoryError):
            raise
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            return failed(f"The tool {call.name} broke ({describe_error(error)}, {last.name}). Try another way.")


def _read_json(text: str) -> Json | str:
    """Return the arguments, or a message about the error in them."""
    try:
        value = read_json(text or "{}", strict=False)  # models put raw line ends into strings
    except ValueError as error:
        return f"not JSON ({error}). Write one JSON object."
    if not isinstance(value, dict):
        return f"expected a JSON object, found {type(value).__name__}."
    return value


def describe_schema_error(arguments: JsonMapping, schema: JsonMapping) -> str:
    """Return the reason why arguments do not fit a schema; "" if they do."""
    import jsonschema

    errors = jsonschema.Draft202012Validator(dict(schema)).iter_errors(dict(arguments))
    error = jsonschema.exceptions.best_match(errors)
    if error is None:
        return ""
    known = ", ".join(schema.get("properties", {}))
    location = "" if error.json_path == "$" else f" at {error.json_path}"
    return f"{error.message[:300]}{location}. It takes: {known}."


class Arguments(BaseModel):
    """Base of a tool's arguments: unknown names are refused, so that a typo is reported and not ignored."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


A = TypeVar("A", bound=Arguments)


def schema_of(arguments: type[Arguments]) -> Json:
    """Return the JSON schema of a tool's arguments, without the titles that pydantic adds."""
    return deepcopy(_schema_of(arguments))  # many agents share the tool; each gets its own copy


@cache
def _schema_of(arguments: type[Arguments]) -> Json:
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    schema.pop("description", None)
    for described in schema.get("properties", {}).values():
        described.pop("title", None)
    schema.setdefault("properties", {})
    schema.setdefault("required", [])
    return schema


def read_arguments(arguments: type[A], values: JsonMapping) -> A:
    """Convert arguments to a typed value; the dispatcher has already checked them against the schema."""
    return arguments.model_validate(dict(values))


@cache
def read_description(name: str, **values: str) -> str:
    """Return the description of a tool from `NAME.md` next to its code, with `{value}` placeholders filled in."""
    text = resources.files("cua.tools").joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
    for key, value in values.items():
        text = text.replace("{" + key + "}", value)
    return text
