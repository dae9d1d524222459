"""Compare two images, or the two halves of one, and classify each difference.

A region that vanished and a region that appeared are a move if one shift explains both.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.diff.halves import split_halves
from visual_tools.diff.maps import (
    DiffRegion,
    find_excess,
    find_regions,
    find_structure,
    join,
    match_tone,
    mean_structure,
    paint,
)
from visual_tools.diff.registration import find_overlap, find_transform, warp_onto
from visual_tools.diff.result import Difference, Differences, Halves, Transform, as_rgb
from visual_tools.errors import ImageError
from visual_tools.packages import cv2

# Heuristics without another source; measured together in benchmarks/visual/README.md, "Differences".
_MAX_ERROR = 0.16  # squared error relative to no move
_AS_GOOD = 0.03  # tolerance for equally good shifts, of which the shortest is chosen
_MIN_SHAPE_OVERLAP = 0.4
_DISTINCT = 0.3  # minimum median error of all shifts for the best one to be distinct
_MAX_MOVED_SIDE_PX = 96  # maximum size for matching
_NEAR_PX = 3
_MIN_SHIFT_PX = 2
_RIM_SHARE = 0.7
_MIN_PART = 0.35  # minimum size of the old or new place, as a share of each side of a region that covers both
_NOWHERE = -1000.0  # a level that matches no pixel, beyond the image's edge
_NEARBY_SHARE = 0.08  # of the diagonal: maximum distance of a moved object
_NEARBY_SIZES = 3.0  # the same in object sizes; the larger of the two limits applies
_NEARBY_SIZES_UNSURE = 2.0  # the same if it is unclear which is the old place
_MAX_PAIRED = 60
_GOOD_ERROR = 0.08
_AROUND_PX = 6
_UNLIKE = 20.0  # levels
_AREA_RATIO = 3.0
_MUCH_CLOSER = 0.5  # relative distance to the expected surroundings for "removed" and "added"
_SAME_EDGES = 0.5
_MAX_SIDE_PX = 160  # maximum size for inspecting regions


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Move of an object, in the first image's frame.

    Attributes:
        old_box: Box before the move.
        new_box: Box after the move.
        error: Squared error relative to no move.
        is_distinct: True if most other shifts are much worse.
    """

    old_box: Box
    new_box: Box
    error: float
    is_distinct: bool

    @property
    def length_px(self) -> float:
        """Length of the move in pixels."""
        return math.dist(self.old_box.center, self.new_box.center)


