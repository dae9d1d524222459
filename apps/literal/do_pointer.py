"""Click, hover and drag."""

import re
from collections.abc import Collection

from apps.literal.figures import find_signs
from apps.literal.find_field import choose, find_field
from apps.literal.find_kind import find_kind, find_links_by_text, find_toggle, find_unnamed_button
from apps.literal.find_opener import find_next_page, find_submenus
from apps.literal.find_text import TextHit, find_text, find_whole, name_nearest
from apps.literal.screen import OcrScreen
from apps.literal.step_outcome import Done, Failed, NotFound, RunCode, StepOutcome, StepPlans, StepView, click, drag
from apps.literal.steps import ClickTarget, DragTarget
from apps.literal.targets import ElementTarget, nth
from visual_tools.box import Box

_KINDS = ("button", "link", "result", "checkbox", "radio", "tab", "input", "textarea")
_MAX_PAGES = 20
_MENU_PX = (320, 420)
_CALLS = {0: "moveTo", 1: "click", 2: "doubleClick", 3: "tripleClick"}


def plan_click(step: ClickTarget, view: StepView) -> StepOutcome:
    """Click, double-click or hover."""
    screen, typed = view.now, view.typed
    if step.target.role == "result" and (step.target.ordinal or 0) > 0 and not step.target.text:
        return _plan_result(step, view, step.target.ordinal or 1)
    point, why = locate(step.target, screen, typed)
    if point is None and step.reveals and view.progress.last == "open" and view.before is not None:
        point, why = locate(step.target, view.before, typed)  # the hovered element looks different
    if point is None and why:
        return Failed(why)
    if point is None and step.target.role == "menu":
        openers = find_submenus(screen)
        tries = view.progress.count("seek")
        if tries < len(openers):
            thought = f'It may be below "{openers[tries].label}".'
            return click(screen, openers[tries].point, thought, "seek", call="moveTo", pause_s=0.6)
    if point is None:
        return report_missing(screen, step.target)
    if step.reveals and not view.progress.count("open"):
        return click(screen, point, why, "open", call="moveTo", pause_s=0.5)
    if step.reveals and _is_shown_near(screen, step.reveals, point):
        return Done(f'Hovering shows "{step.reveals}".')
    if step.clicks > 1 and len(step.target.text) == 1:
        point = _first_half(screen, step.target, typed) or point
    return click(screen, point, why, call=_CALLS[step.clicks] if step.button == "left" else f"{step.button}Click")


def _first_half(screen: OcrScreen, target: ElementTarget, typed: Collection[str]) -> tuple[float, float] | None:
    """Return a point that puts the caret before a single character; after it, a double-click selects no word."""
    hit = find_pressed(screen, target, typed)
    if hit is None or hit.button is not None:
        return None
    return hit.box_px.left + 0.3 * hit.box_px.width, hit.point[1]


def _plan_result(step: ClickTarget, view: StepView, ordinal: int) -> StepOutcome:
    """Open a search result by its number, on a later page if this page shows fewer results.

    All pages except the last have as many results as the first.
    """
    screen = view.now
    boxes = find_kind(screen, "result")
    turned = view.progress.count("seek")
    if not boxes:
        return report_missing(screen, step.target)
    before = len(find_kind(view.before, "result")) if turned and view.before is not None else 0
    each = max(before, len(boxes))
    index = ordinal - 1 - turned * each
    if 0 <= index < len(boxes):
        return click(screen, boxes[index].center, f"Found {len(boxes)} of them.")
    following = find_next_page(screen)
    if index < 0 or not following or turned >= _MAX_PAGES or (turned and len(boxes) < each):
        return Failed(f"{step.target} was requested, but only {turned * each + len(boxes)} of that type were found")
    thought = f"This page shows {len(boxes)}; I open the next one."
    return click(screen, following[0].point, thought, "seek", pause_s=0.5)


def plan_drag(step: DragTarget, view: StepView) -> StepOutcome:
    """Press at the source, move to the end, release."""
    screen = view.now
    start, why = locate(step.source, screen)
    if start is None:
        return report_missing(screen, step.source)
    end, why_end = (start[0] + step.by_px[0], start[1] + step.by_px[1]), ""
    if step.onto is not None:
        target_point, why_end = locate(step.onto, screen)
        if target_point is None:
            return report_missing(screen, step.onto)
        end = target_point
    return RunCode(code=drag(screen, start, end, duration_s=0.5), thought=f"{why}. {why_end}".strip())


