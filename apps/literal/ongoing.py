"""Work that goes on after an act, seen without its words: bars that are not full, and numbers that rise."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.literal.differences import find_changed_boxes, find_effects, find_new_lines
from apps.literal.message_words import GOOD, fold
from apps.literal.screen import Screen
from visual_tools.box import Box
from visual_tools.ink import find_background, find_ink
from visual_tools.ocr import TextLine

_BAR_PX, _MIN_LENGTH_PX, _MIN_UNEVEN = (4, 40), 80, 4
_BAR_NOTE = re.compile(r"a bar that is not full \((\d+), (\d+), (\d+), (\d+)\)")
_EVEN, _OTHER, _SOFT_EDGE_PX = 12, 30, 8
_ABOVE_PX, _PALE = 6, 5
_MAX_SPREAD = 12
_PLACEHOLDER_PX, _MAX_PLACEHOLDER_PX, _MIN_PLACEHOLDERS, _PALE_FILL, _RIM_PX = (6, 26), 240, 3, 40, 4
_STRIP_PX, _MIN_STRIP_PX = (2, 16), 60
PLACEHOLDERS = "places without text"
TURNING, PAUSED = "something that moves", "something that moved a moment ago"
_MIN_TURNING_PX, _MAX_TURNING_PX = 4, 120
_TIME = re.compile(r"\d:\d\d|\bago\b|\d ?(?:s|sec\w*|min\w*|h|hours?)\b")


def find_open_bar(before: Screen | None, now: Screen, pressed: Box | None, noted: Iterable[str]) -> str | None:
    """A bar that came up, or was noted earlier, whose left part alone is filled.

    Args:
        before: The screen on which the act was done; None when it is not known any more.
        now: A screen after it.
        pressed: What was pressed.
        noted: What was noted before as work that goes on.
    """
    places = (_BAR_NOTE.fullmatch(text) for text in noted)
    bars = [Box(*(int(number) for number in place.groups())) for place in places if place is not None]
    if before is not None:
        effects = find_effects(before, now, pressed)
        bars += [_with_pale_part(now, box) for box in effects if _is_bar(box) and not _has_text(now, box)]
    open_bars = [box for box in dict.fromkeys(bars) if _is_partly_filled(now.crop(box))]
    if len(open_bars) != 1:
        return None
    box = open_bars[0]
    return f"a bar that is not full ({box.left}, {box.top}, {box.right}, {box.bottom})"


def has_grown(before: Screen, earlier: Screen, now: Screen) -> bool:
    """True if a filled strip that came up after an act became longer between two looks."""
    if not before.image.shape == earlier.image.shape == now.image.shape:
        return False
    return any(_is_growth(before, now, box) for box in find_changed_boxes(earlier, now))


def find_rising(before: Screen, earlier: Screen, now: Screen, noted: Iterable[str]) -> Iterator[str]:
    """Texts that came up after an act and whose number rose between two looks; clocks are left out.

    Args:
        before: The screen on which the act was done, or the earliest one that is known.
        earlier: The screen before this one.
        now: The screen.
        noted: What was noted before as work that goes on: it came up after the act.
    """
    known = {_without_numbers(line.text) for line in before.lines} - {_without_numbers(text) for text in noted}
    for line in now.lines:
        words, number = _without_numbers(line.text), _first_number(line.text)
        said = fold(line.text)
        if number is None or re.search(r"\b100 ?%", said) or words in known or _TIME.search(said) or GOOD.search(said):
            continue
        old = [each for each in earlier.lines if each.box_px.overlap_y(line.box_px) > 0]
        if any(_without_numbers(each.text) == words and (_first_number(each.text) or 0) < number for each in old):
            yield line.text


def find_turning(before: Screen, earlier: Screen, now: Screen) -> bool:
    """True if something without text that moves came up where there was nothing or a text."""
    new = find_changed_boxes(before, earlier)
    return any(
        any(box.intersection(other) > 0 for other in new) and not _has_mark(before, box)
        for box in find_moved(earlier, now)
        if min(box.width, box.height) >= _MIN_TURNING_PX or box.width >= _MIN_STRIP_PX
    )


def find_moved(earlier: Screen, now: Screen) -> list[Box]:
    """Changes in which there is no text: of the size of a spinner, low strips, and plain places of another colour."""
    return [
        box
        for box in find_changed_boxes(earlier, now)
        if (
            max(box.width, box.height) <= _MAX_TURNING_PX
            or _STRIP_PX[0] <= box.height <= _STRIP_PX[1]
            or not any(find_ink(screen.crop(box.padded(-_RIM_PX))).any() for screen in (earlier, now))
        )
        and not any(_is_text(line, box) for screen in (earlier, now) for line in screen.lines)
    ]


def has_placeholders(before: Screen | None, now: Screen) -> bool:
    """True if there are pale bars where text is to come, which were not there before."""
    least, most = _PLACEHOLDER_PX
    if before is None or not find_new_lines(before, now):  # among texts, high ones may be pictures
        most = _MAX_PLACEHOLDER_PX
    old = {rectangle.box_px for rectangle in before.rectangles} if before is not None else set()
    page = find_background(now.image).astype(int)
    bars = [
        each.box_px
        for each in now.rectangles
        if least <= each.box_px.height <= most
        and each.box_px.width > max(_MIN_STRIP_PX, 1.5 * each.box_px.height)
        and each.box_px not in old
        and abs(np.array(each.colour, dtype=int) - page).max() < _PALE_FILL
        and not any(line.box_px.intersection(each.box_px) > 0 for line in now.lines)
        and not find_ink(now.crop(each.box_px.padded(-3))).any()
    ]
    return len(bars) >= _MIN_PLACEHOLDERS and len({box.width for box in bars}) > 1


def _is_bar(box: Box) -> bool:
    least, most = _BAR_PX
    return least <= box.height <= most and box.width >= max(_MIN_LENGTH_PX, _MIN_UNEVEN * box.height)


def _has_text(screen: Screen, box: Box) -> bool:
    return any(line.box_px.intersection(box) > 0 for line in screen.lines)


def _with_pale_part(screen: Screen, box: Box) -> Box:
    """A bar with its empty part, which may be too pale for a change: as far as the ground above it looks different."""
    above = screen.image[max(0, box.top - _ABOVE_PX) : max(1, box.top - _ABOVE_PX // 2)].mean(axis=0)
    row = _colours_along(screen.image[box.top : box.bottom])
    is_bar = np.abs(row - above).max(axis=1) > _PALE
    left, right = box.left, box.right
    while right < screen.width and is_bar[right]:
        right += 1
    while left > 0 and is_bar[left - 1]:
        left -= 1
    return Box(left, box.top, right, box.bottom)


def _is_partly_filled(crop: NDArray[np.uint8]) -> bool:
    colours = _colours_along(crop)[3:-3]
    is_left, is_right = (np.abs(colours - end).max(axis=1) < _EVEN for end in (colours[0], colours[-1]))
    is_two = np.abs(colours[0] - colours[-1]).max() > _OTHER
    num_left, num_right = int(is_left.sum()), int(is_right.sum())
    is_one_edge = bool(is_left[:num_left].all() and is_right[len(colours) - num_right :].all())
    return bool(is_two and is_one_edge and num_left + num_right >= len(colours) - _SOFT_EDGE_PX)


def _is_growth(before: Screen, now: Screen, box: Box) -> bool:
    if not _BAR_PX[0] <= box.height <= _BAR_PX[1] or box.left < _SOFT_EDGE_PX or _has_text(now, box):
        return False
    wider = Box(box.left - _SOFT_EDGE_PX, box.top, box.right, box.bottom)
    new, old = _colours_along(now.crop(wider))[:-2], _colours_along(before.crop(wider))[:-2]
    is_even = len(new) > 0 and np.abs(new - new[0]).max() < _EVEN
    return bool(is_even and np.abs(new - old).max(axis=1).min() > _OTHER)


def _colours_along(crop: NDArray[np.uint8]) -> NDArray[Any]:
    """(W, 3): the middle colour of each column."""
    quarter = crop.shape[0] // 4
    return np.asarray(np.median(crop[quarter : crop.shape[0] - quarter], axis=0))


def _without_numbers(text: str) -> str:
    return re.sub(r"[\d\W_]+", "", fold(text))


def _first_number(text: str) -> float | None:
    found = re.search(r"\d+(?:\.\d+)?", text)
    return float(found[0]) if found is not None else None


def _is_text(line: TextLine, box: Box) -> bool:
    """True if a line lies in a box and is more than a ring read as one letter."""
    return line.box_px.intersection(box) > 0 and len(re.findall(r"\w", line.text)) > 1


def _has_mark(before: Screen, box: Box) -> bool:
    """True if a box held something other than text before; a strip may hold an edge that is even from end to end."""
    if any(_is_text(line, box) for line in before.lines):
        return False
    crop = before.crop(box)
    if box.height <= _STRIP_PX[1] < box.width:
        return bool(np.ptp(crop.astype(int), axis=1).max() > _MAX_SPREAD)
    return bool(find_ink(crop).any())
