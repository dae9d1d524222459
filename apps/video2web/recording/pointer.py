"""Where the pointer is: its shape is looked for where something moved, and followed from there.

Arrows are known beforehand. Another shape (a hand, a dot, a beam) is learned from the way it moves.
"""

from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from apps.video2web.recording.arrows import Arrow, make_arrows, match_arrow
from apps.video2web.recording.learning import is_like, learn_pointer
from visual_tools.box import Box

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
"""As many frames lie between two that a shape is learned from."""


class PointerTracker:
    """Follows the pointer from frame to frame.

    Args:
        scale: Pixels of the frames for one of the screen, where it is known.
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
        """What it covers; None while it is not known."""
        if self.place is None or self._arrow is None:
            return None
        height, width = self._arrow.pixels.shape
        left, top = self.place[0] - self._arrow.tip_px[0], self.place[1] - self._arrow.tip_px[1]
        return Box(left, top, left + width, top + height)

    def follow(
        self,
        grey: NDArray[np.uint8],
        changed: NDArray[np.uint8] | None,
        earlier: NDArray[np.uint8] | None = None,
    ) -> tuple[int, int] | None:
        """The pointer's tip in the next frame; None where it was never seen.

        Args:
            grey: The frame, (H, W) uint8.
            changed: By how many levels each pixel differs from the frame before, (H, W) uint8; None for the first one.
            earlier: A frame a few steps before, (H, W) uint8, from which shapes may be learned.
        """
        self._follow(grey, changed, earlier)
        self._boxes.append(self.box)
        return self.place

    def _follow(
        self, grey: NDArray[np.uint8], changed: NDArray[np.uint8] | None, earlier: NDArray[np.uint8] | None
    ) -> None:
        is_there = changed is not None and self._is_still_there(grey, changed)
        is_sure = self._moves >= _SURE_MOVES and self._arrow is not None and not self._arrow.is_learned
        if is_there and is_sure:
            return
        if not is_there:
            self._wait -= 1
            found = max(self._search(grey, changed), default=None, key=lambda one: one[0])
            if found is not None:
                self._take(*found)
                return
        if changed is not None and earlier is not None and not self._learn(earlier, grey) and not is_there:
            self._drift(changed)

    def _take(self, score: float, tip: tuple[int, int], arrow: Arrow) -> None:
        if self._arrow is not None and self.place != tip:
            self._moves += 1
        self.place = tip
        if score >= _SURE_SCORE or self._arrow is None:
            self._arrow = arrow

    def _is_still_there(self, grey: NDArray[np.uint8], changed: NDArray[np.uint8]) -> bool:
        if self.place is None or self._arrow is None:
            return False
        box = self.box
        assert box is not None
        if self._arrow.is_learned:
            inner = box.clipped(grey.shape[1], grey.shape[0])
            return not (changed[inner.top : inner.bottom, inner.left : inner.right] > _MOVED_LEVELS).any()
        around = Box(box.left - 1, box.top - 1, box.right + 1, box.bottom + 1)
        return any(score >= _MIN_SCORE for score, _ in match_arrow(grey, around, self._arrow))

    def _learn(self, earlier: NDArray[np.uint8], grey: NDArray[np.uint8]) -> bool:
        """Take a shape that moved for the pointer, once it was seen twice; whether it is that now."""
        is_known = self._moves >= _SURE_MOVES and len(self._boxes) == _LAG
        made = learn_pointer(earlier, grey, self._scale, self._boxes[0] if is_known else None)
        if made is None:
            return False
        arrow, tip = made
        if not is_like(arrow, self._learned):
            self._seen.append(arrow)
            if sum(is_like(arrow, [other]) for other in self._seen) < _MIN_VOTES:
                return False
            self._learned = [*self._learned, arrow][-_MAX_LEARNED:]
        if self._moves < _SURE_MOVES:
            self._arrows = []  # what looked like an arrow was none
        self._arrow, self.place = arrow, tip
        self._moves += 1
        return True

    def _drift(self, changed: NDArray[np.uint8]) -> None:
        """Follow a learned shape over a step that is shorter than the shape: it is where the change goes on."""
        box = self.box
        if box is None or self._arrow is None or not self._arrow.is_learned:
            return
        area = box.padded(_DRIFT_PX).clipped(changed.shape[1], changed.shape[0])
        moved = changed[area.top : area.bottom, area.left : area.right] > _MOVED_LEVELS
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

    def _search(
        self, grey: NDArray[np.uint8], changed: NDArray[np.uint8] | None
    ) -> Iterator[tuple[float, tuple[int, int], Arrow]]:
        known = [] if self._arrow is None else [self._arrow]
        arrows = [*known, *self._learned] if known else self._arrows
        for area in self._areas(grey, changed):
            for arrow in arrows:
                for score, tip in match_arrow(grey, area, arrow):
                    if score >= _MIN_SCORE:
                        yield score, tip, arrow

    def _areas(self, grey: NDArray[np.uint8], changed: NDArray[np.uint8] | None) -> Iterator[Box]:
        """Where to look: around what moved; in the whole frame now and then while it is not known."""
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
    """How far a side moved, where the change reaches over its first or its last edge."""
    if first_px < 0 and -first_px >= last_px:
        return first_px
    return max(last_px, 0)
