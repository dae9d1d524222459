"""Classification of a change by its shape: menu, modal, accordion, tabs, carousel and others."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.video2web.pixels import Mask, RgbImage
from apps.video2web.recording.motion import find_fold, find_push, find_slide
from apps.video2web.recording.transitions import MeasuredChange
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.ocr import read_text

# Heuristics without another source; measured together in benchmarks/video2web.md, "Recordings".
_LARGE_SHARE = 0.45
_RING_SHARE = 0.06
_VEIL_GAIN = (0.05, 0.97)
_VEIL_LEVELS = 26
_DARK_LEVEL, _DARK_VEIL_LEVELS = 70, 12
_LEVEL_BINS, _MIN_LEVEL_SHARE, _MIN_STEP, _NEAR_LINE = 64, 0.001, 24.0, 8.0
_SPAN_SHARE = 0.96
_MIN_DIALOG_SHARE, _MAX_DIALOG_SHARE = 0.015, 0.85
_NEW_WORDS_SHARE = 0.5
_MIN_WORDS = 4
_SAME_WORD_PX = 60
_TOGGLE_PX = (110, 64)
_TOOLTIP_PX = 64
_FAR_PX = 110
_NEAR_PX = 24
_SAME_SHAPES = 0.75
_SAME_EDGES, _ALL_EDGES, _KEPT_EDGES = 0.55, 0.9, 0.4
_LABEL_PX = 56
_WIDE_SHARE, _PAGE_SHARE = 0.55, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeKind:
    """Kind of a change.

    Attributes:
        name: One of `types.KINDS`.
        box: Main box, in the viewport; of a modal the dialog without its backdrop.
        confidence: 0 to 1.
    """

    name: str
    box: Box
    confidence: float


def find_kind(change: MeasuredChange, size_px: tuple[int, int], pointer_px: tuple[int, int] | None) -> ChangeKind:
    """Classify a change whose trigger is known.

    Args:
        change: The change.
        size_px: Width and height of the viewport.
        pointer_px: The pointer's tip when the change begins.
    """
    if change.trigger == "typing":
        return ChangeKind(name="typing", box=change.box, confidence=0.9)
    if change.trigger == "hover":
        return _find_hover(change, pointer_px)
    if change.trigger == "scroll":
        return ChangeKind(name="reveal", box=change.box, confidence=0.8)
    if change.box.area >= _LARGE_SHARE * size_px[0] * size_px[1]:
        return _find_large(change)
    if find_turn(change):
        return ChangeKind(name="carousel", box=change.box, confidence=0.85)
    if change.trigger == "click" and find_push(change.before, change.after, change.mask):
        return ChangeKind(name="accordion", box=_find_unfolded(change), confidence=0.85)
    return _find_small(change, size_px, pointer_px)


def _find_unfolded(change: MeasuredChange) -> Box:
    """Return the area where an accordion unfolds, without the contents that it pushes down."""
    fold = find_fold(change.before, change.after, change.mask)
    if fold is None:
        return change.box
    box = change.box
    return Box(box.left, box.top + fold[0], box.right, box.top + fold[1])


def find_turn(change: MeasuredChange) -> int:
    """Return the columns by which contents moved sideways, from outgoing or incoming contents; 0 if none did."""
    return find_slide(change.before, change.middle) or -find_slide(change.after, change.middle[::-1])


def _find_hover(change: MeasuredChange, pointer_px: tuple[int, int] | None) -> ChangeKind:
    """Classify a hover: a change of the element under the pointer, or something that appears next to it."""
    is_beside = pointer_px is not None and not change.box.padded(2).has_point(*pointer_px)
    main = change.box if is_beside else find_main_box(change)
    if pointer_px is None or main.padded(3).has_point(*pointer_px):
        return ChangeKind(name="hover", box=change.box, confidence=0.9)
    if main.area < 0.25 * change.box.area or min(main.width, main.height) < 12 or _has_same_shapes(change, main):
        return ChangeKind(name="hover", box=change.box, confidence=0.7)
    if main.height <= _TOOLTIP_PX:
        return ChangeKind(name="tooltip", box=main, confidence=0.75)
    return ChangeKind(name="menu", box=main, confidence=0.75)


def _has_same_shapes(change: MeasuredChange, part: Box) -> bool:
    """Return whether a part of the change has the same shapes, paler or with a ring, with nothing over it."""
    rows = slice(part.top - change.box.top, part.bottom - change.box.top)
    columns = slice(part.left - change.box.left, part.right - change.box.left)
    return compare_edges(change.before[rows, columns], change.after[rows, columns]) >= _SAME_SHAPES


def _find_large(change: MeasuredChange) -> ChangeKind:
    """Classify a large change: a modal dims its surroundings, a theme keeps edges, a navigation changes words."""
    edges = compare_edges(change.before, change.after)
    dialog = None
    if edges < _ALL_EDGES:  # a dialog hides something
        dialog = find_dialog(change.before, change.after) or find_dialog(change.after, change.before)
    if dialog is not None:
        return ChangeKind(name="modal", box=dialog.moved(change.box.left, change.box.top), confidence=0.9)
    if edges >= _SAME_EDGES:
        return ChangeKind(name="theme", box=change.box, confidence=0.85)
    if find_turn(change):
        return ChangeKind(name="carousel", box=change.box, confidence=0.6)
    rows = find_push(change.before, change.after, change.mask)
    if rows and change.middle:
        return ChangeKind(name="accordion", box=_find_unfolded(change), confidence=0.6)
    common = compare_words(change.before, change.after)
    if common is None or common < _NEW_WORDS_SHARE:
        return ChangeKind(name="navigation", box=change.box, confidence=0.85 if common is not None else 0.5)
    if rows:
        return ChangeKind(name="accordion", box=_find_unfolded(change), confidence=0.6)
    return ChangeKind(name="change", box=change.box, confidence=0.5)


def _find_small(change: MeasuredChange, size_px: tuple[int, int], pointer_px: tuple[int, int] | None) -> ChangeKind:
    box = change.box
    if pointer_px is None:
        return _find_unseen(change, size_px)
    is_under = box.padded(12).has_point(*pointer_px)
    if change.trigger == "click" and is_under and box.width <= _TOGGLE_PX[0] and box.height <= _TOGGLE_PX[1]:
        return ChangeKind(name="toggle", box=box, confidence=0.8)
    if change.trigger == "click" and is_under and has_two_labels(change, pointer_px):
        return ChangeKind(name="tabs", box=box, confidence=0.8)
    if is_under and _has_same_shapes(change, box):
        return ChangeKind(name="change", box=box, confidence=0.4)  # pressed, or with the focus ring
    if _distance(box, pointer_px) > _FAR_PX:
        y_px = box.center[1]
        is_aside = min(y_px, size_px[1] - y_px) < 0.3 * size_px[1]
        return ChangeKind(name="toast" if is_aside else "change", box=box, confidence=0.75 if is_aside else 0.5)
    if change.trigger != "click":
        return ChangeKind(name="change", box=box, confidence=0.4)
    is_wide = box.width >= _WIDE_SHARE * size_px[0] and box.area >= _PAGE_SHARE * size_px[0] * size_px[1]
    if is_wide and not is_under:
        common = compare_words(change.before, change.after)
        if common is not None and common < _NEW_WORDS_SHARE:
            return ChangeKind(name="navigation", box=box, confidence=0.75)
    if _is_centred(box, size_px) and not is_under:
        return ChangeKind(name="modal", box=box, confidence=0.6)
    above_px = pointer_px[1] - box.top
    if above_px < 0.35 * box.height + _NEAR_PX or box.bottom - pointer_px[1] < _NEAR_PX:
        return ChangeKind(name="menu", box=box, confidence=0.7)
    return ChangeKind(name="change", box=box, confidence=0.4)


def _find_unseen(change: MeasuredChange, size_px: tuple[int, int]) -> ChangeKind:
    """Classify a touch without a visible pointer, by position and size only."""
    box, (width, height) = change.box, size_px
    if box.width <= _TOGGLE_PX[0] and box.height <= _TOGGLE_PX[1]:
        return ChangeKind(name="toggle", box=box, confidence=0.5)
    common = compare_words(change.before, change.after) if box.area >= _PAGE_SHARE * width * height else None
    if common is not None and common < _NEW_WORDS_SHARE and box.width >= _WIDE_SHARE * width:
        return ChangeKind(name="navigation", box=box, confidence=0.6)
    if _is_centred(box, size_px):
        return ChangeKind(name="modal", box=box, confidence=0.5)
    if min(box.top, height - box.bottom) < 0.1 * height:
        is_short = box.height <= _TOOLTIP_PX + _NEAR_PX
        return ChangeKind(name="toast" if is_short else "menu", box=box, confidence=0.4)
    return ChangeKind(name="change", box=box, confidence=0.4)


def _distance(box: Box, point: tuple[int, int]) -> float:
    x = max(box.left - point[0], 0, point[0] - box.right)
    y = max(box.top - point[1], 0, point[1] - box.bottom)
    return float(np.hypot(x, y))


def _is_centred(box: Box, size_px: tuple[int, int]) -> bool:
    x_px, y_px = box.center
    off_x, off_y = abs(x_px - size_px[0] / 2), abs(y_px - size_px[1] / 2)
    is_large = box.area > 0.04 * size_px[0] * size_px[1]
    return is_large and off_x < 0.03 * size_px[0] and off_y < 0.12 * size_px[1]


def find_main_box(change: MeasuredChange) -> Box:
    """Return the largest piece of a change, in the viewport; pieces a few pixels apart count as one."""
    cv2 = require("cv2", "visual")
    joined = cv2.dilate(change.mask.astype(np.uint8), np.ones((9, 9), np.uint8))
    count, _, stats, _ = cv2.connectedComponentsWithStats(joined)
    if count < 2:
        return change.box
    left, top, width, height, _ = (int(value) for value in stats[1 + int(stats[1:, 4].argmax())])
    height_px, width_px = change.mask.shape
    main_box = Box(left + 4, top + 4, left + width - 4, top + height - 4).clipped(width_px, height_px)
    main_box = Box(
        0 if left == 0 else main_box.left,
        0 if top == 0 else main_box.top,
        width_px if left + width == width_px else main_box.right,
        height_px if top + height == height_px else main_box.bottom,
    )
    return main_box.moved(change.box.left, change.box.top)


def find_dialog(before: RgbImage, after: RgbImage) -> Box | None:
    """Return the box that appears over a page that is dimmed around it; None if there is none.

    Args:
        before: (H, W, 3) uint8 RGB.
        after: The same box after.
    """
    height, width = before.shape[:2]
    margin = max(round(_RING_SHARE * min(height, width)), 4)
    for is_around, ring in _rings(height, width, margin):
        odd = _find_odd(before, after, ring)
        box = _largest_part(odd) if odd is not None else None
        if box is None:
            continue
        if _compare_outside(before, after, box) < _KEPT_EDGES:
            continue  # the page behind a backdrop remains visible
        is_drawer = box.width >= _SPAN_SHARE * width or box.height >= _SPAN_SHARE * height
        if is_around or is_drawer:
            return box
    return None


def _compare_outside(before: RgbImage, after: RgbImage, box: Box) -> float:
    """Return how well the edges outside of a box coincide, 0 to 1."""
    images = [before.copy(), after.copy()]
    for image in images:
        image[box.slices] = image[box.top, box.left]
    return compare_edges(*images)


def _largest_part(odd: Mask) -> Box | None:
    """Return the largest solid region that a backdrop does not explain, if it has the size of a dialog."""
    cv2 = require("cv2", "visual")
    solid = cv2.morphologyEx(odd.astype(np.uint8), cv2.MORPH_OPEN, np.ones((7, 7), np.uint8))  # removes blurred texts
    closed = cv2.morphologyEx(solid, cv2.MORPH_CLOSE, np.ones((25, 25), np.uint8))
    count, _, stats, _ = cv2.connectedComponentsWithStats(closed)
    if count < 2:
        return None
    left, top, box_width, box_height, area = (int(value) for value in stats[1 + int(stats[1:, 4].argmax())])
    share = area / odd.size
    if not _MIN_DIALOG_SHARE <= share <= _MAX_DIALOG_SHARE or area < 0.6 * box_width * box_height:
        return None
    return Box(left, top, left + box_width, top + box_height)


def _rings(height: int, width: int, margin: int) -> Iterator[tuple[bool, Mask]]:
    """Yield regions where a page is visible around a dialog: on all sides, or on one around a drawer."""
    whole = np.ones((height, width), np.bool_)
    whole[margin : height - margin, margin : width - margin] = False
    yield True, whole
    wide = 2 * margin
    for rows, columns in (
        (slice(None), slice(width - wide, None)),
        (slice(None), slice(0, wide)),
        (slice(height - wide, None), slice(None)),
        (slice(0, wide), slice(None)),
    ):
        side = np.zeros((height, width), np.bool_)
        side[rows, columns] = True
        yield False, side


def _find_odd(before: RgbImage, after: RgbImage, ring: Mask) -> Mask | None:
    """Return the pixels not explained by a backdrop over the ring, in any channel; None without a backdrop there."""
    first, second = before.mean(axis=2), after.mean(axis=2)
    gain, _ = _fit_line(first[ring], second[ring])
    if gain is None or not _VEIL_GAIN[0] <= gain <= _VEIL_GAIN[1]:
        return None
    levels = _VEIL_LEVELS if np.median(second[ring]) > _DARK_LEVEL else _DARK_VEIL_LEVELS
    odd = np.zeros(first.shape, np.bool_)
    for channel in range(3):
        x, y = before[..., channel].astype(np.float64), after[..., channel].astype(np.float64)
        gain, offset = _fit_line(x[ring], y[ring])
        if gain is not None:
            odd |= np.abs(y - (gain * x + offset)) > levels
    return None if odd[ring].mean() > 0.1 else odd


def _fit_line(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float | None, float]:
    """Fit gain and offset of y over x, within the range of a backdrop, to most pixels; a single level maps to black."""
    counts, edges, _ = np.histogram2d(x, y, bins=_LEVEL_BINS, range=((0, 256), (0, 256)))
    middles = (edges[:-1] + edges[1:]) / 2
    usual = counts.argmax(axis=1)
    known = np.flatnonzero(counts.sum(axis=1) >= max(_MIN_LEVEL_SHARE * x.size, 12))
    best: tuple[float | None, float] = (None, 0.0)
    most = 0.0
    for low, high in itertools.combinations(known.tolist(), 2):
        if middles[high] - middles[low] < _MIN_STEP:
            continue
        gain = float((middles[usual[high]] - middles[usual[low]]) / (middles[high] - middles[low]))
        if not _VEIL_GAIN[0] <= gain <= _VEIL_GAIN[1]:
            continue
        offset = float(middles[usual[low]] - gain * middles[low])
        near = np.abs(middles[None, :] - (gain * middles[:, None] + offset)) <= _NEAR_LINE
        if counts[near].sum() > most:
            best, most = (gain, offset), float(counts[near].sum())
    if best[0] is None and known.size:
        level = float(np.median(x))
        return (float(np.median(y)) / level if level > 40 else None), 0.0
    return best


def compare_edges(before: RgbImage, after: RgbImage) -> float:
    """Return how well the edges of two images coincide, 0 to 1, independent of colours."""
    cv2 = require("cv2", "visual")
    maps = []
    for image in (before, after):
        grey = cv2.GaussianBlur(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), (3, 3), 0).astype(np.float32)
        size = np.hypot(cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1))
        maps.append(np.minimum(size, 160.0))
    energies = [float((edge_map**2).sum()) for edge_map in maps]
    if min(energies) <= 1e-6:
        return 0.0
    return float((maps[0] * maps[1]).sum() / np.sqrt(energies[0] * energies[1]))


def compare_words(before: RgbImage, after: RgbImage) -> float | None:
    """Return the share of words that both images have in about the same position; None with too few words."""
    first, second = (_find_words(image) for image in (before, after))
    if min(len(first), len(second)) < _MIN_WORDS:
        return None
    kept = sum(
        any(word == other and abs(x - left) + abs(y - top) <= _SAME_WORD_PX for other, left, top in second)
        for word, x, y in first
    )
    return kept / max(min(len(first), len(second)), 1)


def _find_words(image: RgbImage) -> list[tuple[str, float, float]]:
    """Return the words of three letters and more with approximate column and row, interpolated within their line."""
    words = []
    for line in read_text(image):
        step = line.box_px.width / max(len(line.text), 1)
        at = 0
        for word in line.text.split():
            at = line.text.index(word, at)
            if len(word) > 2:
                words.append((word.lower(), line.box_px.left + at * step, float(line.box_px.top)))
            at += len(word)
    return words


def has_two_labels(change: MeasuredChange, pointer_px: tuple[int, int]) -> bool:
    """Return whether two labels in the pointer's row changed, one under the pointer: selected and deselected."""
    row = pointer_px[1] - change.box.top
    strip = change.mask[max(row - 18, 0) : max(row + 18, 0)]
    if strip.size == 0:
        return False
    columns = np.flatnonzero(strip.any(axis=0))
    if not columns.size:
        return False
    splits = np.flatnonzero(np.diff(columns) > 5)
    runs = [(int(run[0]), int(run[-1])) for run in np.split(columns, splits + 1)]
    x = pointer_px[0] - change.box.left
    under = [run for run in runs if run[0] - 24 <= x <= run[1] + 24]
    others = [run for run in runs if run not in under and run[1] - run[0] >= 6 and abs(sum(run) / 2 - x) >= _LABEL_PX]
    return bool(under and others) and change.box.bottom - pointer_px[1] > 40
