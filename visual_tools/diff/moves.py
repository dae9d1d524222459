"""Whether what vanished in one place is what appeared in another: one shift must explain both."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.diff.regions import Region
from visual_tools.require import require

_MAX_ERROR = 0.16  # squared, of what staying in place would cost
_AS_GOOD = 0.03  # of shifts that explain it as well, the shortest is meant
_MIN_SHAPE_OVERLAP = 0.4
_DISTINCT = 0.3  # what a shift costs at the median, if only one will do
_MAX_SIDE_PX = 96  # matching is done no larger than this
_NEAR_PX = 3
_MIN_SHIFT_PX = 2
_RIM_SHARE = 0.7
_MIN_PART = 0.35  # of each side of a region that covers both places: one of the places
_NOWHERE = -1000.0  # a level unlike any, beyond the picture's edge


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A move: where a thing was and is, in the first picture's frame.

    Attributes:
        old_box: Before.
        new_box: After.
        error: Squared, as a share of what not moving would cost.
        is_distinct: Whether most other shifts are much worse.
    """

    old_box: Box
    new_box: Box
    error: float
    is_distinct: bool

    @property
    def length_px(self) -> float:
        """How far it goes."""
        return math.dist(self.old_box.center, self.new_box.center)


def find_shift(old: Region, new: Region, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> Shift | None:
    """The shift under which the first picture's pixels of `old` are the second's of `new`, None where there is none.

    Two cases: places apart, of one shape; and places that overlap, of which only the rims differ.
    """
    step = _step(old, new)
    (x, y), (to_x, to_y) = old.box.center, new.box.center
    apart = round((to_x - x) / step), round((to_y - y) / step)
    search = _Search(old, new, first, second, step)
    gap = max(-old.box.overlap_x(new.box), -old.box.overlap_y(new.box))
    if gap <= max(old.box.width, old.box.height, new.box.width, new.box.height):
        found = search.best(*((min(0, far), max(0, far)) for far in apart))
        shift = None if found is None else _within(old.box.union(new.box), found)
        if shift and all(_is_rim(*one, step + 1) for one in ((old.box, shift.old_box), (new.box, shift.new_box))):
            return shift
    slack = max(_NEAR_PX, max(old.box.width, old.box.height) // (6 * step))
    found = search.best(*((middle - slack, middle + slack) for middle in apart))
    if found is None or _shape_overlap(old, new, found.dx, found.dy) < _MIN_SHAPE_OVERLAP:
        return None
    return Shift(old_box=old.box, new_box=new.box, error=found.error, is_distinct=found.is_distinct)


def _is_rim(part: Box, whole: Box, slack_px: int) -> bool:
    """Whether a part lies in the whole and goes along most of one of its sides."""
    spans = part.width >= _RIM_SHARE * whole.width or part.height >= _RIM_SHARE * whole.height
    return spans and whole.contains(part, slack_px)


def find_shift_within(region: Region, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> Shift | None:
    """The same for a region that covers both the old and the new place."""
    step = _step(region, region)
    reach = region.box.width // step - 2, region.box.height // step - 2
    search = _Search(region, region, first, second, step)
    found = search.best((-reach[0], reach[0]), (-reach[1], reach[1]))
    shift = None if found is None else _within(region.box, found)
    if shift is None or shift.old_box.width < _MIN_PART * region.box.width:
        return None
    return shift if shift.old_box.height >= _MIN_PART * region.box.height else None


@dataclass(frozen=True, slots=True)
class _Best:
    error: float
    is_distinct: bool
    dx: int
    dy: int


def _within(both: Box, best: _Best) -> Shift | None:
    """Old and new place inside the box around both, one shift apart."""
    dx, dy = best.dx, best.dy
    old = Box(both.left + max(-dx, 0), both.top + max(-dy, 0), both.right - max(dx, 0), both.bottom - max(dy, 0))
    if max(abs(dx), abs(dy)) < _MIN_SHIFT_PX or old.width < 2 or old.height < 2:
        return None
    return Shift(old_box=old, new_box=old.moved(dx, dy), error=best.error, is_distinct=best.is_distinct)


def _step(old: Region, new: Region) -> int:
    both = old.box, new.box
    return max(1, max(max(box.width, box.height) for box in both) // _MAX_SIDE_PX)


def _shape_overlap(old: Region, new: Region, dx: int, dy: int) -> float:
    """Shared pixels of the two masks by all of them, after the shift."""
    moved = old.box.moved(dx, dy)
    both = moved.union(new.box)
    canvas = np.zeros((2, both.height, both.width), np.bool_)
    for layer, box, mask in ((0, moved, old.mask), (1, new.box, new.mask)):
        at = box.moved(-both.left, -both.top)
        canvas[layer, at.top : at.bottom, at.left : at.right] = mask
    return float(np.count_nonzero(canvas.all(axis=0)) / np.count_nonzero(canvas.any(axis=0)))


class _Search:
    """Squared error of shifts, both of what vanished and of what appeared; every `step`-th pixel of both pictures."""

    def __init__(
        self, old: Region, new: Region, first: NDArray[np.uint8], second: NDArray[np.uint8], step: int
    ) -> None:
        self._step = step
        self._first, self._second = first[::step, ::step], second[::step, ::step]
        self._old, self._new = _thinned(old, step), _thinned(new, step)
        self._staying = [_error_in_place(self._first, self._second, *one) for one in (self._old, self._new)]

    def best(self, xs: tuple[int, int], ys: tuple[int, int]) -> _Best | None:
        """The best shift within these ranges of steps."""
        vanished = _errors(self._first, self._second, *self._old, xs, ys)
        appeared = _errors(self._second, self._first, *self._new, (-xs[1], -xs[0]), (-ys[1], -ys[0]))
        if vanished is None or appeared is None or min(self._staying) == 0:
            return None
        errors = np.maximum(vanished / self._staying[0], appeared[::-1, ::-1] / self._staying[1])
        columns, rows = np.arange(xs[0], xs[1] + 1), np.arange(ys[0], ys[1] + 1)
        errors[
            (np.abs(rows) * self._step < _MIN_SHIFT_PX)[:, None] & (np.abs(columns) * self._step < _MIN_SHIFT_PX)
        ] = 9
        error = float(errors.min())
        if error > _MAX_ERROR:
            return None
        far = np.where(errors <= error + _AS_GOOD, np.hypot(*np.meshgrid(columns, rows)), np.inf)
        row, column = np.unravel_index(int(np.argmin(far)), errors.shape)
        return _Best(
            error=error,
            is_distinct=bool(np.median(errors) >= _DISTINCT),
            dx=int(columns[column]) * self._step,
            dy=int(rows[row]) * self._step,
        )


def _thinned(region: Region, step: int) -> tuple[int, int, NDArray[np.float32]]:
    """Left, top and mask of a region on the grid of every `step`-th pixel."""
    left, top = -(-region.box.left // step), -(-region.box.top // step)
    mask = region.mask[top * step - region.box.top :: step, left * step - region.box.left :: step]
    return left, top, mask.astype(np.float32)


def _error_in_place(
    source: NDArray[np.uint8], target: NDArray[np.uint8], left: int, top: int, mask: NDArray[np.float32]
) -> float:
    place = slice(top, top + mask.shape[0]), slice(left, left + mask.shape[1])
    apart = source[place].astype(np.float32) - target[place]
    return float((apart * apart).sum(axis=2)[mask > 0].mean()) if mask.any() else 0.0


def _errors(
    source: NDArray[np.uint8],
    target: NDArray[np.uint8],
    left: int,
    top: int,
    mask: NDArray[np.float32],
    xs: tuple[int, int],
    ys: tuple[int, int],
) -> NDArray[np.float32] | None:
    """Mean squared error of the masked pixels of `source` laid on `target`, for each shift; None at no pixels."""
    cv2 = require("cv2", "visual")
    height, width = mask.shape
    if not mask.any():
        return None
    area = Box(left + xs[0], top + ys[0], left + xs[1] + width, top + ys[1] + height)
    inside = area.clipped(target.shape[1], target.shape[0])
    if inside.width < width or inside.height < height:
        return None
    beyond = inside.top - area.top, area.bottom - inside.bottom, inside.left - area.left, area.right - inside.right
    window = target[inside.top : inside.bottom, inside.left : inside.right].astype(np.float32)
    window = cv2.copyMakeBorder(window, *beyond, cv2.BORDER_CONSTANT, value=(_NOWHERE,) * 3)
    template = source[top : top + height, left : left + width].astype(np.float32)
    errors = cv2.matchTemplate(window, template, cv2.TM_SQDIFF, mask=np.dstack([mask] * 3))
    found: NDArray[np.float32] = np.maximum(errors, 0) / np.float32(mask.sum())
    return found
