"""Storyboard of a recording: states with their full pages, transitions, colours, path of the pointer."""

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from apps.video2web.pixels import RgbImage
from apps.video2web.recording.changes import RecordingScan, scan_frames
from apps.video2web.recording.frames import CheckStop, FramePlan, plan_frames
from apps.video2web.recording.join_changes import drop_crumbs, join_late, join_parts, join_typing, join_wide
from apps.video2web.recording.kinds import ChangeKind, find_kind
from apps.video2web.recording.states import find_states
from apps.video2web.recording.transitions import (
    MeasuredChange,
    fill_joined,
    link_reverted,
    measure_changes,
    narrow_to_pointer,
)
from apps.video2web.recording.types import Storyboard, Transition
from visual_tools.box import Box
from visual_tools.video.types import Progress

# Heuristics without another source; measured together in benchmarks/video2web.md, "Recordings".
_HOVER_S = 0.5
_SHORT = ("hover", "tooltip", "toast")  # kinds that are always reverted
_UNSURE, _SURE = ("change", "menu"), 0.8
_SAME_BOX, _TURNED_SHARE, _ROW_PX = 0.6, 0.4, 28
_MIN_LOOKS, _OTHER_LOOK = 3, 3.0
_CLICK_S = 1.6
_LEAVE_S = 0.2
_MIN_REVEAL_S, _MIN_REVEAL_PX = 0.2, 20
_MORE_DETAIL = 1.5
_POINTER_REACH_PX = 60
_REGULAR = 0.3
_REST_PX = 4
_REST_S = 0.1
_ARRIVES_S = 0.4
_SAME_PLACE = 0.45
_MIN_SCROLL_PX = 8
_MAX_SHOWN_SCROLLS = 8
_SCROLL_PAUSE_S, _LONGEST_FRAME_S = 0.25, 0.07


def find_kinds(changes: Sequence[MeasuredChange], scan: RecordingScan, plan: FramePlan) -> dict[int, ChangeKind]:
    """Return the kind of each change; a change that reverts a menu, modal, accordion or toast has its kind."""
    kinds: dict[int, ChangeKind] = {}
    for change in changes:
        plan.check_stop()
        reverted = kinds.get(id(change.undo_of))
        if reverted is not None and reverted.name in ("menu", "modal", "accordion", "toast"):
            kind = reverted
        else:
            kind = find_kind(change, plan.size_px, pointer_of(change, scan))
        if kind.name == "change" and change.trigger == "time" and _is_turning(change, changes, kinds):
            kind = ChangeKind(name="carousel", box=kind.box, confidence=0.6)
        kinds[id(change)] = kind
    for change in changes:
        if _is_unsure(kinds[id(change)]) and change.trigger == "click":
            name = _find_series(change, changes, kinds, scan)
            if name:
                kinds[id(change)] = replace(kinds[id(change)], name=name)
    return kinds


def _find_series(
    change: MeasuredChange, changes: Sequence[MeasuredChange], kinds: dict[int, ChangeKind], scan: RecordingScan
) -> str:
    """Return the kind of repeated changes in one place: carousel (turned by a button) or tabs; else ""."""
    alike = [
        other
        for other in changes
        if other is not change
        and other.trigger == "click"
        and (_is_unsure(kinds[id(other)]) or kinds[id(other)].name in ("carousel", "tabs"))
        and other.page_box.intersection(change.page_box) > _SAME_BOX * max(other.page_box.area, change.page_box.area)
    ]
    if not alike or _count_looks([change, *alike]) < _MIN_LOOKS:
        return ""  # nothing else happens there, or it opens and closes
    known = {kinds[id(other)].name for other in alike if not _is_unsure(kinds[id(other)])}
    if known:
        return known.pop()
    here = scan.moments[change.start].pointer_px
    places = [place for other in alike if (place := scan.moments[other.start].pointer_px) is not None]
    if here is None or not places:
        return "carousel" if change.mask.mean() > _TURNED_SHARE else ""
    is_row = all(abs(place[1] - here[1]) <= _ROW_PX and abs(place[0] - here[0]) >= _ROW_PX for place in places)
    is_above = here[1] < change.box.top + _ROW_PX
    if is_row and is_above:
        return "tabs"
    return "carousel" if change.mask.mean() > _TURNED_SHARE else ""


