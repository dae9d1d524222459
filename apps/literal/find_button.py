"""Find a button that has no name in the instruction: "the button", "the button next to Total"."""

from dataclasses import dataclass

import numpy as np

from apps.literal.field_boxes import is_cell
from apps.literal.find_target import distance, stands_so
from apps.literal.find_text import find_button, find_text, keep_best
from apps.literal.screen import Screen
from apps.literal.targets import Target
from visual_tools.box import Box
from visual_tools.ink import find_background, find_ink

_MIN_PX = (14, 14)
_MAX_PX = (420, 72)
_OVERHANG_PX = 8
_MAX_LARGE_PX = 160
_OFF_CENTRE_PX = 6
_SHADE_STEP = 8


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
    single = [box for box in outer if not is_cell(box, outer)] or outer or _list_large(screen)
    return sorted(single, key=lambda box: (round(box.center[1] / 8), box.left))


def _list_large(screen: Screen) -> list[Box]:
    """Boxes higher than buttons mostly are, with one text right in their middle and nothing else."""
    found = []
    for rectangle in screen.rectangles:
        box, inside = rectangle.box_px, screen.lines_in(rectangle.box_px)
        if len(inside) != 1 or max(box.width, box.height) > _MAX_LARGE_PX or box.left <= 0 or box.top <= 0:
            continue
        x, y = inside[0].box_px.center
        is_centred = abs(x - box.center[0]) <= _OFF_CENTRE_PX and abs(y - box.center[1]) <= _OFF_CENTRE_PX
        if is_centred and box.contains(inside[0].box_px, slack_px=_OVERHANG_PX):
            found.append(box)
    return [box for box in found if not any(other != box and box.contains(other) for other in found)]


def _is_icon_button(screen: Screen, box: Box) -> bool:
    if not (18 <= box.height <= 56 and 18 <= box.width <= 90) or screen.lines_in(box):
        return False
    columns = np.flatnonzero(find_ink(screen.crop(box.padded(-3))).any(axis=0))
    if columns.size < 5:
        return False
    left, right = int(columns[0]), box.width - 6 - int(columns[-1])
    return left > 2 and abs(left - right) <= 4


def is_shaded(screen: Screen, box: Box) -> bool:
    """Whether a box is filled with another colour than the page."""
    page, fill = screen.page_colour, find_background(screen.crop(box))
    return int(np.abs(page.astype(np.int16) - fill.astype(np.int16)).max()) >= _SHADE_STEP


def _holds_two_texts(screen: Screen, box: Box) -> bool:
    """Whether two texts, below each other or far apart in one line, stand in the middle of a box together."""
    lines = screen.lines_in(box)
    if len(lines) != 2:
        return False
    both = lines[0].box_px.union(lines[1].box_px)
    left, right = both.left - box.left, box.right - both.right
    if box.height < 60 and box.width < 60 and is_shaded(screen, box):
        return min(left, right) > -_OVERHANG_PX  # a narrow button out of which its words reach
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
