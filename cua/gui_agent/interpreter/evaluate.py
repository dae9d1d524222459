"""Values of expressions: one function over the syntax tree, with a case for each kind of node that is allowed."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from cua.gui_agent.interpreter import modules
from cua.gui_agent.interpreter.builtins import call_method, items_of
from cua.gui_agent.interpreter.limits import Budget, Refused
from cua.gui_agent.interpreter.recording import Recording
from cua.gui_agent.interpreter.values import Function, Module, Point, Size, Value, binary, compare, convert, kind, unary


@dataclass(slots=True)
class Scope:
    """Names that the code has assigned, and what it has done so far."""

    recording: Recording
    variables: dict[str, Value] = field(default_factory=dict)

    @property
    def budget(self) -> Budget:
        """What the code may still do."""
        return self.recording.budget


def evaluate(node: ast.expr, scope: Scope) -> Value:
    """The value of an expression; calls in it are recorded.

    Raises:
        Refused: Something that code cannot do here.
    """
    scope.budget.spend()
    scope.budget.enter()
    value = _evaluate(node, scope)
    scope.budget.leave()
    return value


def _evaluate(node: ast.expr, scope: Scope) -> Value:
    match node:
        case ast.Constant(value=value):
            return _constant(value, scope)
        case ast.Name(id=name):
            return scope.variables[name] if name in scope.variables else modules.lookup(name)
        case ast.Attribute():
            return _attribute(node, scope)
        case ast.Call():
            return _evaluate_call(node, scope)
        case ast.BinOp(left=left, op=op, right=right):
            return binary(op, evaluate(left, scope), evaluate(right, scope), scope.budget)
        case ast.UnaryOp(op=sign, operand=operand):
            return unary(sign, evaluate(operand, scope), scope.budget)
        case ast.BoolOp():
            return _bool_op(node, scope)
        case ast.Compare():
            return _compare(node, scope)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return evaluate(body if evaluate(test, scope) else orelse, scope)
        case ast.JoinedStr() | ast.FormattedValue():
            return _fstring(node, scope)
        case ast.List(elts=elements):
            return scope.budget.check(list(_elements(elements, scope)))
        case ast.Tuple(elts=elements):
            return scope.budget.check(tuple(_elements(elements, scope)))
        case ast.Dict():
            return _dict(node, scope)
        case ast.Subscript(value=value, slice=index):
            return _subscript(evaluate(value, scope), index, scope)
        case ast.ListComp(elt=element, generators=generators) | ast.GeneratorExp(elt=element, generators=generators):
            return scope.budget.check(_comprehension(element, generators, scope))
        case _:
            raise Refused(f"{_NAMES.get(type(node), 'this syntax')} cannot be used here: write plain calls and values")


_NAMES: dict[type[ast.expr], str] = {
    ast.Lambda: "lambda",
    ast.Set: "a set",
    ast.SetComp: "a set",
    ast.DictComp: "a dict comprehension",
    ast.NamedExpr: ":=",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Starred: "*",
}


def _constant(value: Value, scope: Scope) -> Value:
    if value is None or isinstance(value, bool | int | float | str):
        return scope.budget.check(value)
    raise Refused(f"{kind(value)} cannot be used here")


def _attribute(node: ast.Attribute, scope: Scope) -> Value:
    owner = evaluate(node.value, scope)
    match owner, node.attr:
        case Module(), name:
            return modules.attribute(owner, name)
        case Point(), "x":
            return owner.x
        case Point(), "y":
            return owner.y
        case Size(), "width":
            return owner.width
        case Size(), "height":
            return owner.height
        case _, name:
            raise Refused(f"{kind(owner)} has no attribute {name[:40]!r} here")


def _evaluate_call(node: ast.Call, scope: Scope) -> Value:
    if isinstance(node.func, ast.Attribute):
        owner = evaluate(node.func.value, scope)
        if not isinstance(owner, Module):
            args, kwargs = arguments(node, scope)
            return call_method(owner, node.func.attr, args, kwargs, scope.budget)
        function = modules.attribute(owner, node.func.attr)
    else:
        function = evaluate(node.func, scope)
    if not isinstance(function, Function):
        raise Refused(f"{kind(function)} cannot be called")
    args, kwargs = arguments(node, scope)
    return modules.call_function(function, args, kwargs, scope.recording)


def arguments(node: ast.Call, scope: Scope) -> tuple[list[Value], dict[str, Value]]:
    """Positional and keyword arguments of a call, evaluated."""
    args = list(_elements(node.args, scope))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise Refused("** cannot be used here: write the arguments out")
        kwargs[keyword.arg] = evaluate(keyword.value, scope)
    return args, kwargs


def _elements(nodes: list[ast.expr], scope: Scope) -> Iterator[Value]:
    for node in nodes:
        if isinstance(node, ast.Starred):
            yield from items_of(evaluate(node.value, scope), scope.budget)
        else:
            yield evaluate(node, scope)


def _bool_op(node: ast.BoolOp, scope: Scope) -> Value:
    stop_at = isinstance(node.op, ast.Or)
    value: Value = None
    for operand in node.values:
        value = evaluate(operand, scope)
        if bool(value) is stop_at:
            return value
    return value


def _compare(node: ast.Compare, scope: Scope) -> bool:
    left = evaluate(node.left, scope)
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = evaluate(comparator, scope)
        if not compare(op, left, right, scope.budget):
            return False
        left = right
    return True


def _fstring(node: ast.JoinedStr | ast.FormattedValue, scope: Scope) -> str:
    if isinstance(node, ast.JoinedStr):
        return str(scope.budget.check("".join(str(evaluate(part, scope)) for part in node.values)))
    spec = evaluate(node.format_spec, scope) if node.format_spec is not None else ""
    conversion = chr(node.conversion) if node.conversion > 0 else ""
    return convert(evaluate(node.value, scope), conversion, spec, scope.budget)


def _dict(node: ast.Dict, scope: Scope) -> Value:
    result: dict[Value, Value] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            raise Refused("** cannot be used here")
        result[scope.budget.check(evaluate(key, scope))] = evaluate(value, scope)
    return scope.budget.check(result)


def _subscript(value: Value, index: ast.expr, scope: Scope) -> Value:
    if not isinstance(value, str | list | tuple | dict | range):
        raise Refused(f"{kind(value)} has no items")
    if isinstance(index, ast.Slice):
        start, stop, step = (
            None if part is None else evaluate(part, scope) for part in (index.lower, index.upper, index.step)
        )
        return scope.budget.check(value[start:stop:step])
    return scope.budget.check(value[scope.budget.check(evaluate(index, scope))])


def _comprehension(element: ast.expr, generators: list[ast.comprehension], scope: Scope) -> list[Value]:
    """Items of a list comprehension; its loop variables end with it."""
    before = dict(scope.variables)
    result: list[Value] = []

    def walk(rest: list[ast.comprehension]) -> None:
        if not rest:
            result.append(evaluate(element, scope))
            return
        for item in items_of(evaluate(rest[0].iter, scope), scope.budget):
            scope.budget.spend()
            assign(rest[0].target, item, scope)
            if all(evaluate(condition, scope) for condition in rest[0].ifs):
                walk(rest[1:])

    walk(generators)
    scope.variables = before
    return result


def assign(target: ast.expr, value: Value, scope: Scope) -> None:
    """Bind a value to a name, a tuple of names, an item, or a setting of pyautogui.

    Raises:
        Refused: Any other target, or the wrong number of values.
    """
    match target:
        case ast.Name(id=name):
            scope.variables[name] = scope.budget.check(value)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            values = items_of(value, scope.budget)
            if len(values) != len(targets):
                raise Refused(f"cannot unpack {len(values)} values into {len(targets)} names")
            for part, item in zip(targets, values, strict=True):
                assign(part, item, scope)
        case ast.Subscript(value=owner, slice=index):
            container = evaluate(owner, scope)
            if not isinstance(container, list | dict) or isinstance(index, ast.Slice):
                raise Refused("only single items of a list or a dict can be set")
            container[scope.budget.check(evaluate(index, scope))] = value
            scope.budget.check(container)
        case ast.Attribute(value=owner, attr=name):
            module = evaluate(owner, scope)
            if not isinstance(module, Module):
                raise Refused(f"attributes of {kind(module)} cannot be set")
            modules.check_setting(module, name)
        case _:
            raise Refused("this cannot be assigned to")
