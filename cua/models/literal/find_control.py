"""Find a checkbox, switch or radio button by its label, and buttons that have no name in the instruction."""

from dataclasses import dataclass

import numpy as np

from cua.models.literal.field_boxes import is_cell
from cua.models.literal.find_kind import find_plain_toggles, is_other
from cua.models.literal.find_target import choose, distance, stands_so
from cua.models.literal.find_text import find_button, find_text, keep_best
from cua.models.literal.screen import Screen
from cua.models.literal.steps import Target
from visual_tools.box import Box
from visual_tools.ink import find_ink
from visual_tools.widgets import MAX_TOGGLE_PX, Toggle, find_toggles

_REACH_LEFT_PX = 90
_REACH_RIGHT_PX = 420
_RIGHT_COST_PX = 8.0
_TAKEN_COST_PX = 60.0
_MAX_SIDE_PER_TEXT = 2.2
"""How far from its label a toggle may stand, and what counts against one: standing right of the label, and standing
nearer to another text. A toggle may be taller than usual where its label is: on a sharp screen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundToggle:
    """A toggle with the text that labels it."""

    box_px: Box
    is_on: bool
    label: str
    label_box: Box


def find_toggle(screen: Screen, target: Target) -> FoundToggle | None:
    """The toggle beside the target's text; None when the text is missing or nothing stands beside it."""
    text = Target(text=target.text, ordinal=target.ordinal, relation=target.relation) if target.text else None
    if text is None and target.relation is not None:
        text = Target(text=target.relation.anchor)
    if text is None:
        return _find_unnamed(screen, target)
    choice = choose(screen, text)
    if choice is None:
        return None
    label = choice.place.box_px
    is_row = not target.text and target.relation is not None and target.relation.kind == "row"
    left, right = (0, screen.width) if is_row else (label.left - _REACH_LEFT_PX, label.right + _REACH_RIGHT_PX)
    near = Box(left, label.top - label.height - 8, right, label.bottom + label.height + 8)
    near = near.clipped(screen.width, screen.height)
    side_px = max(MAX_TOGGLE_PX, round(_MAX_SIDE_PER_TEXT * label.height))
    toggles = [
        toggle
        for toggle in find_toggles(screen.crop(near), side_px)
        if not is_other(screen, toggle, _shift(toggle, near))
    ]
    ranked = sorted(
        (
            (cost, toggle, box)
            for toggle in toggles
            for box in [_shift(toggle, near)]
            for cost in [_cost(screen, box, label)]
            if cost is not None
        ),
        key=lambda item: item[0],
    )
    if not ranked:
        return None
    _, toggle, box = ranked[0]
    return FoundToggle(box_px=box, is_on=toggle.is_on, label=choice.place.line.text, label_box=label)


def _find_unnamed(screen: Screen, target: Target) -> FoundToggle | None:
    """The toggle that an ordinal tells, or the only one."""
    toggles = find_plain_toggles(screen, target.role)
    ordinal = target.ordinal or (1 if len(toggles) == 1 else 0)
    if not 1 <= (len(toggles) if ordinal == -1 else ordinal) <= len(toggles):
        return None
    toggle = toggles[ordinal - 1 if ordinal > 0 else -1]
    return FoundToggle(box_px=toggle.box_px, is_on=toggle.is_on, label=str(target), label_box=toggle.box_px)


def _shift(toggle: Toggle, near: Box) -> Box:
    box = toggle.box_px
    return Box(box.left + near.left, box.top + near.top, box.right + near.left, box.bottom + near.top)


def _cost(screen: Screen, box: Box, label: Box) -> float | None:
    """How unlikely a toggle belongs to a label, in pixels; None for not at all."""
    if abs(box.center[1] - label.center[1]) > max(label.height, box.height) * 0.8:
        return None
    is_left = box.center[0] < label.left + min(label.height, 0.3 * label.width)
    gap = float(max(label.left - box.right if is_left else box.left - label.right, 0))
    if not is_left and box.center[0] < label.right:
        return None
    closer = any(_is_closer(line.box_px, box, gap, is_left) for line in screen.lines)
    return gap + (0 if is_left else _RIGHT_COST_PX) + (_TAKEN_COST_PX if closer else 0)


