"""Where the pointer is: arrows of usual sizes are looked for where something moved, and followed from there."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from visual_tools.box import Box
from visual_tools.errors import require

_ARROW = ((0.0, 0.0), (0.0, 16.0), (3.7, 12.6), (6.2, 18.4), (8.7, 17.3), (6.3, 11.7), (11.3, 11.5))
"""The arrow of Windows, X11 and macOS at single size: all three have nearly this outline."""
_SIZES = (0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
_OVERSAMPLING = 8
_MIN_SCORE = 0.75
_SURE_SCORE = 0.82
_MIN_CONTRAST = 70  # levels between the inside of an arrow and its edge
_MOVED_LEVELS = 48
_PAD_PX = 6
_MAX_SEARCH_PX = 400_000
_RETRY_FRAMES = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """An arrow to look for.

    Attributes:
        pixels: (h, w) float32 grey.
        mask: (h, w) float32, 1 on the arrow and its edge.
        tip_px: Column and row of its tip.
        is_dark: Black with a white edge.
    """

    pixels: NDArray[np.float32] = field(repr=False)
    mask: NDArray[np.float32] = field(repr=False)
    tip_px: tuple[int, int]
    is_dark: bool


def make_arrows(scale: float = 1.0) -> list[Arrow]:
    """White and black arrows in the sizes that screens show, for frames of `scale` pixels to one of the screen."""
    made = [_draw_arrow(size * scale, is_dark) for size in _SIZES for is_dark in (False, True)]
    return [arrow for arrow in made if arrow.pixels.shape[0] >= 12]


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
        pixels=pixels.astype(np.float32),
        mask=(mask > 0.5).astype(np.float32),
        tip_px=(round(margin), round(margin)),
        is_dark=is_dark,
    )


class PointerTracker:
    """Follows the pointer from frame to frame.

    Args:
        scale: Pixels of the frames for one of the screen, where it is known.
    """

    def __init__(self, scale: float = 1.0) -> None:
        self._arrows = make_arrows(scale)
        self._arrow: Arrow | None = None
        self._wait = 0
        self.place: tuple[int, int] | None = None

    @property
    def box(self) -> Box | None:
        """What it covers; None while it is not known."""
        if self.place is None or self._arrow is None:
            return None
        height, width = self._arrow.pixels.shape
        left, top = self.place[0] - self._arrow.tip_px[0], self.place[1] - self._arrow.tip_px[1]
        return Box(left, top, left + width, top + height)

    def follow(self, grey: NDArray[np.uint8], changed: NDArray[np.uint8] | None) -> tuple[int, int] | None:
        """The pointer's tip in the next frame; None where it was never seen.

        Args:
            grey: The frame, (H, W) uint8.
            changed: By how many levels each pixel differs from the frame before, (H, W) uint8; None for the first one.
        """
        if changed is not None and self._is_still_there(grey):
            return self.place
        self._wait -= 1
        found = max(self._search(grey, changed), default=None, key=lambda one: one[0])
        if found is not None:
            score, tip, arrow = found
            self.place = tip
            if score >= _SURE_SCORE or self._arrow is None:
                self._arrow = arrow
        return self.place

    def _is_still_there(self, grey: NDArray[np.uint8]) -> bool:
        if self.place is None or self._arrow is None:
            return False
        box = self.box
        assert box is not None
        around = Box(box.left - 1, box.top - 1, box.right + 1, box.bottom + 1)
        return any(score >= _MIN_SCORE for score, _ in _match(grey, around, self._arrow))

    def _search(
        self, grey: NDArray[np.uint8], changed: NDArray[np.uint8] | None
    ) -> Iterator[tuple[float, tuple[int, int], Arrow]]:
        arrows = self._arrows if self._arrow is None else [self._arrow]
        for area in self._areas(grey, changed):
            for arrow in arrows:
                for score, tip in _match(grey, area, arrow):
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


def _match(grey: NDArray[np.uint8], area: Box, arrow: Arrow) -> Iterator[tuple[float, tuple[int, int]]]:
    """The best place of an arrow in an area, where it is one at all."""
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
    if light.any() and dark.any() and cut[light].mean() - cut[dark].mean() < _MIN_CONTRAST:
        return
    left, top = int(x) + max(area.left, -offset), int(y) + max(area.top, -offset)
    yield float(scores[y, x]), (left + arrow.tip_px[0], top + arrow.tip_px[1])


def _leaves(grey: NDArray[np.uint8], area: Box) -> bool:
    """Whether an area goes beyond the frame."""
    return area.left < 0 or area.top < 0 or area.right > grey.shape[1] or area.bottom > grey.shape[0]