def pointer_of(change: MeasuredChange, scan: RecordingScan) -> tuple[int, int] | None:
    """Return the pointer position that triggers a change; for a hover, where it comes to rest."""
    if change.trigger != "hover":
        return scan.moments[change.start].pointer_px
    return scan.resting_position(change.start, _HOVER_S)


def _is_unsure(kind: ChangeKind) -> bool:
    """Return whether other changes in the same place may give a better kind."""
    return kind.name in _UNSURE or (kind.name == "navigation" and kind.confidence < _SURE)


def _count_looks(changes: Sequence[MeasuredChange]) -> int:
    """Return the number of distinct appearances of a place, before and after all of its changes."""
    looks: list[NDArray[np.float64]] = []
    for crop in (image for change in changes for image in (change.before, change.after)):
        look = _reduced(crop)
        if all(np.abs(look - other).mean() > _OTHER_LOOK for other in looks):
            looks.append(look)
    return len(looks)


def _reduced(image: RgbImage) -> NDArray[np.float64]:
    """Reduce an image to 24 x 16 colours."""
    shown = Image.fromarray(image).resize((24, 16), Image.Resampling.BOX)
    return np.asarray(shown, np.float64)


def _is_turning(change: MeasuredChange, changes: Sequence[MeasuredChange], kinds: dict[int, ChangeKind]) -> bool:
    """Return whether another change of the same place is a carousel that moves by itself."""
    return any(
        id(other) in kinds
        and kinds[id(other)].name == "carousel"
        and other.trigger == "time"
        and other.page_box.intersection(change.page_box) > 0.7 * max(other.page_box.area, change.page_box.area)
        for other in changes
    )


def find_triggers(changes: list[MeasuredChange], scan: RecordingScan) -> None:
    """Set the trigger of each change: typing, scrolling, the pointer arriving or leaving, a click, or time alone."""
    for change in changes:
        if not change.trigger:
            is_scroll = change.is_scrolling or _has_scrolled(change, scan)
            change.trigger = "scroll" if is_scroll and not _is_entered(change, scan) else _find_trigger(change, scan)
    for change in changes:
        if change.trigger == "click" and _is_regular(change, changes, scan):
            change.trigger = "time"


def drop_scroll_noise(changes: list[MeasuredChange]) -> list[MeasuredChange]:
    """Drop changes during scrolling, except gradual ones that show more than before."""
    return [change for change in changes if change.trigger != "scroll" or _is_revealed(change)]


def _is_revealed(change: MeasuredChange) -> bool:
    if min(change.box.width, change.box.height) < _MIN_REVEAL_PX:
        return False  # a scroll bar
    is_gradual = change.fit.duration_s >= _MIN_REVEAL_S and len(change.middle) >= 2
    detail = [float(np.abs(np.diff(image.astype(np.int16), axis=1)).mean()) for image in (change.before, change.after)]
    return is_gradual and detail[1] > _MORE_DETAIL * detail[0]


def _has_scrolled(change: MeasuredChange, scan: RecordingScan) -> bool:
    """Return whether the page scrolls during a change."""
    return any(moment.shift_px for moment in scan.moments[change.start : change.end + 2])


def _is_entered(change: MeasuredChange, scan: RecordingScan) -> bool:
    """Return whether the pointer has just moved into the changed region."""
    index = scan.index_at(change.seen_s[0])
    pointer = scan.moments[index].pointer_px
    return pointer is not None and scan.rest_s(index) < _REST_S and change.box.padded(_REST_PX).has_point(*pointer)


