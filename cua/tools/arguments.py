"""From types to the JSON schema that a model is shown, and from its JSON back to types."""

from collections.abc import Mapping
from importlib import resources
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict


class Arguments(BaseModel):
    """Base of a tool's arguments: unknown names are refused, so that a typo is told and not ignored."""

    model_config = ConfigDict(extra="forbid")


A = TypeVar("A", bound=Arguments)


def schema_of(arguments: type[Arguments]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, without the titles that pydantic adds."""
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


def read_description(name: str, **values: str) -> str:
    """The text about a tool, kept in `NAME.md` beside its code, with `{value}` places filled in."""
    text = resources.files("cua.tools").joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
    for key, value in values.items():
        text = text.replace("{" + key + "}", value)
    return text
