"""The one way in: a block of model code to a list of actions."""

from cua.errors import CodeError
from cua.interpreter.coordinates import Mode, ModelFrame
from cua.interpreter.evaluate import Scope
from cua.interpreter.execute import Flow, execute_block
from cua.interpreter.limits import Budget, Limits
from cua.interpreter.recording import Recording
from cua.interpreter.syntax import parse_code
from envs import Action, ScreenGeometry


def run(
    code: str,
    geometry: ScreenGeometry,
    *,
    mode: Mode = "relative",
    pointer_px: tuple[int, int] | None = None,
    limits: Limits | None = None,
) -> list[Action]:
    """Read a block of code as restricted Python and give the actions that it asks for.

    Nothing is executed: the syntax tree is walked, known calls become actions, anything else is refused.
    The result is all or nothing.

    Args:
        code: What the model wrote.
        geometry: The screenshot that the model saw.
        mode: How the model writes coordinates, see `cua.interpreter.coordinates`.
        pointer_px: Where the mouse pointer is, screen frame; None when unknown.
        limits: Bounds on work, size and waiting.

    Returns:
        Actions in order, coordinates in the screen frame. Empty when the code does nothing.

    Raises:
        CodeError: The code is refused; the text tells the model why and what to write instead.
    """
    limits = limits or Limits()
    tree = parse_code(code, limits.max_code_chars)
    frame = ModelFrame(geometry=geometry, mode=mode)
    recording = Recording(frame=frame, budget=Budget(limits=limits), pointer_px=pointer_px)
    try:
        flow = execute_block(tree.body, Scope(recording))
    except RecursionError:
        raise CodeError("the code is nested too deeply. Write short, flat statements") from None
    if flow is not Flow.NEXT:
        raise CodeError("break and continue can only be used in a loop")
    return recording.actions
