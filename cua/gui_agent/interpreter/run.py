"""Converts a block of model code to a list of actions, statement by statement.

Expressions are evaluated by one function over the syntax tree, with a case for each allowed kind of node.
"""

import ast
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType

from cua.errors import CodeError
from cua.gui_agent.interpreter import modules
from cua.gui_agent.interpreter.builtins import call_method, items_of
from cua.gui_agent.interpreter.coordinates import Mode, ModelFrame
from cua.gui_agent.interpreter.limits import CodeBudget, CodeLimits, Refused
from cua.gui_agent.interpreter.pyautogui_calls import hold_keys
from cua.gui_agent.interpreter.recording import ActionRecording
from cua.gui_agent.interpreter.values import Function, Module, Point, Size, Value, binary, compare, convert, kind, unary
from envs import Action, KeyDown, KeyUp, ScreenGeometry


@dataclass(slots=True)
class ExecutionState:
    """Variables that the code has assigned, and its recorded actions."""

    recording: ActionRecording
    variables: dict[str, Value] = field(default_factory=dict)

    @property
    def budget(self) -> CodeBudget:
        """Limits of the code, and how much of them is used."""
        return self.recording.budget


def evaluate(node: ast.expr, state: ExecutionState) -> Value:
    """Evaluate an expression; calls in it are recorded."""
    state.budget.spend()
    state.budget.enter()
    value = _evaluate(node, state)
    state.budget.leave()
    return value


def _evaluate(node: ast.expr, state: ExecutionState) -> Value:
    match node:
        case ast.Constant(value=value):
            return _constant(value, state)
        case ast.Name(id=name):
            return state.variables[name] if name in state.variables else modules.lookup(name)
        case ast.Attribute():
            return _attribute(node, state)
        case ast.Call():
            return _evaluate_call(node, state)
        case ast.BinOp(left=left, op=op, right=right):
            return binary(op, evaluate(left, state), evaluate(right, state), state.budget)
        case ast.UnaryOp(op=sign, operand=operand):
            return unary(sign, evaluate(operand, state), state.budget)
        case ast.BoolOp():
            return _bool_op(node, state)
        case ast.Compare():
            return _compare(node, state)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return evaluate(body if evaluate(test, state) else orelse, state)
        case ast.JoinedStr() | ast.FormattedValue():
            return _fstring(node, state)
        case ast.List(elts=elements):
            return state.budget.check(list(_elements(elements, state)))
        case ast.Tuple(elts=elements):
            return state.budget.check(tuple(_elements(elements, state)))
        case ast.Dict():
            return _dict(node, state)
        case ast.Subscript(value=value, slice=index):
            return _subscript(evaluate(value, state), index, state)
        case ast.ListComp(elt=element, generators=generators) | ast.GeneratorExp(elt=element, generators=generators):
            return state.budget.check(_comprehension(element, generators, state))
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


def _constant(value: Value, state: ExecutionState) -> Value:
    if value is None or isinstance(value, bool | int | float | str):
        return state.budget.check(value)
    raise Refused(f"{kind(value)} cannot be used here")


def _attribute(node: ast.Attribute, state: ExecutionState) -> Value:
    owner = evaluate(node.value, state)
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


def _evaluate_call(node: ast.Call, state: ExecutionState) -> Value:
    if isinstance(node.func, ast.Attribute):
        owner = evaluate(node.func.value, state)
        if not isinstance(owner, Module):
            args, kwargs = arguments(node, state)
            return call_method(owner, node.func.attr, args, kwargs, state.budget)
        function = modules.attribute(owner, node.func.attr)
    else:
        function = evaluate(node.func, state)
    if not isinstance(function, Function):
        raise Refused(f"{kind(function)} cannot be called")
    args, kwargs = arguments(node, state)
    return modules.call_function(function, args, kwargs, state.recording)


def arguments(node: ast.Call, state: ExecutionState) -> tuple[list[Value], dict[str, Value]]:
    """Evaluate the positional and keyword arguments of a call."""
    args = list(_elements(node.args, state))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise Refused("** cannot be used here: write the arguments out")
        kwargs[keyword.arg] = evaluate(keyword.value, state)
    return args, kwargs


