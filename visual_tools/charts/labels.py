"""Crop and read the labels along the edges of a chart."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.charts.scales import Reading, parse_label, parse_multiplier
from visual_tools.ink import find_ink, find_runs
from visual_tools.ocr import OcrEngine

# Heuristics without another source; `tests/visual_tools/charts` holds the charts that they must read.
_STRIP_SHARE = 0.25
_TICK_SHARE = 0.03
_TOUCH_PX = 3
_MIN_TEXT_PX = 4
_WORD_GAP = 0.55
_COLUMN_GAP = 0.42
_READ_HEIGHT_PX = 56
_MIN_CONFIDENCE = 0.4
_RAISED = 0.22


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Text along an axis.

    Attributes:
        box: Box of its ink, in pixels of the image.
        text: Recognized text, with the superscript after a ^.
        readings: Possible numbers.
    """

    box: Box
    text: str
    readings: tuple[Reading, ...] = field(repr=False)


def find_labels_below(image: NDArray[np.uint8], frame: Box) -> list[Box]:
    """Return the boxes of the labels in the first row of text below a frame, from left to right."""
    reach = min(image.shape[0], frame.bottom + max(24, round(_STRIP_SHARE * image.shape[0])))
    strip = image[frame.bottom : reach]
    if strip.shape[0] < 6:
        return []
    ink = find_ink(strip)
    _erase_ticks(ink[:, frame.left : frame.right], image.shape[0])
    rows = _first_text_run(find_runs(ink[:, frame.left : frame.right].any(axis=1), max_gap=2))
    if rows is None:
        return []
    height = rows[1] - rows[0]
    columns = find_runs(ink[rows[0] : rows[1]].any(axis=0), max_gap=max(2, round(_WORD_GAP * height)))
    boxes = [_fit(ink, Box(start, rows[0], end, rows[1])).moved(0, frame.bottom) for start, end in columns]
    slack = height
    return [box for box in boxes if frame.left - slack <= box.center[0] <= frame.right + slack]


def find_labels_left(image: NDArray[np.uint8], frame: Box) -> list[Box]:
    """Return the boxes of the labels in the first column of text left of a frame, from top to bottom."""
    slack = max(6, round(0.03 * image.shape[0]))
    top, bottom = max(0, frame.top - slack), min(image.shape[0], frame.bottom + slack)
    strip = image[top:bottom, : frame.left]
    if strip.shape[1] < 6:
        return []
    ink = find_ink(strip)
    _erase_ticks(ink[:, ::-1].T, image.shape[1])
    for gap_px in _gaps_to_try(ink, image.shape[0]):
        run = _first_text_run(find_runs(ink[:, ::-1].any(axis=0), max_gap=gap_px))
        if run is None:
            continue
        left, right = ink.shape[1] - run[1], ink.shape[1] - run[0]
        rows = find_runs(ink[:, left:right].any(axis=1), max_gap=1)
        boxes = [_fit(ink, Box(left, start, right, end)) for start, end in rows if end - start >= _MIN_TEXT_PX]
        if len(boxes) >= 2:
            return [box.moved(0, top) for box in boxes]
    return []


def read_labels(image: NDArray[np.uint8], boxes: list[Box], engine: OcrEngine) -> list[Label]:
    """Read the label in each box."""
    return [label for box in boxes if (label := _read_label(image, box, engine)).text]


def read_multiplier(
    image: NDArray[np.uint8], region: Box, engine: OcrEngine, *, is_at_right: bool
) -> tuple[float, float]:
    """Read factor and offset (1e6, ×10⁶, +2e3) written once near the end of an axis; 1 and 0 if there are none."""
    region = region.clipped(image.shape[1], image.shape[0])
    if region.width < _MIN_TEXT_PX or region.height < _MIN_TEXT_PX:
        return 1.0, 0.0
    ink = find_ink(image[region.top : region.bottom, region.left : region.right])
    for top, bottom in find_runs(ink.any(axis=1), max_gap=1):
        gap_px = max(2, round(_WORD_GAP * (bottom - top)))
        columns = find_runs(ink[top:bottom].any(axis=0), max_gap=gap_px)
        if bottom - top < _MIN_TEXT_PX or not columns:
            continue
        start, end = columns[-1] if is_at_right else columns[0]
        box = _fit(ink, Box(start, top, end, bottom)).moved(region.left, region.top)
        text, exponent = _read_parts(image, box, engine)
        multiplier = parse_multiplier(text, exponent)
        if multiplier is not None:
            return multiplier
    return 1.0, 0.0


