"""Losses that a reader of a page would notice: words, small marks and pictures, and invented controls.

Marks are found by their edges and compared by their pixels, without OCR and without the rules that write pages, so that
something misread or overlooked by them still counts as lost.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from apps.video2web.pixels import Levels, RgbImage
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.ocr import TextLine
from visual_tools.widgets import find_edges

# Heuristics without another source, set on the pages of tests/apps/video2web/test_losses.py.
_MIN_STEP = 16  # difference of neighbouring pixels at an edge; compression and soft shadows are below
_STRAIGHT_PX, _MAX_STRAIGHT = 24, 0.5  # shapes that consist of straight edges this long are frames and rules
_MIN_MARK_PX, _MIN_EDGE_PX = 4, 8  # side of a mark (bullets have 5) and pixels of its edges
_GAP_PX = 5  # gap, plus 1, in the edge of a frame, such as at a pale round corner
_JOIN_PX = 9  # gap that joins the parts of one mark
IMAGE_PX = 48  # longer side from which a mark is called a picture
_REACH_PX, _IMAGE_REACH_PX = 12, 32  # distance within which a mark and a picture are looked for
_REST_PX = 3  # distance of the rest of a letter from the box of its word, which is left out with a margin of 2
_PAD_PX, _INSET = 3, 0.2  # margin of a compared crop, and share of the mark cut off on each side for its inside
_MIN_LIKE, _MIN_LIKE_INSIDE = 0.6, 0.4  # correlation with the other page
_MIN_CONTRAST, _MIN_SPREAD = 0.25, 12.0  # standard deviation relative to the other page's, and of an inside in levels
_COMPARED_PX = 128  # longer side to which a picture is scaled
_MAX_NAMED = 12  # of a kind in one line
_MIN_RATIO, _MIN_PART = 0.75, 2  # similarity of a word that OCR misread; characters of a part of a joined word


READABLE = "OCR reads Latin and Chinese"
_LATIN_END, _FIRST_CJK = 0x250, "\u3000"
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
WORD = re.compile(f"[{_CJK}]|[^\\s{_CJK}]+")
"""A word: characters without white space, or one Chinese, Japanese or Korean character. As `wordShape` in blocks.js."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageWord:
    """Word on a page.

    Attributes:
        text: The word in lower case; "" for a word that could not be read.
        box_px: Box on the page.
        block: Number of its text block.
    """

    text: str
    box_px: Box
    block: int = 0

    @property
    def is_word(self) -> bool:
        """True if it has a letter or a digit; others, such as ticks and arrows, are compared as marks."""
        return any(char.isalnum() for char in self.text)

    @property
    def is_readable(self) -> bool:
        """True if it has only letters that OCR can read: Latin and Chinese ones."""
        return all(ord(char) < _LATIN_END or char > _FIRST_CJK for char in self.text if char.isalpha())


