"""Find a text on the screen: the line, the part of it, and how much it looks like a button."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.literal.screen import OcrScreen, find_bounds
from apps.literal.targets import ElementTarget
from apps.literal.text_match import CONTAINED, WHOLE, alphanumeric, fit_texts, similarity
from visual_tools.box import Box
from visual_tools.ink import find_background, find_ink, largest_channel
from visual_tools.ocr import TextLine

_SAME_ROW = 0.5
_MAX_JOINED = 4
_MAX_CHAINS = 400
_HEADING_COST = 0.12
_LOOSE_PX = 4
_MIN_BUTTON_RATIO = 0.8
_MIN_CUT = 6
_NEARLY, _MAX_CLOSER = 0.8, 6
_MARK_PX, _MARK_GAP_PX = 12, 3
_EDGE_PX = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedLine(TextLine):
    """Joined lines, with the box of those in the first row."""

    first_row_px: Box


@dataclass(frozen=True, slots=True, kw_only=True)
class TextHit:
    """Occurrence of a text.

    Attributes:
        box_px: Box of the text, or of the requested part of the line.
        line: Line that contains it.
        fit: Quality of the match, 0 to 1.
        look: Bonus or penalty: positive for buttons and links, negative for running text.
        button: Button around it, if any.
        is_heading: True if it is larger than the screen's other texts and not inside a button.
    """

    box_px: Box
    line: TextLine
    fit: float
    look: float = 0.0
    button: Box | None = None
    is_heading: bool = False

    @property
    def score(self) -> float:
        """Sum of fit and look; the fit weighs more."""
        return self.fit + self.look

    @property
    def point(self) -> tuple[float, float]:
        """Point to click, in pixels of the image; in the first row of several, since links have gaps."""
        if isinstance(self.line, WrappedLine) and self.box_px == self.line.box_px:
            return self.line.first_row_px.center
        return self.box_px.center


def find_whole(screen: OcrScreen, text: str) -> list[TextHit]:
    """Return the occurrences of a text as a whole line, best first."""
    return [hit for hit in find_text(screen, text) if hit.fit >= WHOLE]


def find_named(screen: OcrScreen, target: ElementTarget) -> list[TextHit]:
    """Return every occurrence of a target's text; its words as written take precedence as one name."""
    is_other = target.phrase and target.phrase != target.text
    return (find_whole(screen, target.phrase) if is_other else []) or find_text(screen, target.text)


def find_text(screen: OcrScreen, text: str) -> list[TextHit]:
    """Return every occurrence of a text, best first; worse kinds of match are used only if there are no better ones."""
    hits = _find_in(screen, text, screen.lines)
    if len(text) <= 3 and not any(hit.fit >= WHOLE for hit in hits):
        hits += _find_in(screen, text, screen.glyph_lines)
    if " " in text.strip() and not any(hit.fit >= CONTAINED for hit in hits):
        hits += _find_in(screen, text, joined_lines(screen.lines))
    if not hits and len(text) >= _MIN_CUT:
        covered = [line for line in screen.lines if _is_covered(screen, line, text)]
        whole = [replace(line, text=text, char_x_px=(*line.char_x_px, line.char_x_px[-1])) for line in covered]
        near = [line for line in screen.lines if similarity(text, line.text) >= _NEARLY and not line.angle_deg]
        hits = _find_in(screen, text, whole)
        hits = hits or _find_in(screen, text, [screen.read_closer(line) for line in near[:_MAX_CLOSER]])
    return sorted(hits, key=lambda hit: (-round(hit.score, 2), hit.box_px.top, hit.box_px.left))


def keep_best(hits: list[TextHit], at_least: int = 1) -> list[TextHit]:
    """Return the occurrences of the best kind of match (whole, contained, fuzzy) found `at_least` times."""
    for floor in (WHOLE, CONTAINED, 0.0):
        kept = [hit for hit in hits if hit.fit >= floor]
        if len(kept) >= at_least:
            return kept
    return hits


def name_nearest(screen: OcrScreen, text: str, count: int = 4) -> list[str]:
    """Return the texts on the screen that are most similar to the given text."""
    texts = dict.fromkeys(line.text for line in screen.lines)
    ranked = sorted(texts, key=lambda seen: -similarity(text, seen))
    return [seen for seen in ranked if similarity(text, seen) > 0.3][:count] or ranked[:count]


def _is_covered(screen: OcrScreen, line: TextLine, text: str) -> bool:
    """Return True if a line is a text without its last letter, with a mark such as a menu's arrow at that position."""
    if alphanumeric(line.text) != alphanumeric(text)[:-1]:
        return False
    box = line.box_px
    ink = find_ink(screen.crop(Box(box.right + 1, box.top, box.right + _MARK_PX, box.bottom)))
    return bool(ink[:, :_MARK_GAP_PX].any())


