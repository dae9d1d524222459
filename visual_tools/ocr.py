"""Read the text of a screen: lines with their boxes, and where each character stands."""

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.images.files import ImageSource, load_image
from visual_tools.ink import find_ink, find_runs
from visual_tools.text_detection import Point, TextArea, TextDetector, box_around
from visual_tools.text_recognition import Recognized, TextRecognizer, choose_directions

# Rules of thumb without another source; measured together in benchmarks/visual/README.md, "Text".
_FONT_PER_BOX = 0.5
_GAP_FONTS = 0.85
_PUNCTUATION_FONTS = 0.4
_CENTRE_GAP_FONTS = 1.9
"""Detector boxes are about twice as high as the font size. Words stand 0.25 to 0.4 font sizes apart, in fixed pitch up
to 0.8, and there a comma or colon adds its own white; neighbours in a menu bar or a table stand further apart, with no
ink between. Two labels with a radio button between them are 1.9 font sizes apart (by their middles)."""

_BOX_SIGNS = "□■☐☑☒▢▣◻◼口回○●◯◉◎▪"
"""What a checkbox or a radio button before a text is read as; it is no part of the text."""

_PUNCTUATION = ",.:;"

_TORN_PX = 2
_TORN_ROWS = 0.8
_TORN_CONFIDENCE = 0.05
"""Two lines were torn from one when at least so many columns of pixels belong to both and they share so much of their
rows; reading them as one may be this much less sure."""

CharSpans = tuple[tuple[float, float], ...]
_MIN_CONFIDENCE = 0.5
_shared_lock = threading.Lock()


def make_lines(read: Recognized, box: Box, ink: NDArray[np.bool_]) -> list[tuple[str, Box, CharSpans]]:
    """Split a recognized crop at wide gaps.

    Args:
        read: What the crop says.
        box: Where the crop stands on the image, in pixels.
        ink: The crop's ink, (H, W) bool.

    Returns:
        For each part its text, its tight box and its characters' left and right edges, in pixels of the image.
    """
    centres = [column * box.width for column in read.columns]
    font_px = max(box.height * _FONT_PER_BOX, 6.0)
    ink = _without_borders(ink)
    rows = _main_rows(ink)
    blank_columns = np.asarray(~ink[rows[0] : rows[1]].any(axis=0))
    parts = []
    for start, end in _split(read.text, centres, blank_columns, font_px):
        parts.append(_make_part(read.text[start:end], centres[start:end], box, ink, rows, font_px))
    return parts


