"""Read the text of a screenshot: lines with their boxes, and the position of each character."""

import contextlib
import ctypes
import gc
import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.images.files import ImageSource, load_image
from visual_tools.ink import find_ink, find_runs
from visual_tools.text_detection import TALL, Point, TextArea, TextDetector, box_around, make_session

_MODEL = "PP-OCRv6_rec_small.onnx"
_HEIGHT_PX = 48
_COLUMN_PX = 8
_MIN_WIDTH_PX = 48
_MAX_WIDTH_PX = 3200
_BLANK = 0
_LATIN_END = 0x250
_SIGNS = "×÷−√±≤≥≠∞π€£™…←→↑↓"
"""Parameters of the recognizer: input height 48, one output column for 8 input columns, CTC blank 0.

Source: rapidocr's config.yaml (Rec section).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognizedText:
    """Recognized text of one crop.

    Attributes:
        text: The characters.
        confidence: Mean probability of the characters, 0 to 1; 0 without characters.
        columns: Center of each character, as a fraction of the crop's width.
    """

    text: str
    confidence: float
    columns: tuple[float, ...]


class TextRecognizer:
    """Recognizer of crops that contain one line each; results of equal crops are cached."""

    def __init__(self, num_threads: int = 2, cache_size: int = 4096) -> None:
        self._session = make_session(_MODEL, num_threads)
        alphabet = self._session.get_modelmeta().custom_metadata_map["character"].splitlines()
        self._characters = ["", *alphabet, " "]
        self._latin = np.array(
            [len(char) < 2 and (ord(char or " ") < _LATIN_END or char in _SIGNS) for char in self._characters]
        )
        self._cache: OrderedDict[bytes, RecognizedText] = OrderedDict()
        self._cache_size = cache_size

    def recognize(self, crop: NDArray[np.uint8], *, is_latin: bool = False) -> RecognizedText:
        """Read one line of upright text, (H, W, 3) uint8 RGB; `is_latin`: only Latin letters, digits, signs."""
        crop = np.ascontiguousarray(crop)
        key = hashlib.blake2b(crop.tobytes(), digest_size=16, key=repr((crop.shape, is_latin)).encode()).digest()
        known = self._cache.get(key)
        if known is not None:
            self._cache.move_to_end(key)
            return known
        result = self._read(crop, is_latin)
        self._cache[key] = result
        if len(self._cache) > self._cache_size:
            self._cache.popitem(last=False)
        return result

    def _read(self, crop: NDArray[np.uint8], is_latin: bool) -> RecognizedText:
        cv2 = require("cv2", "literal")
        height, width = crop.shape[:2]
        if height < 2 or width < 2:
            return RecognizedText(text="", confidence=0.0, columns=())
        net_width = min(max(round(width * _HEIGHT_PX / height), 4), _MAX_WIDTH_PX)
        resized = cv2.resize(crop, (net_width, _HEIGHT_PX), interpolation=cv2.INTER_LINEAR)
        batch = cv2.dnn.blobFromImage(resized, 1 / 127.5, mean=(127.5, 127.5, 127.5), swapRB=True)
        padded_width = max(_MIN_WIDTH_PX, -(-net_width // _COLUMN_PX) * _COLUMN_PX)
        batch = np.pad(batch, ((0, 0), (0, 0), (0, 0), (0, padded_width - net_width)))
        scores = self._session.run(None, {"x": batch})[0][0]
        if is_latin:
            scores = scores * self._latin
            scores /= np.maximum(scores.sum(axis=1, keepdims=True), 1e-9)
        return self._decode(scores, padded_width / net_width)

    def _decode(self, scores: NDArray[np.float32], padding: float) -> RecognizedText:
        best = scores.argmax(axis=1)
        keep = best != _BLANK
        keep[1:] &= best[1:] != best[:-1]
        kept = np.flatnonzero(keep)
        if kept.size == 0:
            return RecognizedText(text="", confidence=0.0, columns=())
        ends = [_end_of_run(best, int(index)) for index in kept]
        columns = [(start + end) / 2 / len(best) * padding for start, end in zip(kept, ends, strict=True)]
        return RecognizedText(
            text="".join(self._characters[best[index]] for index in kept),
            confidence=float(scores[kept, best[kept]].mean()),
            columns=tuple(min(float(column), 1.0) for column in columns),
        )


def _end_of_run(best: NDArray[np.signedinteger], start: int) -> int:
    end = start + 1
    while end < len(best) and best[end] == best[start]:
        end += 1
    return end


# Heuristics without another source; measured together in benchmarks/visual/README.md, "Text".
_SURE = 0.92
_MIN_CLEAR = 0.85
_MIN_GAIN = 0.1
_MIN_CHARS = 3
"""Thresholds for text that is upside down, which the network also reads, but with lower confidence.

