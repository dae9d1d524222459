"""Shapes of pointers to look for: the arrow of all systems in its usual sizes, and where a shape is in a frame."""

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
_MIN_CONTRAST = 70  # levels between the inside of an arrow and its edge


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """An arrow to look for.

    Attributes:
        pixels: (h, w) float32 grey.
        mask: (h, w) float32, 1 on the arrow and its edge.
        tip_px: Column and row of its tip.
        is_dark: Black with a white edge.
        is_learned: Seen in the recording, and not drawn here.
    """

    pixels: NDArray[np.float32] = field(repr=False)
    mask: NDArray[np.float32] = field(repr=False)
    tip_px: tuple[int, int]
    is_dark: bool
    is_learned: bool = False


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


def match_arrow(grey: NDArray[np.uint8], area: Box, arrow: Arrow) -> Iterator[tuple[float, tuple[int, int]]]:
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
    if not arrow.is_learned and light.any() and dark.any() and cut[light].mean() - cut[dark].mean() < _MIN_CONTRAST:
        return
    left, top = int(x) + max(area.left, -offset), int(y) + max(area.top, -offset)
    yield float(scores[y, x]), (left + arrow.tip_px[0], top + arrow.tip_px[1])


def _leaves(grey: NDArray[np.uint8], area: Box) -> bool:
    """Whether an area goes beyond the frame."""
    return area.left < 0 or area.top < 0 or area.right > grey.shape[1] or area.bottom > grey.shape[0]
