"""The one way in: a block of model code to a list of actions, statement by statement."""

import ast
import textwrap
import warnings
from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType

from cua.errors import CodeError
from cua.gui_agent.interpreter import modules
from cua.gui_agent.interpreter.builtins import items_of
from cua.gui_agent.interpreter.coordinates import Mode, ModelFrame
from cua.gui_agent.interpreter.evaluate import Scope, arguments, assign, evaluate
from cua.gui_agent.interpreter.limits import Budget, Limits, Refused
from cua.gui_agent.interpreter.pyautogui_calls import hold_keys
from cua.gui_agent.interpreter.recording import Recording
from cua.gui_agent.interpreter.values import Function, binary
from envs import Action, KeyDown, KeyUp, ScreenGeometry

_MISTAKES = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)
"""What Python's own operations raise on values that do not fit."""


class Flow(Enum):
    """Where execution goes after a statement."""

    NEXT = auto()
    BREAK = auto()
    CONTINUE = auto()


def execute_block(statements: list[ast.stmt], scope: Scope) -> Flow:
    """Carry out statements in order, until one of them leaves the loop around them.

    Raises:
        CodeError: A statement was refused; the text starts with its line number.
    """
    for statement in statements:
        try:
            scope.budget.spend()
            scope.budget.enter()
            flow = _execute(statement, scope)
            scope.budget.leave()
        except Refused as refusal:
            raise CodeError(f"line {statement.lineno}: {refusal}") from None
        except _MISTAKES as error:
            text = str(error).replace("<lambda>()", "this call")[:200]
            raise CodeError(f"line {statement.lineno}: {type(error).__name__}: {text}") from None
        if flow is not Flow.NEXT:
            return flow
    return Flow.NEXT


def _execute(node: ast.stmt, scope: Scope) -> Flow:
    match node:
        case ast.Expr(value=value):
            _expression(value, scope)
        case ast.Assign(targets=targets, value=value):
            result = evaluate(value, scope)
            for target in targets:
                assign(target, result, scope)
        case ast.AnnAssign(target=target, value=annotated):
            if annotated is not None:
                assign(target, evaluate(annotated, scope), scope)
        case ast.AugAssign(target=target, op=op, value=value):
            _augmented(target, op, value, scope)
        case ast.Import() | ast.ImportFrom():
            _import(node, scope)
        case ast.If(test=test, body=body, orelse=orelse):
            return execute_block(body if evaluate(test, scope) else orelse, scope)
        case ast.For():
            return _for(node, scope)
        case ast.While():
            return _while(node, scope)
        case ast.With():
            return _with(node, scope)
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


def _expression(value: ast.expr, scope: Scope) -> None:
    if isinstance(value, ast.Constant):
        return
    result = evaluate(value, scope)
    if isinstance(result, Function):
        raise Refused(f"{result} is not called: write {result}(...) with parentheses")
    if isinstance(value, ast.Dict):
        raise Refused("a dict does nothing: write computer.terminate(status='success') or computer.wait() as a call")


def _augmented(target: ast.expr, op: ast.operator, value: ast.expr, scope: Scope) -> None:
    match target:
        case ast.Name(id=name):
            current = evaluate(ast.copy_location(ast.Name(id=name, ctx=ast.Load()), target), scope)
        case ast.Subscript(value=owner, slice=index):
            current = evaluate(
                ast.copy_location(ast.Subscript(value=owner, slice=index, ctx=ast.Load()), target), scope
            )
        case _:
            raise Refused("this cannot be assigned to")
    assign(target, binary(op, current, evaluate(value, scope), scope.budget), scope)


def _import(node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            scope.variables[alias.asname or alias.name] = modules.import_module(alias.name)
        return
    module = modules.import_module(node.module or ".")
    for alias in node.names:
        if alias.name == "*":
            raise Refused(f"write import {module.name} and call {module.name}.name(...)")
        scope.variables[alias.asname or alias.name] = modules.attribute(module, alias.name)


def _for(node: ast.For, scope: Scope) -> Flow:
    value = evaluate(node.iter, scope)
    items = items_of(value, scope.budget)
    for item in value if isinstance(value, list) else items:  # a list that grows meanwhile goes on, as in Python
        scope.budget.spend()
        assign(node.target, item, scope)
        if execute_block(node.body, scope) is Flow.BREAK:
            return Flow.NEXT
    return execute_block(node.orelse, scope)


def _while(node: ast.While, scope: Scope) -> Flow:
    while evaluate(node.test, scope):
        scope.budget.spend()
        if execute_block(node.body, scope) is Flow.BREAK:
            return Flow.NEXT
    return execute_block(node.orelse, scope)


def _with(node: ast.With, scope: Scope) -> Flow:
    held = [key for item in node.items for key in _held_keys(item, scope)]
    for key in held:
        scope.recording.add(KeyDown(key=key))
    flow = execute_block(node.body, scope)
    for key in held:
        scope.recording.add(KeyUp(key=key))
    return flow


def _held_keys(item: ast.withitem, scope: Scope) -> list[str]:
    """Keys of one `pyautogui.hold(...)` in a with statement."""
    call = item.context_expr
    if isinstance(call, ast.Call) and item.optional_vars is None:
        match call.func:
            case ast.Attribute(value=ast.Name(), attr="hold") | ast.Name():
                function = evaluate(call.func, scope)
                if isinstance(function, Function) and (function.module, function.name) in _HOLDS:
                    return hold_keys(*arguments(call, scope), scope.recording)
    raise Refused("with can only be used as: with pyautogui.hold('shift'):")


_HOLDS = (("pyautogui", "hold"), ("computer", "hold"))


_NO_MARKS: Mapping[int, tuple[int, int]] = MappingProxyType({})


def parse_code(code: str, max_code_chars: int = 60_000) -> ast.Module:
    """The syntax tree of a block of code; nothing is carried out.

    Raises:
        CodeError: It is not Python, or too long or too deeply nested to be read.
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
    except ValueError as error:  # null bytes, half characters
        raise CodeError(f"the code holds characters that Python cannot read: {type(error).__name__}") from None


def _unindented(code: str) -> str:
    """Code whose first line is indented moves left as a whole; other code stays as it is, typed texts included."""
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
    limits: Limits | None = None,
    marks: Mapping[int, tuple[int, int]] = _NO_MARKS,
) -> list[Action]:
    """Read a block of code as restricted Python and give the actions that it asks for.

    Nothing is executed: the syntax tree is walked, known calls become actions, anything else is refused.
    The result is all or nothing.

    Args:
        code: What the model wrote.
        geometry: The screenshot that the model saw.
        mode: How the model writes coordinates, see `cua.gui_agent.interpreter.coordinates`.
        pointer_px: Where the mouse pointer is, screen frame; None when unknown.
        limits: Bounds on work, size and waiting.
        marks: What `mark(n)` stands for, screen frame; empty where the model saw no numbered boxes.

    Returns:
        Actions in order, coordinates in the screen frame. Empty when the code does nothing.

    Raises:
        CodeError: The code is refused; the text tells the model why and what to write instead.
    """
    limits = limits or Limits()
    tree = parse_code(code, limits.max_code_chars)
    frame = ModelFrame(geometry=geometry, mode=mode)
    recording = Recording(frame=frame, budget=Budget(limits=limits), pointer_px=pointer_px, marks=marks)
    try:
        flow = execute_block(tree.body, Scope(recording))
    except RecursionError:
        raise CodeError("the code is nested too deeply. Write short, flat statements") from None
    if flow is not Flow.NEXT:
        raise CodeError("break and continue can only be used in a loop")
    return recording.actions
