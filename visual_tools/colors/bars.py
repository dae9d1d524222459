"""Bars: rectangles that stand on one line or on each other."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.colors.areas import Area, Areas

_RAGGED = 0.07
_RAGGED_PX = 1.5
_MIN_AREA = 0.00003
_MIN_SHARE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar, or a layer of a stacked one, with the straight edges that most of its rows and columns agree on."""

    area: Area
    box_px: Box


def find_bars(areas: Areas, candidates: list[Area]) -> list[Bar]:
    """The bars of a picture; empty when its areas are not mainly bars.

    Args:
        areas: The picture cut into areas.
        candidates: The areas that may be bars.
    """
    least = _MIN_AREA * areas.map.size
    boxes = [Bar(area=item, box_px=_straight_box(areas, item)) for item in candidates if item.area_px >= least]
    rectangles = [bar for bar in boxes if _is_rectangle(areas, bar)]
    if len(rectangles) < 2:
        return []
    slack = max(2, round(0.004 * min(areas.map.shape)))
    standing = _on_one_line(rectangles, slack, is_upright=True)
    lying = _on_one_line(rectangles, slack, is_upright=False)
    bars = max(standing, lying, key=_total)
    everything = sum(item.area_px for item in candidates)
    return bars if len(bars) >= 2 and _total(bars) >= _MIN_SHARE * everything else []


def _total(bars: list[Bar]) -> int:
    return sum(bar.area.area_px for bar in bars)


def _straight_box(areas: Areas, item: Area) -> Box:
    """Edges at which at least half of the rows and columns begin and end."""
    mask = areas.mask(item)
    return Box(*_middle_edges(mask, item.box_px))


def _is_rectangle(areas: Areas, bar: Bar) -> bool:
    """Whether an area fills its straight box and nothing else, a pixel of ragged edge granted."""
    box, outer = bar.box_px, bar.area.box_px
    if min(box.width, box.height) < 2:
        return False
    mask = areas.mask(bar.area)
    inside = int(mask[box.top - outer.top : box.bottom - outer.top, box.left - outer.left : box.right - outer.left].sum())
    overlap = inside / (box.area + bar.area.area_px - inside)
    return overlap > 1 - _RAGGED - _RAGGED_PX / min(box.width, box.height)


def _middle_edges(mask: NDArray[np.bool_], box: Box) -> tuple[int, int, int, int]:
    rows, columns = mask.any(axis=1), mask.any(axis=0)
    left = int(np.median(mask[rows].argmax(axis=1)))
    right = int(np.median(mask[rows][:, ::-1].argmax(axis=1)))
    top = int(np.median(mask[:, columns].argmax(axis=0)))
    bottom = int(np.median(mask[::-1, columns].argmax(axis=0)))
    return box.left + left, box.top + top, box.right - right, box.bottom - bottom


def _on_one_line(bars: list[Bar], slack: int, *, is_upright: bool) -> list[Bar]:
    """The bars that touch the line that carries most of them, directly or standing on each other."""

    def edges(bar: Bar) -> tuple[int, int, int, int]:
        """Start and end along the bar, then across it."""
        box = bar.box_px
        return (box.top, box.bottom, box.left, box.right) if is_upright else (box.left, box.right, box.top, box.bottom)

    def carried(line: int) -> list[Bar]:
        found = [bar for bar in bars if min(abs(edges(bar)[0] - line), abs(edges(bar)[1] - line)) <= slack]
        waiting = [bar for bar in bars if bar not in found]
        fresh = found
        while fresh:
            fresh = [bar for bar in waiting if any(_touches(edges(bar), edges(other), slack) for other in fresh)]
            found = found + fresh
            waiting = [bar for bar in waiting if bar not in fresh]
        return found

    lines = {edge for bar in bars for edge in edges(bar)[:2]}
    return max((carried(line) for line in lines), key=_total, default=[])


def _touches(one: tuple[int, int, int, int], other: tuple[int, int, int, int], slack: int) -> bool:
    """Whether two bars of the same width follow on each other."""
    same_width = abs(one[2] - other[2]) <= slack and abs(one[3] - other[3]) <= slack
    return same_width and min(abs(one[0] - other[1]), abs(one[1] - other[0])) <= slack
