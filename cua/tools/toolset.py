"""The tools of a run by name; their arguments are checked before they are called."""

import traceback
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from cua.errors import ConfigError, ModelAccessError, TrajectoryError, name_choices
from cua.json_text import read_json
from cua.messages import TextPart, ToolCall, ToolResult
from cua.model import Tool
from envs.foreign import contained, describe_error
from visual_tools.errors import SandboxError

UNUSABLE = "is_unusable"
"""In the data of a result: the call could not be made as it was written, as a reply that cannot be read."""


def failed(text: str, *, is_unusable: bool = False) -> ToolResult:
    """A result that tells the model what was wrong."""
    return ToolResult(parts=(TextPart(text=text),), is_error=True, data={UNUSABLE: True} if is_unusable else {})


class Toolset:
    """The tools of a run, by name.

    Args:
        tools: Those that work inside the sandbox, if there is one.
        outside: Those that work outside of it.
        folder: Where the first work, for a task that judges what lies there.

    Attributes:
        tools: In the order in which the model is shown them.
        outside: Names of the tools that work outside any sandbox.
        repeatable: Names of the tools whose calls may be made again after a crash (`is_repeatable`): the same call
            does nothing twice.
    """

    def __init__(self, tools: Sequence[Tool], outside: Sequence[Tool] = (), folder: Path | None = None) -> None:
        self.folder = folder
        self.tools = (*tools, *outside)
        self.outside = frozenset(tool.name for tool in outside)
        self.repeatable = frozenset(tool.name for tool in self.tools if getattr(tool, "is_repeatable", False))
        self._by_name = {tool.name: tool for tool in self.tools}
        if len(self._by_name) != len(self.tools):
            raise ConfigError(f"two tools have the same name: {', '.join(sorted(tool.name for tool in self.tools))}")

    async def dispatch(self, call: ToolCall) -> ToolResult:
        """Carry one call out.

        Returns:
            The tool's result; or one with `is_error` for an unknown tool, arguments that are no JSON or do
            not fit the schema, and a tool that broke.

        Raises:
            SandboxError: Code cannot be run any more; not the model's mistake.
            ModelAccessError: A tool that asks a model of its own is refused for good.
            TrajectoryError: A tool cannot write down what it does.
        """
        tool = self._by_name.get(call.name)
        if tool is None:
            return failed(f"There is no tool {call.name!r}.{name_choices(call.name, self._by_name)}", is_unusable=True)
        arguments = _read_json(call.arguments)
        if isinstance(arguments, str):
            return failed(f"The arguments of {call.name} cannot be read: {arguments}", is_unusable=True)
        wrong = why_wrong(arguments, getattr(tool, "checked_parameters", tool.parameters))
        if wrong:
            return failed(f"The arguments of {call.name} do not fit: {wrong}", is_unusable=True)
        try:
            with contained():
                return await tool.call(arguments)
        except (SandboxError, ModelAccessError, TrajectoryError):
            raise
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            return failed(f"The tool {call.name} broke ({describe_error(error)}, {last.name}). Try another way.")


def _read_json(text: str) -> dict[str, Any] | str:
    """The arguments, or what is wrong with them."""
    try:
        value = read_json(text or "{}", strict=False)  # models put raw line ends into strings
    except ValueError as error:
        return f"not JSON ({error}). Write one JSON object."
    if not isinstance(value, dict):
        return f"expected a JSON object, found {type(value).__name__}."
    return value


def why_wrong(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """In what arguments do not fit a schema, in words; "" when they do."""
    import jsonschema

    errors = jsonschema.Draft202012Validator(dict(schema)).iter_errors(dict(arguments))
    error = jsonschema.exceptions.best_match(errors)
    if error is None:
        return ""
    known = ", ".join(schema.get("properties", {}))
    where = "" if error.json_path == "$" else f" at {error.json_path}"
    return f"{error.message[:300]}{where}. It takes: {known}."


class Arguments(BaseModel):
    """Base of a tool's arguments: unknown names are refused, so that a typo is told and not ignored."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


A = TypeVar("A", bound=Arguments)


def schema_of(arguments: type[Arguments]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, without the titles that pydantic adds."""
    return deepcopy(_schema_of(arguments))  # a hundred agents have the tool, and none of them another's schema


@cache
def _schema_of(arguments: type[Arguments]) -> dict[str, Any]:
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    schema.pop("description", None)
    for described in schema.get("properties", {}).values():
        described.pop("title", None)
    schema.setdefault("properties", {})
    schema.setdefault("required", [])
    return schema


def read_arguments(arguments: type[A], given: Mapping[str, Any]) -> A:
    """Arguments as a typed value; the dispatcher has checked them against the schema already."""
    return arguments.model_validate(dict(given))


@cache
def read_description(name: str, **values: str) -> str:
    """The text about a tool, kept in `NAME.md` beside its code, with `{value}` places filled in."""
    text = resources.files("cua.tools").joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
    for key, value in values.items():
        text = text.replace("{" + key + "}", value)
    return text
