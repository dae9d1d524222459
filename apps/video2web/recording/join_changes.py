"""Joining of changes that belong together: typed letters, parts of one change, duplicates."""

from dataclasses import replace

import numpy as np

from apps.video2web.recording.changes import RecordingScan
from apps.video2web.recording.easing import EasingFit
from apps.video2web.recording.scrolling import max_difference
from apps.video2web.recording.transitions import MeasuredChange
from visual_tools.box import Box
from visual_tools.errors import require

# Heuristics without another source; measured together in benchmarks/video2web.md, "Recordings".
_CHANGED_LEVELS = 24
_SAME_START_S, _DOUBLE_SHARE = 0.2, 0.6
_SAME_PART_S, _SAME_ACT_S, _PART_PX = 0.13, 0.45, 72
_REST_S = 0.1
_WIDE_START_S, _WIDE_LATE = 0.2, 0.6
_WIDE_SHARE, _WIDE_COVERED, _MIN_WIDE = 0.4, 0.12, 3
_CARET_PX = (4, 40)
_MAX_TYPING_GAP_S = 0.9
_AT_ONCE_S, _TWO_COVERED = 0.04, 0.3
_CRUMB_PX, _UNKNOWN_PX = 14, 36
_REDUCED = 4
_LATE_S, _LATE_FRAMES, _LATE_SHARE, _REST_SHARE, _BACK_SHARE = 0.1, 5, 0.5, 0.6, 0.3


def join_typing(changes: list[MeasuredChange]) -> list[MeasuredChange]:
    """Join letters that appear one after the other on a line into one change."""
    joined: list[MeasuredChange] = []
    for change in drop_doubles(changes):
        last = joined[-1] if joined else None
        if last is not None and last.trigger in ("", "typing") and _goes_on(last, change):
            joined[-1] = _as_typed(_united(last, change, last.fit))
        else:
            joined.append(change)
    return [_as_typed(change) if change.trigger == "" and _looks_typed(change) else change for change in joined]


def _as_typed(change: MeasuredChange) -> MeasuredChange:
    first_s, last_s = change.seen_s
    return replace(
        change, trigger="typing", fit=EasingFit(start_s=first_s, duration_s=last_s - first_s, easing="", error=0.0)
    )


def join_parts(changes: list[MeasuredChange], scan: RecordingScan) -> list[MeasuredChange]:
    """Join nearby pieces that change together while the pointer rests: a tab and its panel."""
    joined: list[MeasuredChange] = []
    for change in changes:
        home = next((other for other in joined if _is_part(change, other, scan)), None)
        if home is None:
            joined.append(change)
        else:
            longer = max(change, home, key=lambda part: part.fit.duration_s)
            joined[joined.index(home)] = _united(home, change, longer.fit)
    return joined


def join_wide(changes: list[MeasuredChange], scan: RecordingScan, size_px: tuple[int, int]) -> list[MeasuredChange]:
    """Join pieces all over the window that change together: another page, a backdrop, a theme."""
    joined: list[MeasuredChange] = []
    left = [change for change in changes if change.trigger != "typing" and not change.is_scrolling]
    while left:
        first = left[0]
        late_s = max(_WIDE_START_S, _WIDE_LATE * first.fit.duration_s)  # faint pieces are detected later
        group = [change for change in left if change.fit.start_s - first.fit.start_s <= late_s]
        group = [change for change in group if change.seen_s[0] <= first.seen_s[1] or change is first]
        left = [change for change in left if change is not first]
        around = first.page_box
        for change in group:
            around = around.union(change.page_box)
        covered = sum(change.page_box.area for change in group)
        is_wide = around.area > _WIDE_SHARE * size_px[0] * size_px[1] and covered > _WIDE_COVERED * around.area
        is_at_once = max(change.seen_s[0] for change in group) - min(change.seen_s[0] for change in group) <= _AT_ONCE_S
        is_two = len(group) == 2 and is_at_once and covered > _TWO_COVERED * around.area
        if not is_wide or not (len(group) >= _MIN_WIDE or is_two):
            joined.append(first)
            continue
        whole = first
        for change in group[1:]:
            longer = max(change, whole, key=lambda part: part.fit.duration_s)
            whole = _united(whole, change, longer.fit)
        joined.append(whole)
        left = [change for change in left if not any(change is part for part in group)]
    others = [change for change in changes if change.trigger == "typing" or change.is_scrolling]
    return sorted([*joined, *others], key=lambda change: change.fit.start_s)


