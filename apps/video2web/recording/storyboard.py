"""Storyboard of a recording: states with their full pages, transitions, colours, path of the pointer."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from apps.video2web.recording.changes import Moment, Scan, scan_frames
from apps.video2web.recording.frames import FramePlan, plan_frames
from apps.video2web.recording.joining import drop_crumbs, join_parts, join_typing, join_wide
from apps.video2web.recording.kinds import Kind, find_kind
from apps.video2web.recording.states import find_states
from apps.video2web.recording.transitions import (
    Measured,
    fill_joined,
    find_undone,
    measure_changes,
    narrow_to_pointer,
)
from apps.video2web.recording.types import PointerPlace, Storyboard, Transition
from visual_tools.box import Box
from visual_tools.video.types import Progress

_HOVER_S = 0.5
_UNSURE, _SURE = ("change", "menu"), 0.8
_SAME_BOX, _TURNED_SHARE, _ROW_PX = 0.6, 0.4, 28
_MIN_LOOKS, _OTHER_LOOK = 3, 3.0
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
_MIN_SCROLL_PX = 8
_MAX_SHOWN_SCROLLS = 8
_SCROLL_PAUSE_S, _LONGEST_FRAME_S = 0.25, 0.07
_PALETTE = 8


def find_kinds(found: Sequence[Measured], scan: Scan, plan: FramePlan) -> dict[int, Kind]:
    """Return the kind of each change; a change that reverts a menu, modal, accordion or toast has its kind."""
    kinds: dict[int, Kind] = {}
    for one in found:
        earlier = one.undo_of
        kind = find_kind(one, plan.size_px, pointer_of(one, scan))
        if (
            earlier is not None
            and id(earlier) in kinds
            and kinds[id(earlier)].name in ("menu", "modal", "accordion", "toast")
        ):
            first = kinds[id(earlier)]
            kind = Kind(name=first.name, box=first.box, confidence=first.confidence, shift_px=kind.shift_px)
        if kind.name == "change" and one.trigger == "time" and _is_turning(one, found, kinds):
            kind = Kind(name="carousel", box=kind.box, confidence=0.6)
        kinds[id(one)] = kind
    for one in found:
        if _is_unsure(kinds[id(one)]) and one.trigger == "click":
            name = _find_series(one, found, kinds, scan)
            if name:
                kinds[id(one)] = replace(kinds[id(one)], name=name)
    return kinds


def _find_series(one: Measured, found: Sequence[Measured], kinds: dict[int, Kind], scan: Scan) -> str:
    """Return the kind of repeated changes in one place: carousel (turned by a button) or tabs; else ""."""
    alike = [
        other
        for other in found
        if other is not one
        and other.trigger == "click"
        and (_is_unsure(kinds[id(other)]) or kinds[id(other)].name in ("carousel", "tabs"))
        and other.page_box.intersection(one.page_box) > _SAME_BOX * max(other.page_box.area, one.page_box.area)
    ]
    if not alike or _count_looks([one, *alike]) < _MIN_LOOKS:
        return ""  # nothing else happens there, or it opens and closes
    known = {kinds[id(other)].name for other in alike if not _is_unsure(kinds[id(other)])}
    if known:
        return known.pop()
    here = scan.moments[one.start].pointer_px
    places = [place for other in alike if (place := scan.moments[other.start].pointer_px) is not None]
    if here is None or not places:
        return "carousel" if one.mask.mean() > _TURNED_SHARE else ""
    is_row = all(abs(place[1] - here[1]) <= _ROW_PX and abs(place[0] - here[0]) >= _ROW_PX for place in places)
    is_above = here[1] < one.box.top + _ROW_PX
    if is_row and is_above:
        return "tabs"
    return "carousel" if one.mask.mean() > _TURNED_SHARE else ""


def pointer_of(one: Measured, scan: Scan) -> tuple[int, int] | None:
    """Return the pointer position that triggers a change; for a hover, where it comes to rest."""
    if one.trigger != "hover":
        return scan.moments[one.start].pointer_px
    return scan.resting_place(one.start, _HOVER_S)


def _is_unsure(kind: Kind) -> bool:
    """Return whether other changes in the same place may give a better kind."""
    return kind.name in _UNSURE or (kind.name == "navigation" and kind.confidence < _SURE)


def _count_looks(changes: Sequence[Measured]) -> int:
    """Return the number of distinct appearances of a place, before and after all of its changes."""
    looks: list[NDArray[np.float64]] = []
    for crop in (image for one in changes for image in (one.before, one.after)):
        look = _reduced(crop)
        if all(np.abs(look - other).mean() > _OTHER_LOOK for other in looks):
            looks.append(look)
    return len(looks)


def _reduced(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Reduce an image to 24 x 16 colours."""
    shown = Image.fromarray(image).resize((24, 16), Image.Resampling.BOX)
    return np.asarray(shown, np.float64)


