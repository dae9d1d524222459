"""Detection of the pointer: its shape is searched where something moved, and tracked from there.

Arrows are known in advance. Another shape (a hand, a dot, a beam) is learned from its motion.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from apps.video2web.pixels import Levels
from visual_tools.box import Box
from visual_tools.errors import require

_ARROW = ((0.0, 0.0), (0.0, 16.0), (3.7, 12.6), (6.2, 18.4), (8.7, 17.3), (6.3, 11.7), (11.3, 11.5))
"""Outline of the arrow at normal size, nearly equal on Windows, X11 and macOS."""
# Heuristics without another source; measured together in benchmarks/video2web.md, "Recordings".
_SIZES = (0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
_OVERSAMPLING = 8
_MIN_CONTRAST = 70  # levels between the inside of an arrow and its edge
_LEARNED_LEVELS = 36
_JOIN_PX = 5
_MIN_SIDE_PX, _MAX_SIDE_PX = 6, 64
_MAX_BLOBS = 6
_LIKE = 0.3  # maximum size difference of the two regions
_SAME_SHAPE = 0.55
_LEARNED_CONTRAST = 14.0
_ROUND_FILL = 0.66
_TALL = 1.9
_MIN_SCORE = 0.75
_SURE_SCORE = 0.82
_MOVED_LEVELS = 48
_PAD_PX = 6
_MAX_SEARCH_PX = 400_000
_RETRY_FRAMES = 25
_MIN_VOTES = 2
_MAX_LEARNED = 4
_DRIFT_PX = 48
_SURE_MOVES = 3
_LAG = 4
"""Number of frames between the two from which a shape is learned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """Template of a pointer.

    Attributes:
        pixels: (h, w) float32 grey.
        mask: (h, w) float32, 1 on the arrow and its edge.
        tip_px: Column and row of its tip.
        is_learned: True if learned from the recording instead of drawn.
    """

    pixels: NDArray[np.float32] = field(repr=False)
    mask: NDArray[np.float32] = field(repr=False)
    tip_px: tuple[int, int]
    is_learned: bool = False


def make_arrows(scale: float = 1.0) -> list[Arrow]:
    """Return white and black arrows in common sizes, for frames of `scale` pixels per screen pixel."""
    arrows = [_draw_arrow(size * scale, is_dark) for size in _SIZES for is_dark in (False, True)]
    return [arrow for arrow in arrows if arrow.pixels.shape[0] >= 12]


def _draw_arrow(scale: float, is_dark: bool) -> Arrow:
    big = scale * _OVERSAMPLING
    margin = 2 * scale
    width, height = (round(side * scale + 2 * margin) for side in (11.3, 18.4))
    shape = [((x * scale + margin) * _OVERSAMPLING, (y * scale + margin) * _OVERSAMPLING) for x, y in _ARROW]
    inside, outline = (Image.new("L", (width * _OVERSAMPLING, height * _OVERSAMPLING)) for _ in range(2))
    ImageDraw.Draw(inside).polygon(shape, fill=255)
    ImageDraw.Draw(outline).polygon(shape, fill=255)
    ImageDraw.Draw(outline).line([*shape, shape[0], shape[1]], fill=255, width=round(1.3 * big), joint="curve")
    ImageDraw.Draw(inside).line([*shape, shape[0], shape[1]], fill=0, width=max(round(1.1 * big), 1), joint="curve")
    fill, mask = (
        np.asarray(image.resize((width, height), Image.Resampling.BOX), np.float32) / 255 for image in (inside, outline)
    )
    pixels = 255 * (1 - fill if is_dark else fill)
    return Arrow(
        pixels=pixels.astype(np.float32), mask=(mask > 0.5).astype(np.float32), tip_px=(round(margin), round(margin))
    )


