"""Find things that are told by their kind alone: "the button", "the second link", "the 3rd checkbox"."""

import re
from collections import Counter
from itertools import pairwise

from cua.models.literal.find_field import find_fields, find_lists
from cua.models.literal.find_text import find_button, is_coloured
from cua.models.literal.screen import Screen
from cua.models.literal.steps import Role
from visual_tools.box import Box
from visual_tools.ocr import TextLine
from visual_tools.toggles import Toggle, find_toggles

_ROW_PX = 8
_TEXT_SHARE = 0.3
_INDENT_PX = 6
_MAX_UNEVEN = 1.7
_MAX_BUTTON_PX = (300, 80)


def find_kind(screen: Screen, role: Role) -> list[Box]:
    """All things of a kind that can be told apart by their looks, in reading order; empty for the other kinds."""
    match role:
        case "button":
            return _in_reading_order(_find_buttons(screen))
        case "field":
            return _in_reading_order(find_fields(screen))
        case "list":
            return _in_reading_order(find_lists(screen))
        case "checkbox" | "radio":
            return [toggle.box_px for toggle in find_plain_toggles(screen, role)]
        case "link":
            return _in_reading_order(_find_links(screen))
        case "result":
            return _in_reading_order(_find_results(screen))
        case _:
            return []


def _find_buttons(screen: Screen) -> list[Box]:
    """Small rectangles with one or two lines in their middle, none of them inside another."""
    found: list[Box] = []
    for rectangle in screen.rectangles:
        box = rectangle.box_px
        lines = screen.lines_in(box)
        if not 1 <= len(lines) <= 2 or box.height > _MAX_BUTTON_PX[1] or box.width > _MAX_BUTTON_PX[0]:
            continue
        left, right = min(line.box_px.left for line in lines), max(line.box_px.right for line in lines)
        is_centred = abs((left - box.left) - (box.right - right)) <= max(8, 0.25 * box.width)
        if is_centred and not any(box.contains(inner) for inner in found):
            found.append(box)
    return found


def find_plain_toggles(screen: Screen, role: Role) -> list[Toggle]:
    """Checkboxes or radio buttons of one size; round and square letters inside a text are none."""
    found = [
        toggle
        for toggle in find_toggles(screen.image)
        if (toggle.kind == "radio") == (role == "radio") and not any(_is_letter(toggle, line) for line in screen.lines)
    ]
    if not found:
        return []
    height, _ = Counter(toggle.box_px.height for toggle in found).most_common(1)[0]
    alike = [toggle for toggle in found if abs(toggle.box_px.height - height) <= 2]
    return sorted(alike, key=lambda toggle: _place(toggle.box_px))


def _is_letter(toggle: Toggle, line: TextLine) -> bool:
    """Whether a round or square shape is a part of a text of several letters."""
    shared = toggle.box_px.intersection(line.box_px)
    return len(line.text) > 2 and shared > _TEXT_SHARE * toggle.box_px.area


def _find_links(screen: Screen) -> list[Box]:
    """Runs of words in a colour of their own, outside of buttons."""
    return [box for line in screen.lines for box in _coloured_runs(screen, line)]


def _coloured_runs(screen: Screen, line: TextLine) -> list[Box]:
    if find_button(screen, line.box_px) is not None:
        return []
    runs: list[Box] = []
    is_open = False
    for _, box in line.words:
        if not any(is_coloured(screen, box.padded(0, -box.height // share)) for share in (3, 4, 6)):
            is_open = False
            continue
        runs = [*runs[:-1], runs[-1].union(box)] if is_open else [*runs, box]
        is_open = True
    return runs


def _find_results(screen: Screen) -> list[Box]:
    """The links that begin the entries of a list: those at the left edge that most links share, one for each entry."""
    links = _in_reading_order(_find_links(screen))
    if not links:
        return []
    edges = Counter(round(box.left / _INDENT_PX) for box in links)
    edge, _ = edges.most_common(1)[0]
    column = [box for box in links if abs(round(box.left / _INDENT_PX) - edge) <= 1]
    titles = [box for box in column if not _is_address(screen, box)]
    steps = [below.top - above.top for above, below in pairwise(titles)]
    return titles if not steps or max(steps) <= _MAX_UNEVEN * min(steps) else []  # else one may have been missed


def _is_address(screen: Screen, box: Box) -> bool:
    """Whether a coloured text is the address below a result's title."""
    inside = " ".join(line.text for line in screen.lines if line.box_px.contains(box, slack_px=2))
    return re.search(r"https?:|www\.|\w\.\w{2,}(?:/|$)|\S\s*[›»]\s*\S", inside) is not None


def _in_reading_order(boxes: list[Box]) -> list[Box]:
    return sorted(dict.fromkeys(boxes), key=_place)


def _place(box: Box) -> tuple[int, int]:
    return round(box.center[1] / _ROW_PX), box.left
