"""Find widgets by their look or number (buttons, sliders, checkboxes, "the second link") and a toggle's state."""

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from apps.literal.field_boxes import find_fields, find_inputs, find_lists, is_cell, is_text_area
from apps.literal.find_field import choose, distance, satisfies_relation
from apps.literal.find_text import TextHit, find_button, find_text, is_coloured, keep_best
from apps.literal.screen import RINGS, OcrScreen, find_bounds, innermost, reading_order
from apps.literal.targets import ElementTarget, Role, nth
from apps.literal.text_match import CONTAINED
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.ink import find_background, find_ink, find_runs, measure_contrast
from visual_tools.ocr import TextLine
from visual_tools.regions.components import find_components
from visual_tools.widgets import MAX_TOGGLE_PX, Toggle, find_toggles

_MIN_LENGTH_PX = 50
_MIN_RUN_PX = 21
_MAX_TRACK_PX = 14
_HANDLE_PX = (6, 44)
_BULGE_PX = 2
_HANDLE_GAP_PX = 3
"""Gap in pixels between a focused handle and its ring."""

_INK_STEP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Slider:
    """Track with a handle on it."""

    box_px: Box
    handle: Box
    is_vertical: bool


def find_sliders(screen: OcrScreen) -> list[Slider]:
    """Return long, thin tracks that have one thicker handle each, from top to bottom."""
    differs = (screen.strength > _INK_STEP).astype(np.uint8)
    sliders = [Slider(box_px=box, handle=handle, is_vertical=False) for box, handle in _find_flat(differs)]
    for turned in _find_flat(np.ascontiguousarray(differs.T)):
        box, handle = (Box(box.top, box.left, box.bottom, box.right) for box in turned)
        sliders.append(Slider(box_px=box, handle=handle, is_vertical=True))
    return sorted(sliders, key=lambda slider: (slider.box_px.top, slider.box_px.left))


def _find_flat(differs: NDArray[np.uint8]) -> list[tuple[Box, Box]]:
    """Return horizontal tracks with their handles.

    Args:
        differs: (H, W) uint8, 1 where the image is not its background.
    """
    cv2 = require("cv2", "literal")
    runs = cv2.morphologyEx(differs, cv2.MORPH_OPEN, np.ones((1, _MIN_RUN_PX), np.uint8))
    joined = cv2.morphologyEx(runs, cv2.MORPH_CLOSE, np.ones((_MAX_TRACK_PX - 5, 1), np.uint8))
    pieces = [part.box_px for part in find_components(joined) if 3 <= part.box_px.height <= _MAX_TRACK_PX]
    tracks = []
    for piece in sorted(pieces, key=lambda box: box.left):
        if any(_goes_on(box, piece) for box in pieces):
            continue  # second half of a track
        after = next((box for box in pieces if _goes_on(piece, box)), piece)
        track = piece.union(after)
        handle = _find_handle(differs, track)
        if handle is not None and track.union(handle).width >= _MIN_LENGTH_PX:
            tracks.append((track.union(handle), handle))
    return tracks


def _goes_on(piece: Box, other: Box) -> bool:
    gap = other.left - piece.right
    return abs(piece.top - other.top) <= 2 and abs(piece.bottom - other.bottom) <= 2 and 0 < gap <= _HANDLE_PX[1]


