"""Bars: rectangles on a common line or stacked on each other."""

import dataclasses
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.colors.areas import Area, Areas, find_edge_shift
from visual_tools.colors.palette import NO_COLOR, Palette, apply_lut

# Heuristics without another source; measured together in benchmarks/visual/README.md, "Shares of colours".
_EQUAL_PX = 1.5
_EQUAL = 0.03
_RAGGED = 0.07
_RAGGED_PX = 1.5
_MIN_AREA = 0.00003
_MIN_SHARE = 0.95
_IN_LINE_PX = 2
_MAX_CUT = 2.0
_MIN_WRITING = 0.5
_LOOSE_PX, _STEP_PX, _MIN_BAR_PX, _MAX_ALIKE = 3, 2, 6, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredBar:
    """Bar, or one layer of a stacked bar.

    Attributes:
        area: Pixels of the bar.
        box_px: Straight edges on which most of its rows and columns agree.
        width_px: Width, with subpixel edges.
        height_px: Height, with subpixel edges.
    """

    area: Area
    box_px: Box
    width_px: float
    height_px: float


def find_bars(
    image: NDArray[np.uint8], rgb: NDArray[np.uint8], areas: Areas, candidates: list[Area], swatches: list[Area]
) -> list[MeasuredBar]:
    """Return the bars of an image; empty if its areas are not mainly bars."""
    least = _MIN_AREA * areas.map.size
    boxes = [(item, _straight_box(areas, item)) for item in candidates if item.area_px >= least]
    rectangles = [_measure_bar(image, rgb, item, box) for item, box in boxes if _is_rectangle(areas, item, box)]
    if len(rectangles) < 2:
        return []
    slack = max(2, round(0.004 * min(areas.map.shape)))
    upright = _on_one_line(rectangles, slack, is_upright=True)
    lying = _on_one_line(rectangles, slack, is_upright=False)
    bars = max(upright, lying, key=_total)
    everything = sum(item.area_px for item in candidates if item not in swatches)
    return bars if len(bars) >= 2 and _total(bars) >= _MIN_SHARE * everything else []


def split_touching_bars(areas: Areas, candidates: list[Area]) -> tuple[Areas, list[Area]]:
    """Split areas whose outline is a row of steps, such as a histogram, at the steps, into bars of one width.

    Neighbours of equal length are told apart by that width, except if each step is a group of as many.
    """
    numbers, items, free = areas.map.copy(), [], int(areas.map.max()) + 1
    for item in candidates:
        mask = areas.mask(item)
        upright = _find_steps(mask)
        steps = upright or _find_steps(mask[:, ::-1].T)
        parts = [(item.box_px.left + start, item.box_px.left + end) for start, end in upright] or [
            (item.box_px.top + start, item.box_px.top + end) for start, end in steps
        ]
        if not parts:
            items.append(item)
        for start, end in parts:
            cut = np.s_[:, start:end] if upright else np.s_[start:end]
            part = numbers[cut]
            rows, columns = np.nonzero(part == item.number)
            left, top = (start, 0) if upright else (0, start)
            box = Box(int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1)
            part[rows, columns] = free
            items.append(dataclasses.replace(item, number=free, area_px=len(rows), box_px=box.moved(left, top)))
            free += 1
    return dataclasses.replace(areas, map=numbers), items


