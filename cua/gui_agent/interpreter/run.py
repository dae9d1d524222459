"""The one way in: a block of model code to a list of actions."""

import ast
import textwrap
import warnings
from collections.abc import Mapping
from types import MappingProxyType

from cua.errors import CodeError
from cua.gui_agent.interpreter.coordinates import Mode, ModelFrame
from cua.gui_agent.interpreter.evaluate import Scope
from cua.gui_agent.interpreter.execute import Flow, execute_block
from cua.gui_agent.interpreter.limits import Budget, Limits
from cua.gui_agent.interpreter.recording import Recording
from envs import Action, ScreenGeometry

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