Of 155 texts on four screens and a page, 17 are read below 0.9 upright, and 1 of at least `_MIN_CHARS` characters above
`_SURE` upside down ("sdde" for "apps").
"""

_SAME_WAY_DEG = 30.0
_SHORT = 3.0
"""Maximum ratio of height to width up to which a tall area may be an upright character, such as a lone 1."""

Direction = tuple[TextArea, RecognizedText]
Read = Callable[[TextArea], Direction]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DirectionReadings:
    """Readings of one area, by descending confidence; clear if its direction is known without other lines."""

    ways: tuple[Direction, ...]
    is_clear: bool


def choose_directions(
    image: NDArray[np.uint8], areas: Sequence[TextArea], recognizer: TextRecognizer
) -> list[tuple[TextArea, RecognizedText]]:
    """Read each area in the direction of its text.

    A line read with high confidence costs one reading. Others are read in both directions; those still undecided, such
    as single characters, follow the clear lines of the image with the same or the opposite direction.
    """

    def read(area: TextArea) -> Direction:
        return area, recognizer.recognize(area.cut(image))

    looks = [_look_at(area, read) for area in areas]
    clear = [(area.angle_deg, len(reading.text)) for look in looks if look.is_clear for area, reading in look.ways[:1]]
    return [_settle(look, clear, read) for look in looks]


def _look_at(area: TextArea, read: Read) -> _DirectionReadings:
    ways: list[Direction] = []
    for candidate in _candidates(area):
        ways.append(read(candidate))
        if ways[-1][1].confidence >= _SURE:
            break
    ways.sort(key=lambda way: -way[1].confidence)
    best = ways[0][1]
    gain = best.confidence - (ways[1][1].confidence if len(ways) > 1 else 0.0)
    is_clear = len(best.text) >= _MIN_CHARS and best.confidence >= _MIN_CLEAR and gain >= _MIN_GAIN
    return _DirectionReadings(ways=tuple(ways), is_clear=is_clear)


def _candidates(area: TextArea) -> Iterator[TextArea]:
    if area.angle_deg == 90.0 and area.box.height < _SHORT * area.box.width:
        yield TextArea.from_box(area.box)
    yield area
    yield area.reversed()


def _settle(look: _DirectionReadings, clear: Sequence[tuple[float, int]], read: Read) -> Direction:
    """Return the most confident reading.

    Another one is chosen if more clear text runs in the opposite direction, or if it is undecided and upside down.
    """
    best = look.ways[0]
    if look.is_clear:
        return best
    if _is_square(best[0].box) and _is_sheet_on_its_side(clear):
        sides = [TextArea.from_box(best[0].box, angle_deg) for angle_deg in (90.0, 270.0)]
        return read(max(sides, key=lambda side: _count_along(side.angle_deg, clear)))
    other = best[0].reversed()
    own, against = (_count_along(area.angle_deg, clear) for area in (best[0], other))
    if against > own or (against == own and best[0].angle_deg == 180.0):
        return next((way for way in look.ways if way[0] == other), None) or read(other)
    return best


def _is_square(box: Box) -> bool:
    """Return True if the sides of a box do not determine the direction of its text."""
    return max(box.width, box.height) < TALL * min(box.width, box.height)


def _is_sheet_on_its_side(clear: Sequence[tuple[float, int]]) -> bool:
    """Return True if all clear lines are vertical and there are at least two; a chart has one, along its axis."""
    return len(clear) > 1 and all(_difference(angle % 180.0, 90.0) <= _SAME_WAY_DEG for angle, _ in clear)


def _count_along(angle_deg: float, clear: Sequence[tuple[float, int]]) -> int:
    """Return the number of characters of clear lines that run approximately in a direction."""
    return sum(count for angle, count in clear if _difference(angle, angle_deg) <= _SAME_WAY_DEG)


def _difference(one_deg: float, other_deg: float) -> float:
    return abs((one_deg - other_deg + 180.0) % 360.0 - 180.0)


# Heuristics without another source; measured together in benchmarks/visual/README.md, "Text".
_FONT_PER_BOX = 0.5
_GAP_FONTS = 0.85
_PUNCTUATION_FONTS = 0.4
_CENTRE_GAP_FONTS = 1.9
"""Gaps and distances within and between texts, in font sizes.

