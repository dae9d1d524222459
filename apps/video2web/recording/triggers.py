"""What sets a change off: the pointer, a press, the scroll position, or nothing that is seen."""

import numpy as np

from apps.video2web.recording.changes import Scan
from apps.video2web.recording.transitions import Measured

_CLICK_S = 1.6
_LEAVE_S = 0.2
_MIN_REVEAL_S = 0.2
_MORE_DETAIL = 1.5
_POINTER_REACH_PX = 60
_REGULAR = 0.3
_REST_PX = 4
_REST_S = 0.1
_ARRIVES_S = 0.4
_SAME_PLACE = 0.45


def find_triggers(found: list[Measured], scan: Scan) -> None:
    """Say of each change what sets it off: typing, scrolling, the pointer coming or going, a click, or time alone."""
    for one in found:
        if not one.trigger:
            is_scroll = one.is_scrolling or _has_scrolled(one, scan)
            one.trigger = "scroll" if is_scroll and not _is_entered(one, scan) else _find_trigger(one, scan)
    for one in found:
        if one.trigger == "click" and _is_regular(one, found, scan):
            one.trigger = "time"


def drop_scroll_noise(found: list[Measured]) -> list[Measured]:
    """Leave out of what happens while the page scrolls all that does not come gradually and show more than before."""
    return [one for one in found if one.trigger != "scroll" or _is_revealed(one)]


def _is_revealed(one: Measured) -> bool:
    is_gradual = one.fit.duration_s >= _MIN_REVEAL_S and len(one.middle) >= 2
    detail = [float(np.abs(np.diff(image.astype(np.int16), axis=1)).mean()) for image in (one.before, one.after)]
    return is_gradual and detail[1] > _MORE_DETAIL * detail[0]


def _has_scrolled(one: Measured, scan: Scan) -> bool:
    """Whether the page scrolls while it goes on."""
    return any(moment.shift_px for moment in scan.moments[one.start : one.end + 2])


def _is_entered(one: Measured, scan: Scan) -> bool:
    """Whether the pointer has just moved into what changes."""
    index = scan.index_at(one.seen_s[0])
    pointer = scan.moments[index].pointer_px
    return pointer is not None and scan.rest_s(index) < _REST_S and one.box.padded(_REST_PX).has_point(*pointer)


def _find_trigger(one: Measured, scan: Scan) -> str:
    index = scan.index_at(one.seen_s[0])
    rest_s = scan.rest_s(index)
    pointer = scan.moments[min(one.start + 1, len(scan.moments) - 1)].pointer_px
    if pointer is None:
        return "time" if scan.has_pointer else "click"
    if rest_s < _REST_S:  # it is on its way: what counts is where it comes to rest
        pointer = scan.resting_place(min(one.start + 1, len(scan.moments) - 1), _ARRIVES_S) or pointer
    is_left = one.undone_by is not None and scan.moved_before(scan.index_at(one.undone_by.seen_s[0]), _LEAVE_S)
    reach = one.box.padded(_POINTER_REACH_PX)
    if reach.has_point(*pointer) and (is_left or rest_s < _REST_S):
        return "hover"
    if one.undo_of is not None and one.undo_of.trigger == "hover":
        return "hover"
    if _REST_S <= rest_s < _CLICK_S or reach.has_point(*pointer):
        return "click"
    return "time"


def _is_regular(one: Measured, found: list[Measured], scan: Scan) -> bool:
    """Whether changes of the same place come at equal distances, and no pointer is near."""
    pointer = scan.moments[one.start].pointer_px
    if pointer is not None and one.box.padded(_POINTER_REACH_PX // 2).has_point(*pointer):
        return False
    if pointer is not None and scan.rest_s(one.start) < _CLICK_S:
        return False
    starts = [
        other.fit.start_s
        for other in found
        if other.page_box.intersection(one.page_box) > _SAME_PLACE * max(other.page_box.area, one.page_box.area)
    ]
    gaps = np.diff(starts)
    return len(gaps) >= 2 and bool(np.abs(gaps - np.median(gaps)).max() < _REGULAR * np.median(gaps))
