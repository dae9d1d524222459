"""The rectangle that a chart is drawn in: from its axis lines, its frame, or the edge of its ground."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.channels import largest_channel
from visual_tools.ink import find_runs

_MIN_STEP = 12
_MIN_SHARE = 0.18
_MIN_SIDE_PX = 20
_GAP_SHARE = 0.005
_MAX_THICKNESS_PX = 8
_SAME_PX = 2
_CORNER_SLACK = 0.012


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A straight line or edge along a row or a column.

    Attributes:
        first: First row (of a horizontal one) or column that it covers.
        last: Last one.
        start: Where it begins along its direction.
        end: Just after its end.
    """

    first: int
    last: int
    start: int
    end: int


def find_frames(picture: NDArray[np.uint8], max_frames: int = 8) -> list[Box]:
    """Rectangles that a chart may be drawn in, largest first; the axis lines are just outside of them.

    A left and a bottom line (or edge) that meet in a corner make one; their lengths are its sides.
    """
    levels = picture.astype(np.int16)
    rows = find_lines(levels)
    columns = find_lines(levels.transpose(1, 0, 2))
    slack = 4 + round(_CORNER_SLACK * max(picture.shape[:2]))
    boxes = {
        Box(side, min(left.start, bottom.first), max(bottom.end, side), bottom.first)
        for left in columns
        for bottom in rows
        for side in {left.last + 1, left.first}  # what looks like a broad line may be an edge and the first grid line
        if abs(left.end - bottom.first) <= slack + (left.last - left.first)
        and abs(bottom.start - left.last) <= slack + (bottom.last - bottom.first)
    }
    large = sorted((box for box in boxes if _is_large(box)), key=lambda box: -box.area)
    return _distinct([*large[:max_frames], *_frame_of_grid(rows, columns)])


def _frame_of_grid(rows: list[Line], columns: list[Line]) -> list[Box]:
    """What the lines of a grid span, for charts without any axis line."""
    if len(rows) < 2 or len(columns) < 2:
        return []
    box = Box(
        min(line.start for line in rows),
        min(line.start for line in columns),
        max(line.end for line in rows),
        max(line.end for line in columns),
    )
    return [box] if _is_large(box) else []


def _is_large(box: Box) -> bool:
    return min(box.width, box.height) >= _MIN_SIDE_PX


def find_lines(levels: NDArray[np.int16]) -> list[Line]:
    """Long horizontal lines and edges of a picture, (H, W, 3); pass it transposed for vertical ones."""
    width = levels.shape[1]
    if levels.shape[0] < 3 or width < 3:
        return []
    steps = largest_channel(np.abs(np.diff(levels, axis=0))) >= _MIN_STEP
    min_length = max(_MIN_SIDE_PX, round(_MIN_SHARE * width))
    max_gap_px = max(2, round(_GAP_SHARE * max(levels.shape[:2])))
    edges: list[tuple[int, int, int]] = []
    for row in np.flatnonzero(steps.sum(axis=1) >= 0.7 * min_length):
        runs = find_runs(steps[row], max_gap=max_gap_px)
        edges += [(int(row), start, end) for start, end in runs if end - start >= min_length]
    return _join_edges(edges)


def _join_edges(edges: list[tuple[int, int, int]]) -> list[Line]:
    """Both edges of a thin line become one line: the rows between them."""
    lines: list[Line] = []
    used: set[int] = set()
    for index, (row, start, end) in enumerate(edges):
        if index in used:
            continue
        partner = next(
            (
                other
                for other in range(index + 1, len(edges))
                if 0 < edges[other][0] - row <= _MAX_THICKNESS_PX
                and other not in used
                and min(end, edges[other][2]) - max(start, edges[other][1]) > 0.8 * (end - start)
            ),
            None,
        )
        last = row
        if partner is not None:
            used.add(partner)
            last, start, end = edges[partner][0] - 1, min(start, edges[partner][1]), max(end, edges[partner][2])
        lines.append(Line(first=row + 1, last=last + 1 if partner is not None else row, start=start, end=end))
    return lines


def _distinct(boxes: list[Box]) -> list[Box]:
    """Of boxes that are nearly the same only the first."""
    kept: list[Box] = []
    for box in boxes:
        if not any(box.contains(other, _SAME_PX) and other.contains(box, _SAME_PX) for other in kept):
            kept.append(box)
    return kept