def join_late(changes: list[MeasuredChange], scan: RecordingScan) -> list[MeasuredChange]:
    """Give a change the end that is shown only when the pointer moves on: recorders send no frame of a page at rest."""
    joined: list[MeasuredChange] = []
    for change in changes:
        last = joined[-1] if joined else None
        if last is not None and change.jump_s is not None and _is_same_place(last, change):
            joined[-1], change = _with_end_at(last, change, change.jump_s, scan)
        if last is None or not _is_late_end(last, change, scan):
            joined.append(change)
            continue
        whole = _united(last, change, last.fit)
        joined[-1] = replace(whole, middle=last.middle if whole.page_box == last.page_box else [])
    return joined


def _is_same_place(last: MeasuredChange, change: MeasuredChange) -> bool:
    common = change.page_box.intersection(last.page_box)
    return common > _LATE_SHARE * min(change.page_box.area, last.page_box.area) and not change.is_scrolling


def _with_end_at(
    last: MeasuredChange, change: MeasuredChange, jump_s: tuple[float, float], scan: RecordingScan
) -> tuple[MeasuredChange, MeasuredChange]:
    """Return two changes of which the first one ends with the jump at the start of the second one."""
    end, start = scan.index_at(jump_s[0]), scan.index_at(jump_s[1])
    rest_s = max(change.fit.start_s + change.fit.duration_s - jump_s[1], 0.0)
    fit = replace(change.fit, start_s=jump_s[1], duration_s=rest_s)
    first = replace(last, end=end, seen_s=(last.seen_s[0], jump_s[0]), is_joined=True)
    return first, replace(change, start=start, fit=fit, seen_s=(jump_s[1], change.seen_s[1]), is_joined=True)


def _is_late_end(last: MeasuredChange, change: MeasuredChange, scan: RecordingScan) -> bool:
    """Return whether a change goes on with the last one, at once, after a rest without frames.

    Either a resting pointer moves on in its frame, or the pointer has not moved since the last change, of which it is a
    small rest: a second click would change as much.
    """
    if "typing" in (last.trigger, change.trigger) or change.is_scrolling or change.fit.duration_s > _LATE_S:
        return False
    index = scan.index_at(change.seen_s[0])
    here, before = scan.moments[index], scan.moments[max(index - 1, 0)]
    moves_on = here.pointer_px != before.pointer_px and not scan.moved_before(max(index - 1, 0), _REST_S)
    is_waiting = all(moment.is_idle for moment in scan.moments[max(index - _LATE_FRAMES, 0) : index])
    common = change.page_box.intersection(last.page_box)
    sizes = [_measure_size(part) for part in (last, change)]
    is_rest = scan.rest_s(index) > here.time_s - last.seen_s[0] and sizes[1] < _REST_SHARE * sizes[0]
    if not ((moves_on or is_rest) and is_waiting and common > _LATE_SHARE * change.page_box.area):
        return False
    first, second = (
        (slice(around.top - box.top, around.bottom - box.top), slice(around.left - box.left, around.right - box.left))
        for around, box in ((_common(last, change), part.page_box) for part in (last, change))
    )
    begin, end = last.before[first], change.after[second]
    if begin.shape != end.shape:
        return False
    back = float((max_difference(np.ascontiguousarray(begin), np.ascontiguousarray(end)) > _CHANGED_LEVELS).mean())
    return back > _BACK_SHARE * float(change.mask[second].mean())  # else it is undone


