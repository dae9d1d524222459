"""Read the axes of a chart: which pixel is which value."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.charts.frame import find_frames, place_ticks
from visual_tools.charts.labels import Label, find_labels_below, find_labels_left, read_labels, read_multiplier
from visual_tools.charts.scales import Kind, Mark, Scale, fit_scale, transform
from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource, load_image
from visual_tools.ocr import OcrEngine, shared_engine

# Rules of thumb without another source; `tests/visual_tools/charts` holds the charts that they must read.
_GOOD_AXIS = 3
_SLACK_HEIGHTS = 0.3
_MIN_SLACK_PX = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TickLabel:
    """A label of an axis.

    Attributes:
        text: As read.
        px: Where its tick is along the axis, in pixels of the image.
        value: What it was taken for; None for one that does not fit the others and was left out.
    """

    text: str
    px: float
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Which pixel along one direction is which value. The middle of column (or row) 7 is 7.0.

    Attributes:
        kind: "linear" or "log".
        start: Value at the left (or lower) end of the frame.
        end: Value at the other end.
        residual_px: How far the ticks are from a perfect scale, root mean square; above 1 means doubt.
        num_used: How many labels agree.
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
        """The value at a pixel; x for the horizontal axis, y (counted downward) for the vertical one."""
        level = self.intercept + self.slope * px
        return float(10.0**level if self.kind == "log" else level)

    def to_px(self, value: float) -> float:
        """The pixel of a value.

        Raises:
            ImageError: The axis is logarithmic and the value is not above 0.
        """
        if self.kind == "log" and value <= 0:
            raise ImageError(f"found the value {value}, expected one above 0: the axis is logarithmic")
        return (transform(value, self.kind) - self.intercept) / self.slope


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """The axes of a chart.

    Attributes:
        frame: What they enclose, in pixels of the image.
        x: The horizontal axis below; None when its labels are no numbers (names or dates).
        y: The vertical axis at the left; None likewise.
    """

    frame: Box
    x: Axis | None
    y: Axis | None


def find_axes(image: ImageSource) -> Axes:
    """Find the axes of a chart and read their scales from the labels: linear or logarithmic.

    Of several charts on an image the one with most readable labels is taken; crop the image for another.
    Axes at the top or at the right, and dates, are not read.

    Args:
        image: Anything `load_image` takes.

    Raises:
        ImageError: There is no axis with at least two readable numbers.

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
        replace(label, readings=tuple(replace(one, value=one.value * factor + offset) for one in label.readings))
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
    """Fit the middles of the labels, then the ticks near where that fit expects them."""
    rough = fit_scale([Mark(px=px, readings=label.readings) for label, px in zip(labels, centers_px, strict=True)])
    if rough is None:
        return None
    expected = [
        px if value is None else (transform(value, rough.kind) - rough.intercept) / rough.slope
        for px, value in zip(centers_px, rough.values, strict=True)
    ]
    slack_px = max(_MIN_SLACK_PX, _SLACK_HEIGHTS * _usual_height(labels))
    ticks = place_ticks(image, frame, expected, slack_px, reach_px)
    fine = fit_scale([Mark(px=px, readings=label.readings) for label, px in zip(labels, ticks, strict=True)])
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