def _is_turning(one: Measured, found: Sequence[Measured], kinds: dict[int, Kind]) -> bool:
    """Return whether another change of the same place is a carousel that moves by itself."""
    return any(
        id(other) in kinds
        and kinds[id(other)].name == "carousel"
        and other.trigger == "time"
        and other.page_box.intersection(one.page_box) > 0.7 * max(other.page_box.area, one.page_box.area)
        for other in found
    )


def find_triggers(found: list[Measured], scan: Scan) -> None:
    """Set the trigger of each change: typing, scrolling, the pointer arriving or leaving, a click, or time alone."""
    for one in found:
        if not one.trigger:
            is_scroll = one.is_scrolling or _has_scrolled(one, scan)
            one.trigger = "scroll" if is_scroll and not _is_entered(one, scan) else _find_trigger(one, scan)
    for one in found:
        if one.trigger == "click" and _is_regular(one, found, scan):
            one.trigger = "time"


def drop_scroll_noise(found: list[Measured]) -> list[Measured]:
    """Drop changes during scrolling, except gradual ones that show more than before."""
    return [one for one in found if one.trigger != "scroll" or _is_revealed(one)]


def _is_revealed(one: Measured) -> bool:
    is_gradual = one.fit.duration_s >= _MIN_REVEAL_S and len(one.middle) >= 2
    detail = [float(np.abs(np.diff(image.astype(np.int16), axis=1)).mean()) for image in (one.before, one.after)]
    return is_gradual and detail[1] > _MORE_DETAIL * detail[0]


def _has_scrolled(one: Measured, scan: Scan) -> bool:
    """Return whether the page scrolls during a change."""
    return any(moment.shift_px for moment in scan.moments[one.start : one.end + 2])


def _is_entered(one: Measured, scan: Scan) -> bool:
    """Return whether the pointer has just moved into the changed region."""
    index = scan.index_at(one.seen_s[0])
    pointer = scan.moments[index].pointer_px
    return pointer is not None and scan.rest_s(index) < _REST_S and one.box.padded(_REST_PX).has_point(*pointer)


def _find_trigger(one: Measured, scan: Scan) -> str:
    index = scan.index_at(one.seen_s[0])
    rest_s = scan.rest_s(index)
    pointer = scan.moments[min(one.start + 1, len(scan.moments) - 1)].pointer_px
    if pointer is None:
        return "time" if scan.has_pointer else "click"
    if rest_s < _REST_S:  # still moving: the position where it comes to rest counts
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
    """Return whether changes of the same place occur at equal intervals with no pointer near."""
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


def read_recording(path: str | os.PathLike[str], *, on_progress: Progress | None = None) -> Storyboard:
    """Analyse a screen recording of a website.

    Args:
        path: Path of the video.
        on_progress: Callback with the number of frames seen so far and in total.

    Raises:
        RecordingError: If it is not a video, holds no frames, or shows no website.

    Example:
        >>> board = read_recording("demo.webm")
        >>> [(one.kind, one.trigger, one.start_s) for one in board.transitions]
    """
    plan = plan_frames(path)
    scan = scan_frames(plan, on_progress)
    found = drop_crumbs(join_typing(measure_changes(plan, scan)), scan)
    found = fill_joined(join_wide(join_parts(found, scan), scan, plan.size_px), plan, scan)
    found = narrow_to_pointer(found, scan)
    find_undone(found)
    find_triggers(found, scan)
    found = drop_scroll_noise(found)
    kinds = find_kinds(found, scan, plan)
    lasting = [one for one in found if kinds[id(one)].name not in ("hover", "tooltip", "toast")]
    lasting = [one for one in lasting if one.trigger in ("click", "typing")]
    states, spans = find_states(plan, scan, lasting)
    transitions = [
        _make_transition(one, kinds[id(one)], scan, spans) for one in found if not _is_taken_back(one, kinds)
    ]
    transitions += _find_scrolls(scan, plan, spans)
    return Storyboard(
        path=plan.path,
        states=states,
        transitions=tuple(sorted(transitions, key=lambda one: one.start_s)),
        size_px=plan.size_px,
        scale=plan.scale,
        crop_px=_scaled(plan.crop_px, 1 / plan.scale),
        duration_s=plan.info.duration_s,
        palette=_find_palette([state.image for state in states]),
        pointer=tuple(_find_rests(scan.moments)),
        warnings=plan.warnings,
    )


