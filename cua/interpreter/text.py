"""Formatting of values into text: f-strings, `str.format`, `str()`. No attribute is ever looked up by a format."""

import re
import string
from collections.abc import Mapping, Sequence

from cua.interpreter.limits import Budget, Refused
from cua.interpreter.values import Function, Module, Tween, Value, kind

_SPEC = re.compile(r"(?:.?[<>=^])?[-+ ]?z?#?0?(\d*)[,_]?(?:\.(\d+))?[bcdeEfFgGnosxX%]?", re.DOTALL)
_MAX_WIDTH = 200


def to_text(value: Value, budget: Budget, *, as_repr: bool = False) -> str:
    """`str(value)`, or `repr(value)`.

    Raises:
        Refused: The value has no text, or it would be too long.
    """
    if isinstance(value, Module | Function | Tween):
        raise Refused(f"{kind(value)} cannot be made a text")
    budget.check(value)
    return str(budget.check(repr(value) if as_repr else str(value)))


def format_value(value: Value, spec: str, budget: Budget) -> str:
    """`format(value, spec)` for numbers and texts, with a bounded width.

    Raises:
        Refused: Not a known format, too wide, or not a number or text.
    """
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


def format_template(template: str, args: Sequence[Value], kwargs: Mapping[str, Value], budget: Budget) -> str:
    """`template.format(*args, **kwargs)` for plain fields: `{}`, `{0}`, `{name}`, with an optional format.

    Raises:
        Refused: A field that looks into a value (`{0.x}`, `{0[x]}`), or has no argument.
    """
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


def convert(value: Value, conversion: str, spec: str, budget: Budget) -> str:
    """A value through `!r`, `!s` or `!a`, then through its format."""
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
