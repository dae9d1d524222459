"""A recording as facts: states with their full pages, transitions, colours; as an image and as JSON."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from apps.video2web.recording.changes import Moment, Scan, scan_frames
from apps.video2web.recording.cleaning import clean_frame
from apps.video2web.recording.frames import FramePlan, plan_frames
from apps.video2web.recording.joining import drop_crumbs, join_parts, join_typing, join_wide
from apps.video2web.recording.kinds import Kind, find_kind
from apps.video2web.recording.scrolling import PageCanvas, max_difference
from apps.video2web.recording.transitions import (
    Measured,
    fill_joined,
    find_undone,
    measure_changes,
    narrow_to_pointer,
)
from apps.video2web.recording.triggers import drop_scroll_noise, find_triggers
from apps.video2web.recording.types import PointerPlace, State, Storyboard, Transition
from visual_tools.box import Box
from visual_tools.video.types import Progress, format_time

_MIN_SCROLL_PX = 8
_HOVER_S = 0.5
_CLEAR_PX, _CALM_S = 6, 1.0
_MAX_SHOWN_SCROLLS = 8
_SCROLL_PAUSE_S = 0.25
_UNSURE, _SURE = ("change", "menu"), 0.8
_SAME_PLACE, _TURNED_SHARE, _ROW_PX = 0.6, 0.4, 28
_MIN_LOOKS, _OTHER_LOOK = 3, 3.0
_SAME_STATE = 0.01
_SAME_LEVELS = 28
_MAX_STITCHED = 40
_STEP_SHARE = 0.4
_PALETTE = 8
_TILE_PX = 300
_GAP_PX = 10
_MAX_ROWS = 40


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
    kinds = _find_kinds(found, scan, plan)
    lasting = [one for one in found if kinds[id(one)].name not in ("hover", "tooltip", "toast")]
    lasting = [one for one in lasting if one.trigger in ("click", "typing")]
    states, spans = _find_states(plan, scan, lasting)
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


def _find_kinds(found: Sequence[Measured], scan: Scan, plan: FramePlan) -> dict[int, Kind]:
    """The kind of each change; what is taken back by a click is closed, and of the same kind."""
    kinds: dict[int, Kind] = {}
    for one in found:
        earlier = one.undo_of
        kind = find_kind(one, plan.size_px, _pointer_of(one, scan))
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
    """What the same place does again and again: a carousel turned by a button, tabs by their labels; else ""."""
    alike = [
        other
        for other in found
        if other is not one
        and other.trigger == "click"
        and (_is_unsure(kinds[id(other)]) or kinds[id(other)].name in ("carousel", "tabs"))
        and other.page_box.intersection(one.page_box) > _SAME_PLACE * max(other.page_box.area, one.page_box.area)
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


def _pointer_of(one: Measured, scan: Scan) -> tuple[int, int] | None:
    """Where the pointer is that sets a change off; of a hover, where it comes to rest."""
    if one.trigger != "hover":
        return scan.moments[one.start].pointer_px
    return scan.resting_place(one.start, _HOVER_S)


def _is_unsure(kind: Kind) -> bool:
    """Whether what else happens in the same place may tell better what it is."""
    return kind.name in _UNSURE or (kind.name == "navigation" and kind.confidence < _SURE)


def _count_looks(changes: Sequence[Measured]) -> int:
    """How many different looks a place has, before and after all of its changes."""
    looks: list[NDArray[np.float64]] = []
    for crop in (image for one in changes for image in (one.before, one.after)):
        look = _reduced(crop)
        if all(np.abs(look - other).mean() > _OTHER_LOOK for other in looks):
            looks.append(look)
    return len(looks)


def _reduced(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    """An image as 24 x 16 colours."""
    shown = Image.fromarray(image).resize((24, 16), Image.Resampling.BOX)
    return np.asarray(shown, np.float64)


def _is_turning(one: Measured, found: Sequence[Measured], kinds: dict[int, Kind]) -> bool:
    """Whether another change of the same place is a carousel that moves by itself."""
    return any(
        id(other) in kinds
        and kinds[id(other)].name == "carousel"
        and other.trigger == "time"
        and other.page_box.intersection(one.page_box) > 0.7 * max(other.page_box.area, one.page_box.area)
        for other in found
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
        pointer_px=_pointer_of(one, scan),
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
        rows = last.scroll_px - first.scroll_px
        if abs(rows) < _MIN_SCROLL_PX:
            continue
        found.append(
            Transition(
                kind="scroll",
                trigger="scroll",
                box_px=Box(0, 0, width, height),
                start_s=round(first.time_s, 3),
                duration_s=round(last.time_s - first.time_s, 3),
                easing="",
                before=_state_at(spans, first.time_s),
                after=_state_at(spans, last.time_s),
                pointer_px=first.pointer_px,
                confidence=0.9,
                shift_px=(0, rows),
                before_image=shown.get(max(run[0] - 1, 0)),
                after_image=shown.get(run[-1]),
            )
        )
    return found


def _find_states(
    plan: FramePlan, scan: Scan, lasting: Sequence[Measured]
) -> tuple[tuple[State, ...], list[tuple[float, int]]]:
    """Stretches between lasting changes, equal ones found again; and from when on which state is shown."""
    moments = scan.moments
    ends = sorted({min(one.end + 1, len(moments) - 1) for one in lasting})
    starts = sorted({max(one.start - 1, 0) for one in lasting})
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
    states: list[State] = []
    spans: list[tuple[float, int]] = []
    for (first, last), canvas in zip(stretches, canvases, strict=True):
        if canvas is None:
            continue
        full_page = clean_frame(canvas.image)
        image = full_page[-canvas.top : -canvas.top + height]
        known = next((state for state in states if _is_same(state.image, image)), None)
        spans.append((moments[first].time_s, len(states) if known is None else known.index))
        if known is None:
            states.append(
                State(
                    index=len(states),
                    image=image,
                    full_page=full_page,
                    top_px=-canvas.top,
                    first_s=moments[first].time_s,
                    last_s=moments[last].time_s,
                    fixed=scan.fixed if len(full_page) > len(image) else {},
                )
            )
    return tuple(states), spans


def _stitch(plan: FramePlan, scan: Scan, stretches: Sequence[tuple[int, int]]) -> list[PageCanvas | None]:
    """The whole page of each stretch; None where no frame of it could be read."""
    moments = scan.moments
    picks = [_pick_frames(scan, first, last) for first, last in stretches]
    canvases: list[PageCanvas | None] = [None] * len(stretches)
    origins = [moments[pasted[0]].scroll_px for pasted, _ in picks]
    early: list[list[tuple[NDArray[np.uint8], Moment]]] = [[] for _ in stretches]
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


def _pick_frames(scan: Scan, first: int, last: int) -> tuple[list[int], list[int]]:
    """Frames of a stretch to put its page together from: those that are laid on, and those that fill what they hide.

    Laid on are the first one, and one for each piece scrolled, at rest. The others show what was under the pointer.
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
    settled = [min(index + 3, last) for index in picked[1:] if moments[min(index + 3, last)].shift_px == 0]
    pasted = sorted({*picked, *settled})
    fills = {other for index in pasted if (other := _find_clear(scan, index, first, last)) is not None}
    return pasted, sorted((fills | {last}) - set(pasted))