def _elements(nodes: list[ast.expr], state: ExecutionState) -> Iterator[Value]:
    for node in nodes:
        if isinstance(node, ast.Starred):
            yield from items_of(evaluate(node.value, state), state.budget)
        else:
            yield evaluate(node, state)


def _bool_op(node: ast.BoolOp, state: ExecutionState) -> Value:
    stop_at = isinstance(node.op, ast.Or)
    value: Value = None
    for operand in node.values:
        value = evaluate(operand, state)
        if bool(value) is stop_at:
            return value
    return value


def _compare(node: ast.Compare, state: ExecutionState) -> bool:
    left = evaluate(node.left, state)
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = evaluate(comparator, state)
        if not compare(op, left, right, state.budget):
            return False
        left = right
    return True


def _fstring(node: ast.JoinedStr | ast.FormattedValue, state: ExecutionState) -> str:
    if isinstance(node, ast.JoinedStr):
        return str(state.budget.check("".join(str(evaluate(part, state)) for part in node.values)))
    spec = evaluate(node.format_spec, state) if node.format_spec is not None else ""
    conversion = chr(node.conversion) if node.conversion > 0 else ""
    return convert(evaluate(node.value, state), conversion, spec, state.budget)


def _dict(node: ast.Dict, state: ExecutionState) -> Value:
    result: dict[Value, Value] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            raise Refused("** cannot be used here")
        result[state.budget.check(evaluate(key, state))] = evaluate(value, state)
    return state.budget.check(result)


def _subscript(value: Value, index: ast.expr, state: ExecutionState) -> Value:
    if not isinstance(value, str | list | tuple | dict | range):
        raise Refused(f"{kind(value)} has no items")
    if isinstance(index, ast.Slice):
        start, stop, step = (
            None if part is None else evaluate(part, state) for part in (index.lower, index.upper, index.step)
        )
        return state.budget.check(value[start:stop:step])
    return state.budget.check(value[state.budget.check(evaluate(index, state))])


def _comprehension(element: ast.expr, generators: list[ast.comprehension], state: ExecutionState) -> list[Value]:
    """Evaluate a list comprehension; its loop variables are local to it."""
    before = dict(state.variables)
    result: list[Value] = []

    def walk(rest: list[ast.comprehension]) -> None:
        if not rest:
            result.append(evaluate(element, state))
            return
        for item in items_of(evaluate(rest[0].iter, state), state.budget):
            state.budget.spend()
            assign(rest[0].target, item, state)
            if all(evaluate(condition, state) for condition in rest[0].ifs):
                walk(rest[1:])

    walk(generators)
    state.variables = before
    return result


def assign(target: ast.expr, value: Value, state: ExecutionState) -> None:
    """Bind a value to a name, a tuple of names, an item, or a setting of pyautogui."""
    match target:
        case ast.Name(id=name):
            state.variables[name] = state.budget.check(value)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            values = items_of(value, state.budget)
            if len(values) != len(targets):
                raise Refused(f"cannot unpack {len(values)} values into {len(targets)} names")
            for part, item in zip(targets, values, strict=True):
                assign(part, item, state)
        case ast.Subscript(value=owner, slice=index):
            container = evaluate(owner, state)
            if not isinstance(container, list | dict) or isinstance(index, ast.Slice):
                raise Refused("only single items of a list or a dict can be set")
            container[state.budget.check(evaluate(index, state))] = value
            state.budget.check(container)
        case ast.Attribute(value=owner, attr=name):
            module = evaluate(owner, state)
            if not isinstance(module, Module):
                raise Refused(f"attributes of {kind(module)} cannot be set")
            modules.check_setting(module, name)
        case _:
            raise Refused("this cannot be assigned to")


_MISTAKES = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)
"""Errors that Python's own operations raise for unsuitable values."""


class Flow(Enum):
    """Control flow after a statement."""

    NEXT = auto()
    BREAK = auto()
    CONTINUE = auto()


def execute_block(statements: list[ast.stmt], state: ExecutionState) -> Flow:
    """Execute statements in order, until one of them leaves the enclosing loop.

    Raises:
        CodeError: If a statement is refused; the text starts with its line number.
    """
    for statement in statements:
        try:
            state.budget.spend()
            state.budget.enter()
            flow = _execute(statement, state)
            state.budget.leave()
        except Refused as refusal:
            raise CodeError(f"line {statement.lineno}: {refusal}") from None
        except _MISTAKES as error:
            text = str(error).replace("<lambda>()", "this call")[:200]
            raise CodeError(f"line {statement.lineno}: {type(error).__name__}: {text}") from None
        if flow is not Flow.NEXT:
            return flow
    return Flow.NEXT