Detector boxes are about twice as high as the font size. Words are 0.25 to 0.4 font sizes apart, in fixed pitch up to
0.8, where a comma or colon adds its own white space; neighbours in a menu bar or a table are further apart, with no ink
between. Two labels with a radio button between them are 1.9 font sizes apart (by their centers).
"""

_BOX_SIGNS = "□■☐☑☒▢▣◻◼口回○●◯◉◎▪"
"""Characters that checkboxes and radio buttons before a text are read as; they are not part of the text."""

_PUNCTUATION = ",.:;"

_TORN_PX = 2
_TORN_ROWS = 0.8
_TORN_CONFIDENCE = 0.05
"""Thresholds for joining two lines that the detector split.

They are joined if they share at least this many pixel columns and this share of their rows, and if the confidence of
the joined reading is lower by at most this much.
"""

CharSpans = tuple[tuple[float, float], ...]
_MIN_CONFIDENCE = 0.5
_shared_lock = threading.Lock()


def make_lines(read: RecognizedText, box: Box, ink: NDArray[np.bool_]) -> list[tuple[str, Box, CharSpans]]:
    """Split a recognized crop at wide gaps.

    Args:
        read: Recognized text of the crop.
        box: Box of the crop on the image, in pixels.
        ink: Ink of the crop, (H, W) bool.

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
    """Remove columns and rows that are ink from end to end: edges of boxes, never letters."""
    bare = ink.copy()
    bare[:, ink.mean(axis=0) > 0.95] = False
    bare[ink.mean(axis=1) > 0.95, :] = False
    return bare