def words_of_lines(lines: Sequence[TextLine]) -> list[PageWord]:
    """Return the words of lines that were read; single characters are left out, and thus compared as marks."""
    return [
        PageWord(text=word.group().lower(), box_px=line.span(*word.span()))
        for line in lines
        for word in WORD.finditer(line.text)
        if len(word.group()) > 1 or word.group() > _FIRST_CJK
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostContent:
    """Losses that a reader of a page would notice, and things that only our page has.

    Attributes:
        words: Words of the reference that the page does not show as text.
        marks: Ticks, icons, bullets and other small marks that are missing or look different.
        images: The same for pictures.
        controls: Checkboxes, radio buttons and fields that the reference does not show.
        invented_words: Words that the reference does not have.
        invented_marks: Marks and pictures that the reference does not have.
        kept: Share of words, marks and pictures that both pages have in common, 0 to 1; None if neither has any. A
            word or a control counts 1, a mark or picture the root of its area in words, at least 1.
    """

    words: tuple[PageWord, ...] = ()
    marks: tuple[Box, ...] = ()
    images: tuple[Box, ...] = ()
    controls: tuple[Box, ...] = ()
    invented_words: tuple[str, ...] = ()
    invented_marks: tuple[Box, ...] = ()
    kept: float | None = None

    @property
    def num_unread(self) -> int:
        """Number of lost words that could not be read."""
        return sum(not word.text for word in self.words)

    def summary(self) -> str:
        """Return the losses in a few words; "" without any."""
        counts = {
            f"words that could not be read ({READABLE}), kept as pictures": self.num_unread,
            "words lost": len(self.words) - self.num_unread,
            "marks lost": len(self.marks),
            "pictures lost": len(self.images),
            "controls invented": len(self.controls),
        }
        return ", ".join(f"{count} {name}" for name, count in counts.items() if count)

    def details(self) -> str:
        """Return the words and the places that are lost; "" without any."""
        words = [word.text for word in self.words if word.text]
        places = {"marks lost": self.marks, "pictures lost": self.images, "controls invented": self.controls}
        named = {"words lost": words} | {
            name: [f"at ({box.left}, {box.top})" for box in boxes] for name, boxes in places.items()
        }
        return "; ".join(
            f"{name}: {', '.join(parts[:_MAX_NAMED])}"
            + (f" and {len(parts) - _MAX_NAMED} more" if len(parts) > _MAX_NAMED else "")
            for name, parts in named.items()
            if parts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPage:
    """Contents of a page that are compared with those of another one.

    Attributes:
        image: (H, W, 3) uint8 RGB.
        words: Words that it shows as text; of a reference also those that could not be read.
        lines: Lines that OCR read on it.
        ink: Boxes of further words, whatever they are made of.
        controls: Boxes of its form controls.
    """

    image: RgbImage
    words: Sequence[PageWord]
    lines: Sequence[TextLine] = ()
    ink: Sequence[Box] = ()
    controls: Sequence[Box] = ()

    def find_marks(self, alike: Sequence[TextLine]) -> list[Box]:
        """Return the marks and pictures, without the rests of letters in lines that both pages read alike."""
        words = [word.box_px for word in self.words if word.is_word or not word.text]
        return [box for box in find_marks(self.image, [*words, *self.ink]) if not _is_rest(box, alike)]


def find_losses(reference: SeenPage, ours: SeenPage) -> LostContent:
    """Compare what a reader sees on two pages."""
    theirs = [word for word in reference.words if word.is_word or not word.text]
    lost, invented = _match_words(theirs, ours.words)
    alike = _find_alike(reference.lines, ours.lines)
    marks = reference.find_marks([line for line, _ in alike])
    gone = [box for box in marks if not is_shown(reference.image, box, ours.image)]
    our_marks = ours.find_marks([line for _, line in alike])
    invented_marks = [box for box in our_marks if not is_shown(ours.image, box, reference.image)]
    invented_controls = tuple(
        box for box in ours.controls if not is_shown(ours.image, _start_of(box), reference.image, _is_image(box))
    )
    invented_marks = [box for box in invented_marks if not any(map(box.intersection, invented_controls))]
    usual = float(np.median([word.box_px.area for word in theirs])) if theirs else float(IMAGE_PX**2)

    def weigh(boxes: Sequence[Box]) -> float:
        return sum(max(math.sqrt(box.area / max(usual, 1.0)), 1.0) for box in boxes)

    total = len(theirs) + weigh(marks) + len(invented) + weigh(invented_marks) + len(invented_controls)
    kept = len(theirs) - len(lost) + weigh(marks) - weigh(gone)
    return LostContent(
        words=tuple(lost),
        marks=tuple(box for box in gone if not _is_image(box)),
        images=tuple(box for box in gone if _is_image(box)),
        controls=invented_controls,
        invented_words=tuple(invented),
        invented_marks=tuple(invented_marks),
        kept=kept / total if total else None,
    )


def _is_image(box: Box) -> bool:
    return max(box.width, box.height) >= IMAGE_PX


# ------------------------------------------------------------------ words


def _match_words(theirs: Sequence[PageWord], ours: Sequence[PageWord]) -> tuple[list[PageWord], list[str]]:
    """Return the words of the reference that are not ours, and the other way round.

    Words that were joined or split, and words of letters with a wrong one, are found again: OCR reads the same ink
    differently. A word with a digit has to be the same.
    """
    free = Counter(_bare(word.text) for word in ours if word.is_word)
    left = []
    for word in sorted(theirs, key=lambda word: _distance(word, ours)):
        bare = _bare(word.text)
        if word.text and free[bare] > 0:
            free[bare] -= 1
        else:
            left.append(word)
    rest = list(free.elements())
    joined = "\n".join(rest) if rest else ""
    lost = []
    for word in left:
        bare = _bare(word.text)
        if not word.text:
            if not any(word.box_px.intersection(our_word.box_px) for our_word in ours):
                lost.append(word)
            continue
        near = get_close_matches(bare, rest, 1, _MIN_RATIO) if not any(map(str.isdigit, bare)) else []
        if near:
            rest.remove(near[0])
            joined = joined.replace(near[0], "", 1)
        elif len(bare) >= _MIN_PART and bare in joined.replace("\n", ""):
            joined = re.sub("\n?".join(map(re.escape, bare)), "\n", joined, count=1)
        else:
            lost.append(word)
    invented = [part for part in joined.split("\n") if part]
    unread = [word.box_px for word in theirs if not word.text]
    over = Counter(
        _bare(word.text) for word in ours if any(box.intersection(word.box_px) for box in unread)
    )  # text over words that could not be read is not invented
    return lost, list((Counter(invented) - over).elements())


def _distance(word: PageWord, ours: Sequence[PageWord]) -> float:
    """Return the distance of a word to the nearest equal one of ours, in pixels."""
    (x, y), bare = word.box_px.center, _bare(word.text)
    equal = [each.box_px.center for each in ours if _bare(each.text) == bare]
    return min((abs(x - left) + abs(y - top) for left, top in equal), default=math.inf)


def _bare(text: str) -> str:
    """Return a word in lower case without the punctuation around it, which OCR often misses."""
    return re.sub(r"^\W+|\W+$", "", text.lower()) or text.lower()


# ------------------------------------------------------------------ marks


def find_marks(image: RgbImage, words: Sequence[Box]) -> list[Box]:
    """Return the boxes of all shapes that are neither words nor frames or rules: ticks, icons, bullets, pictures.

    Args:
        image: (H, W, 3) uint8 RGB.
        words: Boxes of the words.
    """
    cv2 = require("cv2", "visual")
    if min(image.shape[:2]) < 2 * _MIN_MARK_PX:
        return []
    edges = find_edges(image, _MIN_STEP)
    for box in words:
        area = box.padded(2, 2 + round(0.15 * box.height)).clipped(image.shape[1], image.shape[0])
        edges[area.slices] = 0
    whole_edges = cv2.morphologyEx(edges, cv2.MORPH_CLOSE, np.ones((_GAP_PX, _GAP_PX), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(whole_edges, connectivity=8)
    labels = np.where(edges > 0, labels, 0)
    straight = cv2.morphologyEx(edges, cv2.MORPH_OPEN, np.ones((1, _STRAIGHT_PX), np.uint8))
    straight |= cv2.morphologyEx(edges, cv2.MORPH_OPEN, np.ones((_STRAIGHT_PX, 1), np.uint8))
    shares = np.bincount(labels.ravel(), straight.ravel(), count) / np.maximum(
        np.bincount(labels.ravel(), minlength=count), 1
    )
    is_shape = shares < _MAX_STRAIGHT
    is_shape[0] = False
    frames = (~is_shape)[labels] & (edges > 0)
    rest = (frames & (cv2.dilate(straight, np.ones((3, 3), np.uint8)) == 0)).astype(np.uint8)
    shapes: Levels = is_shape[labels].astype(np.uint8)
    for left, top, width, height, _ in cv2.connectedComponentsWithStats(rest, connectivity=8)[2][1:].tolist():
        if max(width, height) >= IMAGE_PX:  # more than a round corner: a picture within straight edges
            part = Box(left, top, left + width, top + height)
            whole = _box_of(stats[int(np.median(labels[part.slices][rest[part.slices] > 0]))])
            holds_words = any(whole.intersection(word) for word in words)
            shapes[part.slices if holds_words else whole.slices] |= edges[part.slices if holds_words else whole.slices]
    joined = cv2.morphologyEx(shapes, cv2.MORPH_CLOSE, np.ones((_JOIN_PX, _JOIN_PX), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    inks = np.bincount(labels.ravel(), shapes.ravel(), count)
    boxes = [
        _box_of(row)
        for row, ink in zip(stats[1:], inks[1:].tolist(), strict=True)
        if min(row[2], row[3]) >= _MIN_MARK_PX and ink >= _MIN_EDGE_PX
    ]
    return [box for box in boxes if not any(other != box and other.contains(box) for other in boxes)]


def _find_alike(theirs: Sequence[TextLine], ours: Sequence[TextLine]) -> list[tuple[TextLine, TextLine]]:
    """Return the lines that are read alike on two pages, at the same place or near it."""
    pairs, free = [], list(ours)
    for line in theirs:
        near = line.box_px.padded(_REACH_PX)
        same = next((each for each in free if _squeezed(each) == _squeezed(line) and near.contains(each.box_px)), None)
        if same is not None:
            free.remove(same)
            pairs.append((line, same))
    return pairs


def _squeezed(line: TextLine) -> str:
    return "".join(line.text.split()).lower()


def _is_rest(mark: Box, lines: Sequence[TextLine]) -> bool:
    """Return whether a mark is the rest of a letter: part of a line, next to a word that OCR places too far away."""
    for line in lines:
        height = line.box_px.height
        if mark.width <= height and line.box_px.padded(_REST_PX, 2 + round(0.15 * height)).contains(mark):
            return any(word.box_px.padded(_REST_PX).intersection(mark) for word in words_of_lines([line]))
    return False


def _box_of(stats: NDArray[np.int32]) -> Box:
    left, top, width, height = stats[:4].tolist()
    return Box(left, top, left + width, top + height)


def _start_of(control: Box) -> Box:
    """Return a control, or the square at the left end of a field, without most of its text."""
    return Box(control.left, control.top, min(control.right, control.left + control.height), control.bottom)


def is_shown(image: RgbImage, box: Box, other: RgbImage, is_outline: bool = False) -> bool:
    """Return whether a part of a page looks alike on another page, at the same place or near it.

    Both the whole part with its margin and its inside have to correlate, so that a filled square does not pass for any
    other one; with `is_outline`, the inside does not count.
    """
    cv2 = require("cv2", "visual")
    reach = _IMAGE_REACH_PX if _is_image(box) else _REACH_PX
    crop_box = box.padded(_PAD_PX).clipped(image.shape[1], image.shape[0])
    window_box = crop_box.padded(reach).clipped(other.shape[1], other.shape[0])
    if window_box.width < crop_box.width or window_box.height < crop_box.height:
        return False
    crop, window = image[crop_box.slices], other[window_box.slices]
    scale = min(_COMPARED_PX / max(crop.shape[:2]), 1.0)
    if scale < 1:
        size = max(round(crop.shape[1] * scale), 2), max(round(crop.shape[0] * scale), 2)
        crop = cv2.resize(crop, size, interpolation=cv2.INTER_AREA)
        size = (max(round(window.shape[1] * scale), size[0]), max(round(window.shape[0] * scale), size[1]))
        window = cv2.resize(window, size, interpolation=cv2.INTER_AREA)
    scores = cv2.matchTemplate(window, crop, cv2.TM_CCOEFF_NORMED)
    _, _, _, (left, top) = cv2.minMaxLoc(scores)
    height, width = crop.shape[:2]
    found = window[top : top + height, left : left + width]
    down, right = (round(scale * _PAD_PX + _INSET * (side - 2 * scale * _PAD_PX)) for side in (height, width))
    insides = [part[down : height - down, right : width - right] for part in (crop, found)]
    if _correlation(crop, found) < _MIN_LIKE:
        return False
    is_plain = is_outline or float(insides[0].std(axis=(0, 1)).max()) < _MIN_SPREAD
    return is_plain or _correlation(insides[0], insides[1]) >= _MIN_LIKE_INSIDE


def _correlation(first: RgbImage, second: RgbImage) -> float:
    """Return the correlation of two crops of one size over all channels; 0 if the second one is nearly flat."""
    one, two = (part.astype(np.float64) - part.mean(axis=(0, 1)) for part in (first, second))
    norms = float(np.linalg.norm(one)), float(np.linalg.norm(two))
    if norms[0] == 0 or norms[1] < _MIN_CONTRAST * norms[0]:
        return 0.0
    return float((one * two).sum()) / (norms[0] * norms[1])
