"""Fields and lists compared with what was entered into them, after the last step."""

import re
from collections.abc import Sequence

from apps.literal.do_choice import shows_option
from apps.literal.do_keyboard import format_like
from apps.literal.field_boxes import find_field_boxes
from apps.literal.find_field import Field, find_field
from apps.literal.progress import Progress
from apps.literal.read_back import find_altered, read_field
from apps.literal.screen import Screen, Sight
from apps.literal.steps import Click, PlainStep, PressKeys, SelectOption, SetValue, TypeText
from apps.literal.targets import one_line
from apps.literal.text_match import squash
from apps.literal.typed_fields import read_typed
from apps.literal.work_steps import PasteText, SelectText
from visual_tools.box import Box

_UNSET = re.compile(
    r"\W*(?:(?:please )?(?:select|choose|pick)|none\b|nobody|any\b|all\b|bitte|choisi|elegir|seleccion)", re.I
)
"""How lists read in which nothing is chosen."""
_TYPING = (TypeText, SetValue, SelectOption)
_EDITING = (PasteText, SelectText)
_LEAVING = frozenset({"enter", "return", "tab", "esc", "escape"})
_SPINS = frozenset("+-−–<>▲▼")
"""Signs on buttons that count a field's number up or down."""


def find_changed(steps: Sequence[PlainStep], sight: Sight, progress: Progress) -> str | None:
    """How a field or list differs from what was typed or chosen, if one does that is still where it was."""
    last_typed = {step.field: index for index, step in enumerate(steps) if isinstance(step, _TYPING)}
    for target, index in last_typed.items():
        step, typed = steps[index], read_typed(progress, index)
        if target is None or typed is None or _is_edited(steps, index):
            continue
        is_later = bool(progress.num_looks) or index < len(steps) - 1  # the screen before shows what was typed, too
        for screen in (sight.before, sight.now) if is_later and sight.before is not None else (sight.now,):
            found = find_field(screen, target, kind="list" if isinstance(step, SelectOption) else "text")
            if found is None or not typed.is_at(found.box_px):
                continue
            if isinstance(step, SelectOption):
                text, seen = step.option.text, _find_other(step, found, screen)
            else:
                text = step.value if isinstance(step, SetValue) else step.text if isinstance(step, TypeText) else ""
                shown = format_like(text, typed.held)
                seen = find_altered(text, found, screen, was=typed.shown, held=typed.held, shown=shown)
            is_placeholder = seen is not None and squash(seen) == squash(str(target))  # the field is named by it
            if seen is not None and not is_placeholder and not _is_chosen(steps[index + 1 :], seen):
                return f'{target} shows "{seen}" after the last step, and I entered "{one_line(text)}"'
    return None


def _find_other(step: SelectOption, found: Field, screen: Screen) -> str | None:
    """The option that a list shows instead of the one that a step chose; None for a list in which none is chosen."""
    seen = read_field(found, screen)
    is_set = len(squash(seen)) > 1 and not _UNSET.match(seen)
    return seen if is_set and not step.is_more and not shows_option(screen, found, step.option.text) else None


def _is_edited(steps: Sequence[PlainStep], index: int) -> bool:
    """True if a field need not show what a step typed: it appended to another text, or a later step edits the field."""
    step, rest = steps[index], steps[index + 1 :]
    if isinstance(step, TypeText) and step.append:
        return True
    following = rest[0] if rest else None
    is_key = isinstance(following, PressKeys) and not {*following.keys} <= _LEAVING and not following.is_submit
    is_spin = any(isinstance(each, Click) and each.target.text in _SPINS for each in rest)
    is_typed_on = isinstance(following, TypeText) and following.field is None
    return is_key or is_spin or is_typed_on or isinstance(following, _EDITING)


def _is_chosen(rest: Sequence[PlainStep], seen: str) -> bool:
    """True if the step after typing pressed what a field shows, as a suggestion below it is pressed."""
    step = rest[0] if rest else None
    text = squash(step.target.text) if isinstance(step, Click) else ""
    return bool(text) and text in squash(seen)


def find_typed_boxes(steps: Sequence[PlainStep], now: Screen, progress: Progress) -> list[Box]:
    """The fields into which the steps typed, those that are there still."""
    boxes = find_field_boxes(now)
    typed = [field for field in (read_typed(progress, index) for index in range(len(steps))) if field is not None]
    return [field.box_px for field in typed if any(field.is_at(box) for box in boxes)]