def _find_steps(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return first and next column of the bars of equal width that stand on the lower edge of a mask; or nothing."""
    mask = mask[: int(np.flatnonzero(mask.mean(axis=1) >= 0.5).max(initial=0)) + 1]
    heights = mask.sum(axis=0).astype(int)
    from_below = np.cumprod(mask[::-1], axis=0).sum(axis=0)
    if (np.abs(heights - from_below) > _LOOSE_PX).mean() > _EQUAL:  # holes, or a ragged lower edge
        return []
    edges = np.flatnonzero(np.abs(np.diff(heights)) > _STEP_PX) + 1
    edges = edges[(np.diff(edges, prepend=0) > _STEP_PX) & (edges < len(heights) - _STEP_PX)]
    borders = [0, *edges.tolist(), len(heights)]
    widths = np.diff(borders)
    for parts in range(1, _MAX_ALIKE + 1) if len(widths) > 1 else ():  # bars of equal length in the narrowest step
        counts = np.maximum(np.rint(widths * parts / widths.min()), 1).astype(int)
        base_px = len(heights) / counts.sum()
        if base_px < _MIN_BAR_PX:
            break
        if np.abs(widths - counts * base_px).max() <= max(_STEP_PX, _EQUAL * base_px):
            steps = zip(borders, borders[1:], counts, strict=False)
            places = [start + round((end - start) * at / n) for start, end, n in steps for at in range(n)]
            return list(pairwise([*places, len(heights)]))
    return []


def join_cut_bars(
    image: NDArray[np.uint8], palette: Palette, areas: Areas, candidates: list[Area]
) -> tuple[Areas, list[Area]]:
    """Join the two areas into which text across a thin bar divides it."""
    items = list(candidates)
    boxes = {item: _straight_box(areas, item) for item in items if item.area_px >= _MIN_AREA * areas.map.size}
    while boxes:
        area, box = boxes.popitem()
        for other, rest in boxes.items():
            gap = _find_gap(box, rest) if area.color == other.color else None
            large = _MIN_WRITING * min(
                area.area_px, other.area_px
            )  # as large in the gap: a bar between two of a length
            is_next = gap is not None and all(item.area_px < large for item in items if gap.contains(item.box_px))
            if gap is not None and is_next and _is_written_over(image, palette, gap, area.color):
                areas, joined = _join(areas, area, other, gap)
                items = [item for item in items if item not in (area, other) and not gap.contains(item.box_px)]
                boxes = {item: boxes[item] for item in items if item in boxes}
                items.append(joined)
                boxes[joined] = _straight_box(areas, joined)
                break
    return areas, items


def _find_gap(first: Box, second: Box) -> Box | None:
    """Return the short gap between two aligned boxes, or None."""
    top, bottom = max(first.top, second.top), min(first.bottom, second.bottom)
    left, right = max(first.left, second.left), min(first.right, second.right)
    if max(abs(first.top - second.top), abs(first.bottom - second.bottom)) <= _IN_LINE_PX:
        gap, is_short = Box(right, top, left, bottom), 0 < left - right <= _MAX_CUT * (bottom - top)
    elif max(abs(first.left - second.left), abs(first.right - second.right)) <= _IN_LINE_PX:
        gap, is_short = Box(left, bottom, right, top), 0 < top - bottom <= _MAX_CUT * (right - left)
    else:
        return None
    return gap if is_short and gap.area else None


def _is_written_over(image: NDArray[np.uint8], palette: Palette, gap: Box, color: int) -> bool:
    """Return True if there is text on a colour, and no other area."""
    colors = apply_lut(image[gap.top : gap.bottom, gap.left : gap.right], palette.lut)
    return bool(np.isin(colors, (NO_COLOR, color)).mean() > _MIN_WRITING)


def _join(areas: Areas, first: Area, second: Area, gap: Box) -> tuple[Areas, Area]:
    """Join two areas and the gap between them."""
    numbers, colors = areas.map.copy(), areas.colors.copy()
    numbers[numbers == second.number] = first.number
    numbers[gap.top : gap.bottom, gap.left : gap.right] = first.number
    colors[gap.top : gap.bottom, gap.left : gap.right] = first.color
    joined = dataclasses.replace(
        first, area_px=int((numbers == first.number).sum()), box_px=first.box_px.union(second.box_px)
    )
    return dataclasses.replace(areas, map=numbers, colors=colors), joined


def weigh_bars(bars: list[MeasuredBar]) -> list[float]:
    """Return the size of each bar: its length if all widths are equal within the pixel grid, otherwise its area."""
    sizes = np.array([(bar.width_px, bar.height_px) for bar in bars])
    across = int(np.argmin(sizes.std(axis=0)))
    is_equal = sizes[:, across].std() <= _EQUAL_PX + _EQUAL * sizes[:, across].mean()
    weights: list[float] = (sizes[:, 1 - across] if is_equal else sizes.prod(axis=1)).tolist()
    return weights


def _total(bars: list[MeasuredBar]) -> int:
    return sum(bar.area.area_px for bar in bars)


def _straight_box(areas: Areas, item: Area) -> Box:
    """Return the edges at which at least half of the rows and columns begin and end."""
    mask = areas.mask(item)
    return Box(*_middle_edges(mask, item.box_px))


def _is_rectangle(areas: Areas, item: Area, box: Box) -> bool:
    """Return True if an area fills exactly its straight box, with a tolerance of one pixel at the edges."""
    if min(box.width, box.height) < 2:
        return False
    mask, inner = areas.mask(item), box.moved(-item.box_px.left, -item.box_px.top)
    inside = int(mask[inner.top : inner.bottom, inner.left : inner.right].sum())
    overlap = inside / (box.area + item.area_px - inside)
    return overlap > 1 - _RAGGED - _RAGGED_PX / min(box.width, box.height)


def _measure_bar(image: NDArray[np.uint8], rgb: NDArray[np.uint8], item: Area, box: Box) -> MeasuredBar:
    """Measure a bar, with each edge moved to where the colours change."""
    top, bottom, left, right = (
        find_edge_shift(image, box, side, rgb[item.color]) for side in ("top", "bottom", "left", "right")
    )
    return MeasuredBar(
        area=item,
        box_px=box,
        width_px=max(box.width + left + right, 0.5),
        height_px=max(box.height + top + bottom, 0.5),
    )


def _middle_edges(mask: NDArray[np.bool_], box: Box) -> tuple[int, int, int, int]:
    rows, columns = mask.any(axis=1), mask.any(axis=0)
    left = int(np.median(mask[rows].argmax(axis=1)))
    right = int(np.median(mask[rows][:, ::-1].argmax(axis=1)))
    top = int(np.median(mask[:, columns].argmax(axis=0)))
    bottom = int(np.median(mask[::-1, columns].argmax(axis=0)))
    return box.left + left, box.top + top, box.right - right, box.bottom - bottom


def _on_one_line(bars: list[MeasuredBar], slack: int, *, is_upright: bool) -> list[MeasuredBar]:
    """Return the bars that touch the line with the most bars, directly or stacked on each other."""

    def edges(bar: MeasuredBar) -> tuple[int, int, int, int]:
        """Return start and end along the bar, then across it."""
        box = bar.box_px
        return (box.top, box.bottom, box.left, box.right) if is_upright else (box.left, box.right, box.top, box.bottom)

    def carried(line: int) -> list[MeasuredBar]:
        reached = [bar for bar in bars if min(abs(edges(bar)[0] - line), abs(edges(bar)[1] - line)) <= slack]
        waiting = [bar for bar in bars if bar not in reached]
        fresh = reached
        while fresh:
            fresh = [bar for bar in waiting if any(_touches(edges(bar), edges(other), slack) for other in fresh)]
            reached = reached + fresh
            waiting = [bar for bar in waiting if bar not in fresh]
        return reached

    lines = {edge for bar in bars for edge in edges(bar)[:2]}
    return max((carried(line) for line in lines), key=_total, default=[])


def _touches(first: tuple[int, int, int, int], second: tuple[int, int, int, int], slack: int) -> bool:
    """Return True if two bars of the same width adjoin."""
    same_width = abs(first[2] - second[2]) <= slack and abs(first[3] - second[3]) <= slack
    return same_width and min(abs(first[0] - second[1]), abs(first[1] - second[0])) <= slack
