"""Read the axes of a chart: the mapping from pixels to values.

The rectangle of the plot area is derived from axis lines, a frame, or the edge of the background; tick positions come
from marks, a grid, or else the centers of their labels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.charts.labels import Label, find_labels_below, find_labels_left, read_labels, read_multiplier
from visual_tools.charts.scales import Kind, Scale, TickMark, fit_scale, transform
from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource, load_image
from visual_tools.ink import find_background, find_runs, largest_channel
from visual_tools.ocr import OcrEngine, shared_engine

# Heuristics without another source; `tests/visual_tools/charts` holds the charts that they must read.
_MAX_FRAMES = 8
_MIN_STEP = 12
_MIN_SHARE = 0.18
_MIN_SIDE_PX = 20
_GAP_SHARE = 0.005
_MAX_THICKNESS_PX = 8
_SAME_PX = 2
_CORNER_SLACK = 0.012
_LINE_SHARE = 0.4
_MAX_LINE_PX = 12
_TICK_ROWS = 2
_MIN_CONTRAST = 24
_MIN_GRID_CONTRAST = 8
_GRID_SHARE = 0.4
_MAX_TICK_WIDTH_PX = 9
_MIN_FOUND_SHARE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisLine:
    """Straight line or edge along a row or a column.

    Attributes:
        first: First row (of a horizontal one) or column that it covers.
        last: Last row or column that it covers.
        start: Start along its direction.
        end: End along its direction (exclusive).
    """

    first: int
    last: int
    start: int
    end: int


def find_frames(image: NDArray[np.uint8]) -> list[Box]:
    """Find rectangles that may be a plot area, largest first; the axis lines are just outside of them.

    A left and a bottom line (or edge) that meet in a corner make one; their lengths are its sides.
    """
    levels = image.astype(np.int16)
    rows = find_lines(levels)
    columns = find_lines(levels.transpose(1, 0, 2))
    slack = 4 + round(_CORNER_SLACK * max(image.shape[:2]))
    boxes = {
        Box(side, min(left.start, bottom.first), max(bottom.end, side), bottom.first)
        for left in columns
        for bottom in rows
        for side in {left.last + 1, left.first}  # an apparently broad line may be an edge and the first grid line
        if abs(left.end - bottom.first) <= slack + (left.last - left.first)
        and abs(bottom.start - left.last) <= slack + (bottom.last - bottom.first)
    }
    large = sorted((box for box in boxes if _is_large(box)), key=lambda box: -box.area)
    return _distinct([*large[:_MAX_FRAMES], *_frame_of_grid(rows, columns)])


def _frame_of_grid(rows: list[AxisLine], columns: list[AxisLine]) -> list[Box]:
    """Return the box spanned by the lines of a grid, for charts without any axis line."""
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


def find_lines(levels: NDArray[np.int16]) -> list[AxisLine]:
    """Find long horizontal lines and edges of an image, (H, W, 3); pass it transposed for vertical ones."""
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


def _join_edges(edges: list[tuple[int, int, int]]) -> list[AxisLine]:
    """Join both edges of a thin line into one line: the rows between them."""
    lines: list[AxisLine] = []
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
        lines.append(AxisLine(first=row + 1, last=last + 1 if partner is not None else row, start=start, end=end))
    return lines


def _distinct(boxes: list[Box]) -> list[Box]:
    """Remove boxes that are nearly equal to an earlier one."""
    kept: list[Box] = []
    for box in boxes:
        if not any(box.contains(other, _SAME_PX) and other.contains(box, _SAME_PX) for other in kept):
            kept.append(box)
    return kept


def place_ticks(
    image: NDArray[np.uint8], frame: Box, expected_px: list[float], slack_px: float, reach_px: int
) -> list[float]:
    """Return the columns of the ticks of an axis below a chart.

    Args:
        image: (H, W, 3) uint8 RGB, rotated so that the axis is at the bottom of the frame.
        frame: Plot area of the chart.
        expected_px: Expected positions.
        slack_px: Maximum distance from the expected positions.
        reach_px: Rows between frame and labels.
    """
    for marks in _find_marks(image, frame, reach_px):
        nearest = [min(marks, key=lambda mark: abs(mark - px), default=np.inf) for px in expected_px]
        is_near = [abs(mark - px) <= slack_px for mark, px in zip(nearest, expected_px, strict=True)]
        if sum(is_near) >= max(2, _MIN_FOUND_SHARE * len(expected_px)):
            return [mark if near else px for mark, px, near in zip(nearest, expected_px, is_near, strict=True)]
    return expected_px


def _find_marks(image: NDArray[np.uint8], frame: Box, reach_px: int) -> Iterator[list[float]]:
    """Yield the columns of marks outside the line, of marks inside it, and of grid lines."""
    left, right = max(frame.left - 3, 0), min(frame.right + 3, image.shape[1])
    below = image[frame.bottom : frame.bottom + min(reach_px, 3 * _MAX_LINE_PX), left:right]
    above = image[max(frame.bottom - _MAX_LINE_PX, frame.top) : frame.bottom, left:right][::-1]
    for strip in (below, above):
        for stubs in _find_stubs(strip):
            yield [left + column for column in stubs]
    yield [left + column for column in _find_grid(image[frame.top : frame.bottom, left:right])]


def _find_stubs(strip: NDArray[np.uint8]) -> Iterator[list[float]]:
    """Yield short marks that begin directly after the line, which fills the first rows of a strip; longest first."""
    if strip.shape[0] < _TICK_ROWS + 2:
        return
    ground = find_background(strip[_TICK_ROWS:])
    contrast = largest_channel(np.abs(strip.astype(np.int16) - ground.astype(np.int16)))
    is_line = (contrast >= _MIN_CONTRAST).mean(axis=1) > _LINE_SHARE
    lines = np.flatnonzero(is_line[: strip.shape[0] - _TICK_ROWS])
    first = int(lines[-1]) + 1 if lines.size else 0
    first += int(first > 0)  # the row after a line may contain the rest of its anti-aliased edge
    for depth in range(strip.shape[0], first + _TICK_ROWS - 1, -1):
        yield _centers(contrast[first:depth].min(axis=0), _MIN_CONTRAST)


def _find_grid(inside: NDArray[np.uint8]) -> list[float]:
    """Return the columns that differ from adjacent ones over much of the height."""
    if inside.shape[1] < 7 or inside.shape[0] < 3:
        return []
    levels = inside[:: max(1, inside.shape[0] // 400)].astype(np.int16)
    contrast = np.zeros(levels.shape[:2], np.int16)
    beside = [
        largest_channel(np.abs(levels[:, 3:-3] - levels[:, shift : levels.shape[1] - 6 + shift])) for shift in (0, 6)
    ]
    contrast[:, 3:-3] = np.minimum(*beside)
    share = (contrast >= _MIN_GRID_CONTRAST).mean(axis=0)
    strength = np.where(share >= _GRID_SHARE, np.median(contrast, axis=0), 0).astype(np.int16)
    return _centers(strength, _MIN_GRID_CONTRAST)


def _centers(strength: NDArray[np.int16], least: int) -> list[float]:
    """Return the centers of the thin runs, weighted by the strength of each column."""
    centers = []
    for start, end in find_runs(strength >= least):
        if end - start <= _MAX_TICK_WIDTH_PX:
            around = slice(max(start - 1, 0), end + 1)
            weights = strength[around].astype(np.float64)
            centers.append(
                float((weights * np.arange(around.start, around.start + len(weights))).sum() / weights.sum())
            )
    return centers


# Heuristics without another source; `tests/visual_tools/charts` holds the charts that they must read.
_GOOD_AXIS = 3
_SLACK_HEIGHTS = 0.3
_MIN_SLACK_PX = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TickLabel:
    """Label of an axis.

    Attributes:
        text: Recognized text.
        px: Position of its tick along the axis, in pixels of the image.
        value: Value assigned to it; None if it does not fit the others and was left out.
    """

    text: str
    px: float
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Mapping from pixels to values along one direction. The center of column (or row) 7 is 7.0.

    Attributes:
        kind: "linear" or "log".
        start: Value at the left (or lower) end of the frame.
        end: Value at the other end.
        residual_px: Root mean square distance of the ticks from a perfect scale; above 1 the scale is doubtful.
        num_used: Number of consistent labels.
        labels: All labels that were read.
    """

    kind: Kind
    start: float
    end: float
    residual_px: float
    num_used: int
    labels: tuple[TickLabel, ...] = field(repr=False)
    slope: float = field(repr=False)
    intercept: float = field(repr=False)

    def to_value(self, px: float) -> float:
        """Return the value at a pixel; x for the horizontal axis, y (counted downward) for the vertical one."""
        level = self.intercept + self.slope * px
        return float(10.0**level if self.kind == "log" else level)

    def to_px(self, value: float) -> float:
        """Return the pixel of a value.

        Raises:
            ImageError: If the axis is logarithmic and the value is not above 0.
        """
        if self.kind == "log" and value <= 0:
            raise ImageError(f"found the value {value}, expected one above 0: the axis is logarithmic")
        return (transform(value, self.kind) - self.intercept) / self.slope


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """Axes of a chart.

    Attributes:
        frame: Plot area enclosed by the axes, in pixels of the image.
        x: Horizontal axis at the bottom; None if its labels are not numbers (names or dates).
        y: Vertical axis at the left; None if its labels are not numbers.
    """

    frame: Box
    x: Axis | None
    y: Axis | None


