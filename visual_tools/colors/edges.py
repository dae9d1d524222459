"""Edges to parts of a pixel: what mixture of colours a pixel is, and where the side of a box ends."""

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box

_NOISE = 20.0
_INWARDS_PX = 12
_OUTWARDS_PX = 5
_MIN_EDGE = 12.0
_MIN_LINE = 30.0
_PURE = 0.85
_MUCH = 0.5


def unmix(
    own: NDArray[np.float32], first: NDArray[np.float32], second: NDArray[np.float32], third: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Parts of three colours that together look most like a pixel.

    Where the three lie in one line, or the third is one of the other two, the pixel is taken for a mixture of the
    first two.

    Args:
        own: Colours of the pixels, (N, 3).
        first: One colour, (N, 3) or (3,).
        second: Another one, likewise.
        third: Another one, likewise.

    Returns:
        The parts, (3, N), which add up to 1 and are outside 0 to 1 for colours that are no mixture; and how far the
        mixture is from the pixel, (N,), in levels of 0 to 255.

    Source:
        Least squares for own = first + x (second - first) + y (third - first), with a ridge on y.
    """
    is_two = (first == third).all(axis=-1) | (second == third).all(axis=-1)
    step, turn = second - first, np.where(is_two[..., None], 0, third - first)
    own = own - first
    step_step, step_turn = (step**2).sum(axis=-1) + 1, (step * turn).sum(axis=-1)
    turn_turn = (turn**2).sum(axis=-1) + _NOISE**2
    own_step, own_turn = (own * step).sum(axis=-1), (own * turn).sum(axis=-1)
    scale = step_step * turn_turn - step_turn**2
    x = (turn_turn * own_step - step_turn * own_turn) / scale
    y = (step_step * own_turn - step_turn * own_step) / scale
    beside = np.linalg.norm(own - x[:, None] * step - y[:, None] * turn, axis=-1)
    return np.stack([1 - x - y, x, y]), beside


def find_edge_shift(image: NDArray[np.uint8], box: Box, side: str, inner_rgb: NDArray[np.uint8]) -> float:
    """How far outside (positive) or inside one side of a box the colour in it really ends, in pixels.

    Where a line is drawn on the edge, the edge is in its middle. Else the pixels between the inner colour and the outer
    one are mixtures of them. What is farther in or out, of a grid or of writing, is left alone.

    Args:
        image: (H, W, 3) uint8 RGB.
        box: About the area of one colour.
        side: `"top"`, `"bottom"`, `"left"` or `"right"`.
        inner_rgb: The colour.
    """
    profile, inner = _across(image, box, side), inner_rgb.astype(np.float32)
    at = len(profile) - _OUTWARDS_PX
    outer = np.median(profile[at + 2 :], axis=0)
    if np.linalg.norm(outer - inner) < _MIN_EDGE:
        return 0.0
    parts, beside = unmix(profile, inner, outer, inner)
    start = int(np.flatnonzero(parts[0, : at + 2] > _PURE).max(initial=0))
    end = start + 1 + int((parts[1, start + 1 :] > _PURE).argmax())
    peak = start + int(beside[start : end + 1].argmax())
    if beside[peak] > _MIN_LINE:
        return _find_middle(unmix(profile, inner, outer, profile[peak])[0][2], peak) - at
    return start + 1 + float(np.clip(parts[0, start + 1 : end], 0, 1).sum()) - at


def _find_middle(line: NDArray[np.float32], peak: int) -> float:
    """The middle of a line of which a part is in each pixel and much in one of them."""
    below = np.flatnonzero(line < _MUCH)
    first, last = below[below < peak].max(initial=0), below[below > peak].min(initial=len(line) - 1)
    weights = np.clip(line[first : last + 1], 0, 1)
    return float(np.average(np.arange(first, last + 1) + 0.5, weights=weights))


def _across(image: NDArray[np.uint8], box: Box, side: str) -> NDArray[np.float32]:
    """The colours from inside a bar over one of its edges to outside, the median along the edge; (N, 3).

    The edge of the box is before the last `_OUTWARDS_PX` of them.
    """
    is_level = side in ("top", "bottom")
    depth, length = (box.height, box.width) if is_level else (box.width, box.height)
    inwards = min(_INWARDS_PX, max(depth // 2, 1))
    trim = length // 8
    at = getattr(box, side)
    picture = image if is_level else image.transpose(1, 0, 2)
    low = (box.left if is_level else box.top) + trim
    high = (box.right if is_level else box.bottom) - trim
    is_end = side in ("bottom", "right")
    around = np.arange(at - inwards, at + _OUTWARDS_PX) if is_end else np.arange(at - _OUTWARDS_PX, at + inwards)[::-1]
    around = np.clip(around, 0, picture.shape[0] - 1)
    profile: NDArray[np.float32] = np.median(picture[around, low:high].astype(np.float32), axis=1)
    return profile
