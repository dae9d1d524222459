"""One JSON object of config.json: keys are taken with their type and crossed off, faults are collected.

A fault does not end the reading: the operator gets all of them in one message.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T", int, float, bool, str)
TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


class Section:
    """Takes values out of one JSON object.

    Args:
        values: The object.
        path: Where it stands, for messages: `"text_config."`, or `""` for the top level.
        faults: Faults found so far; shared by all sections of a file.
        missing: Keys that were not there; shared by all sections of a file.
    """

    def __init__(self, values: Mapping[str, Any], path: str, faults: list[str], missing: list[str]) -> None:
        self.path = path
        self.faults = faults
        self.missing = missing
        self._values = values
        self._taken: set[str] = set()

    def has(self, key: str) -> bool:
        """Whether the key is there with another value than null."""
        return self._values.get(key) is not None

    def is_null(self, key: str) -> bool:
        """Whether the key is there and says null."""
        return key in self._values and self._values[key] is None

    def names(self) -> tuple[str, ...]:
        """All keys of the object."""
        return tuple(self._values)

    def find(self, key: str) -> Any:
        """Value of a key as it stands in the file, or None; crosses it off."""
        self._taken.add(key)
        return self._values.get(key)

    def take(self, key: str, default: T, *aliases: str, at_least: int = 1) -> T:
        """Value of a key, of the default's type.

        Args:
            key: The release's name.
            default: The release's value, taken when the key is not there under any name.
            aliases: Other names of the same number; two names with different values are a contradiction.
            at_least: Lower bound of a whole number. Other numbers are above 0, or from 0 where this is 0.
        """
        found = [(name, self.find(name)) for name in (key, *aliases)]
        given = [(name, value) for name, value in found if value is not None]
        if not given:
            self.missing.append(self.path + key)
            return default
        name, value = given[0]
        for other, again in given[1:]:
            if again != value:
                self.fault(other, again, f"{json.dumps(value)} as in {self.path}{name}")
        expected = _find_mistake(value, default, at_least)
        if expected:
            self.fault(name, value, expected)
            return default
        return type(default)(value)

    def section(self, key: str) -> "Section":
        """The object under a key; an empty one if it is not there or is none."""
        value = self.find(key)
        if value is not None and not isinstance(value, Mapping):
            self.fault(key, value, "an object")
        values = value if isinstance(value, Mapping) else {}
        return Section(values, f"{self.path}{key}.", self.faults, self.missing)

    def expect(self, key: str, *expected: Any) -> None:
        """Fault unless the key is left out, or has one of the values this runtime is built for."""
        value = self.find(key)
        if value is not None and not any(type(value) is type(each) and value == each for each in expected):
            self.fault(key, value, " or ".join(json.dumps(each) for each in expected))

    def fault(self, key: str, found: Any, expected: str) -> None:
        """Note what was found and what was expected."""
        self.faults.append(f"{self.path}{key} is {json.dumps(found)}, expected {expected}")

    def left_over(self) -> dict[str, Any]:
        """Keys nobody took, with their path."""
        return {self.path + key: value for key, value in self._values.items() if key not in self._taken}


def _find_mistake(value: Any, default: object, at_least: int) -> str:
    """What was expected instead of `value`; empty if it is in order."""
    kind = type(default)
    is_int = isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        is_number = (is_int or isinstance(value, float)) and math.isfinite(value)
        is_fit = is_number and (value > 0 or (value == 0 and at_least == 0))
        return "" if is_fit else f"a number {'of 0 or more' if at_least == 0 else 'above 0'}"
    if kind is int:
        return "" if is_int and value >= at_least else f"a whole number of {at_least} or more"
    return "" if isinstance(value, kind) else TYPE_NAMES[kind]
