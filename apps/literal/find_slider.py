"""Find sliders: long thin tracks with one handle on each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.literal.screen import Screen
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.ink import find_runs

_MIN_LENGTH_PX = 50
_MIN_RUN_PX = 21
_MAX_TRACK_PX = 14
_HANDLE_PX = (6, 44)
_BULGE_PX = 2
_RING_GAP_PX = 3
"""Between a handle and the ring around it when it has the focus."""

_INK_STEP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Slider:
    """A track with a handle on it."""

    box_px: Box
    handle: Box
    is_vertical: bool


def find_sliders(screen: Screen) -> list[Slider]:
    """Long thin tracks, each with one handle on it that is thicker, from the top."""
    differs = (screen.strength > _INK_STEP).astype(np.uint8)
    flat = [Slider(box_px=box, handle=handle, is_vertical=False) for box, handle in _find_flat(differs)]
    upright = [
        Slider(box_px=_turn(box), handle=_turn(handle), is_vertical=True)
        for box, handle in _find_flat(np.ascontiguousarray(differs.T))
    ]
    return sorted([*flat, *upright], key=lambda slider: (slider.box_px.top, slider.box_px.left))


def _turn(box: Box) -> Box:
    return Box(box.top, box.left, box.bottom, box.right)


def _find_flat(differs: NDArray[np.uint8]) -> list[tuple[Box, Box]]:
    """Tracks that lie flat, with their handles: (H, W) uint8, 1 where the image is not its background."""
    cv2 = require("cv2", "literal")
    runs = cv2.morphologyEx(differs, cv2.MORPH_OPEN, np.ones((1, _MIN_RUN_PX), np.uint8))
    joined = cv2.morphologyEx(runs, cv2.MORPH_CLOSE, np.ones((_MAX_TRACK_PX - 5, 1), np.uint8))
    count, _, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    pieces = [
        Box(left, top, left + width, top + height)
        for left, top, width, height in (map(int, row[:4]) for row in stats[1:count])
        if 3 <= height <= _MAX_TRACK_PX
    ]
    found = []
    for piece in sorted(pieces, key=lambda box: box.left):
        if any(_goes_on(box, piece) for box in pieces):
            continue  # it is the second half of a track
        after = next((box for box in pieces if _goes_on(piece, box)), piece)
        track = piece.union(after)
        handle = _find_handle(differs, track)
        if handle is not None and track.union(handle).width >= _MIN_LENGTH_PX:
            found.append((track.union(handle), handle))
    return found


def _goes_on(piece: Box, other: Box) -> bool:
    gap = other.left - piece.right
    return abs(piece.top - other.top) <= 2 and abs(piece.bottom - other.bottom) <= 2 and 0 < gap <= _HANDLE_PX[1]


def _find_handle(differs: NDArray[np.uint8], track: Box) -> Box | None:
    """The only place where something stands out above a track and below it."""
    height, width = differs.shape
    around = track.padded(_HANDLE_PX[1] // 2, _BULGE_PX).clipped(width, height)
    if min(track.left, track.top, width - track.right, height - track.bottom) <= 0:
        return None
    above = differs[around.top : track.top, around.left : around.right].any(axis=0)
    below = differs[track.bottom : around.bottom, around.left : around.right].any(axis=0)
    runs = find_runs(np.asarray(above & below), max_gap=_RING_GAP_PX)
    first, last = track.left - around.left - _RING_GAP_PX - 1, track.right - around.left + _RING_GAP_PX + 1
    runs = [run for run in runs if run[1] >= first and run[0] <= last]
    if len(runs) != 1 or not _HANDLE_PX[0] <= runs[0][1] - runs[0][0] <= _HANDLE_PX[1]:
        return None
    return Box(around.left + runs[0][0], around.top, around.left + runs[0][1], around.bottom)