def _gaps_to_try(ink: NDArray[np.bool_], height: int) -> Iterator[int]:
    """Yield candidate gaps between two columns of text, first as wide as typical letters suggest."""
    runs = [end - start for start, end in find_runs(ink.any(axis=1), max_gap=1) if end - start >= _MIN_TEXT_PX]
    usual = float(np.percentile(runs, 25)) if runs else height / 40
    yield max(2, round(_COLUMN_GAP * usual))
    yield max(2, round(0.5 * _COLUMN_GAP * usual))


def _erase_ticks(ink: NDArray[np.bool_], side_px: int) -> None:
    """Erase, in place, what touches the frame: the first rows are the rest of its line and the ticks."""
    runs = find_runs(ink.any(axis=1))
    tick_px = max(8, round(_TICK_SHARE * side_px))
    if runs and runs[0][0] <= _TOUCH_PX and runs[0][1] - runs[0][0] <= tick_px:
        ink[: runs[0][1]] = False


def _first_text_run(runs: list[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the first run that is high enough for text."""
    return next((run for run in runs if run[1] - run[0] >= _MIN_TEXT_PX), None)


def _fit(ink: NDArray[np.bool_], box: Box) -> Box:
    """Return the tight box of the ink inside a box."""
    part = ink[box.top : box.bottom, box.left : box.right]
    rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
    if not rows.size:
        return box
    return Box(
        box.left + int(columns[0]), box.top + int(rows[0]), box.left + int(columns[-1]) + 1, box.top + int(rows[-1]) + 1
    )


def _read_label(image: NDArray[np.uint8], box: Box, engine: OcrEngine) -> Label:
    text, exponent = _read_parts(image, box, engine)
    readings = parse_label(text, exponent)
    if exponent and not readings:
        text, exponent = _read_box(image, box, engine), ""
        readings = parse_label(text)
    if min(box.left, box.top, image.shape[1] - box.right, image.shape[0] - box.bottom) <= 0:
        readings = ()  # cut by the image's border: digits may be missing
    return Label(box=box, text=f"{text}^{exponent}" if exponent else text, readings=readings)


def _read_parts(image: NDArray[np.uint8], box: Box, engine: OcrEngine) -> tuple[str, str]:
    """Read the text on the baseline, and the superscript after it."""
    split = _find_raised(image, box)
    if split is None:
        return _read_box(image, box, engine), ""
    return _read_box(image, split[0], engine), _read_box(image, split[1], engine)


def _read_box(image: NDArray[np.uint8], box: Box, engine: OcrEngine) -> str:
    pad = max(2, round(0.3 * box.height))
    crop = _cut(image, box, pad)
    text, confidence = engine.read_crop(crop, max(1.0, _READ_HEIGHT_PX / crop.shape[0]), is_latin=True)
    return text if confidence >= _MIN_CONFIDENCE else ""


def _cut(image: NDArray[np.uint8], box: Box, pad: int) -> NDArray[np.uint8]:
    """Crop a box with a margin in its background colour, so that no neighbouring text is included."""
    part = image[box.top : box.bottom, box.left : box.right]
    around = box.padded(1).clipped(image.shape[1], image.shape[0])
    ground = np.median(image[around.top : around.bottom, around.left : around.right].reshape(-1, 3), axis=0)
    crop = np.empty((box.height + 2 * pad, box.width + 2 * pad, 3), np.uint8)
    crop[:] = ground.astype(np.uint8)
    crop[pad:-pad, pad:-pad] = part
    return crop


def _find_raised(image: NDArray[np.uint8], box: Box) -> tuple[Box, Box] | None:
    """Return base and superscript boxes of a label like 10²; None if all of it is on one line."""
    part = image[box.top : box.bottom, box.left : box.right]
    ink = find_ink(part)
    marks = []
    for start, end in find_runs(ink.any(axis=0)):
        rows = np.flatnonzero(ink[:, start:end].any(axis=1))
        marks.append((start, end, int(rows[0]), int(rows[-1]) + 1))
    if len(marks) < 2 or box.height < 6:
        return None
    low = box.height * (1 - _RAISED)
    grounded = [index for index, mark in enumerate(marks) if mark[3] > low]
    if not grounded or grounded[-1] == len(marks) - 1 or (grounded[-1] == 0 and len(marks) < 3):
        return None
    if min(marks[index][2] for index in grounded) < 0.12 * box.height:
        return None
    cut = (marks[grounded[-1]][1] + marks[grounded[-1] + 1][0]) // 2
    whole = np.zeros_like(ink)
    whole[:, :cut] = ink[:, :cut]
    base, raised = _fit(ink, Box(0, 0, cut, box.height)), _fit(ink, Box(cut, 0, box.width, box.height))
    return base.moved(box.left, box.top), raised.moved(box.left, box.top)
