"""From differing pixels to regions, each what a person would point at with one finger."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.require import require

# Rules of thumb without another source; measured together in benchmarks/visual/README.md, "Differences".
_SCRAP_SHARE, _SCRAP_REACH = 0.15, 0.4  # of the larger region's box and of its longer side
_SURE = 2.0  # a region needs pixels this many times above the threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Differing pixels that belong together, in the first image's frame.

    Attributes:
        box: Around them.
        mask: (box.height, box.width) bool.
        strength: Mean excess of the pixels over the threshold, 1 is just at it.
    """

    box: Box
    mask: NDArray[np.bool_] = field(repr=False)
    strength: float

    @property
    def area_px(self) -> int:
        """Differing pixels."""
        return int(np.count_nonzero(self.mask))


def find_regions(excess: NDArray[np.uint8], threshold: float, min_area_px: int, merge_px: int) -> tuple[Region, ...]:
    """Group pixels above `threshold` that lie within `merge_px` of each other, and drop what is too small or faint."""
    rows, columns = _without_specks(excess >= max(threshold, 1), max(min(3, min_area_px), min_area_px // 4))
    found = []
    for own in _group(rows, columns, excess.shape, merge_px):
        values = excess[rows[own], columns[own]]
        sure = np.count_nonzero(values >= _SURE * threshold)
        if values.size >= min_area_px and sure >= max(min(3, min_area_px), min_area_px // 3):
            found.append(_make_region(rows[own], columns[own], float(values.mean()) / threshold))
    return _with_their_scraps(found, merge_px)


def _with_their_scraps(regions: list[Region], merge_px: int) -> tuple[Region, ...]:
    """Join a small region to a much larger one beside it: a large thing's parts may lie a little further apart."""
    kept: list[Region] = []
    for region in sorted(regions, key=lambda one: -one.box.area):
        for at, large in enumerate(kept):
            reach = min(2 * merge_px, round(_SCRAP_REACH * max(large.box.width, large.box.height)))
            near = max(-large.box.overlap_x(region.box), -large.box.overlap_y(region.box)) <= reach
            if near and region.box.area <= _SCRAP_SHARE * large.box.area:
                kept[at] = join((large, region))
                break
        else:
            kept.append(region)
    return tuple(kept)


def paint(regions: tuple[Region, ...], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """All their pixels, (H, W) bool."""
    mask = np.zeros(shape[:2], np.bool_)
    for region in regions:
        box = region.box
        mask[box.top : box.bottom, box.left : box.right] |= region.mask
    return mask


def join(regions: tuple[Region, ...]) -> Region:
    """Several regions as one."""
    box = regions[0].box
    for region in regions[1:]:
        box = box.union(region.box)
    mask = np.zeros((box.height, box.width), np.bool_)
    for region in regions:
        at = region.box.moved(-box.left, -box.top)
        mask[at.top : at.bottom, at.left : at.right] |= region.mask
    areas = [region.area_px for region in regions]
    strength = float(np.average([region.strength for region in regions], weights=areas))
    return Region(box=box, mask=mask, strength=strength)


def _make_region(rows: NDArray[np.intp], columns: NDArray[np.intp], strength: float) -> Region:
    box = Box(int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1)
    mask = np.zeros((box.height, box.width), np.bool_)
    mask[rows - box.top, columns - box.left] = True
    return Region(box=box, mask=mask, strength=strength)


def _without_specks(mask: NDArray[np.bool_], min_px: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of the pixels of `mask` that hang together in numbers."""
    cv2 = require("cv2", "visual")
    _, labels, stats, _ = cv2.connectedComponentsWithStats(mask.view(np.uint8), connectivity=8)
    rows, columns = np.divmod(np.flatnonzero(mask), mask.shape[1])
    keep = stats[labels[rows, columns], cv2.CC_STAT_AREA] >= min_px
    return rows[keep], columns[keep]


def _group(
    rows: NDArray[np.intp], columns: NDArray[np.intp], shape: tuple[int, ...], merge_px: int
) -> list[NDArray[np.intp]]:
    """Which of the pixels belong together, as indices; found on a grid coarser than the pixels."""
    cv2 = require("cv2", "visual")
    if rows.size == 0:
        return []
    cell = max(1, merge_px // 6)
    coarse = np.zeros((-(-shape[0] // cell), -(-shape[1] // cell)), np.uint8)
    coarse[rows // cell, columns // cell] = 1
    reach = round(merge_px / cell / 2)
    if reach:
        disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
        coarse = cv2.dilate(coarse, disc)
    _, labels = cv2.connectedComponents(coarse, connectivity=8)
    own = labels[rows // cell, columns // cell]
    order = np.argsort(own, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(own[order])) + 1)
