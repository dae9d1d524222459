"""What a line of text says, and where each of its characters stands: the recognition network of PP-OCR."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.require import require
from visual_tools.text_detection import make_session

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
