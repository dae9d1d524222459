"""Types of the facts found in a recording, and their output as JSON values, text and image."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from apps.video2web.pixels import RgbImage
from visual_tools.box import Box
from visual_tools.ocr import TextLine
from visual_tools.video.types import format_time

# Layout and limits of the storyboard that a model is shown: they bound its tokens.
_TILE_PX = 300
_GAP_PX = 10
_MAX_ROWS = 40
_MAX_LINES, _MAX_CHARS = 120, 160
ReadPage = Callable[[RgbImage], Sequence[TextLine]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageState:
    """Appearance of the page between two transitions that are not reverted.

    Attributes:
        index: Number of the state, from 0.
        image: The viewport, (H, W, 3) uint8 RGB.
        full_page: The viewport and everything that scrolling showed, (H, W, 3) uint8 RGB.
        top_px: Row of `full_page` at which `image` begins.
        first_s: Time of its first appearance.
        last_s: Time of its last appearance.
        fixed: Sides (`top`, `bottom`, `left`, `right`) with a fixed part while the page scrolls, and its depth.
    """

    index: int
    image: RgbImage = field(repr=False)
    full_page: RgbImage = field(repr=False)
    top_px: int
    first_s: float
    last_s: float
    fixed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Visible change.

    Attributes:
        kind: One of `KINDS`; `change` if none of the others fits.
        trigger: One of `TRIGGERS`.
        box_px: Box that changes, in the viewport.
        start_s: Start, in seconds of the video.
        duration_s: Duration; 0 if no frame lies between before and after.
        easing: The CSS curve that fits best; "" if there are too few frames.
        before: Number of the state before.
        after: Number of the state after; the same if the change is reverted (hover, tooltip, toast).
        pointer_px: Position of the pointer; None without one.
        confidence: 0 to 1.
        undone_s: Time when it starts to be reverted; None if it is not.
        before_image: The box before, (h, w, 3) uint8 RGB; None for all but the first scrolls.
        after_image: The box after.
    """

    kind: str
    trigger: str
    box_px: Box
    start_s: float
    duration_s: float
    easing: str
    before: int
    after: int
    pointer_px: tuple[int, int] | None
    confidence: float
    undone_s: float | None = None
    before_image: RgbImage | None = field(default=None, repr=False)
    after_image: RgbImage | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storyboard:
    """Facts found in a recording.

    Attributes:
        path: Path of the video.
        states: States in order of first appearance.
        transitions: Transitions in order of time.
        size_px: Width and height of the viewport, in pixels of the images.
        scale: Pixels of the images per pixel of the video.
        crop_px: Box of the page, in pixels of the video, without letterbox and browser.
        duration_s: Duration of the video.
        warnings: Problems found in the recording.
    """

    path: Path
    states: tuple[PageState, ...]
    transitions: tuple[Transition, ...]
    size_px: tuple[int, int]
    scale: float
    crop_px: Box
    duration_s: float
    warnings: tuple[str, ...] = ()


def to_json(board: Storyboard, read: ReadPage | None = None) -> dict[str, Any]:
    """Return the facts for a model as plain values; of images only the sizes.

    Args:
        board: Facts found in a recording.
        read: Function that reads the text of a page; without it no text is included.
    """
    return {
        "video": board.path.name,
        "duration_s": round(board.duration_s, 2),
        "viewport_px": list(board.size_px),
        "states": [_state_to_json(state, read) for state in board.states],
        "transitions": [_transition_to_json(transition) for transition in board.transitions],
        "warnings": list(board.warnings),
    }


def _state_to_json(state: PageState, read: ReadPage | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "index": state.index,
        "first_s": round(state.first_s, 2),
        "last_s": round(state.last_s, 2),
        "full_page_px": [state.full_page.shape[1], state.full_page.shape[0]],
        "fixed_px": state.fixed,
    }
    if read is not None:
        facts["text"] = [
            {"text": line.text[:_MAX_CHARS], "box_px": _edges(line.box_px)}
            for line in read(state.full_page)[:_MAX_LINES]
        ]
    return facts