def find_shift(old: DiffRegion, new: DiffRegion, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> Shift | None:
    """Return the shift that maps the first image's pixels of `old` to the second's of `new`, or None.

    Two cases: separate places of the same shape; and overlapping places, of which only the rims differ.
    """
    step = _step(old, new)
    (x, y), (to_x, to_y) = old.box.center, new.box.center
    apart = round((to_x - x) / step), round((to_y - y) / step)
    search = _Search(old, new, first, second, step)
    gap = max(-old.box.overlap_x(new.box), -old.box.overlap_y(new.box))
    if gap <= max(old.box.width, old.box.height, new.box.width, new.box.height):
        best = search.best(*((min(0, far), max(0, far)) for far in apart))
        shift = None if best is None else _within(old.box.union(new.box), best)
        if shift and all(_is_rim(*pair, step + 1) for pair in ((old.box, shift.old_box), (new.box, shift.new_box))):
            return shift
    slack = max(_NEAR_PX, max(old.box.width, old.box.height) // (6 * step))
    best = search.best(*((middle - slack, middle + slack) for middle in apart))
    if best is None or _shape_overlap(old, new, best.dx, best.dy) < _MIN_SHAPE_OVERLAP:
        return None
    return Shift(old_box=old.box, new_box=new.box, error=best.error, is_distinct=best.is_distinct)


def _is_rim(part: Box, whole: Box, slack_px: int) -> bool:
    """Return True if a part is inside the whole and follows most of one of its sides."""
    spans = part.width >= _RIM_SHARE * whole.width or part.height >= _RIM_SHARE * whole.height
    return spans and whole.contains(part, slack_px)


def find_shift_within(region: DiffRegion, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> Shift | None:
    """Return the shift within a region that covers both the old and the new place, or None."""
    step = _step(region, region)
    reach = region.box.width // step - 2, region.box.height // step - 2
    search = _Search(region, region, first, second, step)
    best = search.best((-reach[0], reach[0]), (-reach[1], reach[1]))
    shift = None if best is None else _within(region.box, best)
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
    """Return old and new place, one shift apart, inside the box around both."""
    dx, dy = best.dx, best.dy
    old = Box(both.left + max(-dx, 0), both.top + max(-dy, 0), both.right - max(dx, 0), both.bottom - max(dy, 0))
    if max(abs(dx), abs(dy)) < _MIN_SHIFT_PX or old.width < 2 or old.height < 2:
        return None
    return Shift(old_box=old, new_box=old.moved(dx, dy), error=best.error, is_distinct=best.is_distinct)


def _step(old: DiffRegion, new: DiffRegion) -> int:
    both = old.box, new.box
    return max(1, max(max(box.width, box.height) for box in both) // _MAX_MOVED_SIDE_PX)


def _shape_overlap(old: DiffRegion, new: DiffRegion, dx: int, dy: int) -> float:
    """Return the intersection over union of the two masks after the shift."""
    moved = old.box.moved(dx, dy)
    both = moved.union(new.box)
    canvas = np.zeros((2, both.height, both.width), np.bool_)
    for layer, box, mask in ((0, moved, old.mask), (1, new.box, new.mask)):
        at = box.moved(-both.left, -both.top)
        canvas[layer, at.top : at.bottom, at.left : at.right] = mask
    return float(np.count_nonzero(canvas.all(axis=0)) / np.count_nonzero(canvas.any(axis=0)))


class _Search:
    """Squared error of shifts, over vanished and appeared pixels; every `step`-th pixel of both images."""

    def __init__(
        self, old: DiffRegion, new: DiffRegion, first: NDArray[np.uint8], second: NDArray[np.uint8], step: int
    ) -> None:
        self._step = step
        self._first, self._second = first[::step, ::step], second[::step, ::step]
        self._old, self._new = _thinned(old, step), _thinned(new, step)
        self._staying = [_error_in_place(self._first, self._second, *side) for side in (self._old, self._new)]

    def best(self, xs: tuple[int, int], ys: tuple[int, int]) -> _Best | None:
        """Return the best shift within these ranges of steps."""
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


def _thinned(region: DiffRegion, step: int) -> tuple[int, int, NDArray[np.float32]]:
    """Return left, top and mask of a region on the grid of every `step`-th pixel."""
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
    """Return the mean squared error of masked pixels of `source` on `target` for each shift; None without pixels."""
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
    mean_errors: NDArray[np.float32] = np.maximum(errors, 0) / np.float32(mask.sum())
    return mean_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifiedRegion:
    """Difference in the first image's frame; both boxes are equal unless something moved."""

    kind: str
    first_box: Box
    second_box: Box
    area_px: int
    confidence: float


def classify_regions(
    regions: tuple[DiffRegion, ...], first: NDArray[np.uint8], second: NDArray[np.uint8]
) -> tuple[ClassifiedRegion, ...]:
    """Classify each region, after pairing the regions of moved objects."""
    alone = [_name(region, first, second) for region in regions]
    pairs = _pair_moved(regions, [region.kind for region in alone], first, second)
    taken = {at for pair in pairs for at in pair}
    moved = [_moved(join((regions[old], regions[new])), shift) for (old, new), shift in pairs.items()]
    return (*moved, *(region for at, region in enumerate(alone) if at not in taken))


def _pair_moved(
    regions: tuple[DiffRegion, ...], kinds: list[str], first: NDArray[np.uint8], second: NDArray[np.uint8]
) -> dict[tuple[int, int], Shift]:
    """Match regions that an object left with regions where it arrived; each is used once, nearest good fits first.

    The background revealed by a move equals the background that was covered elsewhere, so either the kinds must
    determine the direction, or the content must be such that no other shift fits.
    """
    reach_px = _NEARBY_SHARE * math.hypot(*first.shape[:2])
    largest = sorted(range(len(regions)), key=lambda at: -regions[at].area_px)[:_MAX_PAIRED]
    candidates: list[tuple[bool, float, int, int, Shift]] = []
    for old, new in itertools.permutations(sorted(largest), 2):
        before, after = regions[old], regions[new]
        if "moved" in (kinds[old], kinds[new]):
            continue
        if not 1 / _AREA_RATIO < before.area_px / after.area_px < _AREA_RATIO:
            continue
        sizes = [side for box in (before.box, after.box) for side in (box.width, box.height)]
        is_plain = kinds[old] == "removed" and kinds[new] == "added"
        within_px = max(reach_px, _NEARBY_SIZES * max(sizes)) if is_plain else _NEARBY_SIZES_UNSURE * max(sizes)
        if math.dist(before.box.center, after.box.center) > within_px:
            continue
        shift = find_shift(before, after, first, second)
        if shift is not None and (is_plain or shift.is_distinct or _has_core(shift, first)):
            candidates.append((shift.error > _GOOD_ERROR, shift.length_px, old, new, shift))
    pairs: dict[tuple[int, int], Shift] = {}
    for _, _, old, new, shift in sorted(candidates, key=lambda candidate: candidate[:4]):
        if not any(at in pair for pair in pairs for at in (old, new)):
            pairs[old, new] = shift
    return pairs


def _has_core(shift: Shift, first: NDArray[np.uint8]) -> bool:
    """Return True if the object itself, unlike its surroundings, is between the rims of a small shift."""
    old, new = shift.old_box, shift.new_box
    core = Box(max(old.left, new.left), max(old.top, new.top), min(old.right, new.right), min(old.bottom, new.bottom))
    if core.width < 1 or core.height < 1:
        return False
    around = old.union(new).padded(_AROUND_PX).clipped(first.shape[1], first.shape[0])
    part = first[around.top : around.bottom, around.left : around.right].astype(np.float32)
    middle = first[core.top : core.bottom, core.left : core.right].reshape(-1, 3)
    rim = np.concatenate([part[0], part[-1], part[:, 0], part[:, -1]])
    return bool(np.abs(np.median(middle, axis=0) - np.median(rim, axis=0)).max() > _UNLIKE)


def _name(region: DiffRegion, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> ClassifiedRegion:
    before, after, mask = _close_up(region, first, second)
    around = cv2.dilate(mask, np.ones((3, 3), np.uint8))
    expected = cv2.inpaint(before, around, 3, cv2.INPAINT_TELEA).astype(np.float32)
    inside = mask > 0
    first_off, second_off = (np.linalg.norm(image - expected, axis=2)[inside] for image in (before, after))
    left = float(np.mean(second_off < _MUCH_CLOSER * first_off))
    if 0.2 < left < 0.8 and (shift := find_shift_within(region, first, second)) is not None:
        return _moved(region, shift)
    if second_off.mean() < _MUCH_CLOSER * first_off.mean():
        return _in_place("removed", region)
    if first_off.mean() < _MUCH_CLOSER * second_off.mean():
        return _in_place("added", region)
    same_edges = _edge_agreement(before, after, around) > _SAME_EDGES
    return _in_place("recoloured" if same_edges else "changed", region)


def _close_up(
    region: DiffRegion, first: NDArray[np.uint8], second: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
    """Return crops of both images around a region and its mask (0, 255), downscaled if the region is large."""
    margin = max(8, max(region.box.width, region.box.height) // 8)
    area = region.box.padded(margin).clipped(first.shape[1], first.shape[0])
    mask = np.zeros((area.height, area.width), np.uint8)
    own = region.box.moved(-area.left, -area.top)
    mask[own.top : own.bottom, own.left : own.right] = region.mask * np.uint8(255)
    parts = [np.ascontiguousarray(image[area.top : area.bottom, area.left : area.right]) for image in (first, second)]
    factor = min(1.0, _MAX_SIDE_PX / max(area.width, area.height))
    size = max(round(area.width * factor), 1), max(round(area.height * factor), 1)
    before, after, shape = (cv2.resize(part, size, interpolation=cv2.INTER_AREA) for part in (*parts, mask))
    return before, after, np.where(shape >= min(128, shape.max()), 255, 0).astype(np.uint8)


def _edge_agreement(before: NDArray[np.uint8], after: NDArray[np.uint8], around: NDArray[np.uint8]) -> float:
    """Return the correlation of the edge strengths inside a mask, -1 to 1."""
    strengths = []
    for image in (before, after):
        smooth = cv2.GaussianBlur(image, (3, 3), 0).astype(np.float32)
        slope = np.hypot(cv2.Sobel(smooth, -1, 1, 0), cv2.Sobel(smooth, -1, 0, 1)).max(axis=2)
        strengths.append(slope[around > 0])
    if min(strength.std() for strength in strengths) == 0:
        return 0.0
    return float(np.corrcoef(*strengths)[0, 1])


def _moved(region: DiffRegion, shift: Shift) -> ClassifiedRegion:
    return ClassifiedRegion(
        kind="moved",
        first_box=shift.old_box,
        second_box=shift.new_box,
        area_px=region.area_px,
        confidence=_confidence(region),
    )


def _in_place(kind: str, region: DiffRegion) -> ClassifiedRegion:
    return ClassifiedRegion(
        kind=kind, first_box=region.box, second_box=region.box, area_px=region.area_px, confidence=_confidence(region)
    )


def _confidence(region: DiffRegion) -> float:
    return round(1 - 1 / max(region.strength, 1.0), 2)


# Heuristics without another source; measured together in benchmarks/visual/README.md, "Differences".
_THRESHOLD = 10.0  # units of Lab
_MERGE_SHARE = 0.015  # of the diagonal
_AREA_SHARE = 2.5e-5  # of the image
_MAX_SHARE = 0.5  # maximum share of pixels that differ in images of the same content
_MAX_SHARE_UNALIKE = 0.25  # the same if not even fine detail agrees
_MIN_AGREEMENT, _MIN_SIMILARITY = 0.25, 0.4
_EDGE_PX = 3  # of the overlap, where an image's frame is resampled


def pixel_diff(
    first: object,
    second: object = None,
    *,
    register: bool = True,
    min_area_px: int | None = None,
    sensitivity: float = 1.0,
    merge_px: int | None = None,
) -> Differences:
    """Find the differences between two images, as a person would list them: one moved cup is one difference.

    The second image is registered to the first (shift, scale, small rotation), a global difference of brightness or
    contrast is removed, and noise of compression and resampling is ignored.

    Args:
        first: (H, W, 3) uint8 RGB; grey, RGBA and Pillow images are accepted. If `second` is omitted, one image that
            contains both side by side or one above the other.
        second: Image to compare with, of any size if `register` is True.
        register: True to detect shift, scale and rotation; False requires images of one size.
        min_area_px: Minimum number of differing pixels of a difference; None is 0.0025 % of the image, at least 9.
        sensitivity: 2 detects differences of half the contrast, 0.5 only those of twice the contrast.
        merge_px: Maximum distance of differing pixels of one difference; None is 1.5 % of the diagonal.

    Raises:
        ImageError: If the images differ in size with `register` False, one image does not contain two halves, or an
            image or option is invalid.

    Example:
        >>> result = pixel_diff(load_image("before.png"), load_image("after.png"))
        >>> [(one.number, one.kind, one.first_box) for one in result.differences]
    """
    _check_options(sensitivity, min_area_px, merge_px)
    halves = split_halves(first) if second is None else None
    before, after = (halves.first, halves.second) if halves else (as_rgb(first, "first"), as_rgb(second, "second"))
    if not register and before.shape != after.shape:
        raise ImageError(
            f"the images are {_size(before)} and {_size(after)} pixels; with register=False they must be of one size"
        )
    laid = _align(before, after, register)
    overlap = _box_around(laid.covered)
    similarity = mean_structure(find_structure(_grey(before), _grey(laid.aligned)), laid.covered)
    diagonal = math.hypot(*before.shape[:2])
    threshold = _THRESHOLD / sensitivity
    excess = find_excess(*match_tone(before, laid.aligned, laid.covered), laid.covered, threshold)
    regions = find_regions(
        excess,
        threshold,
        _usual_area_px(before.shape) if min_area_px is None else min_area_px,
        max(4, round(_MERGE_SHARE * diagonal)) if merge_px is None else merge_px,
    )
    mask = paint(regions, before.shape)
    reason = _why_not_comparable(mask, similarity, laid)
    findings = () if reason else classify_regions(regions, before, laid.aligned)
    return Differences(
        differences=_number(findings, laid.transform, before.shape, after.shape, halves),
        comparable=not reason,
        reason=reason,
        similarity=similarity,
        transform=laid.transform,
        overlap_box=overlap,
        halves=halves,
        mask=mask,
        aligned=laid.aligned,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _AlignedImage:
    """Second image in the first one's frame; `covered` is 255 where it has content."""

    transform: Transform
    agreement: float
    aligned: NDArray[np.uint8]
    covered: NDArray[np.uint8]


def _align(first: NDArray[np.uint8], second: NDArray[np.uint8], register: bool) -> _AlignedImage:
    if not register or np.array_equal(first, second):
        return _AlignedImage(
            transform=Transform(), agreement=1.0, aligned=second, covered=np.full(first.shape[:2], 255, np.uint8)
        )
    transform, agreement = find_transform(_grey(first), _grey(second))
    if transform.is_identity and first.shape != second.shape and min(*first.shape[:2], *second.shape[:2]) < 16:
        raise ImageError(
            f"the images are {_size(first)} and {_size(second)} pixels: too small to be laid on each other"
        )
    covered = find_overlap(transform.matrix, first.shape, second.shape)
    if not transform.is_identity:
        kernel = np.ones((2 * _EDGE_PX + 1, 2 * _EDGE_PX + 1), np.uint8)
        covered = cv2.erode(covered, kernel, borderType=cv2.BORDER_CONSTANT, borderValue=(0,))
    return _AlignedImage(
        transform=transform,
        agreement=agreement,
        aligned=warp_onto(second, transform.matrix, first.shape),
        covered=covered,
    )


def _why_not_comparable(mask: NDArray[np.bool_], similarity: float, laid: _AlignedImage) -> str:
    covered = np.count_nonzero(laid.covered)
    if covered == 0:
        return "the images do not overlap"
    share = np.count_nonzero(mask) / covered
    if share > _MAX_SHARE:
        return f"{share:.0%} of the pixels differ: the images do not show the same thing"
    unalike = share > _MAX_SHARE_UNALIKE or (share > 0 and similarity < _MIN_SIMILARITY)
    if unalike and laid.agreement < _MIN_AGREEMENT:
        return f"{share:.0%} of the pixels differ and no shift, scale or turn brings the images together"
    return ""


def _number(
    findings: tuple[ClassifiedRegion, ...],
    transform: Transform,
    shape: tuple[int, ...],
    other: tuple[int, ...],
    halves: Halves | None,
) -> tuple[Difference, ...]:
    """Return the differences in reading order, with boxes in each image's own pixels."""
    band = max(shape[0] // 12, 1)
    ordered = sorted(findings, key=lambda finding: (finding.first_box.center[1] // band, finding.first_box.left))
    differences = []
    for number, finding in enumerate(ordered, start=1):
        first = finding.first_box
        second = transform.map_box(finding.second_box).clipped(other[1], other[0])
        if halves is not None:
            first = first.moved(halves.first_box.left, halves.first_box.top)
            second = second.moved(halves.second_box.left, halves.second_box.top)
        differences.append(
            Difference(
                number=number,
                kind=finding.kind,
                first_box=first,
                second_box=second,
                area_px=finding.area_px,
                confidence=finding.confidence,
            )
        )
    return tuple(differences)


def _usual_area_px(shape: tuple[int, ...]) -> int:
    pixels = shape[0] * shape[1]
    return min(max(9, round(_AREA_SHARE * pixels)), max(pixels // 8, 1))


def _check_options(sensitivity: float, min_area_px: int | None, merge_px: int | None) -> None:
    if not 0.1 <= sensitivity <= 10:
        raise ImageError(f"sensitivity is {sensitivity}; give 0.1 to 10, where 1 is what a person would call different")
    for name, value in (("min_area_px", min_area_px), ("merge_px", merge_px)):
        if value is not None and value < 0:
            raise ImageError(f"{name} is {value}; give 0 or more, or None for a default that fits the image")


def _grey(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    grey: NDArray[np.uint8] = cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY)
    return grey


def _box_around(covered: NDArray[np.uint8]) -> Box:
    rows, columns = np.flatnonzero(covered.any(axis=1)), np.flatnonzero(covered.any(axis=0))
    if rows.size == 0:
        return Box(0, 0, 0, 0)
    return Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


def _size(image: NDArray[np.uint8]) -> str:
    return f"{image.shape[1]}x{image.shape[0]}"
