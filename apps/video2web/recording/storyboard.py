"""A recording as a storyboard: states with their full pages, transitions, colours, the way of the pointer."""

import itertools
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.video2web.recording.changes import Moment, Scan, scan_frames
from apps.video2web.recording.frames import FramePlan, plan_frames
from apps.video2web.recording.joining import drop_crumbs, join_parts, join_typing, join_wide
from apps.video2web.recording.kinds import Kind
from apps.video2web.recording.naming import find_kinds, pointer_of
from apps.video2web.recording.states import find_states
from apps.video2web.recording.transitions import (
    Measured,
    fill_joined,
    find_undone,
    measure_changes,
    narrow_to_pointer,
)
from apps.video2web.recording.triggers import drop_scroll_noise, find_triggers
from apps.video2web.recording.types import PointerPlace, Storyboard, Transition
from visual_tools.box import Box
from visual_tools.video.types import Progress

_MIN_SCROLL_PX = 8
_MAX_SHOWN_SCROLLS = 8
_SCROLL_PAUSE_S, _LONGEST_FRAME_S = 0.25, 0.07
_PALETTE = 8


def read_recording(path: str | os.PathLike[str], *, on_progress: Progress | None = None) -> Storyboard:
    """Find out what a screen recording of a website shows.

    Args:
        path: The video.
        on_progress: Called with the frames seen so far and the frames in all.

    Raises:
        RecordingError: It is no video, holds no frames, or shows no website; says what was found.

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
    """Whether a change is told with the one that it takes back, and not on its own."""
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
    """The state shown at a time."""
    return next((state for first_s, state in reversed(spans) if time_s >= first_s), 0)


def _find_scrolls(scan: Scan, plan: FramePlan, spans: list[tuple[float, int]]) -> list[Transition]:
    """Runs of frames in which the page moves."""
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
    """Where the pointer rests."""
    places: list[PointerPlace] = []
    last: tuple[int, int] | None = None
    for before, now in itertools.pairwise(moments):
        is_still = now.pointer_px is not None and now.pointer_px == before.pointer_px
        if is_still and now.pointer_px != last and now.pointer_px is not None:
            last = now.pointer_px
            places.append(PointerPlace(time_s=round(before.time_s, 3), x_px=last[0], y_px=last[1]))
    return places


def _find_palette(images: Sequence[NDArray[np.uint8]]) -> tuple[str, ...]:
    """The colours that cover most, near ones taken together."""
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