def _execute(node: ast.stmt, state: ExecutionState) -> Flow:
    match node:
        case ast.Expr(value=value):
            _expression(value, state)
        case ast.Assign(targets=targets, value=value):
            result = evaluate(value, state)
            for target in targets:
                assign(target, result, state)
        case ast.AnnAssign(target=target, value=annotated):
            if annotated is not None:
                assign(target, evaluate(annotated, state), state)
        case ast.AugAssign(target=target, op=op, value=value):
            _augmented(target, op, value, state)
        case ast.Import() | ast.ImportFrom():
            _import(node, state)
        case ast.If(test=test, body=body, orelse=orelse):
            return execute_block(body if evaluate(test, state) else orelse, state)
        case ast.For():
            return _for(node, state)
        case ast.While():
            return _while(node, state)
        case ast.With():
            return _with(node, state)
        case ast.Pass():
            pass
        case ast.Break():
            return Flow.BREAK
        case ast.Continue():
            return Flow.CONTINUE
        case _:
            raise Refused(_REFUSED.get(type(node), "this kind of statement cannot be used here"))
    return Flow.NEXT


_REFUSED: dict[type[ast.stmt], str] = {
    ast.FunctionDef: "functions cannot be defined here: write the calls one after the other, or use a for loop",
    ast.AsyncFunctionDef: "functions cannot be defined here: write the calls one after the other",
    ast.ClassDef: "classes cannot be defined here: write the calls one after the other",
    ast.Try: "try cannot be used here: a call that fails is reported with the next screenshot",
    ast.Raise: "raise cannot be used here: to give up, write computer.terminate(status='failure')",
    ast.Assert: "assert cannot be used here: look at the next screenshot instead",
    ast.Return: "return cannot be used here: there are no functions",
    ast.Delete: "del cannot be used here",
    ast.Global: "global cannot be used here: there are no functions",
    ast.Match: "match cannot be used here: use if",
}


def _expression(value: ast.expr, state: ExecutionState) -> None:
    if isinstance(value, ast.Constant):
        return
    result = evaluate(value, state)
    if isinstance(result, Function):
        raise Refused(f"{result} is not called: write {result}(...) with parentheses")
    if isinstance(value, ast.Dict):
        raise Refused("a dict does nothing: write computer.terminate(status='success') or computer.wait() as a call")


def _augmented(target: ast.expr, op: ast.operator, value: ast.expr, state: ExecutionState) -> None:
    match target:
        case ast.Name(id=name):
            current = evaluate(ast.copy_location(ast.Name(id=name, ctx=ast.Load()), target), state)
        case ast.Subscript(value=owner, slice=index):
            current = evaluate(
                ast.copy_location(ast.Subscript(value=owner, slice=index, ctx=ast.Load()), target), state
            )
        case _:
            raise Refused("this cannot be assigned to")
    assign(target, binary(op, current, evaluate(value, state), state.budget), state)


def _import(node: ast.Import | ast.ImportFrom, state: ExecutionState) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            state.variables[alias.asname or alias.name] = modules.import_module(alias.name)
        return
    module = modules.import_module(node.module or ".")
    for alias in node.names:
        if alias.name == "*":
            raise Refused(f"write import {module.name} and call {module.name}.name(...)")
        state.variables[alias.asname or alias.name] = modules.attribute(module, alias.name)


def _for(node: ast.For, state: ExecutionState) -> Flow:
    value = evaluate(node.iter, state)
    items = items_of(value, state.budget)
    for item in value if isinstance(value, list) else items:  # a list may grow during the loop, as in Python
        state.budget.spend()
        assign(node.target, item, state)
        if execute_block(node.body, state) is Flow.BREAK:
            return Flow.NEXT
    return execute_block(node.orelse, state)


def _while(node: ast.While, state: ExecutionState) -> Flow:
    while evaluate(node.test, state):
        state.budget.spend()
        if execute_block(node.body, state) is Flow.BREAK:
            return Flow.NEXT
    return execute_block(node.orelse, state)