def _find_in(screen: OcrScreen, text: str, lines: list[TextLine]) -> list[TextHit]:
    hits = []
    for line in lines:
        for fit in fit_texts(text, line.text):
            box = line.box_px if fit.end - fit.start >= len(line.text) else line.span(fit.start, fit.end)
            button = find_button(screen, line.box_px)
            is_heading = button is None and screen.is_large(line.box_px)
            look = _look(screen, line, button) - (_HEADING_COST if is_heading else 0.0)
            hits.append(TextHit(box_px=box, line=line, fit=fit.score, look=look, button=button, is_heading=is_heading))
    return hits


def joined_lines(lines: list[TextLine]) -> list[TextLine]:
    """Return joined neighbouring texts: close parts of a row, and a line with its continuation."""
    lines = [line for line in lines if not line.angle_deg]
    joined, chains = [], list(lines)
    for _ in range(_MAX_JOINED - 1):
        chains = [_join(chain, line) for chain in chains for line in lines if _continues(chain.box_px, line.box_px)]
        chains = chains[:_MAX_CHAINS]
        joined += chains
    return joined


def _continues(box: Box, other: Box) -> bool:
    """Return True if a text in `other` may continue one that ends in `box`, beside it or on the next line."""
    height = min(box.height, other.height)
    is_beside = box.overlap_y(other) > _SAME_ROW * height and -2 < other.left - box.right < 3 * height
    is_below = 0 <= other.top - box.bottom < 1.2 * height and abs(other.left - box.left) < 2 * height
    return is_beside or is_below


def _join(first: TextLine, second: TextLine) -> WrappedLine:
    gap = (first.char_x_px[-1][1], first.char_x_px[-1][1])
    row = first.first_row_px if isinstance(first, WrappedLine) else first.box_px
    if row.overlap_y(second.box_px) > _SAME_ROW * min(row.height, second.box_px.height):
        row = row.union(second.box_px)
    return WrappedLine(
        text=f"{first.text} {second.text}",
        box_px=first.box_px.union(second.box_px),
        confidence=min(first.confidence, second.confidence),
        char_x_px=(*first.char_x_px, gap, *second.char_x_px),
        first_row_px=row,
    )


def find_button(screen: OcrScreen, text: Box) -> Box | None:
    """Return the smallest rectangle around a text that is centred in it with small margins."""
    for box in screen.boxes:
        if box.height > 4 * text.height + 24 or box.width > text.width + 260:
            if box.area > 200_000:
                break
            continue
        if not box.contains(text, slack_px=_LOOSE_PX) or box.height < _MIN_BUTTON_RATIO * text.height:
            continue
        if box.contains(text, slack_px=1) and box.height >= text.height + 3:
            inked_left, inked_right = _trim(screen, text, box)
            left, right = inked_left - box.left, box.right - inked_right
        else:  # OCR boxes are loose around small text
            ink = find_bounds(find_ink(screen.crop(box.padded(-1))))
            left, right = (ink.left, box.width - 2 - ink.right) if ink is not None else (0, 0)
        if abs(left - right) <= max(6, 0.25 * max(left, right)) and left >= 2:
            return box
    return None


def _trim(screen: OcrScreen, text: Box, button: Box) -> tuple[int, int]:
    """Return the left and right ends of a text's ink; OCR boxes are loose, up to the button's edges and corners."""
    left, right = max(text.left, button.left + _EDGE_PX), min(text.right, button.right - _EDGE_PX)
    middle = Box(left, text.top + text.height // 4, right, text.bottom - text.height // 4)
    ink = find_bounds(find_ink(screen.crop(middle)))
    return (left + ink.left, left + ink.right) if ink is not None else (text.left, text.right)


def find_colours(crop: NDArray[np.uint8]) -> tuple[NDArray[Any], NDArray[np.int16]]:
    """Return the colours of the letters in a crop and of their background; they are equal without letters."""
    background = find_background(crop).astype(np.int16)
    difference = largest_channel(np.abs(crop.astype(np.int16) - background))
    letters = crop[difference >= max(40, int(difference.max() * 0.7))]
    return (np.median(letters, axis=0) if letters.size else background), background


def is_coloured(screen: OcrScreen, box: Box) -> bool:
    """Return True if a text has a distinct colour, as links do."""
    crop = screen.crop(box)
    if crop.size == 0:
        return False
    letters, background = find_colours(crop)
    return bool(np.ptp(background) < 24 and np.ptp(letters) > 70)


def _look(screen: OcrScreen, line: TextLine, button: Box | None) -> float:
    look = 0.0 if screen.dialog is None or screen.dialog.contains(line.box_px) else -0.08
    if button is not None:
        look += 0.05
    elif is_coloured(screen, line.box_px):
        look += 0.04
    if len(line.text) > 40:
        look -= 0.03
    if screen.contrast(line.box_px) < 110:
        look -= 0.05
    return look - 0.15 * (1 - line.confidence)
