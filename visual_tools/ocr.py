"""Read the text of a screen: lines with their boxes, and where each character stands."""

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.images.load import ImageSource, load_image
from visual_tools.ink import find_ink
from visual_tools.require import require
from visual_tools.text_detection import TextDetector
from visual_tools.text_lines import make_lines
from visual_tools.text_recognition import TextRecognizer

_MIN_CONFIDENCE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLine:
    """One line of text, as far as it belongs together.

    Attributes:
        text: What it says.
        box_px: Tight around its ink, in pixels of the picture.
        confidence: 0 to 1.
        char_x_px: For each character of `text` its left and right edge, in pixels of the picture.
    """

    text: str
    box_px: Box
    confidence: float
    char_x_px: tuple[tuple[float, float], ...] = field(default=(), repr=False)

    def span(self, start: int, end: int) -> Box:
        """Box of the characters from `start` to just before `end`."""
        left = round(self.char_x_px[start][0])
        right = round(self.char_x_px[end - 1][1])
        return Box(max(left, self.box_px.left), self.box_px.top, min(right, self.box_px.right), self.box_px.bottom)

    @property
    def words(self) -> tuple[tuple[str, Box], ...]:
        """Its words (split at blanks), each with its box."""
        found, start = [], 0
        for word in self.text.split(" "):
            if word:
                found.append((word, self.span(start, start + len(word))))
            start += len(word) + 1
        return tuple(found)


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
        lines = []
        for box in self._detector.detect(image):
            crop = image[box.top : box.bottom, box.left : box.right]
            read = self._recognizer.recognize(crop)
            if read.confidence < _MIN_CONFIDENCE:
                continue
            for text, tight, chars in make_lines(read, box, find_ink(crop)):
                lines.append(TextLine(text=text, box_px=tight, confidence=read.confidence, char_x_px=chars))
        return sorted(lines, key=lambda line: (line.box_px.center[1], line.box_px.left))


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
