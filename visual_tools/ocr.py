"""Read the text of a screen: lines with their boxes, and where each character stands."""

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.images.load import ImageSource, load_image
from visual_tools.ink import find_ink
from visual_tools.require import require
from visual_tools.text_area import Point, TextArea, box_around
from visual_tools.text_detection import TextDetector
from visual_tools.text_directions import choose_directions
from visual_tools.text_lines import make_lines
from visual_tools.text_recognition import Recognized, TextRecognizer

_MIN_CONFIDENCE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLine:
    """One line of text, as far as it belongs together.

    Attributes:
        text: What it says.
        box_px: Tight around its ink, in pixels of the picture.
        confidence: 0 to 1.
        char_x_px: For each character of `text` its left and right edge, in pixels of the picture. In a line that is
            turned these are its start and end along the line, in pixels from the first of the corners.
        angle_deg: Where the line runs, clockwise: 0 for the usual "to the right", 90 downward, 180 upside down.
        corners_px: Its corners, x and y in pixels of the picture, from where the text begins at its top, clockwise as
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

    What a picture says depends on its pixels alone, never on what was read before: only whole pictures and crops of
    lines that are equal, pixel for pixel, are remembered. Lines are searched for on each new picture as a whole: the
    detection network averages over all of it, so a part of a picture may have other lines than the same part of it all.

    Args:
        num_threads: Threads of the networks.
        num_pictures: How many whole pictures to remember.
    """

    def __init__(self, num_threads: int = 2, num_pictures: int = 8) -> None:
        self._detector = TextDetector(num_threads)
        self._recognizer = TextRecognizer(num_threads)
        self._pictures: OrderedDict[bytes, list[TextLine]] = OrderedDict()
        self._num_pictures = num_pictures
        self._lock = threading.Lock()

    def read_text(self, image: NDArray[np.uint8]) -> list[TextLine]:
        """All lines of a picture, top to bottom, (H, W, 3) uint8 RGB."""
        with self._lock:
            pixels = np.ascontiguousarray(image).tobytes()
            key = hashlib.blake2b(pixels, digest_size=16, key=repr(image.shape).encode()).digest()
            if key not in self._pictures:
                self._pictures[key] = self._read(image)
                if len(self._pictures) > self._num_pictures:
                    self._pictures.popitem(last=False)
            self._pictures.move_to_end(key)
            return list(self._pictures[key])

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
        for area, read in choose_directions(image, self._detector.detect(image), self._recognizer):
            if read.confidence < _MIN_CONFIDENCE:
                continue
            ink = find_ink(area.cut(image))
            if area.angle_deg:
                lines += _make_turned_lines(area, read, ink)
                continue
            for text, tight, chars in make_lines(read, area.box, ink):
                lines.append(TextLine(text=text, box_px=tight, confidence=read.confidence, char_x_px=chars))
        return sorted(lines, key=lambda line: (line.box_px.center[1], line.box_px.left))


def _make_turned_lines(area: TextArea, read: Recognized, ink: NDArray[np.bool_]) -> Iterator[TextLine]:
    """The lines of an area that was cut out turned: fitted on the cut, and put back on the picture."""
    for text, tight, chars in make_lines(read, Box(0, 0, ink.shape[1], ink.shape[0]), ink):
        ends = (
            (tight.left, tight.top),
            (tight.right, tight.top),
            (tight.right, tight.bottom),
            (tight.left, tight.bottom),
        )
        corners = tuple(area.to_picture(*point) for point in ends)
        yield TextLine(
            text=text,
            box_px=box_around(corners),
            confidence=read.confidence,
            char_x_px=tuple((left - tight.left, right - tight.left) for left, right in chars),
            angle_deg=round(area.angle_deg, 1),
            corners_px=corners,
        )


_shared: list[OcrEngine] = []
_shared_lock = threading.Lock()


def shared_engine() -> OcrEngine:
    """The one engine of this process, made at first use (0.3 s, 130 MB)."""
    with _shared_lock:
        if not _shared:
            _shared.append(OcrEngine())
        return _shared[0]


def read_text(image: ImageSource) -> list[TextLine]:
    """All lines of a picture (anything that `load_image` takes), top to bottom, read by the shared engine."""
    return shared_engine().read_text(load_image(image))