def _find_calm(scan: Scan, first: int, last: int) -> int:
    """The last frame of a stretch before anything happens in it: an encoder shows it better than the first one."""
    starts = [change.start for change in scan.changes if first < change.start]
    moves = [index for index in range(first + 1, last + 1) if scan.moments[index].shift_px]
    until = min([*starts[:1], *moves[:1], last + 1])
    return max(min(until - 1, last, scan.index_at(scan.moments[first].time_s + _CALM_S)), first)


def _find_clear(scan: Scan, index: int, first: int, last: int) -> int | None:
    """A frame of a stretch that shows what the pointer hides in another one; None where there is none."""
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


def _is_same(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> bool:
    return bool((max_difference(first, second) > _SAME_LEVELS).mean() < _SAME_STATE)


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


def to_json(board: Storyboard) -> dict[str, Any]:
    """The facts for a model, as plain values; images are left out, but for their sizes."""
    return {
        "video": board.path.name,
        "duration_s": round(board.duration_s, 2),
        "viewport_px": list(board.size_px),
        "palette": list(board.palette),
        "states": [
            {
                "index": state.index,
                "first_s": round(state.first_s, 2),
                "last_s": round(state.last_s, 2),
                "full_page_px": [state.full_page.shape[1], state.full_page.shape[0]],
                "fixed_px": state.fixed,
            }
            for state in board.states
        ],
        "transitions": [_transition_to_json(one) for one in board.transitions],
        "warnings": list(board.warnings),
    }


def _transition_to_json(one: Transition) -> dict[str, Any]:
    told: dict[str, Any] = {
        "kind": one.kind,
        "trigger": one.trigger,
        "box_px": [one.box_px.left, one.box_px.top, one.box_px.right, one.box_px.bottom],
        "start_s": round(one.start_s, 2),
        "duration_s": round(one.duration_s, 2),
        "easing": one.easing,
        "before": one.before,
        "after": one.after,
        "pointer_px": list(one.pointer_px) if one.pointer_px else None,
        "confidence": one.confidence,
    }
    if one.undone_s is not None:
        told["undone_s"] = round(one.undone_s, 2)
    if any(one.shift_px):
        told["shift_px"] = list(one.shift_px)
    return told


def storyboard_image(board: Storyboard, *, tile_px: int = _TILE_PX) -> NDArray[np.uint8]:
    """All states and transitions on one sheet, for a person and for a model: each row says what, when and how.

    Args:
        board: What was found.
        tile_px: Width of a tile.

    Returns:
        (H, W, 3) uint8 RGB.
    """
    font, small = ImageFont.load_default(15), ImageFont.load_default(12)
    rows: list[tuple[str, str, list[NDArray[np.uint8]]]] = []
    for state in board.states:
        told = f"{format_time(state.first_s)[3:]} to {format_time(state.last_s)[3:]}"
        size = f"page of {state.full_page.shape[1]}x{state.full_page.shape[0]} px"
        rows.append((f"State {state.index}", f"{told}, {size}", [state.image, state.full_page]))
    for one in board.transitions:
        if one.before_image is None or one.after_image is None:
            continue
        told = f"{format_time(one.start_s)[3:]}, {one.duration_s:.2f} s {one.easing}".rstrip()
        if one.undone_s is not None:
            told += f", undone {format_time(one.undone_s)[3:]}"
        rows.append((f"{one.kind} by {one.trigger}", told, [one.before_image, one.after_image]))
    rows = rows[:_MAX_ROWS]
    tiles = [[_make_tile(image, tile_px) for image in images] for _, _, images in rows]
    heights = [44 + max(tile.height for tile in line) + _GAP_PX for line in tiles]
    sheet = Image.new("RGB", (2 * tile_px + 3 * _GAP_PX, max(sum(heights) + _GAP_PX, 60)), (32, 32, 32))
    draw, top = ImageDraw.Draw(sheet), _GAP_PX
    for (title, told, _), line, height in zip(rows, tiles, heights, strict=True):
        draw.text((_GAP_PX, top), title, (255, 255, 255), font)
        draw.text((_GAP_PX, top + 20), told, (190, 190, 190), small)
        for column, tile in enumerate(line):
            sheet.paste(tile, (_GAP_PX + column * (tile_px + _GAP_PX), top + 40))
        top += height
    return np.asarray(sheet)


def _make_tile(image: NDArray[np.uint8], tile_px: int) -> Image.Image:
    tile = Image.fromarray(image)
    tile.thumbnail((tile_px, round(1.4 * tile_px)), Image.Resampling.LANCZOS)
    return tile
