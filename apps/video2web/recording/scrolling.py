"""Scroll detection: shift of a page between frames, fixed parts, and the stitched full page."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apps.video2web.pixels import Levels, Mask, RgbImage
from visual_tools.box import Box
from visual_tools.errors import require

# Heuristics without another source; measured together in benchmarks/video2web.md, "Recordings".
_STRIP_PX = 48
_NUM_STRIPS = 7
_MIN_SPREAD = 6.0
_MIN_SCORE = 0.85
_SAME_LEVELS = 14
_MIN_EXPLAINED = 0.6  # share of the changed pixels that the shift must explain
_MIN_CHANGED = 0.02
_MAX_PAGE_PX = 24_000
_STAYS_SHARE = 0.8
_MIN_VOTES = 3
_MAX_HEADER_SHARE = 0.17
_MIN_STILL_ROWS, _EDGE_ROWS = 4, 8  # rows next to the first moved one may be the edge of a header
_FEW_STILL, _MAX_STILL = 0.1, 0.75  # a page that scrolls has few fixed pixels, or a sidebar
_MAX_GAP_PX = 60
_STAYS_STEPS = 0.35
_MAX_FIXED_SHARE = 0.4
_MIN_FIXED_PX = 12
_POINTER_PAD_PX = 3
_MAX_FILLED = 0.02  # a larger area is not a pointer
_MIN_SPAN_ACROSS, _MIN_SPAN_DOWN = 0.6, 0.2


def find_shift(before: Levels, after: Levels) -> int:
    """Return the rows by which the page moved up between two frames; 0 if it did not scroll.

    Args:
        before: (H, W) uint8 grey.
        after: The next one.
    """
    changed = np.abs(after.astype(np.int16) - before) > _SAME_LEVELS
    if changed.mean() < _MIN_CHANGED:
        return 0
    best, explained = 0, 0.0
    for shift in _guess_shifts(before, after, changed):
        share = _explained(before, after, changed, shift)
        if share > explained + 0.02:
            best, explained = shift, share
    if explained < _MIN_EXPLAINED or _is_pushed(before, after, changed, best):
        return 0
    return best


def _is_pushed(before: Levels, after: Levels, changed: Mask, shift: int) -> bool:
    """Return whether only a part of the window moved, as when an accordion opens or a dialog rises.

    A header cannot be deep enough to explain the fixed pixels below its maximum height, and on a page that scrolls more
    pixels move than stay. Flat areas do not count: contents that come from below a header may be as flat.
    """
    cv2 = require("cv2", "visual")
    height = before.shape[0]
    moved = np.abs(_shifted(before, shift).astype(np.int16) - after)
    detail = cv2.morphologyEx(after, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8))
    stays = ~changed & (moved > 2 * _SAME_LEVELS) & (detail > _SAME_LEVELS)
    stays[height - shift if shift > 0 else 0 : height if shift > 0 else -shift] = False  # newly visible rows
    stayed = np.abs(after.astype(np.int16) - before)
    moves = changed & (moved <= _SAME_LEVELS) & (stayed - moved > _SAME_LEVELS)  # noise is equally far from either
    columns = moves.sum(axis=0) >= _MIN_VOTES
    rows = np.flatnonzero(moves.sum(axis=1) >= _MIN_VOTES)
    if not rows.size:
        return True
    depth = round(_MAX_HEADER_SHARE * height)
    share = int(np.count_nonzero(stays[depth : height - depth])) / int(np.count_nonzero(moves))
    first, last = int(np.percentile(rows, 2)), int(np.percentile(rows, 98)) + 1
    above, below = (
        np.count_nonzero(stays[part, columns].sum(axis=1) >= _MIN_VOTES) >= _MIN_STILL_ROWS
        for part in (slice(depth, max(first - _EDGE_ROWS, depth)), slice(last, height - depth))
    )
    return bool(share > _MAX_STILL or above or (below and share > _FEW_STILL))


def _shifted(image: Levels, shift: int) -> Levels:
    """Move an image up; rows without new contents repeat the edge."""
    rows = np.clip(np.arange(len(image)) + shift, 0, len(image) - 1)
    return image[rows]


def _guess_shifts(before: Levels, after: Levels, changed: Mask) -> list[int]:
    """Return candidate shifts at which strips of the previous frame are found, small ones first."""
    cv2 = require("cv2", "visual")
    height, width = before.shape
    moved = np.flatnonzero(changed.sum(axis=0) >= _MIN_VOTES)  # a sidebar would hide the contents that move next to it
    left, right = (int(moved[0]), int(moved[-1]) + 1) if moved.size else (0, width)
    narrow = max((right - left) // 4, 16)
    small = [
        cv2.resize(np.ascontiguousarray(image[:, left:right]), (narrow, height), interpolation=cv2.INTER_AREA)
        for image in (before, after)
    ]
    strip = min(_STRIP_PX, height // 4)
    shifts = set()
    for top in np.linspace(0, height - strip, _NUM_STRIPS).round().astype(int).tolist():
        piece = small[0][top : top + strip]
        if piece.std() < _MIN_SPREAD or not changed[top : top + strip].any():
            continue
        scores = cv2.matchTemplate(small[1], piece, cv2.TM_CCOEFF_NORMED)[:, 0]
        best = int(scores.argmax())
        if scores[best] >= _MIN_SCORE and best != top:
            shifts.add(top - best)
    return sorted(shifts, key=abs)[:_NUM_STRIPS]


def _explained(before: Levels, after: Levels, changed: Mask, shift: int) -> float:
    """Return the share of the changed pixels that the shift explains, of those visible in both frames.

    Rows that come from below a fixed header or footer were not visible before.
    """
    height = before.shape[0]
    top, bottom = _still_rows(changed), height - _still_rows(changed[::-1])
    if abs(shift) >= bottom - top - 16:
        return 0.0
    rows_after = slice(0, bottom - shift) if shift > 0 else slice(top - shift, height)
    rows_before = slice(shift, bottom) if shift > 0 else slice(top, height + shift)
    asked = changed[rows_after]
    if asked.mean() < _MIN_CHANGED / 2:
        return 0.0
    same = np.abs(after[rows_after].astype(np.int16) - before[rows_before]) <= _SAME_LEVELS
    return float(same[asked].mean())


def _still_rows(changed: Mask) -> int:
    """Return the number of rows at the top where nothing changes, at most those of a header."""
    depth = round(_MAX_HEADER_SHARE * len(changed))
    moves = changed[:depth].sum(axis=1) >= _MIN_VOTES
    return int(np.argmax(moves)) if moves.any() else depth


def compare_shifted(before: RgbImage, after: RgbImage, shift: int) -> Levels:
    """Return changes other than scrolling, as difference in levels from the shifted and from the unshifted frame.

    Args:
        before: (H, W, 3) uint8 RGB.
        after: The next frame.
        shift: Rows by which the page moved up.

    Returns:
        (H, W) uint8; 0 in newly visible rows.
    """
    cv2 = require("cv2", "visual")
    height = before.shape[0]
    stayed = max_difference(before, after)
    moved = np.zeros_like(stayed)
    if shift > 0:
        moved[: height - shift] = max_difference(before[shift:], after[: height - shift])
    else:
        moved[-shift:] = max_difference(before[: height + shift], after[-shift:])
    least: Levels = np.minimum(stayed, moved)
    cv2.erode(least, np.ones((3, 3), np.uint8), dst=least)  # edges between two pixels
    return least


def max_difference(first: RgbImage, second: RgbImage) -> Levels:
    """Return the maximum difference over the channels of two images in levels, (H, W) uint8."""
    cv2 = require("cv2", "visual")
    red, green, blue = cv2.split(cv2.absdiff(first, second))
    most: Levels = cv2.max(cv2.max(red, green), blue)
    return most


@dataclass
class FixedParts:
    """Detects fixed parts of a scrolling page by votes of all scroll steps."""

    num_steps: int = 0
    stays: NDArray[np.int32] | None = field(default=None, repr=False)
    moves: NDArray[np.int32] | None = field(default=None, repr=False)

    def vote(self, before: Levels, after: Levels, shift: int, pointer: Box | None = None) -> None:
        """Add the votes of one scroll step.

        Args:
            before: (H, W) uint8 grey.
            after: The next frame.
            shift: Rows by which the page moved up.
            pointer: Box of the pointer, which does not scroll either.
        """
        height = before.shape[0]
        if self.stays is None or self.moves is None:
            self.stays, self.moves = (np.zeros(before.shape, np.int32) for _ in range(2))
        stayed = np.abs(after.astype(np.int16) - before)
        moved = np.full(before.shape, round(1.5 * _SAME_LEVELS), np.int16)  # no vote in newly visible rows
        if shift > 0:
            moved[: height - shift] = np.abs(after[: height - shift].astype(np.int16) - before[shift:])
        else:
            moved[-shift:] = np.abs(after[-shift:].astype(np.int16) - before[: height + shift])
        self.num_steps += 1
        stays = (stayed <= _SAME_LEVELS) & (moved > 2 * _SAME_LEVELS)
        if pointer is not None:
            hidden = pointer.padded(4, abs(shift) + 4).clipped(before.shape[1], height)
            stays[hidden.slices] = False
        self.stays += stays
        self.moves += (moved <= _SAME_LEVELS) & (stayed > 2 * _SAME_LEVELS)

    def find_sides(self) -> dict[str, int]:
        """Return the depth in pixels of the fixed part at each side: top, bottom, left, right."""
        if self.stays is None or self.moves is None:
            return {}
        stays = np.where(self.stays >= _STAYS_STEPS * self.num_steps, self.stays, 0)
        moves = self.moves
        top = _depth(stays, moves, _MIN_SPAN_ACROSS)
        bottom = _depth(stays[::-1], moves[::-1], _MIN_SPAN_ACROSS)
        rows = slice(top, len(stays) - bottom)
        stays, moves = stays[rows].T, moves[rows].T
        sides = {
            "top": top,
            "bottom": bottom,
            "left": _depth(stays, moves, _MIN_SPAN_DOWN),
            "right": _depth(stays[::-1], moves[::-1], _MIN_SPAN_DOWN),
        }
        return {side: depth for side, depth in sides.items() if depth}


def _depth(stays: NDArray[np.int32], moves: NDArray[np.int32], min_span: float) -> int:
    """Return the number of fixed lines from the first one on: lines with contents, and the gaps between them.

    The gap before the first line that moves is the padding and the edge of the fixed part.
    """
    for_it = (stays >= _MIN_VOTES).sum(axis=1)
    against = (moves >= _MIN_VOTES).sum(axis=1)
    depth = end = 0
    for line in np.flatnonzero(for_it + against >= _MIN_VOTES).tolist():
        if line - depth > _MAX_GAP_PX:
            break
        is_fixed = for_it[line] >= _STAYS_SHARE * (for_it[line] + against[line])
        if not is_fixed and against[line] >= _MIN_VOTES:
            end = line
            break
        depth = line + 1
    if depth > _MAX_FIXED_SHARE * len(stays) or depth < _MIN_FIXED_PX:
        return 0
    across = np.flatnonzero((stays[:depth] >= _MIN_VOTES).sum(axis=0) >= 2)
    if not across.size or across[-1] - across[0] < min_span * stays.shape[1]:
        return 0
    return max(depth, end)


class PageCanvas:
    """Full page of a state, stitched from the scrolled frames, without the pointer.

    Args:
        frame: The first frame, (H, W, 3) uint8 RGB.
        pointer: Box of the pointer.
    """

    def __init__(self, frame: RgbImage, pointer: Box | None = None) -> None:
        self._page = frame.copy()
        self._shape = frame.shape
        self._hidden = _cover(frame, pointer)  # (H, W) bool: seen only under the pointer, or never
        self._top = 0  # page row of the first row of the canvas
        self._sides: dict[str, int] = {}

    @property
    def image(self) -> RgbImage:
        """Page, (H, W, 3) uint8 RGB; pixels never seen without the pointer are inpainted."""
        hidden = self._hidden
        if not hidden.any() or hidden.mean() > _MAX_FILLED:
            return self._page
        cv2 = require("cv2", "visual")
        return np.asarray(cv2.inpaint(self._page, hidden.astype(np.uint8), 3, cv2.INPAINT_TELEA), np.uint8)

    @property
    def hidden(self) -> Mask:
        """Pixels never seen without the pointer, (H, W) bool."""
        return self._hidden

    @property
    def top(self) -> int:
        """Page row of the first row; 0 is the top of the first frame."""
        return self._top

    def fix(self, sides: dict[str, int]) -> None:
        """Set the fixed sides: their contents come from the first frame, at the bottom from the last."""
        self._sides = sides

    def fill(self, frame: RgbImage, offset: int, pointer: Box | None) -> None:
        """Fill only pixels that the pointer has hidden so far.

        Args:
            frame: (H, W, 3) uint8 RGB.
            offset: Page row of its first row.
            pointer: Box of the pointer in it.
        """
        start, height = offset - self._top, self._shape[0]
        if start < 0 or start + height > len(self._page):
            return
        wanted = self._hidden[start : start + height] & ~_cover(frame, pointer)
        self._page[start : start + height][wanted] = frame[wanted]
        self._hidden[start : start + height][wanted] = False

    def paste(self, frame: RgbImage, offset: int, pointer: Box | None = None) -> None:
        """Paste a frame on the page.

        Args:
            frame: (H, W, 3) uint8 RGB.
            offset: Page row of its first row.
            pointer: Box of the pointer in it.
        """
        height = self._shape[0]
        first, last = min(self._top, offset), max(self._top + len(self._page), offset + height)
        if last - first > _MAX_PAGE_PX:
            return
        if last - first > len(self._page):
            rows = slice(self._top - first, self._top - first + len(self._page))
            grown = np.zeros((last - first, *self._shape[1:]), np.uint8)
            hidden = np.ones(grown.shape[:2], np.bool_)
            grown[rows], hidden[rows] = self._page, self._hidden
            self._page, self._hidden, self._top = grown, hidden, first
        skip_top = self._sides.get("top", 0) if offset > first else 0
        start = offset - first
        left, right = self._sides.get("left", 0), self._shape[1] - self._sides.get("right", 0)
        bottom = height if offset + height >= last else height - self._sides.get("bottom", 0)
        rows = slice(start + skip_top, start + bottom)
        page, hidden = self._page[rows, left:right], self._hidden[rows, left:right]
        cover = _cover(frame, pointer)[skip_top:bottom, left:right]
        taken = hidden | ~cover
        page[taken] = frame[skip_top:bottom, left:right][taken]
        hidden[taken] = cover[taken]
        for side in (slice(0, left), slice(right, self._shape[1])):
            known = self._page[start : start + height, side]
            empty = (known == 0).all(axis=2)
            known[empty] = frame[:, side][empty] if offset == first else _last_row(frame[:, side])[empty]
            self._hidden[start : start + height, side] = False


def _cover(frame: RgbImage, pointer: Box | None) -> Mask:
    """Return the pixels hidden by a pointer, with the smear that an encoder leaves around it, (H, W) bool."""
    cover = np.zeros(frame.shape[:2], np.bool_)
    if pointer is not None:
        box = pointer.padded(_POINTER_PAD_PX).clipped(frame.shape[1], frame.shape[0])
        cover[box.slices] = True
    return cover


def _last_row(part: RgbImage) -> RgbImage:
    """Return the last row of a fixed side, which continues it below its first screen."""
    return np.broadcast_to(part[-1:], part.shape).copy()
