"""Motion of contents within a box: down as an accordion opens, sideways as a carousel turns."""

from collections.abc import Sequence

import numpy as np

from apps.video2web.pixels import Levels, Mask, RgbImage
from visual_tools.errors import require

# Heuristics without another source; measured together in benchmarks/video2web.md, "Recordings".
_MIN_SCORE = 0.88
_MIN_SHIFT_PX = 6
_STRIP_PX = 20
_MIN_SPREAD = 5.0
_MIN_VOTES = 2
_MIN_VOTE_SHARE = 0.2
_ENOUGH_PX = 240


def find_slide(before: RgbImage, middle: Sequence[RgbImage]) -> int:
    """Return the columns by which contents slid sideways; 0 if they did not; negative to the left.

    Args:
        before: (H, W, 3) uint8 RGB.
        middle: Intermediate frames of the same box, in order.
    """
    cv2 = require("cv2", "visual")
    height, width = before.shape[:2]
    if width < 60 or height < 24 or len(middle) < 2:
        return 0
    grey = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (before, *middle)]
    for left in (0, width // 2, width // 4):
        piece = grey[0][:, left : left + width // 2]
        if piece.std() < _MIN_SPREAD:
            continue
        shifts = []
        for image in grey[1:]:
            scores = cv2.matchTemplate(image, piece, cv2.TM_CCOEFF_NORMED)[0]
            best = int(scores.argmax())
            if scores[best] >= _MIN_SCORE and abs(best - left) >= _MIN_SHIFT_PX:
                shifts.append(best - left)
        sizes = [abs(shift) for shift in shifts]
        is_one_way = all(shift > 0 for shift in shifts) or all(shift < 0 for shift in shifts)
        if len(sizes) >= 2 and is_one_way and sizes == sorted(sizes) and sizes[-1] > sizes[0]:
            return shifts[-1]
    return 0


def find_push(before: RgbImage, after: RgbImage, mask: Mask) -> int:
    """Return the rows by which the lower part of a box moved down (an accordion opens) or up; 0 if it did not.

    Args:
        before: (H, W, 3) uint8 RGB.
        after: The same box after.
        mask: (H, W) bool, pixels that differ.
    """
    rows, tops = _find_moved_strips(before, after, mask)
    return rows if tops else 0


def find_fold(before: RgbImage, after: RgbImage, mask: Mask) -> tuple[int, int] | None:
    """Return the first and end row of the contents inserted or removed where a lower part moved; None if none did.

    Args:
        before: (H, W, 3) uint8 RGB.
        after: The same box after.
        mask: (H, W) bool, pixels that differ.
    """
    rows, tops = _find_moved_strips(before, after, mask)
    if not tops:
        return None
    first, end = sorted((min(tops), min(tops) + rows))
    return max(first, 0), min(end, len(before))


def track_push(frames: Sequence[RgbImage], before: RgbImage, after: RgbImage, mask: Mask) -> list[float] | None:
    """Return the progress of the lower part in each frame, 0 to 1; None if it does not move.

    Args:
        frames: (H, W, 3) uint8 RGB each.
        before: The same box before.
        after: The same box after.
        mask: (H, W) bool, pixels that differ.
    """
    cv2 = require("cv2", "visual")
    rows, tops = _find_moved_strips(before, after, mask)
    if not tops:
        return None
    source = _narrow_grey(before)
    parts = []
    for frame in frames:
        grey = _narrow_grey(frame)
        seen = []
        for top in tops[:4]:
            first, last = sorted((top, top + rows))
            lane = grey[max(first - 4, 0) : last + _STRIP_PX + 4]
            scores = cv2.matchTemplate(lane, source[top : top + _STRIP_PX], cv2.TM_CCOEFF_NORMED)[:, 0]
            seen.append((int(scores.argmax()) + max(first - 4, 0) - top) / rows)
        parts.append(float(np.clip(np.median(seen), 0, 1)))
    return parts


def _find_moved_strips(before: RgbImage, after: RgbImage, mask: Mask) -> tuple[int, list[int]]:
    """Return the rows by which most strips of the box moved, and their earlier rows; empty with too few strips."""
    cv2 = require("cv2", "visual")
    height, width = before.shape[:2]
    if height < 3 * _STRIP_PX or width < 40:
        return 0, []
    grey, target = _narrow_grey(before), _narrow_grey(after)
    votes: dict[int, list[int]] = {}
    asked = 0
    for top in range(0, height - _STRIP_PX, _STRIP_PX // 2):
        piece = grey[top : top + _STRIP_PX]
        if piece.std() < _MIN_SPREAD or not mask[top : top + _STRIP_PX].any():
            continue
        asked += 1
        scores = cv2.matchTemplate(target, piece, cv2.TM_CCOEFF_NORMED)[:, 0]
        best = int(scores.argmax())
        if scores[best] >= _MIN_SCORE and abs(best - top) >= _MIN_SHIFT_PX:
            votes.setdefault(best - top, []).append(top)
    rows, tops = max(votes.items(), key=lambda vote: len(vote[1]), default=(0, []))
    return (rows, tops) if len(tops) >= max(_MIN_VOTES, _MIN_VOTE_SHARE * asked) else (0, [])


def _narrow_grey(image: RgbImage) -> Levels:
    """Convert to grey and reduce wide images: fewer columns suffice to distinguish rows."""
    cv2 = require("cv2", "visual")
    grey: Levels = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    height, width = grey.shape
    if width <= _ENOUGH_PX:
        return grey
    return np.asarray(cv2.resize(grey, (_ENOUGH_PX, height), interpolation=cv2.INTER_AREA), np.uint8)
