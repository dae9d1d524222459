"""One JSON object of config.json: keys are taken with their type and crossed off, faults are collected.

A fault does not end the reading: the operator gets all of them in one message.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T", int, float, bool, str)


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

    def take(self, key: str, default: T, *aliases: str, at_least: int | None = 1) -> T:
        """Value of a key of the default's type.

        Args:
            key: The release's name.
            default: The release's value, taken when the key is not there under any name.
            aliases: Other names of the same number; two names with different values are a contradiction.
            at_least: Lower bound of a number; None for none.
        """
        found = [(name, self.find(name)) for name in (key, *aliases)]
        given = [(name, value) for name, value in found if value is not None]
        if not given:
            self.missing.append(self.path + key)
            return default
        name, value = given[0]
        for other, again in given[1:]:
            if again != value:
                self.fault(other, again, f"{value!r} as in {self.path}{name}")
        if not _is_of(value, default):
            self.fault(name, value, f"{_type_name(default)}")
            return default
        if at_least is not None and not isinstance(value, str | bool) and value < (at_least if _is_int(default) else 0):
            self.fault(name, value, f"{at_least} or more" if _is_int(default) else "0 or more")
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
        if value is not None and value not in expected:
            self.fault(key, value, " or ".join(repr(each) for each in expected))

    def fault(self, key: str, found: Any, expected: str) -> None:
        """Note what was found and what was expected."""
        self.faults.append(f"{self.path}{key} is {found!r}, expected {expected}")

    def left_over(self) -> dict[str, Any]:
        """Keys nobody took, with their path."""
        return {self.path + key: value for key, value in self._values.items() if key not in self._taken}


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_of(value: object, default: object) -> bool:
    if isinstance(default, float):
        return _is_int(value) or isinstance(value, float)
    return _is_int(value) if _is_int(default) else isinstance(value, type(default))


def _type_name(default: object) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[type(default)]
