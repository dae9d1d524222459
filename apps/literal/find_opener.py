"""Find elements that show more when clicked: tabs, sections, tree nodes, submenu entries, the next page."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.literal.find_text import find_whole, is_coloured
from apps.literal.screen import OcrScreen, find_bounds
from apps.literal.targets import OpenerKind
from visual_tools.box import Box
from visual_tools.ink import find_ink, find_runs, read_sign
from visual_tools.ocr import TextLine
from visual_tools.regions.components import find_components

_MAX_TAB_PX = (260, 64)
_MIN_TAB_PX = 13
_TAB_GAP_PX = 14
_MAX_TAB_CHARS = 24
_RULE_SHARE = 0.95
_MIN_SECTION_SHARE = 0.3
_MAX_SECTION_PX = 72
_BAR_STEP = 12
_BAR_SHARE = 0.65
_EXPANDER_REACH_PX = 48
_EXPANDER_PX = (4, 16)
_NEXT_PAGE = (">", "Next", "›", "»", "Next >", "Next page", "Next →", "→", ">>", "Older", "More results")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opener:
    """Element that shows more when clicked at a point; its label is "" if it has no readable text."""

    point: tuple[float, float]
    label: str


def find_openers(screen: OcrScreen, kind: OpenerKind) -> list[Opener]:
    """Return the elements of a type to click, from the top; for tree nodes, only closed ones."""
    match kind:
        case "tab":
            return find_tabs(screen)
        case "section":
            return find_sections(screen) or find_expanders(screen)
        case "node":
            return find_expanders(screen)
        case "page":
            return find_next_page(screen)


def find_tabs(screen: OcrScreen) -> list[Opener]:
    """Return the topmost row of adjacent low boxes of equal height that each contain a short text or icon."""
    (widest, tallest), least = _MAX_TAB_PX, _MIN_TAB_PX
    boxes = [box for box in screen.boxes if least <= box.height <= tallest and least <= box.width <= widest]
    boxes = [box for box in boxes if not any(box != other and other.contains(box, slack_px=1) for other in boxes)]
    boxes = [box for box in boxes if find_ink(screen.crop(box.padded(-2))).any()]
    for first in sorted(boxes, key=lambda box: (box.bottom, box.left)):
        level = [box for box in boxes if abs(box.center[1] - first.center[1]) <= 4]
        row = [box for box in level if abs(box.height - first.height) <= 6]
        row = _take_neighbours(sorted(row, key=lambda box: box.left))
        if len(row) > 1:
            labels = [" ".join(line.text for line in screen.lines_in(box)) for box in row]
            return [Opener(point=box.center, label=label) for box, label in zip(row, labels, strict=True)]
    return _find_ruled_tabs(screen)


def _take_neighbours(row: list[Box]) -> list[Box]:
    """Return the leading boxes that follow each other closely."""
    taken = row[:1]
    for box in row[1:]:
        if not -4 <= box.left - taken[-1].right <= _TAB_GAP_PX:
            break
        taken.append(box)
    return taken


def _find_ruled_tabs(screen: OcrScreen) -> list[Opener]:
    """Return the texts of the topmost row of short texts with a line below all of them."""
    for first in sorted(screen.lines, key=lambda line: line.box_px.top):
        row = [line for line in screen.lines if abs(line.box_px.center[1] - first.box_px.center[1]) <= 4]
        row.sort(key=lambda line: line.box_px.left)
        if len(row) < 2 or any(len(line.text) > _MAX_TAB_CHARS for line in row):
            continue
        top = max(line.box_px.bottom for line in row)
        height = first.box_px.height
        below = screen.strength[top : top + 2 * height, row[0].box_px.left : row[-1].box_px.right] > _BAR_STEP
        if below.size and below.mean(axis=1).max() > _RULE_SHARE:
            return [Opener(point=line.box_px.center, label=line.text) for line in row]
    return []


def find_sections(screen: OcrScreen) -> list[Opener]:
    """Return low, wide boxes of one size and colour below each other, each with one text at its left end."""
    bars = []
    for box in find_bars(screen):
        lines = screen.lines_in(box)
        if len(lines) == 1 and lines[0].box_px.left - box.left < 0.3 * box.width:
            bars.append(box)
    groups = [[box for box in bars if _is_same_column(box, first)] for first in bars]
    best = max(groups, key=len, default=[])
    ordered = sorted(dict.fromkeys(best), key=lambda box: box.top)
    labels = [screen.lines_in(box)[0] for box in ordered]
    return [Opener(point=line.box_px.center, label=line.text) for line in labels]


def find_bars(screen: OcrScreen) -> list[Box]:
    """Return low, wide boxes: flat or bordered ones, and strips in a distinct colour, including gradients."""
    components = find_components(screen.strength > _BAR_STEP, connectivity=4)
    filled = [part.box_px for part in components if part.area_px > _BAR_SHARE * part.box_px.area]
    boxes = [*filled, *screen.boxes]
    wide = [box for box in boxes if box.width >= _MIN_SECTION_SHARE * screen.width]
    wide = [box for box in wide if _MIN_TAB_PX <= box.height <= _MAX_SECTION_PX]
    return [
        box
        for index, box in enumerate(wide)
        if not any(box.intersection(other) > 0.7 * min(box.area, other.area) for other in wide[:index])
    ]


def _is_same_column(box: Box, other: Box) -> bool:
    return abs(box.left - other.left) <= 3 and abs(box.width - other.width) <= 6 and abs(box.height - other.height) <= 4


def find_expanders(screen: OcrScreen) -> list[Opener]:
    """Return closed nodes: a small plus, or a triangle or angle pointing right, left of a text."""
    openers = []
    for line in sorted(screen.lines, key=lambda line: (line.box_px.top, line.box_px.left)):
        sign = re.match(r"([▶▸►▹>›+⊞])\s*(?=\w)", line.text)
        mark = line.span(0, 1) if sign is not None else _find_mark(screen, line)
        if mark is not None and (sign is not None or _is_closed(screen, mark)):
            openers.append(Opener(point=mark.center, label=line.text))
    return openers


def _find_mark(screen: OcrScreen, line: TextLine) -> Box | None:
    """Return the leftmost small mark in the free space left of a text; None if another text is there."""
    box = line.box_px
    room = Box(max(0, box.left - _EXPANDER_REACH_PX), box.top - 2, box.left - 1, box.bottom + 2)
    room = room.clipped(screen.width, screen.height)
    if room.area <= 0 or any(
        other is not line and other.box_px.intersection(room) > 0 and len(other.text) > 1 for other in screen.lines
    ):
        return None
    ink = find_ink(screen.crop(room))
    for start, end in find_runs(ink.any(axis=0), max_gap=1):
        mark = find_bounds(ink[:, start:end])
        if mark is not None and all(_EXPANDER_PX[0] <= side <= _EXPANDER_PX[1] for side in (mark.width, mark.height)):
            return Box(room.left + start, room.top + mark.top, room.left + end, room.top + mark.bottom)
    return None


def _is_closed(screen: OcrScreen, mark: Box) -> bool:
    crop = screen.crop(mark)
    ink = find_ink(crop, screen.crop(mark.padded(2))[0, 0])
    if ink.shape[0] > 8 and ink.shape[1] > 8 and ink[0].mean() > 0.8 and ink[:, 0].mean() > 0.8:
        return read_sign(find_ink(crop[2:-2, 2:-2])) == "+"  # a plus in a box
    return read_sign(ink) == "+" or _points_right(ink)


def _points_right(ink: NDArray[np.bool_]) -> bool:
    """Return True if a mark is a triangle or angle pointing right, whose tip lies in the middle rows."""
    height, width = ink.shape
    if not 0.4 <= width / height <= 1.1 or height < 5:
        return False
    tip = np.flatnonzero(ink[:, -max(1, width // 4) :].any(axis=1))
    tail = np.flatnonzero(ink[:, : max(1, width // 4)].any(axis=1))
    if not tip.size or not tail.size:
        return False
    is_tip_in_middle = np.ptp(tip) + 1 <= 0.6 * height and abs(float(tip.mean()) - (height - 1) / 2) <= 0.15 * height
    return bool(is_tip_in_middle and np.ptp(tail) + 1 >= 0.7 * height)


def find_submenus(screen: OcrScreen) -> list[Opener]:
    """Return menu entries with a mark at their end that points right."""
    openers = []
    for line in screen.lines:
        box = line.box_px
        room = Box(box.right - 7, box.top - 1, box.right + 90, box.bottom + 1).clipped(screen.width, screen.height)
        ink = find_ink(screen.crop(room))
        for start, end in find_runs(ink.any(axis=0)):
            rows = np.flatnonzero(ink[:, start:end].any(axis=1))
            if _points_right(ink[rows[0] : rows[-1] + 1, start:end]):
                openers.append(Opener(point=box.center, label=line.text))
                break
    return openers


def find_next_page(screen: OcrScreen) -> list[Opener]:
    """Return the link or button to the next page of a list: the lowest one on the screen."""
    named = [hit for text in _NEXT_PAGE for hit in find_whole(screen, text)]
    next_pages = [
        Opener(point=hit.point, label=hit.line.text)
        for hit in named
        if hit.button is not None or is_coloured(screen, hit.box_px.padded(1))
    ]
    for line in screen.lines:  # an arrow right after the page number
        if re.search(r"[\d\s][>≥›»]$", line.text) and is_coloured(
            screen, line.span(len(line.text) - 1, len(line.text))
        ):
            next_pages.append(Opener(point=line.span(len(line.text) - 1, len(line.text)).center, label=line.text[-1]))
    return sorted(next_pages, key=lambda opener: -opener.point[1])[:1]
