"""Options given as `NAME=VALUE` text, turned into typed fields."""

import difflib
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from model_runtime.errors import RuntimeFault
from model_runtime.launch.options import NativeOptions, VllmOptions

AnyOptions = TypeVar("AnyOptions", NativeOptions, VllmOptions)


def with_settings(options: AnyOptions, settings: Iterable[str]) -> AnyOptions:
    """The options with some fields replaced; `NAME=` alone means none.

    Raises:
        RuntimeFault: A text is not NAME=VALUE, names no field, or the value is of another type.
    """
    changed: dict[str, Any] = {}
    kind = type(options)
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name in names_of(kind)}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise RuntimeFault(f"--set {setting!r} is not NAME=VALUE")
        changed[name] = _value(name, value, hints)
    return replace(options, **changed)


def _value(name: str, text: str, hints: dict[str, Any]) -> object:
    if name not in hints:
        near = difflib.get_close_matches(name, hints, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(sorted(hints))}"
        raise RuntimeFault(f"--set {name}: there is no such setting of this engine; {hint}")
    if text == "" and type(None) in getattr(hints[name], "__args__", ()):
        return None
    try:
        value: object = TypeAdapter(hints[name]).validate_strings(text)
    except ValidationError as error:
        raise RuntimeFault(f"--set {name}={text}: {error.errors()[0]['msg']}") from error
    return value


def names_of(options: type[NativeOptions] | type[VllmOptions]) -> list[str]:
    """Names that `with_settings` takes."""
    return [field.name for field in fields(options) if field.name != "extra"]