def match_arrow(grey: Levels, area: Box, arrow: Arrow) -> Iterator[tuple[float, tuple[int, int]]]:
    """Yield the best match of an arrow in an area with its score, if there is a match."""
    cv2 = require("cv2", "visual")
    height, width = arrow.pixels.shape
    pad = max(height, width)
    padded = cv2.copyMakeBorder(grey, pad, pad, pad, pad, cv2.BORDER_REPLICATE) if _leaves(grey, area) else None
    source, offset = (grey, 0) if padded is None else (padded, pad)
    piece = source[
        max(area.top + offset, 0) : area.bottom + offset, max(area.left + offset, 0) : area.right + offset
    ].astype(np.float32)
    if piece.shape[0] < height or piece.shape[1] < width:
        return
    scores = cv2.matchTemplate(piece, arrow.pixels, cv2.TM_CCOEFF_NORMED, mask=arrow.mask)
    scores = np.where(np.isfinite(scores) & (scores <= 1.001), scores, -1)
    y, x = np.unravel_index(int(scores.argmax()), scores.shape)
    cut = piece[y : y + height, x : x + width]
    light, dark = (arrow.mask > 0) & (arrow.pixels > 200), (arrow.mask > 0) & (arrow.pixels < 60)
    if not arrow.is_learned and light.any() and dark.any() and cut[light].mean() - cut[dark].mean() < _MIN_CONTRAST:
        return
    left, top = int(x) + max(area.left, -offset), int(y) + max(area.top, -offset)
    yield float(scores[y, x]), (left + arrow.tip_px[0], top + arrow.tip_px[1])


def _leaves(grey: Levels, area: Box) -> bool:
    """Return whether an area extends beyond the frame."""
    return area.left < 0 or area.top < 0 or area.right > grey.shape[1] or area.bottom > grey.shape[0]


def learn_pointer(
    before: Levels, after: Levels, scale: float, was: Box | None = None
) -> tuple[Arrow, tuple[int, int]] | None:
    """Learn the shape that moved between two frames and its tip in the later one; None if ambiguous.

    Args:
        before: (H, W) uint8 grey.
        after: A frame a few steps later.
        scale: Pixels of the frames per screen pixel.
        was: Box of the pointer in the earlier frame, if known: its shape may have changed since.
    """
    cv2 = require("cv2", "visual")
    changed = (cv2.absdiff(before, after) > _LEARNED_LEVELS).astype(np.uint8)
    limit = _MAX_SIDE_PX * max(scale, 0.5)
    if not 2 * _MIN_SIDE_PX**2 / 4 < np.count_nonzero(changed) < 2 * limit**2:
        return None
    pair = _find_pair(changed, limit, 3 * _LIKE if was else _LIKE)
    if pair is None:
        return None
    masks = [_shape_of(changed, box) for box in pair]
    is_left = [was is not None and box.intersection(was) > 0.5 * box.area for box in pair]
    if not _is_one_shape(*masks) and sum(is_left) != 1:
        return None
    stands_out = [
        _contrast(after, box, mask) - _contrast(before, box, mask) for box, mask in zip(pair, masks, strict=True)
    ]
    here = int(np.argmax(stands_out))
    if stands_out[here] < _LEARNED_CONTRAST or stands_out[1 - here] > 0 or is_left[here]:
        return None
    box, mask = pair[here], masks[here]
    arrow = _make_arrow(after, box, mask)
    return arrow, (box.left + arrow.tip_px[0], box.top + arrow.tip_px[1])


