"""Python's own functions that code may call, and those of `math` and `time`: closed tables."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cua.interpreter.limits import Budget, Refused
from cua.interpreter.signatures import nearest
from cua.interpreter.text import to_text
from cua.interpreter.values import Value, as_pixels, is_number, is_pixels, kind

MATH: dict[str, Callable[..., Any]] = {
    "acos": math.acos,
    "asin": math.asin,
    "atan": math.atan,
    "atan2": math.atan2,
    "ceil": math.ceil,
    "cos": math.cos,
    "degrees": math.degrees,
    "dist": math.dist,
    "floor": math.floor,
    "hypot": math.hypot,
    "radians": math.radians,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "tan": math.tan,
}
MATH_CONSTANTS = {"pi": math.pi, "tau": math.tau, "e": math.e}

_PLAIN: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "bool": bool,
    "chr": chr,
    "divmod": divmod,
    "float": float,
    "int": int,
    "len": len,
    "ord": ord,
}
_OVER_ITEMS: dict[str, Callable[..., Any]] = {
    "all": all,
    "any": any,
    "list": list,
    "sorted": sorted,
    "sum": sum,
    "tuple": tuple,
    "reversed": lambda items: items[::-1],
    "enumerate": lambda items, start=0: list(enumerate(items, start)),
}
_KEEP_UNIT = frozenset({"abs", "float", "int", "round", "sum"})
"""Functions of a number of pixels that give one; `math.floor` and `math.ceil` do too."""
NAMES = frozenset([*_PLAIN, *_OVER_ITEMS, "dict", "max", "min", "print", "range", "round", "str", "zip"])
"""Every function that can be called without a module."""


def items_of(value: Value, budget: Budget) -> list[Value]:
    """What a loop over the value goes through.

    Raises:
        Refused: It cannot be looped over, or has too many items.
    """
    if not isinstance(value, str | list | tuple | dict | range):
        raise Refused(f"cannot loop over {kind(value)}")
    budget.check_size(len(value))
    return list(value)


def call_builtin(name: str, args: Sequence[Value], kwargs: Mapping[str, Value], budget: Budget) -> Value:
    """`name(*args, **kwargs)` for one of `NAMES`.

    Raises:
        Refused: Arguments that it does not take here, or too large a result.
    """
    for argument in [*args, *kwargs.values()]:
        budget.check(argument)
    result = budget.check(_call(name, list(args), dict(kwargs), budget))
    return as_pixels(result) if name in _KEEP_UNIT and _any_pixels(args) else result


def _any_pixels(args: Sequence[Value]) -> bool:
    """Whether a number among the arguments, or in a list of them, counts pixels."""
    first = args[0] if args else None
    return is_pixels(first) or (isinstance(first, list | tuple) and any(is_pixels(item) for item in first))


def _call(name: str, args: list[Value], kwargs: dict[str, Value], budget: Budget) -> Value:
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


def _range(args: list[Value], budget: Budget) -> range:
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


def _extreme(name: str, args: list[Value], kwargs: dict[str, Value], budget: Budget) -> Value:
    items = items_of(args[0], budget) if len(args) == 1 else args
    return max(items, **kwargs) if name == "max" else min(items, **kwargs)


def call_math(name: str, args: Sequence[Value], budget: Budget) -> Value:
    """`math.<name>(*args)`.

    Raises:
        Refused: Not among the supported functions.
    """
    if name not in MATH:
        raise Refused(f"math.{name[:40]} is not supported{nearest(name, [*MATH, *MATH_CONSTANTS])}")
    for argument in args:
        budget.check(argument)
    result = budget.check(MATH[name](*args))
    return as_pixels(result) if name in ("ceil", "floor") and _any_pixels(args) else result
