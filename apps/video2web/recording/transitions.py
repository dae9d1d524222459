"""Measured changes: appearance before and after, progress, trigger, and the change that reverts them.

A second pass over the frames around each change keeps only its box, and a few dozen frames of long changes.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from apps.video2web.pixels import Levels, Mask, RgbImage
from apps.video2web.recording.changes import ChangedRegion, FrameFacts, RecordingScan
from apps.video2web.recording.easing import EasingFit, fit_easing, hold_frames, measure_progress
from apps.video2web.recording.frames import FramePlan
from apps.video2web.recording.motion import track_push
from apps.video2web.recording.scrolling import max_difference
from visual_tools.box import Box
from visual_tools.errors import require

# The limits were set on the thirteen known recordings and corrected after drawn recordings (seeds 200 to 411);
# benchmarks/video2web.md lists what is found with them. No limit was measured on its own.
_LEAD_FRAMES, _SETTLE_FRAMES = 3, 5  # frames kept before and after a change, to see both states at rest
_MIN_FRAMES, _MAX_FRAMES = 24, 200  # frames kept of a change: enough to fit a curve, few enough for memory
_MAX_CLIP_BYTES = 120_000_000  # memory limit of one change; larger changes are sampled more sparsely
_CHANGED_LEVELS = 24  # of 255; above the noise of video codecs, below the difference of a pale hover
_MIN_CHANGED_PX = 12  # pixels; fewer are codec noise
_MIN_SIDE_PX = 3  # pixels; thinner boxes are edges that the codec redraws
_SAME_SHARE = 0.24  # maximum share of the changed pixels that may remain when a change is reverted
_KEPT_SHARE = 0.4  # maximum share that may have changed in between
_MIN_PLATEAU_S = 0.34  # a shorter rest is part of one change; longer ones separate two changes
_FRAME_S, _CARET_PX = 0.04, 4  # usual frame duration; width of a text caret, whose blinking is not a change
_REST_SHARE, _MAX_REST_PX = 0.002, 60  # changed pixels per frame, as a share of the box and at most, that count as rest
_MIN_VISIBLE = 0.5  # share of the box that must be visible in the first frame of a change
_SAME_POSITION = 0.45  # share of the larger box that a reverting change must cover
_MIN_PIECE_PX, _MAX_PIECE_SHARE = 3_000, 0.6  # size of the piece under the pointer that may replace the whole change
_REST_S = 0.1  # seconds without motion after which the pointer rests
_AFTER_SCROLL_S, _SOON_S = 0.45, 0.1  # seconds after a scroll that belong to it; gap within which scrolling continues
_MIN_STEPS, _MIN_PAUSE_S, _JUMP = 4, 0.06, 4  # steps of an animation; pause and ratio that set a first step apart
_BEGUN = 0.04  # progress from which a change is visible


@dataclass(slots=True, kw_only=True, eq=False)
class MeasuredChange:
    """Lasting change.

    Attributes:
        start: Number of the first frame that is different.
        end: Number of the last frame in progress.
        box: Box that differs afterwards, in the viewport at its end.
        page_box: The same box in rows of the page.
        before: The box before, (h, w, 3) uint8 RGB.
        after: The box after.
        middle: Some intermediate frames of the box.
        mask: (h, w) bool, pixels that differ.
        fit: Start, duration and curve.
        seen_s: Times of its first and its last visible step.
        is_scrolling: True if the page scrolls when it begins, or has just scrolled.
        is_joined: True if joined from pieces: the area between them is not known yet.
        jump_s: Time of a first step far larger than the next one, and of that one: the late end of an earlier change.
        trigger: Trigger; "" until known.
        undo_of: The change that it reverts.
        undone_by: The change that reverts it.
    """

    start: int
    end: int
    box: Box
    page_box: Box
    before: RgbImage = field(repr=False)
    after: RgbImage = field(repr=False)
    middle: list[RgbImage] = field(repr=False)
    mask: Mask = field(repr=False)
    fit: EasingFit
    seen_s: tuple[float, float]
    is_scrolling: bool
    is_joined: bool = False
    jump_s: tuple[float, float] | None = None
    trigger: str = ""
    undo_of: "MeasuredChange | None" = field(default=None, repr=False)
    undone_by: "MeasuredChange | None" = field(default=None, repr=False)


@dataclass(slots=True, eq=False)
class _Clip:
    """Frames of a change, cropped to its box."""

    change: ChangedRegion
    box: Box  # of the page
    wanted: list[int]
    indices: list[int] = field(default_factory=list)
    crops: list[RgbImage] = field(default_factory=list)


def measure_changes(plan: FramePlan, scan: RecordingScan) -> list[MeasuredChange]:
    """Examine every change again and return the lasting ones, in order of time."""
    clips = [clip for change in scan.changes if (clip := _plan_clip(change, scan, plan)) is not None]
    by_index: dict[int, list[_Clip]] = {}
    for clip in clips:
        for index in clip.wanted:
            by_index.setdefault(index, []).append(clip)
    changes: list[MeasuredChange] = []
    for frame in plan.frames_at([scan.moments[index].time_s for index in sorted(by_index)]):
        index = scan.index_at(frame.timestamp_s)
        for clip in by_index.get(index, ()):
            clip.indices.append(index)
            clip.crops.append(_cut(frame.image, clip.box, scan.moments[index]))
            if index == clip.wanted[-1]:
                plan.check_stop()
                changes += _measure(clip, scan)
                clip.crops = []
    return sorted(changes, key=lambda measured: measured.fit.start_s)


def _plan_clip(change: ChangedRegion, scan: RecordingScan, plan: FramePlan) -> _Clip | None:
    """Select the frames of a change, and the rows of it that all of them show."""
    moments, (width, height) = scan.moments, plan.size_px
    first, last = max(change.start - _LEAD_FRAMES, 0), min(change.end + _SETTLE_FRAMES, len(moments) - 1)
    box = change.box
    for other in scan.changes:
        if other is not change and other.box.intersection(box) > 0.2 * min(other.box.area, box.area):
            if change.end < other.start <= last:
                last = max(other.start - 1, change.end)
            if first <= other.end < change.start:
                first = min(max(other.end, first), change.start - 1)
    while first < change.start and _visible_rows(box, moments[first : first + 1], height)[2] < _MIN_VISIBLE:
        first += 1
    if first >= change.start and moments[first].shift_px == 0 and change.start > 0:
        first = change.start - 1
    top, bottom, _ = _visible_rows(box, moments[first : last + 1], height)
    if any(moment.shift_px for moment in moments[first : last + 1]):
        top = max(top, *(moment.scroll_px + scan.fixed.get("top", 0) for moment in moments[first : last + 1]))
        bottom = min(
            bottom, *(moment.scroll_px + height - scan.fixed.get("bottom", 0) for moment in moments[first : last + 1])
        )
    if bottom - top < _MIN_SIDE_PX or last <= first:
        return None
    most = min(max(_MAX_CLIP_BYTES // (3 * max(box.area, 1)), _MIN_FRAMES), _MAX_FRAMES)
    step = max((last - first + 1) / most, 1.0)
    wanted = sorted({first, last, *(first + round(part * step) for part in range(int((last - first) / step) + 1))})
    seen = Box(max(box.left, 0), top, min(box.right, width), bottom)
    return _Clip(change, seen, [index for index in wanted if index <= last])


def _visible_rows(box: Box, moments: Sequence[FrameFacts], height: int) -> tuple[int, int, float]:
    """Return the rows of a box of the page that all frames show, and their share of it."""
    top = max(box.top, *(moment.scroll_px for moment in moments))
    bottom = min(box.bottom, *(moment.scroll_px + height for moment in moments))
    return top, bottom, max(bottom - top, 0) / max(box.height, 1)


def _cut(image: RgbImage, box: Box, moment: FrameFacts) -> RgbImage:
    return image[box.top - moment.scroll_px : box.bottom - moment.scroll_px, box.left : box.right].copy()


def _measure(clip: _Clip, scan: RecordingScan) -> Iterator[MeasuredChange]:
    """Yield the lasting changes of a clip: one for each interval between two rests."""
    for first, last in _split_at_rests(clip, scan):
        mask = _changed_mask(clip, first, last, scan)
        change = _make(clip, first, last, mask, scan) if np.count_nonzero(mask) >= _MIN_CHANGED_PX else None
        if change is not None:
            yield change


def _split_at_rests(clip: _Clip, scan: RecordingScan) -> list[tuple[int, int]]:
    """Return the first and last frame of each interval of a clip; intervals meet in the middle of rests."""
    limit = min(max(_MIN_CHANGED_PX, _REST_SHARE * clip.box.area), _MAX_REST_PX)
    times = [scan.moments[index].time_s for index in clip.indices]
    busy = [
        number for number in range(1, len(clip.crops)) if _is_busy(_changed_mask(clip, number - 1, number, scan), limit)
    ]
    cuts = [0]
    for before, after in itertools.pairwise(busy):
        still_s = (
            max(times[after - 1], times[after] - _FRAME_S) - times[before]
        )  # frames may be missing while all rests
        if still_s >= _MIN_PLATEAU_S:
            cuts.append((before + after) // 2)
    cuts.append(len(clip.crops) - 1)
    return [(first, last) for first, last in itertools.pairwise(cuts) if last > first]


def _is_busy(mask: Mask, limit: float) -> bool:
    """Return whether more than a blinking caret changes between two frames."""
    if np.count_nonzero(mask) < limit:
        return False
    columns = np.flatnonzero(mask.any(axis=0))
    return int(columns[-1] - columns[0]) >= _CARET_PX


def _changed_mask(clip: _Clip, first: int, last: int, scan: RecordingScan) -> Mask:
    """Return the pixels that differ between two frames of a clip, (h, w) bool, without single ones and the pointer."""
    cv2 = require("cv2", "visual")
    levels = max_difference(clip.crops[first], clip.crops[last])
    places = [scan.moments[clip.indices[number]] for number in (first, last)]
    if places[0].pointer_px != places[1].pointer_px:
        for moment in places:
            _clear_pointer(levels, clip.box, moment)
    strong = (levels > _CHANGED_LEVELS).astype(np.uint8)
    kept: Levels = cv2.morphologyEx(strong, cv2.MORPH_OPEN, np.ones((2, 2), np.uint8))
    return kept > 0


def _clear_pointer(levels: Levels, box: Box, moment: FrameFacts) -> None:
    if moment.pointer_box is not None:
        wide = moment.pointer_box.padded(3).moved(-box.left, moment.scroll_px - box.top)
        wide = wide.clipped(levels.shape[1], levels.shape[0])
        levels[wide.slices] = 0


def _make(clip: _Clip, first: int, last: int, mask: Mask, scan: RecordingScan) -> MeasuredChange | None:
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    top, bottom, left, right = int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1
    if min(bottom - top, right - left) < _MIN_SIDE_PX and max(bottom - top, right - left) < 4 * _MIN_SIDE_PX:
        return None
    crops = [crop[top:bottom, left:right] for crop in clip.crops[first : last + 1]]
    indices = clip.indices[first : last + 1]
    times = [scan.moments[index].time_s for index in indices]
    inner = mask[top:bottom, left:right]
    progress = track_push(crops, crops[0], crops[-1], inner) or measure_progress(crops, crops[0], crops[-1])
    usual_s = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    fit = fit_easing(*hold_frames(times, progress, gap_s=2.5 * usual_s or float("inf"), before_s=usual_s))
    start = scan.index_at(max(fit.start_s, 0.0) + 0.02)
    end = scan.index_at(fit.start_s + fit.duration_s)
    page_box = Box(clip.box.left + left, clip.box.top + top, clip.box.left + right, clip.box.top + bottom)
    between = [crop for crop, value in zip(crops, progress, strict=True) if 0.03 < value < 0.97]
    return MeasuredChange(
        start=min(start, len(scan.moments) - 1),
        end=end,
        box=page_box.moved(0, -_scroll_at_rest(scan, end)),
        page_box=page_box,
        before=crops[0],
        after=crops[-1],
        middle=between[:: max(len(between) // 8, 1)][:9],
        mask=inner,
        fit=fit,
        seen_s=_find_steps(times, progress),
        is_scrolling=_is_scrolling(scan, start),
        jump_s=_find_jump(clip, first, last, scan),
    )


def _find_jump(clip: _Clip, first: int, last: int, scan: RecordingScan) -> tuple[float, float] | None:
    """Return the times of the first two steps if the first is far larger, and apart: changes begin with small steps."""
    steps: list[tuple[float, int]] = []
    for number in range(first + 1, last + 1):
        size = int(np.count_nonzero(_changed_mask(clip, number - 1, number, scan)))
        if size >= _MIN_CHANGED_PX:
            steps.append((scan.moments[clip.indices[number]].time_s, size))
        if len(steps) == _MIN_STEPS:
            (jump_s, jump), (next_s, following) = steps[:2]
            is_apart = next_s - jump_s >= _MIN_PAUSE_S
            return (jump_s, next_s) if is_apart and jump >= _JUMP * following else None
    return None


def _scroll_at_rest(scan: RecordingScan, index: int) -> int:
    """Return the scroll position once the page stops scrolling; a page that starts to scroll later is at rest."""
    moments = scan.moments
    while index + 1 < len(moments):
        soon = [moment for moment in moments[index + 1 : index + 3] if moment.time_s - moments[index].time_s <= _SOON_S]
        if not any(moment.shift_px for moment in (moments[index], *soon)):
            break
        index += 1
    return moments[index].scroll_px


def _find_steps(times: list[float], progress: list[float]) -> tuple[float, float]:
    """Return the time when progress leaves 0, and when it reaches 1."""
    first = next((time for time, part in zip(times, progress, strict=True) if part > _BEGUN), times[-1])
    last = next((time for time, part in zip(times, progress, strict=True) if part > 1 - _BEGUN), times[-1])
    return first, last


def _is_scrolling(scan: RecordingScan, *indices: int) -> bool:
    """Return whether the page scrolled just before some frame, or while it was shown."""
    for index in indices:
        now_s = scan.moments[index].time_s
        for moment in reversed(scan.moments[: index + 2]):
            if now_s - moment.time_s > _AFTER_SCROLL_S:
                break
            if moment.shift_px:
                return True
    return False


def fill_joined(changes: list[MeasuredChange], plan: FramePlan, scan: RecordingScan) -> list[MeasuredChange]:
    """Measure joined changes again on the whole box before and after."""
    moments, height = scan.moments, plan.size_px[1]
    wanted: dict[int, tuple[int, int]] = {}
    for number, change in enumerate(changes):
        if change.is_joined:
            last = len(moments) - 1
            begun, over = scan.index_at(change.seen_s[0]), scan.index_at(change.seen_s[1])
            over = max(over, scan.index_at(change.fit.start_s + change.fit.duration_s))
            wanted[number] = max(begun - 1, 0), min(over + 1, last)
    frames: dict[int, RgbImage] = {}
    for frame in plan.frames_at(sorted({moments[index].time_s for pair in wanted.values() for index in pair})):
        frames[scan.index_at(frame.timestamp_s)] = frame.image
    filled = list(changes)
    for number, (first, last) in wanted.items():
        change = changes[number]
        top, bottom, _ = _visible_rows(change.page_box, (moments[first], moments[last]), height)
        if bottom <= top or first not in frames or last not in frames:
            continue
        seen = Box(max(change.page_box.left, 0), top, min(change.page_box.right, plan.size_px[0]), bottom)
        before, after = (_cut(frames[index], seen, moments[index]) for index in (first, last))
        filled[number] = replace(
            change,
            page_box=seen,
            box=seen.moved(0, -_scroll_at_rest(scan, last)),
            before=before,
            after=after,
            mask=max_difference(before, after) > _CHANGED_LEVELS,
        )
    return filled


def narrow_to_pointer(changes: list[MeasuredChange], scan: RecordingScan) -> list[MeasuredChange]:
    """Reduce changes during pointer motion to the piece under the pointer; the rest is encoder noise."""
    return [
        _narrowed(change, scan) if scan.rest_s(scan.index_at(change.seen_s[0])) < _REST_S else change
        for change in changes
    ]


def _narrowed(change: MeasuredChange, scan: RecordingScan) -> MeasuredChange:
    cv2 = require("cv2", "visual")
    joined = cv2.dilate(change.mask.astype(np.uint8), np.ones((9, 9), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(joined)
    index = scan.index_at(change.seen_s[0])
    for moment in scan.moments[max(index - 2, 0) : index + 4]:
        if moment.pointer_px is None:
            continue
        column, row = moment.pointer_px[0] - change.box.left, moment.pointer_px[1] - change.box.top
        if not (0 <= row < labels.shape[0] and 0 <= column < labels.shape[1]):
            continue
        around = labels[max(row - 6, 0) : row + 7, max(column - 6, 0) : column + 7]
        name = int(around.max())
        if not 0 < name < count:
            continue
        left, top, width, height, area = (int(value) for value in stats[name])
        if area >= _MIN_PIECE_PX and width * height < _MAX_PIECE_SHARE * change.box.area:
            return _cropped(change, Box(left, top, left + width, top + height))
    return change


def _cropped(change: MeasuredChange, part: Box) -> MeasuredChange:
    """Crop a change to a part of its box, in pixels of the box, without the margin of the joining dilation."""
    height, width = change.mask.shape
    part = Box(
        part.left + 4 * (part.left > 0),
        part.top + 4 * (part.top > 0),
        part.right - 4 * (part.right < width),
        part.bottom - 4 * (part.bottom < height),
    )
    rows, columns = part.slices
    return replace(
        change,
        box=part.moved(change.box.left, change.box.top),
        page_box=part.moved(change.page_box.left, change.page_box.top),
        before=change.before[rows, columns],
        after=change.after[rows, columns],
        middle=[image[rows, columns] for image in change.middle],
        mask=change.mask[rows, columns],
    )


def link_reverted(changes: list[MeasuredChange]) -> None:
    """Link changes to later ones that revert them: same place, and it looks as before."""
    for number, later in enumerate(changes):
        for earlier in reversed(changes[:number]):
            if earlier.undone_by is None and later.undo_of is None and _reverts(later, earlier):
                later.undo_of, earlier.undone_by = earlier, later
                break


def _reverts(later: MeasuredChange, earlier: MeasuredChange) -> bool:
    common = later.page_box.intersection(earlier.page_box)
    if earlier.undo_of is not None and earlier.undo_of.trigger == "click":
        return False
    if common < _SAME_POSITION * max(later.page_box.area, earlier.page_box.area):
        return False
    mine, theirs = _shared(earlier.page_box, later.page_box), _shared(later.page_box, earlier.page_box)
    mask = earlier.mask[mine]
    if not mask.any() or mask.shape != later.mask[theirs].shape:
        return False
    left = _count_different(earlier.before[mine], later.after[theirs], mask)
    gone_on = _count_different(earlier.after[mine], later.before[theirs], mask)
    size = np.count_nonzero(mask)
    return bool(left < _SAME_SHARE * size and gone_on < _KEPT_SHARE * size)


def _shared(box: Box, other: Box) -> tuple[slice, slice]:
    """Return the rows and columns of a box that it shares with another one."""
    top, bottom = max(box.top, other.top) - box.top, min(box.bottom, other.bottom) - box.top
    left, right = max(box.left, other.left) - box.left, min(box.right, other.right) - box.left
    return slice(top, bottom), slice(left, right)


def _count_different(first: RgbImage, second: RgbImage, mask: Mask) -> int:
    levels = max_difference(np.ascontiguousarray(first), np.ascontiguousarray(second))
    return int(np.count_nonzero((levels > _CHANGED_LEVELS) & mask))
