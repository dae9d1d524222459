"""Values of model code: plain Python data and a few types of our own, with bounded operators.

Numbers, strings, None, lists, tuples, dicts and ranges are Python's own objects. All other values are of the types
defined here; none is ever looked up by name in the running program.
"""

import ast
import operator
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from cua.gui_agent.interpreter.limits import MAX_INT_BITS, CodeBudget, Refused

Value: TypeAlias = Any
"""None, bool, int, float, str, list, tuple, dict, range, or one of the classes below."""


class Pixels(int):
    """Integer that counts pixels, even if it is 0 or 1 and would be read as a fraction."""


class PartPixels(float):
    """Float that counts pixels."""


def as_pixels(value: Value) -> Value:
    """Mark a number as pixels; return any other value unchanged."""
    if not is_number(value):
        return value
    return Pixels(value) if isinstance(value, int) else PartPixels(value)


def is_pixels(value: Value) -> bool:
    """Return True if a number is marked as pixels."""
    return isinstance(value, Pixels | PartPixels)


class Point(NamedTuple):
    """Result of `pyautogui.position()`: pixels of the image that the model sees."""

    x: int
    y: int


class Size(NamedTuple):
    """Result of `pyautogui.size()`: pixels of the image that the model sees."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Module:
    """Module that code may use: `pyautogui`, `time`, `math` or `computer`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Function:
    """Function of such a module; `module` is empty for built-in functions."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}" if self.module else self.name


@dataclass(frozen=True, slots=True)
class Tween:
    """Movement curve such as `pyautogui.easeInOutQuad`: accepted, and ignored by environments."""

    name: str

    def __str__(self) -> str:
        return f"pyautogui.{self.name}"


def kind(value: Value) -> str:
    """Describe the kind of a value in words for the model."""
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
    """Return True for an int or a float, False for a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def short(value: Value, max_chars: int = 60) -> str:
    """Return the `repr` of a value, shortened for an error message."""
    text = repr(value)
    return text if len(text) <= max_chars else text[:max_chars] + "..."


_SPEC = re.compile(r"(?:.?[<>=^])?[-+ ]?z?#?0?(\d*)[,_]?(?:\.(\d+))?[bcdeEfFgGnosxX%]?", re.DOTALL)
_MAX_WIDTH = 200


def to_text(value: Value, budget: CodeBudget, *, as_repr: bool = False) -> str:
    """Return `str(value)` or `repr(value)`."""
    if isinstance(value, Module | Function | Tween):
        raise Refused(f"{kind(value)} cannot be made a text")
    budget.check(value)
    return str(budget.check(repr(value) if as_repr else str(value)))


def format_value(value: Value, spec: str, budget: CodeBudget) -> str:
    """Return `format(value, spec)` for numbers and texts, with a bounded width."""
    if not spec:
        return to_text(value, budget)
    match = _SPEC.fullmatch(spec[:100])
    if match is None:
        raise Refused(f"unknown format {spec[:40]!r}: write something like {{x:.2f}} or {{x:>10}}")
    if any(len(number or "") > 3 or int(number or 0) > _MAX_WIDTH for number in match.groups()):
        raise Refused(f"a format can be at most {_MAX_WIDTH} characters wide")
    if not isinstance(value, str | int | float):
        raise Refused(f"a format such as {spec!r} goes with a number or a text, not with {kind(value)}")
    return str(budget.check(format(value, spec)))


def format_template(template: str, args: Sequence[Value], kwargs: Mapping[str, Value], budget: CodeBudget) -> str:
    """Return `template.format(*args, **kwargs)` for plain fields `{}`, `{0}`, `{name}`, with an optional format."""
    pieces: list[str] = []
    automatic = 0
    for literal, field, spec, conversion in string.Formatter().parse(template):
        pieces.append(literal)
        if field is None:
            continue
        budget.spend()
        if field == "":
            field, automatic = str(automatic), automatic + 1
        value = _field(field, args, kwargs)
        if "{" in (spec or ""):
            raise Refused("a format inside a format is not supported: use an f-string")
        pieces.append(convert(value, conversion or "", spec or "", budget))
        budget.check_size(sum(map(len, pieces[-2:])))
    return "".join(pieces)


