"""What a line of text says, where its characters stand, and in which direction it is read: PP-OCR's networks."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.text_detection import TALL, TextArea, make_session

_MODEL = "PP-OCRv6_rec_small.onnx"
_HEIGHT_PX = 48
_COLUMN_PX = 8
_MIN_WIDTH_PX = 48
_MAX_WIDTH_PX = 3200
_BLANK = 0
_LATIN_END = 0x250
_SIGNS = "×÷−√±≤≥≠∞π€£™…←→↑↓"
"""Source: rapidocr's config.yaml (Rec section): input height 48, one output column for 8 input columns, CTC blank 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognized:
    """What one crop says.

    Attributes:
        text: The characters.
        confidence: Mean probability of the characters, 0 to 1; 0 without characters.
        columns: For each character its middle, as a fraction of the crop's width.
    """

    text: str
    confidence: float
    columns: tuple[float, ...]


class TextRecognizer:
    """Reads crops that hold one line each; remembers what equal crops said.

    Args:
        num_threads: Threads of the network.
        cache_size: How many different crops to remember.
    """

    def __init__(self, num_threads: int = 2, cache_size: int = 4096) -> None:
        self._session = make_session(_MODEL, num_threads)
        alphabet = self._session.get_modelmeta().custom_metadata_map["character"].splitlines()
        self._characters = ["", *alphabet, " "]
        self._latin = np.array(
            [len(char) < 2 and (ord(char or " ") < _LATIN_END or char in _SIGNS) for char in self._characters]
        )
        self._cache: OrderedDict[bytes, Recognized] = OrderedDict()
        self._cache_size = cache_size

    def recognize(self, crop: NDArray[np.uint8], *, is_latin: bool = False) -> Recognized:
        """Read one line of upright text.

        Args:
            crop: (H, W, 3) uint8 RGB.
            is_latin: Choose among Latin letters, digits and signs alone, which helps with lone signs.
        """
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

    def _read(self, crop: NDArray[np.uint8], is_latin: bool) -> Recognized:
        cv2 = require("cv2", "literal")
        height, width = crop.shape[:2]
        if height < 2 or width < 2:
            return Recognized(text="", confidence=0.0, columns=())
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

    def _decode(self, scores: NDArray[np.float32], padding: float) -> Recognized:
        best = scores.argmax(axis=1)
        keep = best != _BLANK
        keep[1:] &= best[1:] != best[:-1]
        kept = np.flatnonzero(keep)
        if kept.size == 0:
            return Recognized(text="", confidence=0.0, columns=())
        ends = [_end_of_run(best, int(index)) for index in kept]
        columns = [(start + end) / 2 / len(best) * padding for start, end in zip(kept, ends, strict=True)]
        return Recognized(
            text="".join(self._characters[best[index]] for index in kept),
            confidence=float(scores[kept, best[kept]].mean()),
            columns=tuple(min(float(column), 1.0) for column in columns),
        )


def _end_of_run(best: NDArray[np.signedinteger], start: int) -> int:
    end = start + 1
    while end < len(best) and best[end] == best[start]:
        end += 1
    return end


# Rules of thumb without another source; measured together in benchmarks/visual/README.md, "Text".
_SURE = 0.92
_MIN_CLEAR = 0.85
_MIN_GAIN = 0.1
_MIN_CHARS = 3
"""The network reads upside-down text too, yet less surely: of 155 texts on four screens and a page, 17 are read below
0.9 upright, and 1 of at least `_MIN_CHARS` characters above `_SURE` upside down ("sdde" for "apps")."""

_SAME_WAY_DEG = 30.0
_SHORT = 3.0
"""Up to this many times as high as wide, a tall area may be an upright character, such as a lone 1."""

Direction = tuple[TextArea, Recognized]
Read = Callable[[TextArea], Direction]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """Readings of one area, the surest first; clear when its direction needs no other line to be known."""

    ways: tuple[Direction, ...]
    is_clear: bool


def choose_directions(
    image: NDArray[np.uint8], areas: Sequence[TextArea], recognizer: TextRecognizer
) -> list[tuple[TextArea, Recognized]]:
    """Read each area the way its text runs.

    A line that is read surely costs one reading. Others are read both ways, and those that are still open, single
    characters for one, follow the clear lines of the image that run as they do or the other way.

    Args:
        image: (H, W, 3) uint8 RGB.
        areas: What was detected; wide ones said to run to the right, tall ones downward.
        recognizer: The reader.
    """

    def read(area: TextArea) -> Direction:
        return area, recognizer.recognize(area.cut(image))

    looks = [_look_at(area, read) for area in areas]
    clear = [(area.angle_deg, len(got.text)) for look in looks if look.is_clear for area, got in look.ways[:1]]
    return [_settle(look, clear, read) for look in looks]


def _look_at(area: TextArea, read: Read) -> _Look:
    ways: list[Direction] = []
    for candidate in _candidates(area):
        ways.append(read(candidate))
        if ways[-1][1].confidence >= _SURE:
            break
    ways.sort(key=lambda way: -way[1].confidence)
    best = ways[0][1]
    gain = best.confidence - (ways[1][1].confidence if len(ways) > 1 else 0.0)
    is_clear = len(best.text) >= _MIN_CHARS and best.confidence >= _MIN_CLEAR and gain >= _MIN_GAIN
    return _Look(ways=tuple(ways), is_clear=is_clear)


def _candidates(area: TextArea) -> Iterator[TextArea]:
    if area.angle_deg == 90.0 and area.box.height < _SHORT * area.box.width:
        yield TextArea.from_box(area.box)
    yield area
    yield area.reversed()


def _settle(look: _Look, clear: Sequence[tuple[float, int]], read: Read) -> Direction:
    """The most confident reading, unless more clear text runs the other way, or it is undecided and upside down."""
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
    """Whether its sides do not tell how its text runs."""
    return max(box.width, box.height) < TALL * min(box.width, box.height)


def _is_sheet_on_its_side(clear: Sequence[tuple[float, int]]) -> bool:
    """Whether all clear lines run up or down, and there are more of them than a chart has beside its axis."""
    return len(clear) > 1 and all(_difference(angle % 180.0, 90.0) <= _SAME_WAY_DEG for angle, _ in clear)


def _count_along(angle_deg: float, clear: Sequence[tuple[float, int]]) -> int:
    """Characters of clear lines that run in a direction, more or less."""
    return sum(count for angle, count in clear if _difference(angle, angle_deg) <= _SAME_WAY_DEG)


def _difference(one_deg: float, other_deg: float) -> float:
    return abs((one_deg - other_deg + 180.0) % 360.0 - 180.0)
