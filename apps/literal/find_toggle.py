"""Find the checkbox, switch or radio button of a label, and read its state from the image."""

from dataclasses import dataclass, replace

from apps.literal.find_kind import find_plain_toggles, is_other
from apps.literal.find_target import choose
from apps.literal.screen import Screen
from apps.literal.targets import Target, nth
from visual_tools.box import Box
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
    left = 0 if is_row else label.left - _REACH_LEFT_PX
    toggle = _find_best(screen, label, left, screen.width if is_row else label.right + _REACH_RIGHT_PX)
    if toggle is None and not is_row:
        toggle = _find_best(screen, label, label.right, screen.width)
        toggle = toggle if toggle is not None and _ends_row(screen, toggle, label) else None
    if toggle is None:
        return None
    return FoundToggle(box_px=toggle.box_px, is_on=toggle.is_on, label=choice.place.line.text, label_box=label)


def _find_best(screen: Screen, label: Box, left: int, right: int) -> Toggle | None:
    """The toggle that most likely belongs to a label, between two columns of pixels."""
    near = Box(left, label.top - label.height - 8, right, label.bottom + label.height + 8)
    near = near.clipped(screen.width, screen.height)
    side_px = max(MAX_TOGGLE_PX, round(_MAX_SIDE_PER_TEXT * label.height))
    found = (replace(each, box_px=_shift(each, near)) for each in find_toggles(screen.crop(near), side_px))
    costs = [
        (cost, toggle)
        for toggle in found
        if not is_other(screen, toggle, toggle.box_px)
        for cost in [_cost(screen, toggle.box_px, label)]
        if cost is not None
    ]
    return min(costs, key=lambda item: item[0])[1] if costs else None


def _find_unnamed(screen: Screen, target: Target) -> FoundToggle | None:
    """The toggle that an ordinal tells, or the only one."""
    toggles = find_plain_toggles(screen, target.role)
    toggle = nth(toggles, target.ordinal)
    if toggle is None:
        return None
    return FoundToggle(box_px=toggle.box_px, is_on=toggle.is_on, label=str(target), label_box=toggle.box_px)


def _ends_row(screen: Screen, toggle: Toggle, label: Box) -> bool:
    """True for a switch at the end of a label's row, with no text between."""
    between = Box(label.right + 1, toggle.box_px.top, toggle.box_px.left - 1, toggle.box_px.bottom)
    return toggle.kind == "switch" and not any(line.box_px.intersection(between) > 0 for line in screen.lines)


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