def locate(
    target: ElementTarget, screen: OcrScreen, typed: Collection[str] = ()
) -> tuple[tuple[float, float] | None, str]:
    """Return a target's point in pixels and the reason for the choice; None if it is not on the screen."""
    if target.position is not None:
        return (target.position[0] * screen.width, target.position[1] * screen.height), "The point is given."
    if target.role in ("checkbox", "radio"):
        toggle = find_toggle(screen, target)
        if toggle is not None:
            return toggle.box_px.center, f'The box next to "{toggle.label}".'
    if not target.text and target.role == "button":
        button, why = find_unnamed_button(screen, target)
        return (button.center if button is not None else None), why
    named = find_text(screen, target.phrase) if not target.text and target.phrase else []
    if named and named[0].fit == 1.0:
        return named[0].point, f'I see "{target.phrase}".'
    if not target.text and target.relation is None and target.role in _KINDS:
        boxes = find_kind(screen, target.role)
        box = nth(boxes, target.ordinal)
        return (None, "") if box is None else (box.center, f"I see {len(boxes)} of that kind.")
    chosen = choose(screen, target) if target.text and target.role in ("field", "list") else None
    is_field = target.role in ("field", "list") and (chosen is None or chosen.hit.button is None)
    if not target.text or is_field:
        field = find_field(screen, target)
        if field is not None:
            return field.box_px.center, f"It is {field.why}."
    if target.role == "link" and target.relation is None and target.ordinal is None:
        links = find_links_by_text(screen, target.text)
        if links:
            return links[0].point, f'I see the link "{target.text}".'
    choice = choose(screen, target, to_press=True, typed=typed)
    if choice is None or choice.hit.button is None:
        is_plain = target.relation is None and not target.ordinal
        beside = find_link_beside(screen, target.text, is_exact=choice is not None) if is_plain else None
        if beside is not None:
            return beside.center, f'The label "{target.text}" is not a link; the text to its right is one.'
    if choice is None:
        signs = find_signs(screen, target.text) if len(target.text) == 1 and not target.ordinal else []
        return (signs[0].center, f'I see the sign "{target.text}".') if len(signs) == 1 else (None, "")
    return choice.hit.point, f"{choice.why}."


def find_link_beside(screen: OcrScreen, label: str, *, is_exact: bool = False) -> Box | None:
    """Return the link right of a label that ends in a colon.

    Args:
        screen: Screen to search.
        label: Label as written in the instruction.
        is_exact: True to require that exact label; otherwise "phone number" matches "Phone:" if nothing else fits.
    """
    wanted = {word.casefold() for word in re.findall(r"\w+", label)}
    links = []
    for line in screen.lines:
        name, colon, _ = line.text.partition(":")
        words = {word.casefold() for word in re.findall(r"\w+", name)}
        if colon and words and (words == wanted or (words < wanted and not is_exact)):
            row = Box(line.span(0, len(name) + 1).right - 2, line.box_px.top, screen.width, line.box_px.bottom)
            beside = [box for box in find_kind(screen, "link") if row.has_point(*box.center)]
            links += [min(beside, key=lambda box: box.left)] if beside else []
    return links[0] if len(links) == 1 else None


def _is_shown_near(screen: OcrScreen, text: str, point: tuple[float, float]) -> bool:
    """Return True if a text is where an entry's submenu would be."""
    centers = (hit.box_px.center for hit in find_whole(screen, text))
    return any(abs(x - point[0]) < _MENU_PX[0] and abs(y - point[1]) < _MENU_PX[1] for x, y in centers)


def find_pressed(screen: OcrScreen, target: ElementTarget, typed: Collection[str] = ()) -> TextHit | None:
    """Return the text that a click on a target hits; None if it is not a text or is not on the screen."""
    if target.position is not None or not (target.text or target.phrase):
        return None
    choice = choose(screen, target, to_press=True, typed=typed)
    return choice.hit if choice is not None else None


def report_missing(screen: OcrScreen, target: ElementTarget) -> StepOutcome:
    """Report that a target is missing or ambiguous."""
    if target.ordinal is not None and abs(target.ordinal) > 20:
        return Failed(f"{target} is too large a number for one screen")
    if not target.text and target.relation is None and target.role in (*_KINDS, "field", "list"):
        count = len(find_kind(screen, target.role))
        if target.ordinal is None and count > 1:
            return Failed(f"there are {count} elements of the type of {target}: the step must say which one")
        if target.ordinal is not None and 0 < count < target.ordinal:
            return Failed(f"{target} was requested, but only {count} of that type were found")
    return NotFound(what=str(target), nearest=tuple(name_nearest(screen, target.text or "")))


PLANS: StepPlans = {ClickTarget: plan_click, DragTarget: plan_drag}
