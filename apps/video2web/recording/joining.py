"""Joining of changes that belong together: typed letters, parts of one change, duplicates."""

from dataclasses import replace

import numpy as np

from apps.video2web.recording.changes import Scan
from apps.video2web.recording.easing import Fit
from apps.video2web.recording.scrolling import max_difference
from apps.video2web.recording.transitions import Measured

_CHANGED_LEVELS = 24
_SAME_START_S, _DOUBLE_SHARE = 0.2, 0.6
_SAME_PART_S, _PART_PX = 0.13, 72
_REST_S = 0.1
_WIDE_START_S, _WIDE_LATE = 0.2, 0.6
_WIDE_SHARE, _WIDE_COVERED, _MIN_WIDE = 0.4, 0.12, 3
_CARET_PX = (4, 40)
_MAX_TYPING_GAP_S = 0.9
_AT_ONCE_S, _TWO_COVERED = 0.04, 0.3
_CRUMB_PX, _UNKNOWN_PX = 14, 36


def join_typing(found: list[Measured]) -> list[Measured]:
    """Join letters that appear one after the other on a line into one change."""
    joined: list[Measured] = []
    for one in drop_doubles(found):
        last = joined[-1] if joined else None
        if last is not None and last.trigger in ("", "typing") and _goes_on(last, one):
            joined[-1] = _with_letter(last, one)
        else:
            joined.append(one)
    return [_as_typed(one) if one.trigger == "" and _looks_typed(one) else one for one in joined]


def _as_typed(one: Measured) -> Measured:
    first_s, last_s = one.seen_s
    return replace(one, trigger="typing", fit=Fit(start_s=first_s, duration_s=last_s - first_s, easing="", error=0.0))


def join_parts(found: list[Measured], scan: Scan) -> list[Measured]:
    """Join nearby pieces that change together while the pointer rests: a tab and its panel."""
    joined: list[Measured] = []
    for one in found:
        home = next((other for other in joined if _is_part(one, other, scan)), None)
        if home is None:
            joined.append(one)
        else:
            longer = max(one, home, key=lambda part: part.fit.duration_s)
            joined[joined.index(home)] = _united(home, one, longer.fit)
    return joined


def join_wide(found: list[Measured], scan: Scan, size_px: tuple[int, int]) -> list[Measured]:
    """Join pieces all over the window that change together: another page, a backdrop, a theme."""
    joined: list[Measured] = []
    left = [one for one in found if one.trigger != "typing" and not one.is_scrolling]
    while left:
        first = left[0]
        late_s = max(_WIDE_START_S, _WIDE_LATE * first.fit.duration_s)  # faint pieces are detected later
        group = [one for one in left if one.fit.start_s - first.fit.start_s <= late_s]
        group = [one for one in group if one.seen_s[0] <= first.seen_s[1] or one is first]
        left = [one for one in left if one is not first]
        around = first.page_box
        for one in group:
            around = around.union(one.page_box)
        covered = sum(one.page_box.area for one in group)
        is_wide = around.area > _WIDE_SHARE * size_px[0] * size_px[1] and covered > _WIDE_COVERED * around.area
        is_at_once = max(one.seen_s[0] for one in group) - min(one.seen_s[0] for one in group) <= _AT_ONCE_S
        is_two = len(group) == 2 and is_at_once and covered > _TWO_COVERED * around.area
        if not is_wide or not (len(group) >= _MIN_WIDE or is_two):
            joined.append(first)
            continue
        whole = first
        for one in group[1:]:
            longer = max(one, whole, key=lambda part: part.fit.duration_s)
            whole = _united(whole, one, longer.fit)
        joined.append(whole)
        left = [one for one in left if not any(one is part for part in group)]
    others = [one for one in found if one.trigger == "typing" or one.is_scrolling]
    return sorted([*joined, *others], key=lambda one: one.fit.start_s)


def drop_crumbs(found: list[Measured], scan: Scan) -> list[Measured]:
    """Drop remainders of a pointer, which are at most as large as one and near a moving one, and carets."""
    return [one for one in found if not _is_crumb(one, scan)]


