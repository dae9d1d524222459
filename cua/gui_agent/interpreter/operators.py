"""Python's operators on plain data, each one bounded before it is applied."""

import ast
import operator
from collections.abc import Callable
from typing import Any

from cua.gui_agent.interpreter.limits import MAX_INT_BITS, Budget, Refused
from cua.gui_agent.interpreter.values import Value, as_pixels, is_number, is_pixels, kind

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


def binary(op: ast.operator, left: Value, right: Value, budget: Budget) -> Value:
    """`left op right`.

    Raises:
        Refused: The operator does not go with these values, or the result would be too large.
    """
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
    """Whether arithmetic on a number of pixels gives one: `width / 2` does, `x / width` is a fraction."""
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


def unary(op: ast.unaryop, value: Value, budget: Budget) -> Value:
    """`op value`.

    Raises:
        Refused: The operator does not go with this value.
    """
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


def compare(op: ast.cmpop, left: Value, right: Value, budget: Budget) -> bool:
    """`left op right` for a comparison or a membership test."""
    budget.check(left)
    budget.check(right)
    return bool(_COMPARE[type(op)](left, right))


def _check_growth(symbol: str, left: float, right: float) -> None:
    """Refuse powers and shifts whose result would be huge, before they are computed."""
    if not (isinstance(left, int) and isinstance(right, int)):
        return
    if symbol == "**" and left.bit_length() * max(right, 0) > 4 * MAX_INT_BITS and abs(left) > 1:
        raise Refused("a number is too large")
    if symbol == "<<" and right > MAX_INT_BITS:
        raise Refused("a number is too large")


def _check_sequences(symbol: str, left: Value, right: Value, budget: Budget) -> None:
    """Allow text and list arithmetic of the plain kinds only, within bounds."""
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