def find_axes(image: ImageSource) -> Axes:
    """Find the axes of a chart and read their scales from the labels: linear or logarithmic.

    If an image contains several charts, the one with most readable labels is used; crop the image for another.
    Axes at the top or at the right, and dates, are not read.

    Args:
        image: Anything `load_image` takes.

    Raises:
        ImageError: If there is no axis with at least two readable numbers.

    Example:
        >>> axes = find_axes("chart.png")                       # doctest: +SKIP
        >>> axes.x.to_value(320), axes.y.to_value(115)          # doctest: +SKIP
    """
    pixels = load_image(image)
    frames = find_frames(pixels)
    engine = shared_engine()
    best: Axes | None = None
    for frame in frames:
        axes = Axes(frame=frame, x=_read_horizontal(pixels, frame, engine), y=_read_vertical(pixels, frame, engine))
        best = axes if best is None or _count_used(axes) > _count_used(best) else best
        if min(axes.x.num_used if axes.x else 0, axes.y.num_used if axes.y else 0) >= _GOOD_AXIS:
            break
    if best is None:
        raise ImageError(
            "found no axis lines, expected a chart with axes, a frame or a grid. Crop the image to one chart."
        )
    if best.x is None and best.y is None:
        raise ImageError(
            f"found a frame at {best.frame}, but fewer than two numbers that agree on a scale below or left of it. "
            "Crop the image to one chart with its labels, or enlarge it."
        )
    return best