def _is_crumb(one: Measured, scan: Scan) -> bool:
    if one.page_box.width <= _CARET_PX[0] and one.page_box.height <= _CARET_PX[1]:
        return True
    index = scan.index_at(one.seen_s[0])
    around = scan.moments[max(index - 4, 0) : index + 5]
    if around[0].pointer_px is None:  # it leaves before its shape is known
        return scan.has_pointer and max(one.box.width, one.box.height) <= _UNKNOWN_PX
    if len({moment.pointer_px for moment in around}) < 2:
        return False
    for moment in around:
        cover = moment.pointer_box
        if cover is None:
            continue
        is_small = one.box.width <= cover.width + 6 and one.box.height <= cover.height + 6
        if is_small and cover.padded(_CRUMB_PX).intersection(one.box) > 0.5 * one.box.area:
            return True
    return False


def _is_part(one: Measured, other: Measured, scan: Scan) -> bool:
    is_together = abs(one.fit.start_s - other.fit.start_s) <= _SAME_PART_S
    is_calm = not one.is_scrolling and not scan.moved_before(one.start, _REST_S)
    is_near = one.page_box.padded(_PART_PX).intersection(other.page_box) > 0
    return is_together and is_calm and is_near and "typing" not in (one.trigger, other.trigger)


def drop_doubles(found: list[Measured]) -> list[Measured]:
    """Keep only the largest of changes that start together in the same place."""
    kept: list[Measured] = []
    for one in sorted(found, key=lambda other: -other.page_box.area):
        is_double = any(
            abs(one.fit.start_s - other.fit.start_s) < _SAME_START_S
            and one.page_box.intersection(other.page_box) > _DOUBLE_SHARE * one.page_box.area
            for other in kept
        )
        if not is_double:
            kept.append(one)
    return sorted(kept, key=lambda one: one.fit.start_s)


def _goes_on(last: Measured, one: Measured) -> bool:
    gap_s = one.fit.start_s - (last.fit.start_s + last.fit.duration_s)
    same_row = last.page_box.overlap_y(one.page_box) > 0.4 * min(last.page_box.height, one.page_box.height)
    is_small = max(one.page_box.height, last.page_box.height) <= 40 and not one.is_scrolling
    if one.page_box.union(last.page_box).width <= _CARET_PX[0]:
        return False  # a caret that blinks
    follows = -14 <= one.page_box.left - last.page_box.right <= 24
    precedes = -14 <= last.page_box.left - one.page_box.right <= 24
    return gap_s < _MAX_TYPING_GAP_S and same_row and is_small and (follows or precedes)


def _with_letter(last: Measured, one: Measured) -> Measured:
    return _as_typed(_united(last, one, last.fit))


def _united(last: Measured, one: Measured, fit: Fit) -> Measured:
    """Join two changes into one, on a box around both; the area between them is left white."""
    page_box = last.page_box.union(one.page_box)
    before, after = (np.full((page_box.height, page_box.width, 3), 255, np.uint8) for _ in range(2))
    mask = np.zeros(before.shape[:2], np.bool_)
    for part in (last, one):
        rows = slice(part.page_box.top - page_box.top, part.page_box.bottom - page_box.top)
        columns = slice(part.page_box.left - page_box.left, part.page_box.right - page_box.left)
        before[rows, columns], after[rows, columns] = part.before, part.after
        mask[rows, columns] |= part.mask
    return replace(
        last,
        end=max(last.end, one.end),
        seen_s=(min(last.seen_s[0], one.seen_s[0]), max(last.seen_s[1], one.seen_s[1])),
        box=last.box.union(one.box),
        page_box=page_box,
        before=before,
        after=after,
        middle=[],
        mask=mask,
        is_joined=True,
        fit=fit,
    )


def _looks_typed(one: Measured) -> bool:
    """Return whether a single change is a line of text that grew to the right or to the left."""
    if one.is_scrolling or not (
        8 <= one.page_box.height <= 40 and one.page_box.width >= 3 * one.page_box.height and one.middle
    ):
        return False
    ends: list[tuple[int, int]] = []
    for crop in one.middle:
        changed = np.flatnonzero((max_difference(one.before, crop) > _CHANGED_LEVELS).any(axis=0))
        if changed.size:
            ends.append((one.page_box.width - int(changed[0]), int(changed[-1])))
    if len(ends) < 4:
        return False
    way = np.array(ends)
    grows = (np.diff(way, axis=0) >= -2).all(axis=0) & (way[-1] - way[0] > 0.3 * one.page_box.width)
    return bool(grows.any())