def _edges(box: Box) -> list[int]:
    return [box.left, box.top, box.right, box.bottom]


def tell_facts(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the facts as text: one line per state, per new text of a state, and per transition."""
    known: set[str] = set()
    for state in facts["states"]:
        width, height = state["full_page_px"]
        stays = ", ".join(f"{side} {depth} px" for side, depth in state["fixed_px"].items())
        yield f"state {state['index']}: {width}x{height} px" + (f"; stays while scrolling: {stays}" if stays else "")
        for line in state.get("text", ()):
            if line["text"] not in known:
                known.add(line["text"])
                yield f"  {json.dumps(line['text'], ensure_ascii=False)} at {line['box_px']}"
    for change in facts["transitions"]:
        takes = f", {change['duration_s']:g} s {change['easing']}".rstrip() if change["duration_s"] else ", at once"
        leads = f", state {change['before']} to {change['after']}" if change["before"] != change["after"] else ""
        yield f"{change['start_s']:g} s: {change['kind']} by {change['trigger']} at {change['box_px']}{takes}{leads}"


def _transition_to_json(transition: Transition) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "kind": transition.kind,
        "trigger": transition.trigger,
        "box_px": _edges(transition.box_px),
        "start_s": round(transition.start_s, 2),
        "duration_s": round(transition.duration_s, 2),
        "easing": transition.easing,
        "before": transition.before,
        "after": transition.after,
        "pointer_px": list(transition.pointer_px) if transition.pointer_px else None,
        "confidence": transition.confidence,
    }
    if transition.undone_s is not None:
        facts["undone_s"] = round(transition.undone_s, 2)
    return facts


def storyboard_image(board: Storyboard) -> RgbImage:
    """Draw all states and transitions on one sheet; each row states kind, time and trigger.

    Args:
        board: Facts found in a recording.
    """
    font, small = ImageFont.load_default(15), ImageFont.load_default(12)
    rows: list[tuple[str, str, list[RgbImage]]] = []
    for state in board.states:
        caption = f"{format_time(state.first_s)[3:]} to {format_time(state.last_s)[3:]}"
        size = f"page of {state.full_page.shape[1]}x{state.full_page.shape[0]} px"
        rows.append((f"State {state.index}", f"{caption}, {size}", [state.image, state.full_page]))
    for transition in board.transitions:
        if transition.before_image is None or transition.after_image is None:
            continue
        caption = f"{format_time(transition.start_s)[3:]}, {transition.duration_s:.2f} s {transition.easing}".rstrip()
        if transition.undone_s is not None:
            caption += f", undone {format_time(transition.undone_s)[3:]}"
        rows.append(
            (f"{transition.kind} by {transition.trigger}", caption, [transition.before_image, transition.after_image])
        )
    rows = rows[:_MAX_ROWS]
    tiles = [[_make_tile(image) for image in images] for _, _, images in rows]
    heights = [44 + max(tile.height for tile in line) + _GAP_PX for line in tiles]
    sheet = Image.new("RGB", (2 * _TILE_PX + 3 * _GAP_PX, max(sum(heights) + _GAP_PX, 60)), (32, 32, 32))
    draw, top = ImageDraw.Draw(sheet), _GAP_PX
    for (title, caption, _), line, height in zip(rows, tiles, heights, strict=True):
        draw.text((_GAP_PX, top), title, (255, 255, 255), font)
        draw.text((_GAP_PX, top + 20), caption, (190, 190, 190), small)
        for column, tile in enumerate(line):
            sheet.paste(tile, (_GAP_PX + column * (_TILE_PX + _GAP_PX), top + 40))
        top += height
    return np.asarray(sheet)


def _make_tile(image: RgbImage) -> Image.Image:
    tile = Image.fromarray(image)
    tile.thumbnail((_TILE_PX, round(1.4 * _TILE_PX)), Image.Resampling.LANCZOS)
    return tile
