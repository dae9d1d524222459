"""Text of a page as OCR reads it, without misread parts: other scripts, icons, crosses and ticks read as letters."""

from dataclasses import dataclass

import numpy as np

from apps.video2web.layout.fonts import best_likeness, measure_ink
from apps.video2web.pixels import RgbImage
from visual_tools.box import Box
from visual_tools.ink import find_ink, find_runs
from visual_tools.ocr import TextLine, shared_engine

# Heuristics without another source; measured together in benchmarks/video2web.md, "Generated pages".
_MIN_CONFIDENCE, _SURE = 0.8, 0.96  # of OCR: lines below are not text, lines above are not checked by their shape
_SURE_OF_ONE, _MIN_LIKENESS_OF_ONE = 0.98, 0.55  # for a line of one character; icons have up to 0.54, digits 0.57
_SIGNS, _MIN_LIKENESS_OF_LETTER, _MIN_LIKENESS_AT_START = "XxVv√", 0.72, 0.6
"""Characters as which crosses and ticks are read, and likeness of the true ones, alone and at the start of a line.

Measured at 13 to 24 px in six fonts: crosses and ticks have up to 0.7 alone and 0.57 at the start, letters from 0.61.
"""

_MIN_LIKENESS = 0.3  # of a line's ink and its text in the best font; Hebrew read as Latin has up to 0.26, text 0.42
_MIN_UNREAD, _WORD_GAP = 1.6, 0.22  # width and gap, relative to the height, of words that could not be read
_PLAIN_STEP = 14  # difference of a channel within a plain row, where a page may be cut
_JOIN_PX = 9  # gap that joins parts of one text
_STRIP_PX = 1600
"""Maximum height of the strips in which pages are read: OCR readers shrink larger images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageText:
    """Text read from the image of a page.

    Attributes:
        lines: Lines from top to bottom.
        unread: Boxes of words that could not be read, such as Arabic ones.
    """

    lines: tuple[TextLine, ...]
    unread: tuple[Box, ...]


def read_page_text(image: RgbImage) -> PageText:
    """Read a page of any height, (H, W, 3), in strips that are cut between lines."""
    height = len(image)
    page_lines: list[TextLine] = []
    unread: list[Box] = []
    top = 0
    while top < height:
        bottom = min(top + _STRIP_PX, height)
        if bottom < height:
            spread = np.ptp(image[top + _STRIP_PX // 2 : bottom].reshape(bottom - top - _STRIP_PX // 2, -1, 3), axis=1)
            plain = np.flatnonzero(spread.max(axis=1) <= _PLAIN_STEP)
            bottom = top + _STRIP_PX // 2 + int(plain[-1]) + 1 if plain.size else bottom
        strip = image[top:bottom]
        page_lines += [line.moved(0, top) for line in shared_engine().read_text(strip)]
        unread += [box.moved(0, top) for box in shared_engine().find_unread(strip)]
        top = bottom
    is_wrong = [_is_misread(image, line) for line in page_lines]
    wrong_lines = [line for line, wrong in zip(page_lines, is_wrong, strict=True) if wrong]
    unread += [line.box_px for line in wrong_lines if any(map(str.isalpha, line.text))]
    return PageText(
        lines=tuple(_without_sign(image, line) for line, wrong in zip(page_lines, is_wrong, strict=True) if not wrong),
        unread=tuple(word for box in join_overlapping(unread, _JOIN_PX) for word in _split_words(image, box)),
    )


def read_page(image: RgbImage) -> list[TextLine]:
    """Return the lines of a page of any height, (H, W, 3)."""
    return list(read_page_text(image).lines)


def _is_misread(image: RgbImage, line: TextLine) -> bool:
    """Return whether the ink of a line does not have the shape of its text: OCR reads other scripts as Latin."""
    if line.confidence < _MIN_CONFIDENCE:
        return True
    if len(line.text) <= 2 and not any(char.isascii() or char.isalpha() for char in line.text):
        return True  # bullets, icons
    text = line.text.strip()
    if line.angle_deg or not any(map(str.isalnum, text)):
        return False
    least = _MIN_LIKENESS
    if len(text) == 1:  # OCR reads an icon as the character that looks most like it
        least = _MIN_LIKENESS_OF_LETTER if text in _SIGNS else _MIN_LIKENESS_OF_ONE
        least = least if line.confidence < _SURE_OF_ONE else _MIN_LIKENESS
    elif not text.isascii() or (line.confidence >= _SURE and len(text) > 2):
        return False
    ink = measure_ink(image, line.box_px)
    return ink is not None and best_likeness(text, ink) < least


def _without_sign(image: RgbImage, line: TextLine) -> TextLine:
    """Return a line without the cross or tick at its start that is read as a letter."""
    sign, _, rest = line.text.partition(" ")
    if line.angle_deg or sign not in _SIGNS or len(sign) != 1 or not rest.strip():
        return line
    ink = measure_ink(image, line.span(0, 1))
    if ink is None or best_likeness(sign, ink) >= _MIN_LIKENESS_AT_START:
        return line
    return line.part(len(line.text) - len(rest.lstrip()), len(line.text))


def _split_words(image: RgbImage, box: Box) -> list[Box]:
    """Return the words in an area of text that could not be read; none if it is not wide enough for text."""
    area = box.clipped(image.shape[1], image.shape[0])
    if area.width < _MIN_UNREAD * area.height or not area.area:
        return []
    ink = find_ink(image[area.slices])
    rows = np.flatnonzero(ink.any(axis=1))
    runs = find_runs(ink.any(axis=0), max_gap=round(_WORD_GAP * (np.ptp(rows) + 1))) if rows.size else []
    return [Box(area.left + first, area.top, area.left + last, area.bottom) for first, last in runs]


def join_overlapping(boxes: list[Box], gap_px: int = 2) -> list[Box]:
    """Join boxes that overlap or are at most `gap_px` apart."""
    joined: list[Box] = []
    for box in sorted(boxes, key=lambda box: -box.area):
        touching = [each for each in joined if each.padded(gap_px, 2).intersection(box)]
        for each in touching:
            joined.remove(each)
            box = box.union(each)
        joined.append(box)
    return joined if len(joined) == len(boxes) else join_overlapping(joined, gap_px)