def _count_used(axes: Axes) -> int:
    return sum(axis.num_used for axis in (axes.x, axes.y) if axis is not None)


def _read_horizontal(image: NDArray[np.uint8], frame: Box, engine: OcrEngine) -> Axis | None:
    labels = read_labels(image, find_labels_below(image, frame), engine)
    if not labels:
        return None
    last, height = max(label.box.bottom for label in labels), _usual_height(labels)
    region = Box(frame.right - 7 * height, last + 1, frame.right + 2 * height, last + 1 + 3 * height)
    labels = _apply(labels, *read_multiplier(image, region, engine, is_at_right=True))
    reach_px = min(label.box.top for label in labels) - frame.bottom
    centers = [label.box.center[0] - 0.5 for label in labels]
    return _make_axis(image, frame, labels, centers, reach_px, (frame.left, frame.right - 1))


def _read_vertical(image: NDArray[np.uint8], frame: Box, engine: OcrEngine) -> Axis | None:
    labels = read_labels(image, find_labels_left(image, frame), engine)
    if not labels:
        return None
    height = _usual_height(labels)
    region = Box(frame.left - 2 * height, frame.top - 3 * height, frame.left + 7 * height, frame.top - 2)
    labels = _apply(labels, *read_multiplier(image, region, engine, is_at_right=False))
    turned = np.ascontiguousarray(image[:, ::-1].transpose(1, 0, 2))
    width = image.shape[1]
    turned_frame = Box(frame.top, width - frame.right, frame.bottom, width - frame.left)
    reach_px = frame.left - max(label.box.right for label in labels)
    centers = [label.box.center[1] - 0.5 for label in labels]
    return _make_axis(turned, turned_frame, labels, centers, reach_px, (frame.bottom - 1, frame.top))


def _apply(labels: Sequence[Label], factor: float, offset: float) -> list[Label]:
    return [
        replace(
            label, readings=tuple(replace(reading, value=reading.value * factor + offset) for reading in label.readings)
        )
        for label in labels
    ]


def _usual_height(labels: Sequence[Label]) -> int:
    return int(np.median([label.box.height for label in labels]))


def _make_axis(
    image: NDArray[np.uint8],
    frame: Box,
    labels: Sequence[Label],
    centers_px: list[float],
    reach_px: int,
    ends_px: tuple[int, int],
) -> Axis | None:
    """Fit a scale to the centers of the labels, then to the ticks near the positions that it predicts."""
    rough = fit_scale([TickMark(px=px, readings=label.readings) for label, px in zip(labels, centers_px, strict=True)])
    if rough is None:
        return None
    expected = [
        px if value is None else (transform(value, rough.kind) - rough.intercept) / rough.slope
        for px, value in zip(centers_px, rough.values, strict=True)
    ]
    slack_px = max(_MIN_SLACK_PX, _SLACK_HEIGHTS * _usual_height(labels))
    ticks = place_ticks(image, frame, expected, slack_px, reach_px)
    fine = fit_scale([TickMark(px=px, readings=label.readings) for label, px in zip(labels, ticks, strict=True)])
    scale, places = (fine, ticks) if fine is not None else (rough, centers_px)
    bare = Axis(
        kind=scale.kind,
        start=0.0,
        end=0.0,
        residual_px=round(scale.residual_px, 3),
        num_used=sum(value is not None for value in scale.values),
        labels=_make_tick_labels(labels, places, scale),
        slope=scale.slope,
        intercept=scale.intercept,
    )
    return replace(bare, start=bare.to_value(ends_px[0]), end=bare.to_value(ends_px[1]))


def _make_tick_labels(labels: Sequence[Label], ticks: Sequence[float], scale: Scale) -> tuple[TickLabel, ...]:
    return tuple(
        TickLabel(text=label.text, px=round(px, 2), value=value)
        for label, px, value in zip(labels, ticks, scale.values, strict=True)
    )
