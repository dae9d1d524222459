"""Pointers that are no arrows (hands, dots, beams): learned from a small thing that is in another place a moment later.

Nothing about their looks is known before. Two frames a few steps apart differ in two small places of one shape when a
pointer has moved and all else is still; where the shape stands out from what is around it, there the pointer is.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.video2web.recording.arrows import Arrow
from visual_tools.box import Box
from visual_tools.errors import require

_MOVED_LEVELS = 36
_JOIN_PX = 5
_MIN_SIDE_PX, _MAX_SIDE_PX = 6, 64
_MAX_BLOBS = 6
_LIKE = 0.3  # by how much the sides of both places may differ
_SAME_SHAPE = 0.55
_MIN_CONTRAST = 14.0
_ROUND_FILL = 0.66
_TALL = 1.9


def learn_pointer(
    before: NDArray[np.uint8], after: NDArray[np.uint8], scale: float, was: Box | None = None
) -> tuple[Arrow, tuple[int, int]] | None:
    """The shape that moved between two frames and the place of its tip in the later one; None where that is not clear.

    Args:
        before: (H, W) uint8 grey.
        after: A frame a few steps later.
        scale: Pixels of the frames for one of the screen.
        was: Where the pointer was known to be in the earlier frame: it may have another shape since.
    """
    cv2 = require("cv2", "visual")
    changed = (cv2.absdiff(before, after) > _MOVED_LEVELS).astype(np.uint8)
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
    if stands_out[here] < _MIN_CONTRAST or stands_out[1 - here] > 0 or is_left[here]:
        return None
    box, mask = pair[here], masks[here]
    arrow = _make_arrow(after, box, mask)
    return arrow, (box.left + arrow.tip_px[0], box.top + arrow.tip_px[1])


def _find_pair(changed: NDArray[np.uint8], limit: float, like: float) -> tuple[Box, Box] | None:
    """The only two places that changed, where both are small and of one size."""
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
        abs(one - other) <= max(like * max(one, other), 3)
        for one, other in ((first.width, second.width), (first.height, second.height))
    )
    return (first, second) if is_alike else None


def _shape_of(changed: NDArray[np.uint8], box: Box) -> NDArray[np.uint8]:
    """(h, w) uint8, 1 on what changed and what it encloses."""
    cv2 = require("cv2", "visual")
    piece = np.ascontiguousarray(changed[box.top : box.bottom, box.left : box.right])
    closed = cv2.morphologyEx(piece, cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    outlines, _ = cv2.findContours(closed, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled: NDArray[np.uint8] = cv2.drawContours(np.zeros_like(closed), outlines, -1, 1, thickness=-1)
    return filled


def _is_one_shape(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> bool:
    height, width = max(first.shape[0], second.shape[0]), max(first.shape[1], second.shape[1])
    laid = [np.pad(mask, ((0, height - mask.shape[0]), (0, width - mask.shape[1]))) > 0 for mask in (first, second)]
    common, either = np.count_nonzero(laid[0] & laid[1]), np.count_nonzero(laid[0] | laid[1])
    return bool(common > _SAME_SHAPE * either)


def _contrast(grey: NDArray[np.uint8], box: Box, mask: NDArray[np.uint8]) -> float:
    """By how many levels a shape differs from the pixels around its box."""
    wide = box.padded(3).clipped(grey.shape[1], grey.shape[0])
    around = grey[wide.top : wide.bottom, wide.left : wide.right].astype(np.float32)
    ring = np.ones(around.shape, np.bool_)
    ring[box.top - wide.top : box.bottom - wide.top, box.left - wide.left : box.right - wide.left] = False
    inside = grey[box.top : box.bottom, box.left : box.right][mask > 0].astype(np.float32)
    return float(np.abs(inside - np.median(around[ring])).mean()) if inside.size and ring.any() else 0.0


def _make_arrow(grey: NDArray[np.uint8], box: Box, mask: NDArray[np.uint8]) -> Arrow:
    pixels = grey[box.top : box.bottom, box.left : box.right].astype(np.float32)
    inside = pixels[mask > 0]
    return Arrow(
        pixels=pixels,
        mask=mask.astype(np.float32),
        tip_px=_find_tip(mask),
        is_dark=bool(np.median(inside) < 128),
        is_learned=True,
    )


def _find_tip(mask: NDArray[np.uint8]) -> tuple[int, int]:
    """The middle of what is round or a beam, else the middle of the uppermost rows."""
    height, width = mask.shape
    is_round = abs(height - width) <= 0.2 * max(height, width) and mask.mean() > _ROUND_FILL
    if is_round or (height > _TALL * width and mask[:, : width // 2].sum() > 0.3 * mask.sum()):
        return width // 2, height // 2
    top = np.flatnonzero(mask[: max(height // 8, 1)].any(axis=0))
    return (int(top.mean()) if top.size else width // 2), 0


def is_like(arrow: Arrow, others: Sequence[Arrow]) -> bool:
    """Whether a shape is about as large as one that is known."""
    sizes = [(arrow.pixels.shape, other.pixels.shape) for other in others]
    return any(abs(one[0] - other[0]) <= 3 and abs(one[1] - other[1]) <= 3 for one, other in sizes)