def _is_closer(text: Box, box: Box, gap: float, is_left: bool) -> bool:
    """Whether a text on the toggle's other side is much nearer to it than the label is."""
    if text.overlap_y(box) < 0.4 * min(text.height, box.height):
        return False
    other = box.left - text.right if is_left else text.left - box.right
    return -2 <= other < 0.6 * gap


_MIN_PX = (14, 14)
_MAX_PX = (420, 72)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnnamedButton:
    """The button that was found, or why none was.

    Attributes:
        point: Its middle, in pixels; None when it cannot be told.
        why: Why it is that one, or what stands in the way.
    """

    point: tuple[float, float] | None
    why: str


def find_unnamed_button(screen: Screen, target: Target) -> UnnamedButton | None:
    """The only button, the one in a place, or the one by number; None when there is none.

    A button whose own text is what the relation names ("the button in the dialog labelled Cancel") is that one.
    """
    if target.relation is not None:
        for anchor in keep_best(find_text(screen, target.relation.anchor)):
            if anchor.button is not None and target.relation.kind == "inside":
                return UnnamedButton(point=anchor.button.center, why=f'I see the button "{anchor.line.text}".')
    buttons = list_buttons(screen)
    if target.relation is not None:
        return _find_related(screen, target, buttons)
    if screen.dialog is not None:
        buttons = [box for box in buttons if screen.dialog.contains(box)] or buttons
    if not buttons:
        return None
    if target.ordinal is not None:
        index = target.ordinal - 1 if target.ordinal > 0 else -1
        return UnnamedButton(point=buttons[index].center, why="Counted.") if index < len(buttons) else None
    if len(buttons) == 1:
        return UnnamedButton(point=buttons[0].center, why="It is the only button.")
    names = [line.text for box in buttons for line in screen.lines_in(box)]
    return UnnamedButton(
        point=None, why=f"there are {len(buttons)} buttons ({', '.join(names[:6])}): the step must name one"
    )


def list_buttons(screen: Screen) -> list[Box]:
    """Boxes that look like buttons: low, with a text, two or an icon in their middle; in reading order."""
    found = [box for line in screen.lines if (box := find_button(screen, line.box_px)) is not None]
    inside = [rectangle.box_px for rectangle in screen.rectangles]
    found += [box for box in inside if _is_icon_button(screen, box) or _holds_two_texts(screen, box)]
    boxes = [
        box
        for box in dict.fromkeys(found)
        if _MIN_PX[0] <= box.width <= _MAX_PX[0] and _MIN_PX[1] <= box.height <= _MAX_PX[1]
    ]
    outer = [box for box in boxes if not any(other != box and box.contains(other) for other in boxes)]
    single = [box for box in outer if not is_cell(box, outer)] or outer
    return sorted(single, key=lambda box: (round(box.center[1] / 8), box.left))


def _is_icon_button(screen: Screen, box: Box) -> bool:
    if not (18 <= box.height <= 56 and 18 <= box.width <= 90) or screen.lines_in(box):
        return False
    columns = np.flatnonzero(find_ink(screen.crop(box.padded(-3))).any(axis=0))
    if columns.size < 5:
        return False
    left, right = int(columns[0]), box.width - 6 - int(columns[-1])
    return left > 2 and abs(left - right) <= 4


def _holds_two_texts(screen: Screen, box: Box) -> bool:
    """Whether two texts, below each other or far apart in one line, stand in the middle of a box together."""
    lines = screen.lines_in(box)
    if len(lines) != 2:
        return False
    both = lines[0].box_px.union(lines[1].box_px)
    left, right = both.left - box.left, box.right - both.right
    return min(left, right) > 2 and abs(left - right) <= max(6, 0.2 * box.width)


def _find_related(screen: Screen, target: Target, buttons: list[Box]) -> UnnamedButton | None:
    relation = target.relation
    if relation is None:
        return None
    ranked = sorted(
        (distance(relation, box, anchor.box_px, screen), box)
        for anchor in keep_best(find_text(screen, relation.anchor))
        for box in buttons
        if not box.contains(anchor.box_px) and stands_so(relation, box, anchor.box_px, screen)
    )
    if not ranked:
        return None
    return UnnamedButton(point=ranked[0][1].center, why=f'It is the button {relation.kind} "{relation.anchor}".')