def _with(node: ast.With, state: ExecutionState) -> Flow:
    held = [key for item in node.items for key in _held_keys(item, state)]
    for key in held:
        state.recording.add(KeyDown(key=key))
    flow = execute_block(node.body, state)
    for key in held:
        state.recording.add(KeyUp(key=key))
    return flow


def _held_keys(item: ast.withitem, state: ExecutionState) -> list[str]:
    """Return the keys of one `pyautogui.hold(...)` in a with statement."""
    call = item.context_expr
    if isinstance(call, ast.Call) and item.optional_vars is None:
        match call.func:
            case ast.Attribute(value=ast.Name(), attr="hold") | ast.Name():
                function = evaluate(call.func, state)
                if isinstance(function, Function) and (function.module, function.name) in _HOLDS:
                    return hold_keys(*arguments(call, state), state.recording)
    raise Refused("with can only be used as: with pyautogui.hold('shift'):")


_HOLDS = (("pyautogui", "hold"), ("computer", "hold"))


_NO_MARKS: Mapping[int, tuple[int, int]] = MappingProxyType({})


def parse_code(code: str, max_code_chars: int = 60_000) -> ast.Module:
    """Parse a block of code to a syntax tree, without executing it.

    Raises:
        CodeError: If it is not Python, or is too long or too deeply nested.
    """
    if len(code) > max_code_chars:
        raise CodeError(f"the code is {len(code)} characters long, at most {max_code_chars} are possible")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(_unindented(code))
    except SyntaxError as error:
        line = f"line {error.lineno}: " if error.lineno else ""
        raise CodeError(f"{line}this is not valid Python: {error.msg}{_excerpt(code, error.lineno)}") from None
    except (RecursionError, MemoryError):
        raise CodeError("the code is nested too deeply. Write short, flat statements") from None
    except ValueError as error:  # null bytes, lone surrogates
        raise CodeError(f"the code holds characters that Python cannot read: {type(error).__name__}") from None


def _unindented(code: str) -> str:
    """Dedent code whose first line is indented; return other code unchanged, including the texts it types."""
    code = code.removeprefix("\ufeff")
    first = next((line for line in code.splitlines() if line.strip()), "")
    return textwrap.dedent(code) if first[:1] in (" ", "\t") else code


def _excerpt(code: str, line: int | None) -> str:
    lines = code.splitlines()
    if line is None or not 0 < line <= len(lines):
        return ""
    text = lines[line - 1].strip()
    return f" in {ascii(text) if not text.isprintable() else text}"[:140] if text else ""


def run(
    code: str,
    geometry: ScreenGeometry,
    *,
    mode: Mode = "relative",
    pointer_px: tuple[int, int] | None = None,
    limits: CodeLimits | None = None,
    marks: Mapping[int, tuple[int, int]] = _NO_MARKS,
) -> list[Action]:
    """Interpret a block of code as restricted Python and return its actions.

    Nothing is executed: the syntax tree is walked, known calls become actions, and anything else is refused.
    A refusal discards all actions of the block.

    Args:
        code: Code that the model wrote.
        geometry: Geometry of the screenshot that the model saw.
        mode: Coordinate mode of the model, see `cua.gui_agent.interpreter.coordinates`.
        pointer_px: Position of the mouse pointer, in pixels of the screen; None if unknown.
        limits: Limits on work, size and waiting.
        marks: Points of `mark(n)`, in pixels of the screen; empty if the model saw no numbered boxes.

    Returns:
        Actions in order, coordinates in pixels of the screen. Empty if the code does nothing.

    Raises:
        CodeError: If the code is refused; the text gives the reason and says what to write instead.
    """
    limits = limits or CodeLimits()
    tree = parse_code(code, limits.max_code_chars)
    frame = ModelFrame(geometry=geometry, mode=mode)
    recording = ActionRecording(frame=frame, budget=CodeBudget(limits=limits), pointer_px=pointer_px, marks=marks)
    try:
        flow = execute_block(tree.body, ExecutionState(recording))
    except RecursionError:
        raise CodeError("the code is nested too deeply. Write short, flat statements") from None
    if flow is not Flow.NEXT:
        raise CodeError("break and continue can only be used in a loop")
    return recording.actions
