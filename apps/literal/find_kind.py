"""Find widgets that are named by their kind only: "the button", "the second link", "the 3rd checkbox"."""

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np

from apps.literal.field_boxes import find_fields, find_inputs, find_lists, is_text_area
from apps.literal.find_button import list_buttons
from apps.literal.find_slider import find_sliders
from apps.literal.find_text import Found, find_button, find_text, is_coloured
from apps.literal.screen import RINGS, Screen
from apps.literal.targets import Role
from apps.literal.text_match import CONTAINED
from visual_tools.box import Box
from visual_tools.ink import find_ink, measure_contrast
from visual_tools.ocr import TextLine
from visual_tools.widgets import Toggle, find_toggles

_ROW_PX = 8
_TEXT_SHARE = 0.3
_INDENT_PX = 6
_MAX_UNEVEN = 1.7
_PAGER = re.compile(r"[\W\d]*(?:next|prev(?:ious)?|older|newer|more(?: results)?|first|last)?(?: page)?[\W\d]*", re.I)
_MIN_MARK_CONTRAST = 40
_MIN_GLUED = 4
_RING_GAP_PX = 2
_MAX_MARK_RATIO = 1.35


def find_kind(screen: Screen, role: Role) -> list[Box]:
    """All widgets of a kind that is recognised by its looks, in reading order; empty for other kinds."""
    match role:
        case "button":
            return list_buttons(screen)
        case "field":
            return _in_reading_order(find_fields(screen))
        case "input" | "textarea":
            return [box for box in find_inputs(screen) if is_text_area(screen, box) == (role == "textarea")]
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


def find_plain_toggles(screen: Screen, role: Role) -> list[Toggle]:
    """Checkboxes or radio buttons of one size; letters inside a text and icon buttons are none."""
    handles = [slider.handle for slider in find_sliders(screen)]
    page = screen.page
    found = [
        toggle
        for each in find_toggles(screen.crop(page))
        for toggle in [replace(each, box_px=each.box_px.moved(page.left, page.top))]
        if (toggle.kind == "radio") == (role == "radio")
        and not any(_is_letter(screen, toggle, line) for line in screen.lines)
        and not is_other(screen, toggle, toggle.box_px)
        and not any(toggle.box_px.intersection(handle) > 0 for handle in handles)
    ]
    if not found:
        return []
    counts = Counter(toggle.box_px.height for toggle in found)
    height = max(counts, key=lambda each: (counts[each], -each))  # small buttons are larger than checkboxes
    alike = [toggle for toggle in found if abs(toggle.box_px.height - height) <= 2]
    return sorted(alike, key=lambda toggle: _place(toggle.box_px))


def _is_letter(screen: Screen, toggle: Toggle, line: TextLine) -> bool:
    """Whether a round or square shape is a part of a text of several letters."""
    shared = toggle.box_px.intersection(line.box_px)
    is_part = len(line.text) > 2 and shared > _TEXT_SHARE * toggle.box_px.area
    return is_part and not _is_ring(screen, toggle.box_px, line)


def _is_ring(screen: Screen, box: Box, line: TextLine) -> bool:
    """Whether what was read as the first letter of a line is a ring or a box that stands apart from its label."""
    if line.text[:1] not in RINGS or not line.char_x_px:
        return False
    left, right = line.char_x_px[0]
    rest = Box(box.right + 1, line.box_px.top, line.box_px.right, line.box_px.bottom)
    ink = find_ink(screen.crop(rest)).any(axis=0) if rest.width > 0 else np.zeros(0, bool)
    return bool(box.left - 2 <= (left + right) / 2 <= box.right + 2 and ink.any() and np.argmax(ink) >= _RING_GAP_PX)


def is_other(screen: Screen, toggle: Toggle, box: Box) -> bool:
    """Whether a small box is no toggle: a letter of a text, an icon button, or a spot of one colour.

    What is on bears a mark: a tick, a dash or a dot, which is no taller than it is wide. A letter mostly is, and an
    avatar or a lamp has none.
    """
    if toggle.kind == "switch":
        return False
    lines = (line for line in screen.lines if line.box_px.contains(box, slack_px=2))
    words = (found for line in lines if not _is_ring(screen, box, line) for found in line.words)
    if any(len(word) > 2 and word.isalnum() and place.has_point(*box.center) for word, place in words):
        return True
    if not toggle.is_on:
        return False
    x, y = (round(value) for value in box.center)
    cross = (Box(box.left + 2, y - 1, box.right - 2, y + 1), Box(x - 1, box.top + 2, x + 1, box.bottom - 2))
    if all(measure_contrast(screen.crop(strip)) < _MIN_MARK_CONTRAST for strip in cross):
        return True
    ink = find_ink(screen.crop(box.padded(-max(3, round(0.2 * box.width)))))
    if not ink.any():
        return False
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    return bool(np.ptp(rows) + 1 > _MAX_MARK_RATIO * (np.ptp(columns) + 1))


def _find_links(screen: Screen) -> list[Box]:
    """Runs of words in a colour of their own, outside of buttons."""
    return [box for line in screen.lines for box in _coloured_runs(screen, line)]


def _coloured_runs(screen: Screen, line: TextLine) -> list[Box]:
    if find_button(screen, line.box_px) is not None:
        return []
    runs: list[Box] = []
    is_open = False
    for _, box in line.words:
        if not _is_link(screen, box):
            is_open = False
            continue
        runs = [*runs[:-1], runs[-1].union(box)] if is_open else [*runs, box]
        is_open = True
    return runs


def find_links_named(screen: Screen, text: str) -> list[Found]:
    """The places of a text that are links: in a colour of their own, best first."""
    found = [place for place in find_text(screen, text) if place.fit >= CONTAINED and _is_link(screen, place.box_px)]
    return found or _find_glued(screen, text)


def _find_glued(screen: Screen, text: str) -> list[Found]:
    """Links that the reader joined with the words beside them: a part of a word that has a colour of its own."""
    found = []
    for line in screen.lines if len(text) >= _MIN_GLUED else []:
        for match in re.finditer(rf"(?<!\w){re.escape(text)}(?=\w)|(?<=\w){re.escape(text)}(?!\w)", line.text, re.I):
            box = line.span(match.start(), match.end())
            before = re.search(r"\w*$", line.text[: match.start()])
            after = re.match(r"\w*", line.text[match.end() :])
            rests = [(match.start() - len(before[0]), match.start())] if before and before[0] else []
            rests += [(match.end(), match.end() + len(after[0]))] if after and after[0] else []
            if _is_link(screen, box) and not any(_is_link(screen, line.span(*rest)) for rest in rests):
                found.append(Found(box_px=box, line=line, fit=CONTAINED))
    return found


def _is_link(screen: Screen, box: Box) -> bool:
    return any(is_coloured(screen, box.padded(0, -box.height // share)) for share in (3, 4, 6))


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
    """Whether a coloured text is the address below a result's title, or leads to another page of results."""
    inside = " ".join(line.text for line in screen.lines if line.box_px.contains(box, slack_px=2))
    if _PAGER.fullmatch(inside.strip()) is not None:
        return True
    return re.search(r"https?:|www\.|\w\.\w{2,}(?:/|$)|\S\s*[›»]\s*\S", inside) is not None


def _in_reading_order(boxes: list[Box]) -> list[Box]:
    return sorted(dict.fromkeys(boxes), key=_place)


def _place(box: Box) -> tuple[int, int]:
    return round(box.center[1] / _ROW_PX), box.left