def _find_pair(changed: Levels, limit: float, like: float) -> tuple[Box, Box] | None:
    """Return the only two regions that changed, if both are small and of one size."""
    cv2 = require("cv2", "visual")
    joined = cv2.dilate(changed, np.ones((_JOIN_PX, _JOIN_PX), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(joined)
    if not 3 <= count <= _MAX_BLOBS + 1:
        return None
    boxes: list[Box] = []
    for name in range(1, count):
        left, top, width, height, _ = (int(value) for value in stats[name])
        inside = (labels[top : top + height, left : left + width] == name) & (
            changed[top : top + height, left : left + width] > 0
        )
        rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
        first_row, last_row = top + int(rows[0]), top + int(rows[-1]) + 1
        boxes.append(Box(left + int(columns[0]), first_row, left + int(columns[-1]) + 1, last_row))
    large = [box for box in boxes if max(box.width, box.height) >= _MIN_SIDE_PX]
    if len(large) != 2 or max(max(box.width, box.height) for box in large) > limit:
        return None
    first, second = large
    is_alike = all(
        abs(size - other) <= max(like * max(size, other), 3)
        for size, other in ((first.width, second.width), (first.height, second.height))
    )
    return (first, second) if is_alike else None


def _shape_of(changed: Levels, box: Box) -> Levels:
    """Return a mask of the changed pixels and the area that they enclose, (h, w) uint8."""
    cv2 = require("cv2", "visual")
    piece = np.ascontiguousarray(changed[box.slices])
    closed = cv2.morphologyEx(piece, cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    outlines, _ = cv2.findContours(closed, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled: Levels = cv2.drawContours(np.zeros_like(closed), outlines, -1, 1, thickness=-1)
    return filled


def _is_one_shape(first: Levels, second: Levels) -> bool:
    height, width = max(first.shape[0], second.shape[0]), max(first.shape[1], second.shape[1])
    laid = [np.pad(mask, ((0, height - mask.shape[0]), (0, width - mask.shape[1]))) > 0 for mask in (first, second)]
    common, either = np.count_nonzero(laid[0] & laid[1]), np.count_nonzero(laid[0] | laid[1])
    return bool(common > _SAME_SHAPE * either)


def _contrast(grey: Levels, box: Box, mask: Levels) -> float:
    """Return the difference in levels between a shape and the pixels around its box."""
    wide = box.padded(3).clipped(grey.shape[1], grey.shape[0])
    around = grey[wide.slices].astype(np.float32)
    ring = np.ones(around.shape, np.bool_)
    ring[box.top - wide.top : box.bottom - wide.top, box.left - wide.left : box.right - wide.left] = False
    inside = grey[box.slices][mask > 0].astype(np.float32)
    return float(np.abs(inside - np.median(around[ring])).mean()) if inside.size and ring.any() else 0.0


def _make_arrow(grey: Levels, box: Box, mask: Levels) -> Arrow:
    pixels = grey[box.slices].astype(np.float32)
    return Arrow(pixels=pixels, mask=mask.astype(np.float32), tip_px=_find_tip(mask), is_learned=True)


def _find_tip(mask: Levels) -> tuple[int, int]:
    """Return the centre of a round shape or beam, else the middle of the top rows."""
    height, width = mask.shape
    is_round = abs(height - width) <= 0.2 * max(height, width) and mask.mean() > _ROUND_FILL
    if is_round or (height > _TALL * width and mask[:, : width // 2].sum() > 0.3 * mask.sum()):
        return width // 2, height // 2
    top = np.flatnonzero(mask[: max(height // 8, 1)].any(axis=0))
    return (int(top.mean()) if top.size else width // 2), 0


def is_like(arrow: Arrow, others: Sequence[Arrow]) -> bool:
    """Return whether a shape is about as large as a known one."""
    sizes = [(arrow.pixels.shape, size_px.pixels.shape) for size_px in others]
    return any(abs(known_px[0] - size_px[0]) <= 3 and abs(known_px[1] - size_px[1]) <= 3 for known_px, size_px in sizes)


class PointerTracker:
    """Tracks the pointer from frame to frame.

    Args:
        scale: Pixels of the frames per screen pixel, if known.
    """

    def __init__(self, scale: float = 1.0) -> None:
        self._scale = scale
        self._arrows = make_arrows(scale)
        self._arrow: Arrow | None = None
        self._learned: list[Arrow] = []
        self._seen: list[Arrow] = []
        self._moves = 0
        self._wait = 0
        self._boxes: deque[Box | None] = deque(maxlen=_LAG)
        self.place: tuple[int, int] | None = None

    @property
    def box(self) -> Box | None:
        """Box of the pointer; None while unknown."""
        if self.place is None or self._arrow is None:
            return None
        height, width = self._arrow.pixels.shape
        left, top = self.place[0] - self._arrow.tip_px[0], self.place[1] - self._arrow.tip_px[1]
        return Box(left, top, left + width, top + height)

    def follow(self, grey: Levels, changed: Levels | None, earlier: Levels | None = None) -> tuple[int, int] | None:
        """Return the pointer's tip in the next frame; None if it was never seen.

        Args:
            grey: The frame, (H, W) uint8.
            changed: Difference of each pixel from the previous frame in levels, (H, W) uint8; None for the first one.
            earlier: A frame a few steps before, (H, W) uint8, from which shapes may be learned.
        """
        self._follow(grey, changed, earlier)
        self._boxes.append(self.box)
        return self.place

    def rest(self) -> None:
        """Note a frame that equals the previous one."""
        self._boxes.append(self.box)

    def _follow(self, grey: Levels, changed: Levels | None, earlier: Levels | None) -> None:
        is_there = changed is not None and self._is_still_there(grey, changed)
        is_sure = self._moves >= _SURE_MOVES and self._arrow is not None and not self._arrow.is_learned
        if is_there and is_sure:
            return
        if not is_there:
            self._wait -= 1
            best = max(self._search(grey, changed), default=None, key=lambda match: match[0])
            if best is not None:
                self._take(*best)
                return
        if changed is not None and earlier is not None and not self._learn(earlier, grey) and not is_there:
            self._drift(changed)

    def _take(self, score: float, tip: tuple[int, int], arrow: Arrow) -> None:
        if self._arrow is not None and self.place != tip:
            self._moves += 1
        self.place = tip
        if score >= _SURE_SCORE or self._arrow is None:
            self._arrow = arrow

    def _is_still_there(self, grey: Levels, changed: Levels) -> bool:
        if self.place is None or self._arrow is None:
            return False
        box = self.box
        assert box is not None
        if self._arrow.is_learned:
            inner = box.clipped(grey.shape[1], grey.shape[0])
            return not (changed[inner.slices] > _MOVED_LEVELS).any()
        around = Box(box.left - 1, box.top - 1, box.right + 1, box.bottom + 1)
        return any(score >= _MIN_SCORE for score, _ in match_arrow(grey, around, self._arrow))

    def _learn(self, earlier: Levels, grey: Levels) -> bool:
        """Use a shape that moved as the pointer once it was seen twice; return whether it is used now."""
        is_known = self._moves >= _SURE_MOVES and len(self._boxes) == _LAG
        learned = learn_pointer(earlier, grey, self._scale, self._boxes[0] if is_known else None)
        if learned is None:
            return False
        arrow, tip = learned
        if not is_like(arrow, self._learned):
            self._seen.append(arrow)
            if sum(is_like(arrow, [other]) for other in self._seen) < _MIN_VOTES:
                return False
            self._learned = [*self._learned, arrow][-_MAX_LEARNED:]
        if self._moves < _SURE_MOVES:
            self._arrows = []  # the supposed arrow was not one
        self._arrow, self.place = arrow, tip
        self._moves += 1
        return True

    def _drift(self, changed: Levels) -> None:
        """Move a learned shape by a step shorter than the shape, following the edges of the changed region."""
        box = self.box
        if box is None or self._arrow is None or not self._arrow.is_learned:
            return
        area = box.padded(_DRIFT_PX).clipped(changed.shape[1], changed.shape[0])
        moved = changed[area.slices] > _MOVED_LEVELS
        rows, columns = np.flatnonzero(moved.any(axis=1)), np.flatnonzero(moved.any(axis=0))
        if not rows.size:
            return
        left, right = area.left + int(columns[0]), area.left + int(columns[-1]) + 1
        top, bottom = area.top + int(rows[0]), area.top + int(rows[-1]) + 1
        if right - left > box.width + _DRIFT_PX or bottom - top > box.height + _DRIFT_PX:
            return
        assert self.place is not None
        across = _step(left - box.left, right - box.right)
        self.place = self.place[0] + across, self.place[1] + _step(top - box.top, bottom - box.bottom)

    def _search(self, grey: Levels, changed: Levels | None) -> Iterator[tuple[float, tuple[int, int], Arrow]]:
        known = [] if self._arrow is None else [self._arrow]
        arrows = [*known, *self._learned] if known else self._arrows
        for area in self._areas(grey, changed):
            for arrow in arrows:
                for score, tip in match_arrow(grey, area, arrow):
                    if score >= _MIN_SCORE:
                        yield score, tip, arrow

    def _areas(self, grey: Levels, changed: Levels | None) -> Iterator[Box]:
        """Yield the areas to search: around motion; now and then a large area or the whole frame."""
        height, width = grey.shape
        whole = Box(0, 0, width, height)
        if changed is None:
            yield whole
            return
        moved = changed > _MOVED_LEVELS
        if not moved.any():
            return
        rows, columns = np.flatnonzero(moved.any(axis=1)), np.flatnonzero(moved.any(axis=0))
        pad = 40 if self._arrow is None else self._arrow.pixels.shape[0] + _PAD_PX
        box = Box(
            max(int(columns[0]) - pad, 0),
            max(int(rows[0]) - pad, 0),
            min(int(columns[-1]) + pad, width),
            min(int(rows[-1]) + pad, height),
        )
        is_small = box.area <= (_MAX_SEARCH_PX if self._arrow is not None else _MAX_SEARCH_PX // 8)
        if is_small or self._wait <= 0:
            if not is_small:
                self._wait = _RETRY_FRAMES if self._arrow is None else 3
            yield box


def _step(first_px: int, last_px: int) -> int:
    """Return the shift of a side, from how far the change exceeds its first or last edge."""
    if first_px < 0 and -first_px >= last_px:
        return first_px
    return max(last_px, 0)
