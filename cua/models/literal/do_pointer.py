"""Clicks, hovering and drags."""

from collections.abc import Collection

from cua.models.literal.find_button import find_unnamed_button
from cua.models.literal.find_field import find_field
from cua.models.literal.find_kind import find_kind
from cua.models.literal.find_target import Choice, choose
from cua.models.literal.find_text import Found, find_text, name_nearest
from cua.models.literal.find_toggle import find_toggle
from cua.models.literal.moves import Act, Already, Failed, Missing, Move, at
from cua.models.literal.progress import Progress
from cua.models.literal.screen import Screen
from cua.models.literal.steps import Click, Drag, Target
from cua.models.literal.text_match import WHOLE

_KINDS = ("button", "link", "result", "checkbox", "radio", "tab")
_MENU_PX = (320, 420)
_CALLS = {0: "moveTo", 1: "click", 2: "doubleClick", 3: "tripleClick"}


def plan_click(step: Click, screen: Screen, progress: Progress, typed: Collection[str] = ()) -> Move:
    """Click, double-click or hover; `typed` is what the steps before typed."""
    point, why = locate(step.target, screen, typed)
    if point is None and why:
        return Failed(reason=why)
    if point is None:
        return miss(screen, step.target)
    if step.reveals and not progress.count("open"):
        return Act(code=(f"pyautogui.moveTo({at(screen, point)})", "time.sleep(0.5)"), thought=why, phase="open")
    if step.reveals and _is_shown_near(screen, step.reveals, point):
        return Already(thought=f'Hovering shows "{step.reveals}".')
    call = _CALLS[step.clicks] if step.button == "left" else f"{step.button}Click"
    return Act(code=(f"pyautogui.{call}({at(screen, point)})",), thought=why)


def plan_drag(step: Drag, screen: Screen) -> Move:
    """Press at the source, move to the end, let go."""
    start, why = locate(step.source, screen)
    if start is None:
        return miss(screen, step.source)
    end, why_end = (start[0] + step.by_px[0], start[1] + step.by_px[1]), ""
    if step.onto is not None:
        found, why_end = locate(step.onto, screen)
        if found is None:
            return miss(screen, step.onto)
        end = found
    code = (
        f"pyautogui.moveTo({at(screen, start)})",
        f"pyautogui.dragTo({at(screen, end)}, duration=0.5, button='left')",
    )
    return Act(code=code, thought=f"{why}. {why_end}".strip())


def locate(target: Target, screen: Screen, typed: Collection[str] = ()) -> tuple[tuple[float, float] | None, str]:
    """The point of a target in pixels and why it is that one; None when it is not on the screen."""
    if target.position is not None:
        return (target.position[0] * screen.width, target.position[1] * screen.height), "The point is given."
    if target.role in ("checkbox", "radio"):
        toggle = find_toggle(screen, target)
        if toggle is not None:
            return toggle.box_px.center, f'The box beside "{toggle.label}".'
    if not target.text and target.role == "button":
        unnamed = find_unnamed_button(screen, target)
        return (unnamed.point, unnamed.why) if unnamed is not None else (None, "")
    named = find_text(screen, target.phrase) if not target.text and target.phrase else []
    if named and named[0].fit == 1.0:
        return named[0].point, f'I see "{target.phrase}".'
    if not target.text and target.relation is None and target.role in _KINDS:
        return _locate_kind(target, screen)
    if not target.text or (target.role in ("field", "list") and choose_button(target, screen) is None):
        found = find_field(screen, target)
        if found is not None:
            return found.box_px.center, f"It is {found.why}."
    choice = choose(screen, target, to_press=True, typed=typed)
    if choice is None:
        return None, ""
    return choice.place.point, f"{choice.why}."


def _is_shown_near(screen: Screen, text: str, point: tuple[float, float]) -> bool:
    """Whether a text stands where an entry's own menu would."""
    for place in find_text(screen, text):
        x, y = place.box_px.center
        if place.fit >= WHOLE and abs(x - point[0]) < _MENU_PX[0] and abs(y - point[1]) < _MENU_PX[1]:
            return True
    return False


def _locate_kind(target: Target, screen: Screen) -> tuple[tuple[float, float] | None, str]:
    """Find a target by its kind: the one that the ordinal names, or the only one."""
    boxes = find_kind(screen, target.role)
    ordinal = target.ordinal or (1 if len(boxes) == 1 else 0)
    if not 1 <= (len(boxes) if ordinal == -1 else ordinal) <= len(boxes):
        return None, ""
    return boxes[ordinal - 1 if ordinal > 0 else -1].center, f"I see {len(boxes)} of that kind."


def find_pressed(screen: Screen, target: Target, typed: Collection[str] = ()) -> Found | None:
    """What a click on a target presses; None when that is no text, or not there."""
    if target.position is not None or not (target.text or target.phrase):
        return None
    choice = choose(screen, target, to_press=True, typed=typed)
    return choice.place if choice is not None else None


def choose_button(target: Target, screen: Screen) -> Choice | None:
    """The choice for a target when it is a button."""
    choice = choose(screen, target)
    return choice if choice is not None and choice.place.button is not None else None


def miss(screen: Screen, target: Target) -> Move:
    """What to say when a target is not there."""
    if target.ordinal is not None and abs(target.ordinal) > 20:
        return Failed(reason=f"{target} is more than can be counted on a screen")
    if not target.text and target.relation is None and target.role in (*_KINDS, "field", "list"):
        count = len(find_kind(screen, target.role))
        if target.ordinal is None and count > 1:
            return Failed(reason=f"there are {count} of the kind of {target}, and it is not said which of them")
        if target.ordinal is not None and 0 < count < target.ordinal:
            return Failed(reason=f"{target} was asked for, and {count} of that kind are seen")
    return Missing(what=str(target), nearest=tuple(name_nearest(screen, target.text or "")))