def _without_borders(ink: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Without the columns and rows that are ink from end to end: edges of boxes, never letters."""
    bare = ink.copy()
    bare[:, ink.mean(axis=0) > 0.95] = False
    bare[ink.mean(axis=1) > 0.95, :] = False
    return bare


def _main_rows(ink: NDArray[np.bool_]) -> tuple[int, int]:
    """First row and row after the last one of the text: rows of borders at the crop's edges left out."""
    height = ink.shape[0]
    runs = find_runs(ink.any(axis=1), max_gap=max(2, height // 10))
    if not runs:
        return 0, height
    middle = height / 2
    inner = [run for run in runs if run[0] > 0 and run[1] < height] or runs
    return min(inner, key=lambda run: max(run[0] - middle, middle - run[1], 0) - (run[1] - run[0]) / height)


def _split(text: str, centres: list[float], blank: NDArray[np.bool_], font_px: float) -> list[tuple[int, int]]:
    visible = [index for index, char in enumerate(text) if not char.isspace()]
    while len(visible) > 1 and text[visible[0]] in _BOX_SIGNS:
        del visible[0]
    if not visible:
        return []
    parts, start, previous = [], visible[0], visible[0]
    for index in visible[1:]:
        left, right = int(centres[previous]), int(centres[index]) + 1
        widest = max((end - begin for begin, end in find_runs(blank[left:right])), default=0)
        allowed = _GAP_FONTS + (_PUNCTUATION_FONTS if text[previous] in _PUNCTUATION else 0.0)
        if widest > allowed * font_px or right - left > _CENTRE_GAP_FONTS * font_px + 4:
            parts.append((start, previous + 1))
            start = index
        previous = index
    return [*parts, (start, previous + 1)]


def _make_part(
    text: str, centres: list[float], box: Box, ink: NDArray[np.bool_], rows: tuple[int, int], font_px: float
) -> tuple[str, Box, CharSpans]:
    reach = font_px * 0.75
    first = max(int(centres[0] - reach), 0)
    last = min(int(centres[-1] + reach) + 1, ink.shape[1])
    runs = find_runs(ink[rows[0] : rows[1], first:last].any(axis=0))
    left, right = first, last
    if runs:
        left = first + min(runs, key=lambda run: _distance(run, centres[0] - first))[0]
        right = first + min(runs, key=lambda run: _distance(run, centres[-1] - first))[1]
    left, right = min(left, int(centres[0])), max(right, int(centres[-1]) + 1)
    edges = [left, *((a + b) / 2 for a, b in pairwise(centres)), right]
    chars = tuple((box.left + a, box.left + b) for a, b in pairwise(edges))
    part_rows = find_runs(ink[rows[0] : rows[1], left:right].any(axis=1), max_gap=ink.shape[0])
    top, bottom = (rows[0] + part_rows[0][0], rows[0] + part_rows[0][1]) if part_rows else rows
    return text, Box(box.left + left, box.top + top, box.left + right, box.top + bottom), chars


def _distance(run: tuple[int, int], x: float) -> float:
    return max(run[0] - x, x - run[1], 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLine:
    """One line of text, as far as it belongs together.

    Attributes:
        text: What it says.
        box_px: Tight around its ink, in pixels of the image.
        confidence: 0 to 1.
        char_x_px: For each character of `text` its left and right edge, in pixels of the image. In a line that is
            turned these are its start and end along the line, in pixels from the first of the corners.
        angle_deg: Where the line runs, clockwise: 0 for the usual "to the right", 90 downward, 180 upside down.
        corners_px: Its corners, x and y in pixels of the image, from where the text begins at its top, clockwise as
            one reads it; the corners of the box for the usual line.
    """

    text: str
    box_px: Box
    confidence: float
    char_x_px: tuple[tuple[float, float], ...] = field(default=(), repr=False)
    angle_deg: float = 0.0
    corners_px: tuple[Point, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not self.corners_px:
            object.__setattr__(self, "corners_px", TextArea.from_box(self.box_px).corners())

    def span(self, start: int, end: int) -> Box:
        """Box of the characters from `start` to just before `end`."""
        first, last = self.char_x_px[start][0], self.char_x_px[end - 1][1]
        if self.angle_deg:
            return box_around(self._corners_between(first, last))
        return Box(
            max(round(first), self.box_px.left),
            self.box_px.top,
            min(round(last), self.box_px.right),
            self.box_px.bottom,
        )

    def part(self, start: int, end: int) -> "TextLine":
        """The line that its characters from `start` to just before `end` are."""
        chars = self.char_x_px[start:end]
        corners: tuple[Point, ...] = ()
        if self.angle_deg:
            origin = chars[0][0]
            corners = self._corners_between(origin, chars[-1][1])
            chars = tuple((left - origin, right - origin) for left, right in chars)
        return replace(
            self, text=self.text[start:end], box_px=self.span(start, end), char_x_px=chars, corners_px=corners
        )

    def moved(self, x_px: int, y_px: int) -> "TextLine":
        """The same line, elsewhere."""
        chars = self.char_x_px
        if not self.angle_deg:
            chars = tuple((left + x_px, right + x_px) for left, right in chars)
        corners = tuple((x + x_px, y + y_px) for x, y in self.corners_px)
        return replace(self, box_px=self.box_px.moved(x_px, y_px), char_x_px=chars, corners_px=corners)

    @property
    def words(self) -> tuple[tuple[str, Box], ...]:
        """Its words (split at blanks), each with its box."""
        found, start = [], 0
        for word in self.text.split(" "):
            if word:
                found.append((word, self.span(start, start + len(word))))
            start += len(word) + 1
        return tuple(found)

    def _corners_between(self, first_px: float, last_px: float) -> tuple[Point, ...]:
        """Corners of the stretch from one place along the line to another, in pixels from its first corner."""
        (x0, y0), (x1, y1), _, (x3, y3) = self.corners_px
        length = math.dist((x0, y0), (x1, y1))
        ends = [(x0 + (x1 - x0) * along / length, y0 + (y1 - y0) * along / length) for along in (first_px, last_px)]
        (ax, ay), (bx, by) = ends
        return (ax, ay), (bx, by), (bx + x3 - x0, by + y3 - y0), (ax + x3 - x0, ay + y3 - y0)


class OcrEngine:
    """Reads screens; thread-safe.

    What an image says depends on its pixels alone, never on what was read before: only whole images and crops of
    lines that are equal, pixel for pixel, are remembered. Lines are searched for on each new image as a whole: the
    detection network averages over all of it, so a part of an image may have other lines than the same part of it all.

    Args:
        num_threads: Threads of the networks.
        num_images: How many whole images to remember.
    """

    def __init__(self, num_threads: int = 2, num_images: int = 8) -> None:
        self._detector = TextDetector(num_threads)
        self._recognizer = TextRecognizer(num_threads)
        self._images: OrderedDict[bytes, list[TextLine]] = OrderedDict()
        self._num_images = num_images
        self._lock = threading.Lock()

    def read_text(self, image: NDArray[np.uint8]) -> list[TextLine]:
        """All lines of an image, top to bottom, (H, W, 3) uint8 RGB."""
        with self._lock:
            pixels = np.ascontiguousarray(image).tobytes()
            key = hashlib.blake2b(pixels, digest_size=16, key=repr(image.shape).encode()).digest()
            if key not in self._images:
                self._images[key] = self._read(image)
                if len(self._images) > self._num_images:
                    self._images.popitem(last=False)
            self._images.move_to_end(key)
            return list(self._images[key])

    def read_crop(self, crop: NDArray[np.uint8], scale: float = 1.0, *, is_latin: bool = False) -> tuple[str, float]:
        """Text and confidence (0 to 1) of a crop that holds one line, (H, W, 3) uint8 RGB.

        Args:
            crop: The line.
            scale: Enlarge a small one first.
            is_latin: Choose among Latin letters, digits and signs alone.
        """
        if scale != 1.0:
            cv2 = require("cv2", "literal")
            crop = cv2.resize(crop, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
        with self._lock:
            read = self._recognizer.recognize(crop, is_latin=is_latin)
        return read.text.strip(), read.confidence

    def _read(self, image: NDArray[np.uint8]) -> list[TextLine]:
        lines: list[TextLine] = []
        areas: list[Box] = []  # of the lines that are not turned
        level: list[TextLine] = []
        for area, read in choose_directions(image, self._detector.detect(image), self._recognizer):
            if read.confidence < _MIN_CONFIDENCE:
                continue
            if area.angle_deg:
                lines += _make_turned_lines(area, read, find_ink(area.cut(image)))
                continue
            made = _make_level_lines(area, read, image)
            level += made
            areas += [area.box] * len(made)
        lines += self._join_torn(image, level, areas)
        return sorted(lines, key=lambda line: (line.box_px.center[1], line.box_px.left))

    def _join_torn(self, image: NDArray[np.uint8], lines: list[TextLine], areas: list[Box]) -> list[TextLine]:
        """Lines that share a letter are one that the detector tore: read again as one, where that reads as well."""
        whole = dict(enumerate(lines))
        joined: list[TextLine] = []
        for left, right in _find_torn(lines):
            if left not in whole or right not in whole:
                continue
            area = TextArea.from_box(areas[left].union(areas[right]))
            read = self._recognizer.recognize(area.cut(image))
            if read.confidence >= min(lines[left].confidence, lines[right].confidence) - _TORN_CONFIDENCE:
                joined += _make_level_lines(area, read, image)
                del whole[left], whole[right]
        return [*whole.values(), *joined]


def _make_level_lines(area: TextArea, read: Recognized, image: NDArray[np.uint8]) -> list[TextLine]:
    """The lines of an area whose sides are the image's."""
    return [
        TextLine(text=text, box_px=tight, confidence=read.confidence, char_x_px=chars)
        for text, tight, chars in make_lines(read, area.box, find_ink(area.cut(image)))
    ]


def _find_torn(lines: list[TextLine]) -> list[tuple[int, int]]:
    """Pairs of lines, left and right, that stand in the same rows and both hold the columns of one letter."""
    if not lines:
        return []
    boxes = np.array([(line.box_px.left, line.box_px.top, line.box_px.right, line.box_px.bottom) for line in lines])
    left, top, right, bottom = boxes.T
    shared_px = right[:, None] - left[None, :]
    rows_px = np.minimum(bottom[:, None], bottom) - np.maximum(top[:, None], top)
    higher = np.maximum(bottom - top, (bottom - top)[:, None])
    torn = (left[:, None] < left) & (right[:, None] < right) & (rows_px >= _TORN_ROWS * higher)
    torn &= (shared_px >= _TORN_PX) & (shared_px <= higher)
    return [(int(first), int(second)) for first, second in np.argwhere(torn)]


def _make_turned_lines(area: TextArea, read: Recognized, ink: NDArray[np.bool_]) -> Iterator[TextLine]:
    """The lines of an area that was cut out turned: fitted on the cut, and put back on the image."""
    for text, tight, chars in make_lines(read, Box(0, 0, ink.shape[1], ink.shape[0]), ink):
        ends = (
            (tight.left, tight.top),
            (tight.right, tight.top),
            (tight.right, tight.bottom),
            (tight.left, tight.bottom),
        )
        corners = tuple(area.to_image(*point) for point in ends)
        yield TextLine(
            text=text,
            box_px=box_around(corners),
            confidence=read.confidence,
            char_x_px=tuple((left - tight.left, right - tight.left) for left, right in chars),
            angle_deg=round(area.angle_deg, 1),
            corners_px=corners,
        )


_shared: list[OcrEngine] = []


def shared_engine() -> OcrEngine:
    """The one engine of this process, made at first use (0.3 s, 130 MB)."""
    with _shared_lock:
        if not _shared:
            _shared.append(OcrEngine())
        return _shared[0]


def read_text(image: ImageSource) -> list[TextLine]:
    """All lines of an image (anything that `load_image` takes), top to bottom, read by the shared engine."""
    return shared_engine().read_text(load_image(image))