def convert(value: Value, conversion: str, spec: str, budget: CodeBudget) -> str:
    """Apply `!r`, `!s` or `!a` to a value, then its format."""
    if conversion in ("r", "a"):
        value = to_text(value, budget, as_repr=True)
    elif conversion == "s":
        value = to_text(value, budget)
    if conversion == "a":
        value = ascii(value)[1:-1]
    return format_value(value, spec, budget)


def _field(field: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    if field.isdecimal() and len(field) < 4 and int(field) < len(args):
        return args[int(field)]
    if field in kwargs:
        return kwargs[field]
    raise Refused(f"format(): no value for the field {{{field[:40]}}}; only {{}}, {{0}} and {{name}} are supported")


_BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
    ast.BitOr: ("|", operator.or_),
    ast.BitAnd: ("&", operator.and_),
    ast.BitXor: ("^", operator.xor),
}

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}


def binary(op: ast.operator, left: Value, right: Value, budget: CodeBudget) -> Value:
    """Return `left op right`."""
    if type(op) not in _BINARY:
        raise Refused("the operator @ is not supported")
    symbol, function = _BINARY[type(op)]
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if numbers:
        _check_growth(symbol, left, right)
    else:
        _check_sequences(symbol, left, right, budget)
    result = budget.check(function(left, right))
    return as_pixels(result) if _counts_pixels(symbol, left, right) else result


def _counts_pixels(symbol: str, left: Value, right: Value) -> bool:
    """Return True if the result of the arithmetic counts pixels: `width / 2` does, `x / width` is a fraction."""
    match symbol:
        case "+" | "-":
            return is_pixels(left) or is_pixels(right)
        case "*":
            return is_pixels(left) != is_pixels(right)
        case "/" | "//":
            return is_pixels(left) and not is_pixels(right)
        case "%":
            return is_pixels(left)
        case _:
            return False


def unary(op: ast.unaryop, value: Value, budget: CodeBudget) -> Value:
    """Return `op value`."""
    if isinstance(op, ast.Not):
        return not value
    if not isinstance(value, int | float):
        raise Refused(f"cannot apply a sign to {kind(value)}")
    if isinstance(op, ast.USub):
        return as_pixels(-value) if is_pixels(value) else -value
    if isinstance(op, ast.UAdd):
        return value
    if isinstance(value, int):
        return budget.check(-value - 1)
    raise Refused("~ needs a whole number")


def compare(op: ast.cmpop, left: Value, right: Value, budget: CodeBudget) -> bool:
    """Return `left op right` for a comparison or a membership test."""
    budget.check(left)
    budget.check(right)
    return bool(_COMPARE[type(op)](left, right))


def _check_growth(symbol: str, left: float, right: float) -> None:
    """Refuse powers and shifts with a huge result before they are computed."""
    if not (isinstance(left, int) and isinstance(right, int)):
        return
    if symbol == "**" and left.bit_length() * max(right, 0) > 4 * MAX_INT_BITS and abs(left) > 1:
        raise Refused("a number is too large")
    if symbol == "<<" and right > MAX_INT_BITS:
        raise Refused("a number is too large")


def _check_sequences(symbol: str, left: Value, right: Value, budget: CodeBudget) -> None:
    """Allow only concatenation and repetition of texts, lists and tuples, within the size limits."""
    both = (str, str), (list, list), (tuple, tuple)
    if symbol == "+" and any(isinstance(left, a) and isinstance(right, b) for a, b in both):
        budget.check_size(len(left) + len(right))
        return
    if symbol == "*":
        sequence, count = (right, left) if is_number(left) else (left, right)
        if isinstance(sequence, str | list | tuple) and isinstance(count, int):
            budget.check_size(len(sequence) * max(count, 0))
            return
    if symbol == "%" and isinstance(left, str):
        raise Refused("the % operator on a text is not supported: write an f-string such as f'{x}'")
    hint = " (make a text of a number with str(...))" if symbol == "+" and str in (type(left), type(right)) else ""
    raise Refused(f"cannot compute {kind(left)} {symbol} {kind(right)}{hint}")
