"""Typing into fields, clearing them, pressing keys, opening addresses."""

from cua.models.literal.dates import format_like
from cua.models.literal.do_pointer import miss
from cua.models.literal.find_field import Field, find_field
from cua.models.literal.moves import Act, Already, Failed, Move, at, hotkey, quote
from cua.models.literal.progress import Progress
from cua.models.literal.read_back import check_typed
from cua.models.literal.screen import Screen
from cua.models.literal.sight import Sight
from cua.models.literal.steps import ClearField, OpenAddress, PressKeys, Target, TypeText

_MAX_TRIES = 2
_SELECT_ALL = "pyautogui.hotkey('ctrl', 'a')"


def plan_type(step: TypeText, sight: Sight, progress: Progress) -> Move:
    """Click the field, replace what it holds, read it back; then Enter, when that was asked for."""
    after = ("pyautogui.press('enter')",) if step.enter else ()
    if step.field is None:
        return Act(code=(f"pyautogui.write({quote(step.text)})", *after), thought="I type into what has the focus.")
    move = type_and_check(step.field, step.text, sight, progress, append=step.append)
    if isinstance(move, Already) and after:
        return Act(code=after, thought=move.thought)
    return move


def type_and_check(field: Target, text: str, sight: Sight, progress: Progress, *, append: bool = False) -> Move:
    """Type into a field, then see whether the text stands there; once more when nothing came of it."""
    tries = progress.count("type")
    if progress.last == "type" and sight.before is not None:
        typed_into = find_field(sight.before, field, kind="text")
        wrong = check_typed(text, typed_into, sight.before, sight.now) if typed_into is not None else None
        if wrong is None:
            return Already(thought="The text stands there.")
        if tries >= _MAX_TRIES or "did not change" not in wrong:
            return Failed(reason=wrong)
    elif progress.last == "type":
        return Already(thought="I typed it.")
    found = find_field(sight.now, field, kind="text")
    if found is None:
        return miss(sight.now, field)
    return Act(
        code=type_into(found, text, sight.now, append=append), thought=f"The field is {found.why}.", phase="type"
    )


def type_into(found: Field, text: str, screen: Screen, *, append: bool = False) -> tuple[str, ...]:
    """Code that gives a field a text; dates in the order that the field shows."""
    if append:
        return (
            f"pyautogui.click({at(screen, field_point(found))})",
            "pyautogui.hotkey('ctrl', 'end')",
            f"pyautogui.write({quote(text)})",
        )
    shown = format_like(text, found.text)
    point = field_point(found) if shown is None else first_part(found)
    return (f"pyautogui.click({at(screen, point)})", _SELECT_ALL, f"pyautogui.write({quote(shown or text)})")


def field_point(found: Field) -> tuple[float, float]:
    """Where to click a field: its middle, or near the top of a large one."""
    box = found.box_px
    return box.center[0], box.center[1] if box.height < 80 else box.top + min(40.0, box.height / 3)


def first_part(found: Field) -> tuple[float, float]:
    """Where the first part of a date stands, on which native date fields begin to take digits."""
    return found.box_px.left + min(14.0, found.box_px.width / 6), found.box_px.center[1]


def plan_clear(step: ClearField, screen: Screen) -> Move:
    """Select all of a field and delete it."""
    found = find_field(screen, step.field)
    if found is None:
        return miss(screen, step.field)
    code = (f"pyautogui.click({at(screen, field_point(found))})", _SELECT_ALL, "pyautogui.press('delete')")
    return Act(code=code, thought=f"The field is {found.why}.")


def plan_press(step: PressKeys) -> Move:
    """Press keys."""
    if step.times > 1 and len(step.keys) == 1:
        return Act(code=(f"pyautogui.press({quote(step.keys[0])}, presses={step.times})",), thought="Keys, as told.")
    return Act(code=(hotkey(step.keys),) * step.times, thought="Keys, as told.")


def plan_open(step: OpenAddress) -> Move:
    """Type an address into the address bar."""
    code = ("pyautogui.hotkey('ctrl', 'l')", f"pyautogui.write({quote(step.url)})", "pyautogui.press('enter')")
    return Act(code=code, thought="Ctrl+L brings the address bar.")