def _find_handle(differs: NDArray[np.uint8], track: Box) -> Box | None:
    """Return the only spot where something extends both above and below a track."""
    height, width = differs.shape
    around = track.padded(_HANDLE_PX[1] // 2, _BULGE_PX).clipped(width, height)
    if min(track.left, track.top, width - track.right, height - track.bottom) <= 0:
        return None
    above = differs[around.top : track.top, around.left : around.right].any(axis=0)
    below = differs[track.bottom : around.bottom, around.left : around.right].any(axis=0)
    runs = find_runs(np.asarray(above & below), max_gap=_HANDLE_GAP_PX)
    first, last = track.left - around.left - _HANDLE_GAP_PX - 1, track.right - around.left + _HANDLE_GAP_PX + 1
    runs = [run for run in runs if run[1] >= first and run[0] <= last]
    if len(runs) != 1 or not _HANDLE_PX[0] <= runs[0][1] - runs[0][0] <= _HANDLE_PX[1]:
        return None
    return Box(around.left + runs[0][0], around.top, around.left + runs[0][1], around.bottom)


_MIN_PX = (14, 14)
_MAX_PX = (420, 72)
_OVERHANG_PX = 8
_MAX_LARGE_PX = 160
_OFF_CENTRE_PX = 6
_SHADE_STEP = 8


def find_unnamed_button(screen: OcrScreen, target: ElementTarget) -> tuple[Box | None, str]:
    """Return a button by its relation or number, or the only one, and the reason; None if there is no such button.

    If a button's own text is the anchor of the relation ("the button in the dialog labelled Cancel"), it is that
    button.
    """
    buttons, relation = list_buttons(screen), target.relation
    if relation is not None:
        anchors = keep_best(find_text(screen, relation.anchor))
        own = (hit for hit in anchors if hit.button is not None and relation.kind == "inside")
        hit = next(own, None)
        if hit is not None:
            return hit.button, f'The button "{hit.line.text}" is visible.'
        ranked = sorted(
            (distance(relation, box, anchor.box_px, screen), box)
            for anchor in anchors
            for box in buttons
            if not box.contains(anchor.box_px) and satisfies_relation(relation, box, anchor.box_px, screen)
        )
        return (ranked[0][1], f'It is the button {relation.kind} "{relation.anchor}".') if ranked else (None, "")
    if screen.dialog is not None:
        buttons = [box for box in buttons if screen.dialog.contains(box)] or buttons
    if target.ordinal is None and len(buttons) > 1:
        names = ", ".join([line.text for box in buttons for line in screen.lines_in(box)][:6])
        return None, f"there are {len(buttons)} buttons ({names}): the step must name one"
    button = nth(buttons, target.ordinal)
    why = "It is the only button." if target.ordinal is None else "Selected by its number."
    return button, why if button is not None else ""


def list_buttons(screen: OcrScreen) -> list[Box]:
    """Return low boxes with an icon or one or two texts in the middle, in reading order."""
    candidates = [box for line in screen.lines if (box := find_button(screen, line.box_px)) is not None]
    candidates += [box for box in screen.boxes if _is_icon_button(screen, box) or _holds_two_texts(screen, box)]
    boxes = [
        box
        for box in dict.fromkeys(candidates)
        if _MIN_PX[0] <= box.width <= _MAX_PX[0] and _MIN_PX[1] <= box.height <= _MAX_PX[1]
    ]
    inner = innermost(boxes)
    single = [box for box in inner if not is_cell(box, inner)] or inner or _list_large(screen)
    return sorted(single, key=reading_order)


def _list_large(screen: OcrScreen) -> list[Box]:
    """Return boxes taller than usual buttons with a single text exactly in their middle."""
    large = []
    for box in screen.boxes:
        inside = screen.lines_in(box)
        if len(inside) != 1 or max(box.width, box.height) > _MAX_LARGE_PX or box.left <= 0 or box.top <= 0:
            continue
        x, y = inside[0].box_px.center
        is_centred = abs(x - box.center[0]) <= _OFF_CENTRE_PX and abs(y - box.center[1]) <= _OFF_CENTRE_PX
        if is_centred and box.contains(inside[0].box_px, slack_px=_OVERHANG_PX):
            large.append(box)
    return innermost(large)


def _is_icon_button(screen: OcrScreen, box: Box) -> bool:
    if not (18 <= box.height <= 56 and 18 <= box.width <= 90) or screen.lines_in(box):
        return False
    columns = np.flatnonzero(find_ink(screen.crop(box.padded(-3))).any(axis=0))
    if columns.size < 5:
        return False
    left, right = int(columns[0]), box.width - 6 - int(columns[-1])
    return left > 2 and abs(left - right) <= 4


def is_shaded(screen: OcrScreen, box: Box) -> bool:
    """Return True if a box is filled with a colour other than the page's."""
    page, fill = screen.page_colour, find_background(screen.crop(box))
    return int(np.abs(page.astype(np.int16) - fill.astype(np.int16)).max()) >= _SHADE_STEP


def _holds_two_texts(screen: OcrScreen, box: Box) -> bool:
    """Return True if two texts, stacked or far apart on one line, are centred together in a box."""
    lines = screen.lines_in(box)
    if len(lines) != 2:
        return False
    both = lines[0].box_px.union(lines[1].box_px)
    left, right = both.left - box.left, box.right - both.right
    if box.height < 60 and box.width < 60 and is_shaded(screen, box):
        return min(left, right) > -_OVERHANG_PX  # a narrow button that its words overflow
    return min(left, right) > 2 and abs(left - right) <= max(6, 0.2 * box.width)


_TEXT_SHARE = 0.3
_INDENT_PX = 6
_MAX_UNEVEN = 1.7
_PAGER = re.compile(r"[\W\d]*(?:next|prev(?:ious)?|older|newer|more(?: results)?|first|last)?(?: page)?[\W\d]*", re.I)
_MIN_MARK_CONTRAST = 40
_MIN_GLUED = 4
_RING_GAP_PX = 2
_MAX_MARK_RATIO = 1.35


def find_kind(screen: OcrScreen, role: Role) -> list[Box]:
    """Return all widgets of a type that is recognised by its look, in reading order; an empty list for other types."""
    match role:
        case "button":
            return list_buttons(screen)
        case "field":
            return sorted(dict.fromkeys(find_fields(screen)), key=reading_order)
        case "input" | "textarea":
            return [box for box in find_inputs(screen) if is_text_area(screen, box) == (role == "textarea")]
        case "list":
            return sorted(dict.fromkeys(find_lists(screen)), key=reading_order)
        case "checkbox" | "radio":
            return [toggle.box_px for toggle in find_plain_toggles(screen, role)]
        case "link":
            return find_links(screen)
        case "result":
            return _find_results(screen)
        case _:
            return []


def find_plain_toggles(screen: OcrScreen, role: Role) -> list[Toggle]:
    """Return checkboxes or radio buttons of one size, except letters inside a text and icon buttons."""
    handles = [slider.handle for slider in find_sliders(screen)]
    page = screen.page
    toggles = [
        toggle
        for each in find_toggles(screen.crop(page))
        for toggle in [replace(each, box_px=each.box_px.moved(page.left, page.top))]
        if (toggle.kind == "radio") == (role == "radio")
        and not any(_is_letter(screen, toggle, line) for line in screen.lines)
        and not is_other(screen, toggle, toggle.box_px)
        and not any(toggle.box_px.intersection(handle) > 0 for handle in handles)
    ]
    if not toggles:
        return []
    counts = Counter(toggle.box_px.height for toggle in toggles)
    height = max(counts, key=lambda each: (counts[each], -each))  # small buttons are larger than checkboxes
    alike = [toggle for toggle in toggles if abs(toggle.box_px.height - height) <= 2]
    return sorted(alike, key=lambda toggle: reading_order(toggle.box_px))


def _is_letter(screen: OcrScreen, toggle: Toggle, line: TextLine) -> bool:
    """Return True if a round or square shape is part of a text of several letters."""
    shared = toggle.box_px.intersection(line.box_px)
    is_part = len(line.text) > 2 and shared > _TEXT_SHARE * toggle.box_px.area
    return is_part and not _is_ring(screen, toggle.box_px, line)


def _is_ring(screen: OcrScreen, box: Box, line: TextLine) -> bool:
    """Return True if the first letter of a line is really a ring or box that is separate from its label."""
    if line.text[:1] not in RINGS or not line.char_x_px:
        return False
    left, right = line.char_x_px[0]
    rest = Box(box.right + 1, line.box_px.top, line.box_px.right, line.box_px.bottom)
    ink = find_ink(screen.crop(rest)).any(axis=0) if rest.width > 0 else np.zeros(0, bool)
    return bool(box.left - 2 <= (left + right) / 2 <= box.right + 2 and ink.any() and np.argmax(ink) >= _RING_GAP_PX)


def is_other(screen: OcrScreen, toggle: Toggle, box: Box) -> bool:
    """Return True if a small box is not a toggle but a letter of a text, an icon button, or a spot of one colour.

    The mark of a toggle that is on (a tick, a dash or a dot) is not taller than wide, unlike most letters; an avatar or
    a status light has no mark.
    """
    if toggle.kind == "switch":
        return False
    lines = (line for line in screen.lines if line.box_px.contains(box, slack_px=2))
    words = (word_box for line in lines if not _is_ring(screen, box, line) for word_box in line.words)
    if any(len(word) > 2 and word.isalnum() and text_box.has_point(*box.center) for word, text_box in words):
        return True
    if not toggle.is_on:
        return False
    x, y = (round(value) for value in box.center)
    cross = (Box(box.left + 2, y - 1, box.right - 2, y + 1), Box(x - 1, box.top + 2, x + 1, box.bottom - 2))
    if all(measure_contrast(screen.crop(strip)) < _MIN_MARK_CONTRAST for strip in cross):
        return True
    ink = find_ink(screen.crop(box.padded(-max(3, round(0.2 * box.width)))))
    mark = find_bounds(ink)
    return mark is not None and mark.height > _MAX_MARK_RATIO * mark.width


def find_links(screen: OcrScreen) -> list[Box]:
    """Return runs of words in a distinct colour, outside buttons, in reading order."""
    links: list[Box] = []
    for line in screen.lines:
        if find_button(screen, line.box_px) is None:
            for is_link, words in groupby((box for _, box in line.words), lambda box: _is_link(screen, box)):
                links += [reduce(Box.union, words)] if is_link else []
    return sorted(dict.fromkeys(links), key=reading_order)


def find_links_by_text(screen: OcrScreen, text: str) -> list[TextHit]:
    """Return the links with a text, best match first; links have a distinct colour."""
    links = [hit for hit in find_text(screen, text) if hit.fit >= CONTAINED and _is_link(screen, hit.box_px)]
    return links or _find_glued(screen, text)


def _find_glued(screen: OcrScreen, text: str) -> list[TextHit]:
    """Return links that OCR joined with adjacent words: parts of a word in a distinct colour."""
    links = []
    for line in screen.lines if len(text) >= _MIN_GLUED else []:
        for match in re.finditer(rf"(?<!\w){re.escape(text)}(?=\w)|(?<=\w){re.escape(text)}(?!\w)", line.text, re.I):
            box = line.span(match.start(), match.end())
            before = re.search(r"\w*$", line.text[: match.start()])
            after = re.match(r"\w*", line.text[match.end() :])
            rests = [(match.start() - len(before[0]), match.start())] if before and before[0] else []
            rests += [(match.end(), match.end() + len(after[0]))] if after and after[0] else []
            if _is_link(screen, box) and not any(_is_link(screen, line.span(*rest)) for rest in rests):
                links.append(TextHit(box_px=box, line=line, fit=CONTAINED))
    return links


def _is_link(screen: OcrScreen, box: Box) -> bool:
    return any(is_coloured(screen, box.padded(0, -box.height // share)) for share in (3, 4, 6))


def _find_results(screen: OcrScreen) -> list[Box]:
    """Return the links that start the entries of a list: at the left edge shared by most links, one for each entry."""
    links = find_links(screen)
    if not links:
        return []
    edges = Counter(round(box.left / _INDENT_PX) for box in links)
    edge, _ = edges.most_common(1)[0]
    column = [box for box in links if abs(round(box.left / _INDENT_PX) - edge) <= 1]
    titles = [box for box in column if not _is_address(screen, box)]
    steps = [below.top - above.top for above, below in pairwise(titles)]
    return titles if not steps or max(steps) <= _MAX_UNEVEN * min(steps) else []  # otherwise an entry may be missing


def _is_address(screen: OcrScreen, box: Box) -> bool:
    """Return True if a coloured text is the address below a result's title, or a link to another page of results."""
    inside = " ".join(line.text for line in screen.lines if line.box_px.contains(box, slack_px=2))
    if _PAGER.fullmatch(inside.strip()) is not None:
        return True
    return re.search(r"https?:|www\.|\w\.\w{2,}(?:/|$)|\S\s*[›»]\s*\S", inside) is not None


_REACH_LEFT_PX = 90
_REACH_RIGHT_PX = 420
_RIGHT_COST_PX = 8.0
_TAKEN_COST_PX = 60.0
_MAX_SIDE_PER_TEXT = 2.2
"""Limits and penalties for assigning a toggle to a label.

The limits are the distance from the label and the toggle's size per text height; on a high-density screen a toggle may
be larger, like its label. The penalties apply to a toggle right of its label or nearer to another text.
"""


@dataclass(frozen=True, slots=True)
class FoundToggle:
    """Toggle with the text that labels it."""

    box_px: Box
    is_on: bool
    label: str
    label_box: Box


def find_toggle(screen: OcrScreen, target: ElementTarget) -> FoundToggle | None:
    """Return the toggle next to the target's text; None if the text is missing or has no toggle next to it."""
    text = ElementTarget(text=target.text, ordinal=target.ordinal, relation=target.relation) if target.text else None
    if text is None and target.relation is not None:
        text = ElementTarget(text=target.relation.anchor)
    if text is None:
        return _find_unnamed(screen, target)
    choice = choose(screen, text)
    if choice is None:
        return None
    label = choice.hit.box_px
    is_row = not target.text and target.relation is not None and target.relation.kind == "row"
    left = 0 if is_row else label.left - _REACH_LEFT_PX
    toggle = _find_best(screen, label, left, screen.width if is_row else label.right + _REACH_RIGHT_PX)
    if toggle is None and not is_row:
        toggle = _find_best(screen, label, label.right, screen.width)
        toggle = toggle if toggle is not None and _ends_row(screen, toggle, label) else None
    return None if toggle is None else FoundToggle(toggle.box_px, toggle.is_on, choice.hit.line.text, label)


def _find_best(screen: OcrScreen, label: Box, left: int, right: int) -> Toggle | None:
    """Return the toggle that most likely belongs to a label, between two pixel columns."""
    near = Box(left, label.top - label.height - 8, right, label.bottom + label.height + 8)
    near = near.clipped(screen.width, screen.height)
    side_px = max(MAX_TOGGLE_PX, round(_MAX_SIDE_PER_TEXT * label.height))
    found = find_toggles(screen.crop(near), side_px)
    candidates = (replace(each, box_px=each.box_px.moved(near.left, near.top)) for each in found)
    costs = [
        (cost, toggle)
        for toggle in candidates
        if not is_other(screen, toggle, toggle.box_px)
        for cost in [_cost(screen, toggle.box_px, label)]
        if cost is not None
    ]
    return min(costs, key=lambda item: item[0])[1] if costs else None


def _find_unnamed(screen: OcrScreen, target: ElementTarget) -> FoundToggle | None:
    """Return the toggle with the target's ordinal, or the only toggle."""
    toggles = find_plain_toggles(screen, target.role)
    toggle = nth(toggles, target.ordinal)
    return None if toggle is None else FoundToggle(toggle.box_px, toggle.is_on, str(target), toggle.box_px)


def _ends_row(screen: OcrScreen, toggle: Toggle, label: Box) -> bool:
    """Return True for a switch at the end of a label's row with no text in between."""
    between = Box(label.right + 1, toggle.box_px.top, toggle.box_px.left - 1, toggle.box_px.bottom)
    return toggle.kind == "switch" and not any(line.box_px.intersection(between) > 0 for line in screen.lines)


def _cost(screen: OcrScreen, box: Box, label: Box) -> float | None:
    """Return the cost in pixels of assigning a toggle to a label; None if it cannot belong to it."""
    if abs(box.center[1] - label.center[1]) > max(label.height, box.height) * 0.8:
        return None
    is_left = box.center[0] < label.left + min(label.height, 0.3 * label.width)
    gap = float(max(label.left - box.right if is_left else box.left - label.right, 0))
    if not is_left and box.center[0] < label.right:
        return None
    closer = any(_is_closer(line.box_px, box, gap, is_left) for line in screen.lines)
    return gap + (0 if is_left else _RIGHT_COST_PX) + (_TAKEN_COST_PX if closer else 0)


def _is_closer(text: Box, box: Box, gap: float, is_left: bool) -> bool:
    """Return True if a text on the toggle's other side is much nearer to it than the label."""
    if text.overlap_y(box) < 0.4 * min(text.height, box.height):
        return False
    other = box.left - text.right if is_left else text.left - box.right
    return -2 <= other < 0.6 * gap
