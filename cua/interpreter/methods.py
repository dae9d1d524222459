"""Methods of texts, lists, dicts and tuples: closed tables, so that no attribute is looked up by name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cua.interpreter.limits import Budget, Refused
from cua.interpreter.signatures import nearest
from cua.interpreter.text import format_template
from cua.interpreter.values import Value, kind

_STR: dict[str, Callable[..., Any]] = {
    "capitalize": str.capitalize,
    "casefold": str.casefold,
    "count": str.count,
    "endswith": str.endswith,
    "find": str.find,
    "index": str.index,
    "isalnum": str.isalnum,
    "isalpha": str.isalpha,
    "isdigit": str.isdigit,
    "islower": str.islower,
    "isspace": str.isspace,
    "isupper": str.isupper,
    "lower": str.lower,
    "lstrip": str.lstrip,
    "partition": str.partition,
    "removeprefix": str.removeprefix,
    "removesuffix": str.removesuffix,
    "rfind": str.rfind,
    "rpartition": str.rpartition,
    "rsplit": str.rsplit,
    "rstrip": str.rstrip,
    "split": str.split,
    "splitlines": str.splitlines,
    "startswith": str.startswith,
    "strip": str.strip,
    "swapcase": str.swapcase,
    "title": str.title,
    "upper": str.upper,
}
_STR_BOUNDED = ("center", "format", "join", "ljust", "replace", "rjust", "zfill")

_NUM_ARGUMENTS = {"join": (1,), "replace": (2, 3), "zfill": (1,), "ljust": (1, 2), "rjust": (1, 2), "center": (1, 2)}

_LIST: dict[str, Callable[..., Any]] = {
    "append": list.append,
    "copy": list.copy,
    "count": list.count,
    "extend": list.extend,
    "index": list.index,
    "insert": list.insert,
    "pop": list.pop,
    "remove": list.remove,
    "reverse": list.reverse,
}
_TUPLE: dict[str, Callable[..., Any]] = {"count": tuple.count, "index": tuple.index}
_DICT: dict[str, Callable[..., Any]] = {
    "copy": dict.copy,
    "get": dict.get,
    "items": lambda value: list(value.items()),
    "keys": lambda value: list(value.keys()),
    "pop": dict.pop,
    "update": dict.update,
    "values": lambda value: list(value.values()),
}


def call_method(value: Value, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], budget: Budget) -> Value:
    """`value.name(*args, **kwargs)`.

    Raises:
        Refused: No such method here, or its result would be too large.
    """
    table = _table(value)
    if isinstance(value, str) and name in _STR_BOUNDED:
        return budget.check(_bounded(value, name, args, kwargs, budget))
    if name not in table:
        known = [*table, *(_STR_BOUNDED if isinstance(value, str) else ())]
        raise Refused(f"{kind(value)} has no method {name[:40]!r} here{nearest(name, known)}")
    budget.check(value)
    for argument in args:
        budget.check(argument)
    result = table[name](value, *args, **kwargs)
    budget.check(value)
    return budget.check(result)


def _table(value: Value) -> dict[str, Callable[..., Any]]:
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


def _bounded(text: str, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], budget: Budget) -> str:
    """String methods whose result can be far longer than what goes in: its size is checked first."""
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
