"""What changed between two screens: pixels as boxes, and lines of text."""

import difflib
import re

import numpy as np
from numpy.typing import NDArray

from apps.literal.screen import Screen
from apps.literal.text_match import squash
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.ink import largest_channel
from visual_tools.ocr import TextLine

_STEP = 24
_REACH_PX = 7
_CARET_PX = (3, 48)
_SAME_RATIO = 0.85
_NEARLY_RATIO = 0.6
_RING_PX = 7
_RIM_PX = 5
_SHORT = 8


def find_changed_boxes(before: Screen, now: Screen) -> list[Box]:
    """Where the image differs: close pixels in one box; a blinking caret is left out.

    Images of two sizes differ everywhere.
    """
    if before.image.shape != now.image.shape:
        return [now.box]
    cv2 = require("cv2", "literal")
    changed = (largest_channel(cv2.absdiff(before.image, now.image)) > _STEP).astype(np.uint8)
    count, _, stats, _ = cv2.connectedComponentsWithStats(
        cv2.dilate(changed, np.ones((_REACH_PX, _REACH_PX), np.uint8)), connectivity=8
    )
    margin = _REACH_PX // 2
    boxes = []
    for index in range(1, count):
        left, top, width, height = (int(value) for value in stats[index, :4])
        box = Box(left, top, left + width, top + height).padded(-margin)
        if box.width > _CARET_PX[0] or box.height > _CARET_PX[1]:
            boxes.append(box)
    return boxes


def has_changed_inside(before: Screen, now: Screen, box: Box) -> bool:
    """Whether something but a caret changed inside of a box, its border left out."""
    inner = box.padded(-3).clipped(min(before.width, now.width), min(before.height, now.height))
    one, other = before.crop(inner).astype(np.int16), now.crop(inner).astype(np.int16)
    return bool(inner.area > 0 and not _is_caret(np.asarray(np.abs(one - other).max(axis=2) > _STEP)))


def find_effects(before: Screen, now: Screen, pressed: Box | None) -> list[Box]:
    """What an act changed on the screen: the look of the pressed thing, a focus ring and a caret do not count.

    Args:
        before: The screen on which it was done.
        now: The screen after it.
        pressed: What was pressed; it may look pressed or hovered.
    """
    spared = [] if pressed is None else [pressed.padded(10)]
    frames = [rectangle.box_px for screen in (before, now) for rectangle in screen.rectangles]
    return [
        box
        for box in find_changed_boxes(before, now)
        if not any(spare.contains(box) for spare in spared) and not _is_ring(before, now, box, frames)
    ]


def _is_ring(before: Screen, now: Screen, box: Box, frames: list[Box]) -> bool:
    """Whether a change runs around a rectangle, such as a field that gets or loses the focus, and not inside of it."""
    for frame in frames:
        if min(frame.width, frame.height) <= 2 * _RIM_PX or not frame.padded(_RING_PX).contains(box):
            continue
        inner = frame.padded(-_RIM_PX)
        if box.intersection(inner) == 0:
            return True
        seen = inner.clipped(now.width, now.height)
        if seen.area <= 0:
            continue
        overlap = _overlap(seen, box)
        one, other = before.crop(overlap).astype(np.int16), now.crop(overlap).astype(np.int16)
        if box.contains(inner) and _is_caret(np.asarray(np.abs(one - other).max(axis=2) > _STEP)):
            return True
    return False


def _overlap(one: Box, other: Box) -> Box:
    return Box(
        max(one.left, other.left), max(one.top, other.top), min(one.right, other.right), min(one.bottom, other.bottom)
    )


def _is_caret(changed: NDArray[np.bool_]) -> bool:
    columns = np.flatnonzero(changed.any(axis=0))
    return columns.size == 0 or int(np.ptp(columns)) < _CARET_PX[0]


def find_new_lines(before: Screen, now: Screen) -> list[TextLine]:
    """Lines of text that the screen did not hold before, wherever they stood."""
    texts = [squash(line.text) for line in before.lines]
    joined = "".join(texts)
    return [line for line in now.lines if not _is_known(squash(line.text), texts, joined)]


def share_kept(before: Screen, now: Screen, spared: Box | None = None) -> float:
    """The share of the lines of before that are still there, 0 to 1; 1 when there was none.

    Args:
        before: The earlier screen.
        now: The later screen.
        spared: The place of a text that does not count, such as the button that was pressed.
    """
    texts = [squash(line.text) for line in now.lines]
    joined = "".join(texts)
    said = [line.text.casefold() for line in now.lines]
    counted = [line for line in before.lines if spared is None or not spared.has_point(*line.box_px.center)]
    kept = [_is_kept(line.text, texts, joined, said) or _is_misread(line, now) for line in counted]
    return sum(kept) / len(kept) if kept else 1.0


def _is_kept(text: str, texts: list[str], joined: str, said: list[str]) -> bool:
    """True if a text still stands there, as a whole or as words of another line, not as letters of other words."""
    words = squash(text)
    if 0 < len(words) <= _SHORT and words not in texts:
        return any(re.search(rf"\b{re.escape(text.casefold())}\b", other) for other in said)
    return _is_known(words, texts, joined)


def _is_misread(line: TextLine, now: Screen) -> bool:
    """True if a line stands in its old place with nearly the same letters."""
    here = (other for other in now.lines if other.box_px.has_point(*line.box_px.center))
    return any(
        difflib.SequenceMatcher(None, squash(line.text), squash(other.text), autojunk=False).ratio() >= _NEARLY_RATIO
        for other in here
    )


def _is_known(text: str, texts: list[str], joined: str) -> bool:
    if not text or text in texts or (len(text) > 3 and text in joined):
        return True
    return len(text) > 5 and any(
        abs(len(text) - len(other)) <= 0.2 * len(text)
        and difflib.SequenceMatcher(None, text, other, autojunk=False).ratio() >= _SAME_RATIO
        for other in texts
    )