def _is_taken_back(one: Measured, kinds: dict[int, Kind]) -> bool:
    """Return whether a change is reported with the change that it reverts instead of separately."""
    return one.undo_of is not None and (
        one.trigger == "hover"
        or (id(one.undo_of) in kinds and kinds[id(one.undo_of)].name in ("hover", "tooltip", "toast"))
    )


def _make_transition(one: Measured, kind: Kind, scan: Scan, spans: list[tuple[float, int]]) -> Transition:
    is_closed = one.undone_by is not None and kind.name in ("hover", "tooltip", "toast", "menu")
    return Transition(
        kind=kind.name,
        trigger=one.trigger,
        box_px=kind.box,
        start_s=round(max(one.fit.start_s, 0.0), 3),
        duration_s=round(one.fit.duration_s, 3),
        easing=one.fit.easing,
        before=_state_at(spans, one.fit.start_s - 0.01),
        after=_state_at(spans, one.fit.start_s + one.fit.duration_s + 0.05),
        pointer_px=pointer_of(one, scan),
        confidence=round(kind.confidence * (1 - min(one.fit.error, 0.5)), 2),
        undone_s=round(one.undone_by.fit.start_s, 3) if is_closed and one.undone_by is not None else None,
        shift_px=kind.shift_px,
        before_image=one.before,
        after_image=one.after,
    )


def _state_at(spans: list[tuple[float, int]], time_s: float) -> int:
    """Return the state shown at a time."""
    return next((state for first_s, state in reversed(spans) if time_s >= first_s), 0)


def _find_scrolls(scan: Scan, plan: FramePlan, spans: list[tuple[float, int]]) -> list[Transition]:
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
    found = []
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
        found.append(
            Transition(
                kind="scroll",
                trigger="scroll",
                box_px=Box(0, 0, width, height),
                start_s=round(start_s, 3),
                duration_s=round(last.time_s - start_s, 3),
                easing="",
                before=_state_at(spans, start_s),
                after=_state_at(spans, last.time_s),
                pointer_px=first.pointer_px,
                confidence=0.9,
                shift_px=(0, rows),
                before_image=shown.get(max(run[0] - 1, 0)),
                after_image=shown.get(run[-1]),
            )
        )
    return found


def _find_rests(moments: Sequence[Moment]) -> list[PointerPlace]:
    """Return the places where the pointer rests."""
    places: list[PointerPlace] = []
    last: tuple[int, int] | None = None
    for before, now in itertools.pairwise(moments):
        is_still = now.pointer_px is not None and now.pointer_px == before.pointer_px
        if is_still and now.pointer_px != last and now.pointer_px is not None:
            last = now.pointer_px
            places.append(PointerPlace(time_s=round(before.time_s, 3), x_px=last[0], y_px=last[1]))
    return places


def _find_palette(images: Sequence[NDArray[np.uint8]]) -> tuple[str, ...]:
    """Return the colours that cover the largest area, similar ones merged."""
    if not images:
        return ()
    pixels = np.concatenate([image[::3, ::3].reshape(-1, 3) for image in images])
    codes = (pixels.astype(np.int32) >> 3) @ np.array([1024, 32, 1])
    names, counts = np.unique(codes, return_counts=True)
    found: list[NDArray[np.float64]] = []
    for name in names[np.argsort(-counts)][:200].tolist():
        color = pixels[codes == name].mean(axis=0)
        if all(np.abs(color - other).max() > 20 for other in found):
            found.append(color)
        if len(found) == _PALETTE:
            break
    return tuple("#" + "".join(f"{round(level):02x}" for level in color) for color in found)


def _scaled(box: Box, factor: float) -> Box:
    return Box(*(round(value * factor) for value in (box.left, box.top, box.right, box.bottom)))
