"""Which words belong to which colour: the legend's swatches, and writing beside the sectors of a pie."""

import functools
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.colors.areas import Area, Areas
from visual_tools.colors.pies import Pie
from visual_tools.errors import MissingPackageError
from visual_tools.ocr import TextLine, read_text

# Rules of thumb without another source; measured together in benchmarks/visual/README.md, "Shares of colours".
_MAX_SWATCH_AREA = 0.006
_MIN_SWATCH_FILL = 0.75
_MIN_RATIO = 2.5
_MIN_NAMED = 0.8
_GAPS_PX = (3, 8)
_MIN_ALONE = 0.95
_MAX_READ_PX = 2600


def find_swatches(areas: Areas, candidates: list[Area], grounds: Collection[int]) -> list[Area]:
    """Small filled boxes or dots of a colour that a much larger area has too, away from everything else."""
    largest: dict[int, int] = {}
    for item in candidates:
        largest[item.color] = max(largest.get(item.color, 0), item.area_px)
    return [
        item
        for item in candidates
        if item.area_px <= _MAX_SWATCH_AREA * areas.map.size
        and item.area_px * _MIN_RATIO <= largest[item.color]
        and item.area_px >= _MIN_SWATCH_FILL * item.box_px.area
        and 0.4 <= item.box_px.width / item.box_px.height <= 5
        and _is_alone(areas, item, grounds)
    ]


def _is_alone(areas: Areas, item: Area, grounds: Collection[int]) -> bool:
    """Whether the pixels around an area, or around its outline, are background."""
    height, width = areas.map.shape
    for gap in _GAPS_PX:
        box, inner = (item.box_px.padded(size).clipped(width, height) for size in (gap, gap - _GAPS_PX[0]))
        around = areas.map[box.top : box.bottom, box.left : box.right] != item.number
        around[inner.top - box.top : inner.bottom - box.top, inner.left - box.left : inner.right - box.left] = False
        colors = areas.colors[box.top : box.bottom, box.left : box.right][around]
        if np.isin(colors, list(grounds)).mean() > _MIN_ALONE:
            return True
    return False


def read_lines(image: NDArray[np.uint8], candidates: list[Area], swatches: list[Area]) -> list[TextLine]:
    """The writing of an image, of its legend alone where that names most of it (which is much quicker).

    There is none where no reader is installed, or the image is too large to read quickly.
    """
    box = Box(0, 0, image.shape[1], image.shape[0])
    named = {swatch.color for swatch in swatches}
    area = sum(item.area_px for item in candidates if item.color in named)
    if len(named) > 1 and area > _MIN_NAMED * sum(item.area_px for item in candidates):
        legend = functools.reduce(Box.union, (swatch.box_px for swatch in swatches))
        margin = max(swatch.box_px.height for swatch in swatches)
        box = Box(legend.left, legend.top - margin, box.right, legend.bottom + margin).clipped(box.right, box.bottom)
    if max(box.width, box.height) > _MAX_READ_PX or min(box.width, box.height) < 16:
        return []
    try:
        lines = read_text(np.ascontiguousarray(image[box.top : box.bottom, box.left : box.right]))
    except MissingPackageError:
        return []
    return [line.moved(box.left, box.top) for line in lines]


def match_swatches(swatches: list[Area], lines: list[TextLine]) -> dict[int, str]:
    """For each colour with a swatch the words right of it."""
    labels: dict[int, str] = {}
    for swatch in swatches:
        box = swatch.box_px
        text = _text_right_of(box, [other.box_px for other in swatches if other is not swatch], lines)
        if text:
            labels.setdefault(swatch.color, text)
    return labels


def _text_right_of(box: Box, others: list[Box], lines: list[TextLine]) -> str:
    """The words that start close to the right of a box, up to the next swatch of the row."""
    limit = min(
        (other.left for other in others if other.overlap_y(box) > 0 and other.left >= box.right), default=1 << 30
    )
    reach = 2.5 * max(box.height, box.width)
    parts = []
    for line in lines:
        if line.box_px.overlap_y(box) < 0.4 * min(box.height, line.box_px.height):
            continue
        words = [
            (word, place) for word, place in line.words if place.left >= box.right - 2 and place.right <= limit + 2
        ]
        if words and words[0][1].left - box.right <= reach:
            parts.append((words[0][1].left, " ".join(word for word, _ in words)))
    return min(parts)[1] if parts else ""


def match_sectors(pie: Pie, lines: list[TextLine]) -> dict[int, str]:
    """For each sector (by the number of its area) the words outside the rim that its middle points to."""
    found: dict[int, tuple[float, str]] = {}
    radius = pie.circle.radius_px
    for line in lines:
        if not any(character.isalpha() for character in line.text):
            continue
        x, y = _nearest_point(line.box_px, pie.circle.x_px, pie.circle.y_px)
        away = np.hypot(x - pie.circle.x_px, y - pie.circle.y_px)
        if not 0.97 * radius < away < 1.45 * radius:
            continue
        for sector in pie.sectors:
            tip = (
                sector.apex_px[0] + 1.1 * radius * np.cos(sector.direction_rad),
                sector.apex_px[1] + 1.1 * radius * np.sin(sector.direction_rad),
            )
            near = _nearest_point(line.box_px, *tip)
            gap = float(np.hypot(near[0] - tip[0], near[1] - tip[1]))
            if gap < 0.15 * radius and gap < found.get(sector.area.number, (np.inf, ""))[0]:
                found[sector.area.number] = gap, line.text
    return {number: text for number, (_, text) in found.items()}


def _nearest_point(box: Box, x: float, y: float) -> tuple[float, float]:
    return float(np.clip(x, box.left, box.right)), float(np.clip(y, box.top, box.bottom))
