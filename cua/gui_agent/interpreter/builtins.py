"""Allowed built-in functions, and the allowed functions of `math`: fixed tables."""

import builtins
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cua.gui_agent.interpreter.arguments import guess
from cua.gui_agent.interpreter.limits import CodeBudget, Refused
from cua.gui_agent.interpreter.values import Value, as_pixels, format_template, is_number, is_pixels, kind, to_text

Functions = dict[str, Callable[..., Any]]


def _named(owner: object, names: str) -> Functions:
    return {name: getattr(owner, name) for name in names.split()}


MATH = _named(math, "acos asin atan atan2 ceil cos degrees dist floor hypot radians sin sqrt tan")
MATH_CONSTANTS = {"pi": math.pi, "tau": math.tau, "e": math.e}

_PLAIN = _named(builtins, "abs bool chr divmod float int len ord")
_OVER_ITEMS: Functions = {
    **_named(builtins, "all any list sorted sum tuple"),
    "reversed": lambda items: items[::-1],
    "enumerate": lambda items, start=0: list(enumerate(items, start)),
}
_KEEP_UNIT = frozenset({"abs", "float", "int", "round", "sum"})
"""Functions whose result counts pixels if their argument does; `math.floor` and `math.ceil` are further ones."""
NAMES = frozenset([*_PLAIN, *_OVER_ITEMS, "dict", "max", "min", "print", "range", "round", "str", "zip"])
"""Functions that can be called without a module."""


def items_of(value: Value, budget: CodeBudget) -> list[Value]:
    """Return the items that a loop over the value iterates over."""
    if not isinstance(value, str | list | tuple | dict | range):
        raise Refused(f"cannot loop over {kind(value)}")
    budget.check_size(len(value))
    return list(value)


def call_builtin(name: str, args: Sequence[Value], kwargs: Mapping[str, Value], budget: CodeBudget) -> Value:
    """Return `name(*args, **kwargs)` for one of `NAMES`."""
    for argument in [*args, *kwargs.values()]:
        budget.check(argument)
    result = budget.check(_apply_builtin(name, list(args), dict(kwargs), budget))
    return as_pixels(result) if name in _KEEP_UNIT and _any_pixels(args) else result


def _any_pixels(args: Sequence[Value]) -> bool:
    """Return True if a number among the arguments, or in a list given first, counts pixels."""
    first = args[0] if args else None
    return is_pixels(first) or (isinstance(first, list | tuple) and any(is_pixels(item) for item in first))


def _apply_builtin(name: str, args: list[Value], kwargs: dict[str, Value], budget: CodeBudget) -> Value:
    if "key" in kwargs:
        raise Refused(f"{name}() takes no key function here")
    match name:
        case "print":
            return None
        case "dict":
            return dict(*args, **kwargs)
        case "str":
            return to_text(args[0], budget) if args else ""
        case "range":
            return _range(args, budget)
        case "round":
            return _round(args, kwargs)
        case "min" | "max":
            return _extreme(name, args, kwargs, budget)
        case "zip":
            return list(zip(*[items_of(value, budget) for value in args], strict=False))
    if name in _OVER_ITEMS:
        if not args:
            return _OVER_ITEMS[name]([], **kwargs)
        return _OVER_ITEMS[name](items_of(args[0], budget), *args[1:], **kwargs)
    return _PLAIN[name](*args, **kwargs)


def _range(args: list[Value], budget: CodeBudget) -> range:
    result = range(*args)
    budget.check_size(len(result))
    return result


def _round(args: list[Value], kwargs: dict[str, Value]) -> Value:
    if not 1 <= len(args) <= 2 or kwargs.keys() - {"ndigits"}:
        raise Refused("round() takes a number and a number of digits")
    ndigits = kwargs.get("ndigits", args[1] if len(args) == 2 else None)
    if not is_number(args[0]):
        raise Refused(f"round() needs a number, not {kind(args[0])}")
    if ndigits is None:
        return round(args[0])
    if not isinstance(ndigits, int) or abs(ndigits) > 20:
        raise Refused("round() takes a number of digits between -20 and 20")
    return round(args[0], ndigits)


def _extreme(name: str, args: list[Value], kwargs: dict[str, Value], budget: CodeBudget) -> Value:
    items = items_of(args[0], budget) if len(args) == 1 else args
    return max(items, **kwargs) if name == "max" else min(items, **kwargs)


def call_math(name: str, args: Sequence[Value], budget: CodeBudget) -> Value:
    """Return `math.<name>(*args)`."""
    if name not in MATH:
        raise Refused(f"math.{name[:40]} is not supported{guess(name, [*MATH, *MATH_CONSTANTS])}")
    for argument in args:
        budget.check(argument)
    result = budget.check(MATH[name](*args))
    return as_pixels(result) if name in ("ceil", "floor") and _any_pixels(args) else result


_STR = _named(
    str,
    "capitalize casefold count endswith find index isalnum isalpha isdigit islower isspace isupper lower lstrip "
    "partition removeprefix removesuffix rfind rpartition rsplit rstrip split splitlines "
    "startswith strip swapcase title upper",
)
_STR_BOUNDED = ("center", "format", "join", "ljust", "replace", "rjust", "zfill")

_NUM_ARGUMENTS = {"join": (1,), "replace": (2, 3), "zfill": (1,), "ljust": (1, 2), "rjust": (1, 2), "center": (1, 2)}

_LIST = _named(list, "append copy count extend index insert pop remove reverse")
_TUPLE = _named(tuple, "count index")
_DICT: Functions = {
    **_named(dict, "copy get pop update"),
    "items": lambda value: list(value.items()),
    "keys": lambda value: list(value.keys()),
    "values": lambda value: list(value.values()),
}


def call_method(
    value: Value, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], budget: CodeBudget
) -> Value:
    """Return `value.name(*args, **kwargs)`."""
    table = _table(value)
    if isinstance(value, str) and name in _STR_BOUNDED:
        return budget.check(_bounded(value, name, args, kwargs, budget))
    if name not in table:
        known = [*table, *(_STR_BOUNDED if isinstance(value, str) else ())]
        raise Refused(f"{kind(value)} has no method {name[:40]!r} here{guess(name, known)}")
    budget.check(value)
    for argument in args:
        budget.check(argument)
    result = table[name](value, *args, **kwargs)
    budget.check(value)
    return budget.check(result)


def _table(value: Value) -> Functions:
    match value:
        case str():
            return _STR
        case list():
            return _LIST
        case tuple():
            return _TUPLE
        case dict():
            return _DICT
        case _:
            return {}


def _bounded(text: str, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], budget: CodeBudget) -> str:
    """Call a string method whose result can be much longer than its input; the size is checked first."""
    if name == "format":
        return format_template(text, args, kwargs, budget)
    if kwargs:
        raise Refused(f"{name}() takes no keyword arguments")
    if len(args) not in _NUM_ARGUMENTS[name]:
        raise Refused(f"{name}() takes {_NUM_ARGUMENTS[name][0]} argument(s), got {len(args)}")
    if name == "join":
        (parts,) = args
        items = list(budget.check(parts))
        budget.check_size(len(text) * len(items) + sum(len(item) for item in items))
        return text.join(items)
    if name == "replace":
        old, new, *rest = args
        times = text.count(old)
        budget.check_size(len(text) + times * len(new))
        return text.replace(old, new, *rest)
    width, *fill = args
    budget.check_size(int(width))
    match name:
        case "zfill":
            return text.zfill(width)
        case "ljust":
            return text.ljust(width, *fill)
        case "rjust":
            return text.rjust(width, *fill)
        case _:
            return text.center(width, *fill)