def _main_rows(ink: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the first row and the row after the last one of the text, without borders at the crop's edges."""
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
    """One line of text without wide gaps.

    Attributes:
        text: Text of the line.
        box_px: Tight box around its ink, in pixels of the image.
        confidence: Mean probability, 0 to 1.
        char_x_px: Left and right edge of each character of `text`, in pixels of the image. For a rotated line, start
            and end along the line, in pixels from the first corner.
        angle_deg: Direction of the text, clockwise: 0 for left to right, 90 downward, 180 upside down.
        corners_px: Corners, x and y in pixels of the image, from the top of the text's start, clockwise in reading
            direction; for horizontal text the corners of the box.
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
        """Return the box of the characters from `start` up to, but not including, `end`."""
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
        """Return the line made of the characters from `start` up to, but not including, `end`."""
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
        """Return the line moved by an offset in pixels."""
        chars = self.char_x_px
        if not self.angle_deg:
            chars = tuple((left + x_px, right + x_px) for left, right in chars)
        corners = tuple((x + x_px, y + y_px) for x, y in self.corners_px)
        return replace(self, box_px=self.box_px.moved(x_px, y_px), char_x_px=chars, corners_px=corners)

    @property
    def words(self) -> tuple[tuple[str, Box], ...]:
        """Words of the line (split at spaces), each with its box."""
        parts, start = [], 0
        for word in self.text.split(" "):
            if word:
                parts.append((word, self.span(start, start + len(word))))
            start += len(word) + 1
        return tuple(parts)

    def _corners_between(self, first_px: float, last_px: float) -> tuple[Point, ...]:
        """Return the corners of the stretch between two positions along the line, in pixels from its first corner."""
        (x0, y0), (x1, y1), _, (x3, y3) = self.corners_px
        length = math.dist((x0, y0), (x1, y1))
        ends = [(x0 + (x1 - x0) * along / length, y0 + (y1 - y0) * along / length) for along in (first_px, last_px)]
        (ax, ay), (bx, by) = ends
        return (ax, ay), (bx, by), (bx + x3 - x0, by + y3 - y0), (ax + x3 - x0, ay + y3 - y0)


class OcrEngine:
    """Thread-safe OCR engine for screenshots.

    The result for an image depends only on its pixels, never on earlier images: the caches hold only whole images and
    line crops, compared pixel by pixel. Lines are always detected on the whole image: the detection network averages
    over all of it, so a part of an image may give other lines than the whole.

    Args:
        num_threads: Threads of the networks.
        num_images: Number of whole images in the cache.
    """

    def __init__(self, num_threads: int = 2, num_images: int = 8) -> None:
        self._detector = TextDetector(num_threads)
        self._recognizer = TextRecognizer(num_threads)
        self._images: OrderedDict[bytes, tuple[list[TextLine], list[Box]]] = OrderedDict()
        self._num_images = num_images
        self._lock = threading.Lock()

    def read_text(self, image: NDArray[np.uint8]) -> list[TextLine]:
        """Return all lines of an image, top to bottom, (H, W, 3) uint8 RGB."""
        return list(self._look_up(image)[0])

    def find_unread(self, image: NDArray[np.uint8]) -> list[Box]:
        """Return the areas of an image, (H, W, 3) uint8 RGB, that look like text but cannot be read."""
        return list(self._look_up(image)[1])

    def _look_up(self, image: NDArray[np.uint8]) -> tuple[list[TextLine], list[Box]]:
        with self._lock:
            pixels = np.ascontiguousarray(image).tobytes()
            key = hashlib.blake2b(pixels, digest_size=16, key=repr(image.shape).encode()).digest()
            if key not in self._images:
                self._images[key] = self._read(image)
                if len(self._images) > self._num_images:
                    self._images.popitem(last=False)
            self._images.move_to_end(key)
            return self._images[key]

    def read_crop(self, crop: NDArray[np.uint8], scale: float = 1.0, *, is_latin: bool = False) -> tuple[str, float]:
        """Return text and confidence (0 to 1) of a one-line crop, (H, W, 3) uint8 RGB, enlarged by `scale` first."""
        if scale != 1.0:
            cv2 = require("cv2", "literal")
            crop = cv2.resize(crop, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
        with self._lock:
            read = self._recognizer.recognize(crop, is_latin=is_latin)
        return read.text.strip(), read.confidence

    def _read(self, image: NDArray[np.uint8]) -> tuple[list[TextLine], list[Box]]:
        """Return the lines of an image and the areas that cannot be read."""
        lines: list[TextLine] = []
        unread: list[Box] = []
        areas: list[Box] = []  # of the lines that are not rotated
        level: list[TextLine] = []
        for area, read in choose_directions(image, self._detector.detect(image), self._recognizer):
            if read.confidence < _MIN_CONFIDENCE or not read.text.strip():
                unread.append(area.box)
                continue
            if area.angle_deg:
                lines += _make_turned_lines(area, read, find_ink(area.cut(image)))
                continue
            level_lines = _make_level_lines(area, read, image)
            level += level_lines
            areas += [area.box] * len(level_lines)
        lines += self._join_torn(image, level, areas)
        return sorted(lines, key=lambda line: (line.box_px.center[1], line.box_px.left)), unread

    def _join_torn(self, image: NDArray[np.uint8], lines: list[TextLine], areas: list[Box]) -> list[TextLine]:
        """Join lines that share a letter, which the detector split, if they read as well as one line."""
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


def _make_level_lines(area: TextArea, read: RecognizedText, image: NDArray[np.uint8]) -> list[TextLine]:
    """Return the lines of an area whose sides are parallel to the image's."""
    return [
        TextLine(text=text, box_px=tight, confidence=read.confidence, char_x_px=chars)
        for text, tight, chars in make_lines(read, area.box, find_ink(area.cut(image)))
    ]


def _find_torn(lines: list[TextLine]) -> list[tuple[int, int]]:
    """Return pairs of lines, left and right, in the same rows that both contain the columns of one letter."""
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


def _make_turned_lines(area: TextArea, read: RecognizedText, ink: NDArray[np.bool_]) -> Iterator[TextLine]:
    """Return the lines of a rotated area: measured on the upright crop, then mapped back to the image."""
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
    """Return the shared engine of this process, created at first use (0.3 s, 130 MB)."""
    with _shared_lock:
        if not _shared:
            _shared.append(OcrEngine())
        return _shared[0]


def release_engine() -> None:
    """Free the memory of the shared engine (300 MB after some screenshots), unless other objects hold it.

    It is created again at its next use.
    """
    with _shared_lock:
        _shared.clear()
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # glibc keeps freed memory otherwise
        ctypes.CDLL(None).malloc_trim(0)


def read_text(image: ImageSource) -> list[TextLine]:
    """Return all lines of an image (anything that `load_image` takes), top to bottom, read by the shared engine."""
    return shared_engine().read_text(load_image(image))
