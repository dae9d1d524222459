"""Find the checkbox, switch or radio button of a label, and read its state from the picture."""

from dataclasses import dataclass

from cua.models.literal.find_target import choose
from cua.models.literal.screen import Screen
from cua.models.literal.steps import Target
from visual_tools.box import Box
from visual_tools.toggles import Toggle, find_toggles


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
        return None
    choice = choose(screen, text)
    if choice is None:
        return None
    label = choice.place.box_px
    near = Box(label.left - 90, label.top - label.height - 8, label.right + 420, label.bottom + label.height + 8)
    near = near.clipped(screen.width, screen.height)
    toggles = find_toggles(screen.crop(near))
    ranked = sorted(
        (
            (cost, toggle, box)
            for toggle in toggles
            for box in [_shift(toggle, near)]
            for cost in [_cost(box, label)]
            if cost is not None
        ),
        key=lambda item: item[0],
    )
    if not ranked:
        return None
    _, toggle, box = ranked[0]
    return FoundToggle(box_px=box, is_on=toggle.is_on, label=choice.place.line.text, label_box=label)


def _shift(toggle: Toggle, near: Box) -> Box:
    box = toggle.box_px
    return Box(box.left + near.left, box.top + near.top, box.right + near.left, box.bottom + near.top)


def _cost(box: Box, label: Box) -> float | None:
    """How unlikely a toggle belongs to a label, in pixels; None for not at all."""
    if abs(box.center[1] - label.center[1]) > max(label.height, box.height) * 0.8:
        return None
    if box.right <= label.left + 4:
        return float(label.left - box.right)
    if box.left >= label.right - 4:
        return 40.0 + (box.left - label.right)
    return None