def _measure_size(change: MeasuredChange) -> float:
    """Return the sum of the differences of a change, reduced: the last pixel of a motion is a small one."""
    cv2 = require("cv2", "visual")
    height, width = change.mask.shape
    size = max(width // _REDUCED, 1), max(height // _REDUCED, 1)
    before, after = (cv2.resize(image, size, interpolation=cv2.INTER_AREA) for image in (change.before, change.after))
    return float(max_difference(before, after).sum())


def _common(first: MeasuredChange, second: MeasuredChange) -> Box:
    one, other = first.page_box, second.page_box
    return Box(
        max(one.left, other.left), max(one.top, other.top), min(one.right, other.right), min(one.bottom, other.bottom)
    )


def drop_crumbs(changes: list[MeasuredChange], scan: RecordingScan) -> list[MeasuredChange]:
    """Drop remainders of a pointer, which are at most as large as one and near a moving one, and carets."""
    return [change for change in changes if not _is_crumb(change, scan)]


def _is_crumb(change: MeasuredChange, scan: RecordingScan) -> bool:
    if change.page_box.width <= _CARET_PX[0] and change.page_box.height <= _CARET_PX[1]:
        return True
    index = scan.index_at(change.seen_s[0])
    around = scan.moments[max(index - 4, 0) : index + 5]
    if around[0].pointer_px is None:  # it leaves before its shape is known
        return scan.has_pointer and max(change.box.width, change.box.height) <= _UNKNOWN_PX
    if len({moment.pointer_px for moment in around}) < 2:
        return False
    for moment in around:
        cover = moment.pointer_box
        if cover is None:
            continue
        is_small = change.box.width <= cover.width + 6 and change.box.height <= cover.height + 6
        if is_small and cover.padded(_CRUMB_PX).intersection(change.box) > 0.5 * change.box.area:
            return True
    return False


def _is_part(change: MeasuredChange, other: MeasuredChange, scan: RecordingScan) -> bool:
    late_s = abs(change.fit.start_s - other.fit.start_s)
    rest_s = scan.rest_s(max(change.start, other.start))
    is_together = late_s <= _SAME_PART_S or late_s <= min(_SAME_ACT_S, rest_s - _REST_S)  # nobody clicks again so soon
    is_calm = not change.is_scrolling and rest_s >= _REST_S
    is_near = change.page_box.padded(_PART_PX).intersection(other.page_box) > 0
    return is_together and is_calm and is_near and "typing" not in (change.trigger, other.trigger)


def drop_doubles(changes: list[MeasuredChange]) -> list[MeasuredChange]:
    """Keep only the largest of changes that start together in the same place."""
    kept: list[MeasuredChange] = []
    for change in sorted(changes, key=lambda other: -other.page_box.area):
        is_double = any(
            abs(change.fit.start_s - other.fit.start_s) < _SAME_START_S
            and change.page_box.intersection(other.page_box) > _DOUBLE_SHARE * change.page_box.area
            for other in kept
        )
        if not is_double:
            kept.append(change)
    return sorted(kept, key=lambda change: change.fit.start_s)


def _goes_on(last: MeasuredChange, change: MeasuredChange) -> bool:
    gap_s = change.fit.start_s - (last.fit.start_s + last.fit.duration_s)
    same_row = last.page_box.overlap_y(change.page_box) > 0.4 * min(last.page_box.height, change.page_box.height)
    is_small = max(change.page_box.height, last.page_box.height) <= 40 and not change.is_scrolling
    if change.page_box.union(last.page_box).width <= _CARET_PX[0]:
        return False  # a caret that blinks
    follows = -14 <= change.page_box.left - last.page_box.right <= 24
    precedes = -14 <= last.page_box.left - change.page_box.right <= 24
    return gap_s < _MAX_TYPING_GAP_S and same_row and is_small and (follows or precedes)


def _united(last: MeasuredChange, change: MeasuredChange, fit: EasingFit) -> MeasuredChange:
    """Join two changes into one, on a box around both; the area between them is left white."""
    page_box = last.page_box.union(change.page_box)
    before, after = (np.full((page_box.height, page_box.width, 3), 255, np.uint8) for _ in range(2))
    mask = np.zeros(before.shape[:2], np.bool_)
    for part in (last, change):
        rows = slice(part.page_box.top - page_box.top, part.page_box.bottom - page_box.top)
        columns = slice(part.page_box.left - page_box.left, part.page_box.right - page_box.left)
        before[rows, columns], after[rows, columns] = part.before, part.after
        mask[rows, columns] |= part.mask
    return replace(
        last,
        end=max(last.end, change.end),
        seen_s=(min(last.seen_s[0], change.seen_s[0]), max(last.seen_s[1], change.seen_s[1])),
        box=last.box.union(change.box),
        page_box=page_box,
        before=before,
        after=after,
        middle=[],
        mask=mask,
        is_joined=True,
        fit=fit,
    )


def _looks_typed(change: MeasuredChange) -> bool:
    """Return whether a single change is a line of text that grew to the right or to the left."""
    if change.is_scrolling or not (
        8 <= change.page_box.height <= 40 and change.page_box.width >= 3 * change.page_box.height and change.middle
    ):
        return False
    ends: list[tuple[int, int]] = []
    for crop in change.middle:
        changed = np.flatnonzero((max_difference(change.before, crop) > _CHANGED_LEVELS).any(axis=0))
        if changed.size:
            ends.append((change.page_box.width - int(changed[0]), int(changed[-1])))
    if len(ends) < 4:
        return False
    way = np.array(ends)
    grows = (np.diff(way, axis=0) >= -2).all(axis=0) & (way[-1] - way[0] > 0.3 * change.page_box.width)
    return bool(grows.any())
