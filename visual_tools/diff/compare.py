"""Compare two images, or the two halves of one."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.diff.halves import split_halves
from visual_tools.diff.kinds import Finding, find_findings
from visual_tools.diff.maps import find_excess, find_regions, find_structure, match_tone, mean_structure, paint
from visual_tools.diff.registration import find_overlap, find_transform, warp_onto
from visual_tools.diff.result import Difference, Differences, Halves, Transform, as_rgb
from visual_tools.errors import ImageError
from visual_tools.packages import cv2

# Rules of thumb without another source; measured together in benchmarks/visual/README.md, "Differences".
_THRESHOLD = 10.0  # units of Lab
_MERGE_SHARE = 0.015  # of the diagonal
_AREA_SHARE = 2.5e-5  # of the image
_MAX_SHARE = 0.5  # of the pixels may differ in images of the same thing
_MAX_SHARE_UNALIKE = 0.25  # the same where not even fine detail agrees
_MIN_AGREEMENT, _MIN_SIMILARITY = 0.25, 0.4
_EDGE_PX = 3  # of the overlap, where an image's frame is resampled


def pixel_diff(
    first: Any,
    second: Any = None,
    *,
    register: bool = True,
    min_area_px: int | None = None,
    sensitivity: float = 1.0,
    merge_px: int | None = None,
) -> Differences:
    """Find where two images differ, as a person would list it: one moved cup is one difference.

    The second image is laid on the first (shift, scale, small turn), a brightness or contrast that differs all over
    is taken out, and noise of compression and resampling is let off.

    Args:
        first: (H, W, 3) uint8 RGB; grey, RGBA and Pillow images will do. With `second` left out, one image that
            holds both side by side or one above the other.
        second: The image to compare with, of any size when `register` is on.
        register: Whether to look for shift, scale and turn; off, images must be of one size.
        min_area_px: Fewest differing pixels of a difference; None is 0.0025 % of the image, at least 9.
        sensitivity: 2 finds differences of half the contrast, 0.5 only those of twice.
        merge_px: Differing pixels this near each other are one difference; None is 1.5 % of the diagonal.

    Raises:
        ImageError: The images differ in size with `register` off, one image holds no two halves, or an image
            or option is unfit.

    Example:
        >>> result = pixel_diff(load_image("before.png"), load_image("after.png"))
        >>> [(one.number, one.kind, one.first_box) for one in result.differences]
    """
    _check_options(sensitivity, min_area_px, merge_px)
    halves = split_halves(first) if second is None else None
    one, two = (halves.first, halves.second) if halves else (as_rgb(first, "first"), as_rgb(second, "second"))
    if not register and one.shape != two.shape:
        raise ImageError(
            f"the images are {_size(one)} and {_size(two)} pixels; with register=False they must be of one size"
        )
    laid = _lay(one, two, register)
    overlap = _box_around(laid.covered)
    similarity = mean_structure(find_structure(_grey(one), _grey(laid.aligned)), laid.covered)
    diagonal = math.hypot(*one.shape[:2])
    threshold = _THRESHOLD / sensitivity
    excess = find_excess(*match_tone(one, laid.aligned, laid.covered), laid.covered, threshold)
    regions = find_regions(
        excess,
        threshold,
        _usual_area_px(one.shape) if min_area_px is None else min_area_px,
        max(4, round(_MERGE_SHARE * diagonal)) if merge_px is None else merge_px,
    )
    mask = paint(regions, one.shape)
    reason = _why_not_comparable(mask, similarity, laid)
    findings = () if reason else find_findings(regions, one, laid.aligned)
    return Differences(
        differences=_number(findings, laid.transform, one.shape, two.shape, halves),
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
class _Laid:
    """The second image in the first one's frame; `covered` is 255 where it has something to show."""

    transform: Transform
    agreement: float
    aligned: NDArray[np.uint8]
    covered: NDArray[np.uint8]


def _lay(first: NDArray[np.uint8], second: NDArray[np.uint8], register: bool) -> _Laid:
    if not register or np.array_equal(first, second):
        return _Laid(
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
    return _Laid(
        transform=transform,
        agreement=agreement,
        aligned=warp_onto(second, transform.matrix, first.shape),
        covered=covered,
    )


def _why_not_comparable(mask: NDArray[np.bool_], similarity: float, laid: _Laid) -> str:
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
    findings: tuple[Finding, ...],
    transform: Transform,
    shape: tuple[int, ...],
    other: tuple[int, ...],
    halves: Halves | None,
) -> tuple[Difference, ...]:
    """Differences in reading order, with boxes in each image's own pixels."""
    band = max(shape[0] // 12, 1)
    ordered = sorted(findings, key=lambda one: (one.first_box.center[1] // band, one.first_box.left))
    found = []
    for number, one in enumerate(ordered, start=1):
        first = one.first_box
        second = transform.map_box(one.second_box).clipped(other[1], other[0])
        if halves is not None:
            first = first.moved(halves.first_box.left, halves.first_box.top)
            second = second.moved(halves.second_box.left, halves.second_box.top)
        found.append(
            Difference(
                number=number,
                kind=one.kind,
                first_box=first,
                second_box=second,
                area_px=one.area_px,
                confidence=one.confidence,
            )
        )
    return tuple(found)


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
