"""What model code can hold: plain Python data, and a few names of ours.

Numbers, strings, None, lists, tuples, dicts and ranges are Python's own objects. Everything else that an
expression can be stands here; nothing of it is ever looked up by name in the running program.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

Value: TypeAlias = Any
"""None, bool, int, float, str, list, tuple, dict, range, or one of the classes below."""


class Pixels(int):
    """A whole number that is known to count pixels, also where it is 0 or 1 and would be read as a fraction."""


class PartPixels(float):
    """A number with decimals that is known to count pixels."""


def as_pixels(value: Value) -> Value:
    """A number, known to count pixels; anything else as it is."""
    if not is_number(value):
        return value
    return Pixels(value) if isinstance(value, int) else PartPixels(value)


def is_pixels(value: Value) -> bool:
    """Whether a number is known to count pixels."""
    return isinstance(value, Pixels | PartPixels)


class Point(NamedTuple):
    """What `pyautogui.position()` gives: pixels of the picture that the model sees."""

    x: int
    y: int


class Size(NamedTuple):
    """What `pyautogui.size()` gives: pixels of the picture that the model sees."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Module:
    """A name of one of the modules that code may use: `pyautogui`, `time`, `math` or `computer`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Function:
    """A function of such a module; `module` is empty for Python's own functions."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}" if self.module else self.name


@dataclass(frozen=True, slots=True)
class Tween:
    """A movement curve such as `pyautogui.easeInOutQuad`: accepted, and ignored by envs."""

    name: str

    def __str__(self) -> str:
        return f"pyautogui.{self.name}"


def kind(value: Value) -> str:
    """What a value is, in words for the model."""
    match value:
        case None:
            return "None"
        case bool():
            return "a bool"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case Module() | Function() | Tween():
            return f"{value}"
        case _:
            return f"a {type(value).__name__.lower()}"


def is_number(value: Value) -> bool:
    """Whether it is an int or a float (a bool is not)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def short(value: Value, max_chars: int = 60) -> str:
    """A value as Python writes it, cut for an error message."""
    text = repr(value)
    return text if len(text) <= max_chars else text[:max_chars] + "..."
