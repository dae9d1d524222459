"""Text direction of each area: uncertain lines are read both ways, and clear lines decide for the others."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.text_detection import TALL, TextArea
from visual_tools.text_recognition import Recognized, TextRecognizer

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
