"""States of a recording: intervals between lasting changes, each with its full page, without the pointer."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.video2web.pixels import Mask, RgbImage
from apps.video2web.recording.changes import FrameFacts, RecordingScan
from apps.video2web.recording.frames import FramePlan
from apps.video2web.recording.scrolling import PageCanvas, max_difference
from apps.video2web.recording.transitions import MeasuredChange
from apps.video2web.recording.types import PageState
from visual_tools.errors import require

# Heuristics without another source; measured together in benchmarks/video2web.md, "Recordings".
_SMOOTHED_LEVELS = 16
_BIN = 4  # levels
_MIN_SHARE = 0.004
_PEAK_SHARE = 0.55  # share of pixels near a colour that must nearly equal it: a flat ground, not a gradient
_NEAR_BINS, _AROUND_BINS = 1, 4
_SNAP_LEVELS = 5
_MAX_COLORS = 12
_CLEAR_PX, _CALM_S, _SETTLED_S, _MAX_SETTLE_S = 6, 1.0, 0.3, 2.0
_BLOCK_PX, _SAME_LEVELS, _MAX_OTHER_BLOCKS = 16, 12, 2  # a line of small text fills more blocks; noise stays below
_MAX_STITCHED = 40
_STEP_SHARE = 0.4


def clean_frame(image: RgbImage) -> RgbImage:
    """Remove the faint noise of an encoder from an image."""
    cv2 = require("cv2", "visual")
    smooth = np.asarray(cv2.bilateralFilter(image, 5, _SMOOTHED_LEVELS, 2), np.uint8)
    cleaned = smooth.copy()
    done = np.zeros(image.shape[:2], np.bool_)
    for color in find_grounds(smooth):
        low, high = (np.clip(color + step, 0, 255) for step in (-_SNAP_LEVELS, _SNAP_LEVELS))
        near = (cv2.inRange(smooth, low.astype(np.float64), high.astype(np.float64)) > 0) & ~done
        cleaned[near] = color.round().astype(np.uint8)
        done |= near
    return cleaned


def find_grounds(image: RgbImage) -> list[NDArray[np.float64]]:
    """Return the colours of flat grounds, the largest first."""
    pixels = image[::2, ::2].reshape(-1, 3)
    bins = (pixels // _BIN).astype(np.int32)
    codes, inverse, counts = np.unique(bins @ np.array([4096, 64, 1]), return_inverse=True, return_counts=True)
    places = np.stack([codes // 4096, codes // 64 % 64, codes % 64], axis=1)
    left = counts.astype(np.float64)
    colors: list[NDArray[np.float64]] = []
    while len(colors) < _MAX_COLORS:
        best = int(left.argmax())
        if left[best] < _MIN_SHARE * len(pixels):
            break
        off = np.abs(places - places[best]).max(axis=1)
        near, around = off <= _NEAR_BINS, off <= _AROUND_BINS
        if counts[near].sum() >= _PEAK_SHARE * counts[around].sum():
            colors.append(pixels[near[inverse.ravel()]].mean(axis=0))
            left[around] = 0
        else:
            left[near] = 0
    return colors


def find_states(
    plan: FramePlan, scan: RecordingScan, lasting: Sequence[MeasuredChange]
) -> tuple[tuple[PageState, ...], list[tuple[int, int]]]:
    """Return the distinct states between lasting changes, and the first frames with the state shown from then on."""
    moments = scan.moments
    ends = sorted({min(change.end + 1, len(moments) - 1) for change in lasting})
    starts = sorted({max(change.start - 1, 0) for change in lasting})
    edges = [0, *ends]
    stretches = []
    for number, first in enumerate(edges):
        after = edges[number + 1] if number + 1 < len(edges) else len(moments)
        last = max(
            [start for start in starts if first <= start < after] or [after - 1 if after == len(moments) else first]
        )
        stretches.append((first, max(last, first)))
    canvases = _stitch(plan, scan, stretches)
    height = plan.size_px[1]
    states: list[PageState] = []
    hidden: list[Mask] = []
    spans: list[tuple[int, int]] = []
    for (first, last), canvas in zip(stretches, canvases, strict=True):
        if canvas is None:
            continue
        plan.check_stop()
        full_page = clean_frame(canvas.image)
        rows = slice(-canvas.top, -canvas.top + height)
        image, unknown = full_page[rows], canvas.hidden[rows]
        pairs = zip(states, hidden, strict=True)
        known = next((state for state, other in pairs if _is_same(state.image, image, other | unknown)), None)
        spans.append((first, len(states) if known is None else known.index))
        if known is None:
            hidden.append(unknown)
            states.append(
                PageState(
                    index=len(states),
                    image=image,
                    full_page=full_page,
                    top_px=-canvas.top,
                    first_s=moments[first].time_s,
                    last_s=moments[last].time_s,
                    fixed=scan.fixed if len(full_page) > len(image) or moments[first].scroll_px else {},
                )
            )
    return tuple(states), spans


def _stitch(plan: FramePlan, scan: RecordingScan, stretches: Sequence[tuple[int, int]]) -> list[PageCanvas | None]:
    """Stitch the full page of each interval; None if none of its frames could be read."""
    moments = scan.moments
    picks = [_pick_frames(scan, first, last) for first, last in stretches]
    canvases: list[PageCanvas | None] = [None] * len(stretches)
    origins = [moments[pasted[0]].scroll_px for pasted, _ in picks]
    early: list[list[tuple[RgbImage, FrameFacts]]] = [[] for _ in stretches]
    wanted = sorted({index for pasted, filled in picks for index in (*pasted, *filled)})
    for frame in plan.frames_at([moments[index].time_s for index in wanted]):
        index = scan.index_at(frame.timestamp_s)
        moment = moments[index]
        for number, (pasted, filled) in enumerate(picks):
            canvas = canvases[number]
            if index in filled and canvas is None:
                early[number].append((frame.image, moment))
            elif index in filled and canvas is not None:
                canvas.fill(frame.image, moment.scroll_px - origins[number], moment.pointer_box)
            elif index in pasted and canvas is not None:
                canvas.paste(frame.image, moment.scroll_px - origins[number], moment.pointer_box)
            elif index in pasted:
                canvas = canvases[number] = PageCanvas(frame.image, moment.pointer_box)
                canvas.fix(scan.fixed)
                for image, then in early[number]:
                    canvas.fill(image, then.scroll_px - origins[number], then.pointer_box)
                early[number] = []
    return canvases


def _pick_frames(scan: RecordingScan, first: int, last: int) -> tuple[list[int], list[int]]:
    """Return the frames of an interval that are pasted on its page, and the frames that fill hidden pixels.

    Pasted are the first frame, and one at rest for each scrolled step. The others show the area under the pointer.
    """
    moments = scan.moments
    height = max((moment.scroll_px for moment in moments), default=0) + 600
    step = max(_STEP_SHARE * 300, height / _MAX_STITCHED / 4)
    begun = _find_calm(scan, first, last)
    picked, at = [begun], moments[begun].scroll_px
    for index in range(begun + 1, last + 1):
        moment = moments[index]
        is_calm = index + 1 > last or moments[index + 1].shift_px == 0
        if abs(moment.scroll_px - at) >= step or (is_calm and moment.shift_px):
            picked.append(index)
            at = moment.scroll_px
    settled = [_find_settled(scan, index, last) for index in picked[1:]]
    pasted = sorted({*picked, *settled})
    fills = {other for index in pasted if (other := _find_clear(scan, index, first, last)) is not None}
    return pasted, sorted((fills | {last}) - set(pasted))


def _find_calm(scan: RecordingScan, first: int, last: int) -> int:
    """Return the frame that shows the state at rest: the end of the first rest of an interval, else of the longest.

    What moves on after a change belongs to its end. Encoders improve a still image, so late frames of a rest are best.
    """
    moments = scan.moments
    is_busy = np.zeros(len(moments), np.bool_)
    for change in scan.changes:
        is_busy[change.start : change.end] = True
    is_busy |= [moment.shift_px != 0 for moment in moments]
    best, longest = last, -1.0
    begun = first
    for index in range(first, last + 1):
        if is_busy[index]:
            begun = index + 1
            continue
        rest_s = moments[index].time_s - moments[begun].time_s
        is_over = index == last or is_busy[index + 1] or rest_s >= _CALM_S
        if is_over and rest_s >= _SETTLED_S:
            return index
        if is_over and rest_s > longest:
            best, longest = index, rest_s
    return best


def _find_settled(scan: RecordingScan, index: int, last: int) -> int:
    """Return the last frame after a scroll step before the page scrolls on: contents that it reveals are there."""
    moments = scan.moments
    end = index
    while end < last and not moments[end + 1].shift_px and moments[end].time_s - moments[index].time_s < _MAX_SETTLE_S:
        end += 1
    return end


def _find_clear(scan: RecordingScan, index: int, first: int, last: int) -> int | None:
    """Return a frame of an interval that shows the area hidden by the pointer in another one; None if there is none."""
    here = scan.moments[index]
    if here.pointer_box is None:
        return None
    wide = here.pointer_box.padded(_CLEAR_PX)
    for other in sorted(range(first, last + 1), key=lambda each: abs(each - index)):
        moment = scan.moments[other]
        if moment.scroll_px != here.scroll_px or moment.shift_px:
            continue
        if moment.pointer_box is None or not moment.pointer_box.intersection(wide):
            return other
    return None


def _is_same(first: RgbImage, second: RgbImage, unknown: Mask) -> bool:
    """Return whether two windows look the same except for unknown pixels, block by block: a line of text may differ."""
    cv2 = require("cv2", "visual")
    levels = max_difference(first, second)
    levels[unknown] = 0
    size = (max(levels.shape[1] // _BLOCK_PX, 1), max(levels.shape[0] // _BLOCK_PX, 1))
    blocks = cv2.resize(levels, size, interpolation=cv2.INTER_AREA)
    return int(np.count_nonzero(blocks > _SAME_LEVELS)) <= _MAX_OTHER_BLOCKS
