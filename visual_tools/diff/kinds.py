"""What kind of difference a region is, and which two regions are the old and the new place of one thing."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.diff.moves import Shift, find_shift, find_shift_within
from visual_tools.diff.regions import Region, join
from visual_tools.require import require

_NEARBY_SHARE = 0.08  # of the diagonal: how far a thing may have moved to be the same one
_NEARBY_SIZES = 3.0  # the same by its size; the larger counts
_NEARBY_SIZES_UNSURE = 2.0  # the same where it is not plain which is the old place
_MAX_PAIRED = 60
_GOOD_ERROR = 0.08
_AROUND_PX = 6
_UNLIKE = 20.0  # levels
_AREA_RATIO = 3.0
_MUCH_CLOSER = 0.5  # to what the surroundings make one expect, for "removed" and "added"
_SAME_EDGES = 0.5
_MAX_SIDE_PX = 160  # regions are looked at no larger than this


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A difference in the first picture's frame; both boxes are equal unless something moved."""

    kind: str
    first_box: Box
    second_box: Box
    area_px: int
    confidence: float


def find_findings(
    regions: tuple[Region, ...], first: NDArray[np.uint8], second: NDArray[np.uint8]
) -> tuple[Finding, ...]:
    """Name each region, after pairing those between which something moved.

    Args:
        regions: What differs.
        first: (H, W, 3) uint8 RGB.
        second: The same size, laid on the first.
    """
    alone = [_name(region, first, second) for region in regions]
    pairs = _pair_moved(regions, [one.kind for one in alone], first, second)
    taken = {at for pair in pairs for at in pair}
    moved = [_moved(join((regions[old], regions[new])), shift) for (old, new), shift in pairs.items()]
    return (*moved, *(one for at, one in enumerate(alone) if at not in taken))


def _pair_moved(
    regions: tuple[Region, ...], kinds: list[str], first: NDArray[np.uint8], second: NDArray[np.uint8]
) -> dict[tuple[int, int], Shift]:
    """Which region holds what left and which what arrived; each is used once, the nearest good fits first.

    The bare ground that shows where something left is also what was covered elsewhere, so either the kinds must
    say which is which or the content must be such that no other shift would do.
    """
    reach_px = _NEARBY_SHARE * math.hypot(*first.shape[:2])
    largest = sorted(range(len(regions)), key=lambda at: -regions[at].area_px)[:_MAX_PAIRED]
    found: list[tuple[bool, float, int, int, Shift]] = []
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
            found.append((shift.error > _GOOD_ERROR, shift.length_px, old, new, shift))
    pairs: dict[tuple[int, int], Shift] = {}
    for _, _, old, new, shift in sorted(found, key=lambda one: one[:4]):
        if not any(at in pair for pair in pairs for at in (old, new)):
            pairs[old, new] = shift
    return pairs


def _has_core(shift: Shift, first: NDArray[np.uint8]) -> bool:
    """Whether between the rims of what moved a little stands the thing itself, unlike what is around."""
    old, new = shift.old_box, shift.new_box
    core = Box(max(old.left, new.left), max(old.top, new.top), min(old.right, new.right), min(old.bottom, new.bottom))
    if core.width < 1 or core.height < 1:
        return False
    around = old.union(new).padded(_AROUND_PX).clipped(first.shape[1], first.shape[0])
    part = first[around.top : around.bottom, around.left : around.right].astype(np.float32)
    middle = first[core.top : core.bottom, core.left : core.right].reshape(-1, 3)
    rim = np.concatenate([part[0], part[-1], part[:, 0], part[:, -1]])
    return bool(np.abs(np.median(middle, axis=0) - np.median(rim, axis=0)).max() > _UNLIKE)


def _name(region: Region, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> Finding:
    before, after, mask = _close_up(region, first, second)
    cv2 = require("cv2", "visual")
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
    region: Region, first: NDArray[np.uint8], second: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
    """Both pictures around a region and its mask (0, 255), shrunk where the region is large."""
    cv2 = require("cv2", "visual")
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
    """Correlation of the strength of edges inside a mask, -1 to 1."""
    cv2 = require("cv2", "visual")
    strengths = []
    for image in (before, after):
        smooth = cv2.GaussianBlur(image, (3, 3), 0).astype(np.float32)
        slope = np.hypot(cv2.Sobel(smooth, -1, 1, 0), cv2.Sobel(smooth, -1, 0, 1)).max(axis=2)
        strengths.append(slope[around > 0])
    if min(one.std() for one in strengths) == 0:
        return 0.0
    return float(np.corrcoef(*strengths)[0, 1])


def _moved(region: Region, shift: Shift) -> Finding:
    return Finding(
        kind="moved",
        first_box=shift.old_box,
        second_box=shift.new_box,
        area_px=region.area_px,
        confidence=_confidence(region),
    )


def _in_place(kind: str, region: Region) -> Finding:
    return Finding(
        kind=kind, first_box=region.box, second_box=region.box, area_px=region.area_px, confidence=_confidence(region)
    )


def _confidence(region: Region) -> float:
    return round(1 - 1 / max(region.strength, 1.0), 2)