def _find_trigger(change: MeasuredChange, scan: RecordingScan) -> str:
    index = scan.index_at(change.seen_s[0])
    rest_s = scan.rest_s(index)
    pointer = scan.moments[min(change.start + 1, len(scan.moments) - 1)].pointer_px
    if pointer is None:
        return "time" if scan.has_pointer else "click"
    if rest_s < _REST_S:  # still moving: the position where it comes to rest counts
        pointer = scan.resting_position(min(change.start + 1, len(scan.moments) - 1), _ARRIVES_S) or pointer
    is_left = change.undone_by is not None and scan.moved_before(scan.index_at(change.undone_by.seen_s[0]), _LEAVE_S)
    reach = change.box.padded(_POINTER_REACH_PX)
    if reach.has_point(*pointer) and (is_left or rest_s < _REST_S):
        return "hover"
    if change.undo_of is not None and change.undo_of.trigger == "hover":
        return "hover"
    if _REST_S <= rest_s < _CLICK_S or reach.has_point(*pointer):
        return "click"
    return "time"


def _is_regular(change: MeasuredChange, changes: list[MeasuredChange], scan: RecordingScan) -> bool:
    """Return whether changes of the same place occur at equal intervals with no pointer near, and none on its arrival.

    Who presses a button again leaves the pointer where it was; the first of the changes then follows its arrival.
    """
    pointer = scan.moments[change.start].pointer_px
    if pointer is not None and change.box.padded(_POINTER_REACH_PX // 2).has_point(*pointer):
        return False
    alike = [
        other
        for other in changes
        if other.page_box.intersection(change.page_box) > _SAME_PLACE * max(other.page_box.area, change.page_box.area)
    ]
    if pointer is not None and any(scan.rest_s(other.start) < _CLICK_S for other in alike):
        return False
    starts = [other.fit.start_s for other in alike]
    gaps = np.diff(starts)
    fewest, most_off = (2, _REGULAR) if scan.has_pointer else (3, _REGULAR / 3)  # clicks of scripts are regular, too
    return len(gaps) >= fewest and bool(np.abs(gaps - np.median(gaps)).max() < most_off * np.median(gaps))


def read_recording(
    path: str | os.PathLike[str], *, on_progress: Progress | None = None, check_stop: CheckStop | None = None
) -> Storyboard:
    """Analyse a screen recording of a website.

    Args:
        path: Path of the video.
        on_progress: Callback with the number of frames seen so far and in total.
        check_stop: Function called many times a second; what it raises ends the reading.

    Raises:
        RecordingError: If it is not a video, holds no frames, or shows no website.

    Example:
        >>> board = read_recording("demo.webm")
        >>> [(one.kind, one.trigger, one.start_s) for one in board.transitions]
    """
    plan = plan_frames(path) if check_stop is None else plan_frames(path, check_stop)
    scan = scan_frames(plan, on_progress)
    changes = drop_crumbs(join_typing(measure_changes(plan, scan)), scan)
    changes = join_late(join_wide(join_parts(changes, scan), scan, plan.size_px), scan)
    changes = fill_joined(changes, plan, scan)
    changes = narrow_to_pointer(changes, scan)
    link_reverted(changes)
    find_triggers(changes, scan)
    changes = drop_scroll_noise(changes)
    kinds = find_kinds(changes, scan, plan)
    lasting = [
        change for change in changes if kinds[id(change)].name not in _SHORT and change.trigger in ("click", "typing")
    ]
    states, spans = find_states(plan, scan, lasting)
    transitions = []
    for change in changes:
        reverted = kinds.get(id(change.undo_of))
        is_hover = change.trigger == "hover" or (reverted is not None and reverted.name in _SHORT)
        if change.undo_of is None or not is_hover:  # else it is reported with the change that it reverts
            transitions.append(_make_transition(change, kinds[id(change)], scan, spans))
    transitions += _find_scrolls(scan, plan, spans)
    return Storyboard(
        path=plan.path,
        states=states,
        transitions=tuple(sorted(transitions, key=lambda change: change.start_s)),
        size_px=plan.size_px,
        scale=plan.scale,
        crop_px=_scaled(plan.crop_px, 1 / plan.scale),
        duration_s=plan.info.duration_s,
        warnings=(*plan.warnings, *scan.warnings, *_warn_of_clicks(scan, transitions)),
    )


def _warn_of_clicks(scan: RecordingScan, transitions: Sequence[Transition]) -> list[str]:
    """Return a warning if clicks were made without a visible pointer."""
    count = sum(each.trigger == "click" for each in transitions)
    if scan.has_pointer or not count:
        return []
    return [
        f"no pointer is seen in the recording: the places of {count} clicks are guessed; record it with the pointer"
    ]


def _make_transition(
    change: MeasuredChange, kind: ChangeKind, scan: RecordingScan, spans: list[tuple[int, int]]
) -> Transition:
    is_closed = change.undone_by is not None and kind.name in (*_SHORT, "menu")
    return Transition(
        kind=kind.name,
        trigger=change.trigger,
        box_px=kind.box,
        start_s=round(max(change.fit.start_s, 0.0), 3),
        duration_s=round(change.fit.duration_s, 3),
        easing=change.fit.easing,
        before=_state_at(spans, max(change.start - 1, 0)),
        after=_state_at(spans, min(change.end + 1, len(scan.moments) - 1)),
        pointer_px=pointer_of(change, scan),
        confidence=round(kind.confidence * (1 - min(change.fit.error, 0.5)), 2),
        undone_s=round(change.undone_by.fit.start_s, 3) if is_closed and change.undone_by is not None else None,
        before_image=change.before,
        after_image=change.after,
    )


def _state_at(spans: list[tuple[int, int]], index: int) -> int:
    """Return the state that a frame shows."""
    return next((state for first, state in reversed(spans) if index >= first), 0)


def _find_scrolls(scan: RecordingScan, plan: FramePlan, spans: list[tuple[int, int]]) -> list[Transition]:
    """Return the runs of frames in which the page scrolls."""
    runs: list[list[int]] = []
    for number, moment in enumerate(scan.moments):
        if not moment.shift_px:
            continue
        is_near = runs and moment.time_s - scan.moments[runs[-1][-1]].time_s <= _SCROLL_PAUSE_S
        if is_near:
            runs[-1].append(number)
        else:
            runs.append([number])
    scrolls = []
    width, height = plan.size_px
    edges = {index for run in runs[:_MAX_SHOWN_SCROLLS] for index in (max(run[0] - 1, 0), run[-1])}
    shown = {
        scan.index_at(frame.timestamp_s): frame.image
        for frame in plan.frames_at(sorted(scan.moments[index].time_s for index in edges))
    }
    for run in runs:
        first, last = scan.moments[max(run[0] - 1, 0)], scan.moments[run[-1]]
        start_s = max(first.time_s, scan.moments[run[0]].time_s - _LONGEST_FRAME_S)  # a frame is shown until the next
        rows = last.scroll_px - first.scroll_px
        if abs(rows) < _MIN_SCROLL_PX:
            continue
        scrolls.append(
            Transition(
                kind="scroll",
                trigger="scroll",
                box_px=Box(0, 0, width, height),
                start_s=round(start_s, 3),
                duration_s=round(last.time_s - start_s, 3),
                easing="",
                before=_state_at(spans, run[0]),
                after=_state_at(spans, run[-1]),
                pointer_px=first.pointer_px,
                confidence=0.9,
                before_image=shown.get(max(run[0] - 1, 0)),
                after_image=shown.get(run[-1]),
            )
        )
    return scrolls


def _scaled(box: Box, factor: float) -> Box:
    return Box(*(round(value * factor) for value in (box.left, box.top, box.right, box.bottom)))
