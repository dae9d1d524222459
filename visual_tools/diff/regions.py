"""From differing pixels to regions, each what a person would point at with one finger."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.require import require

_SURE = 2.0  # a region needs pixels this many times above the threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Differing pixels that belong together, in the first picture's frame.

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


def find_regions(
    excess: NDArray[np.uint8], threshold: float, min_area_px: int, merge_px: int
) -> tuple[Region, ...]:
    """Group pixels above `threshold` that lie within `merge_px` of each other, and drop what is too small or faint."""
    mask = _without_specks(excess >= max(threshold, 1), max(3, min_area_px // 4))
    labels, count = _group(mask, merge_px)
    ndimage = require("scipy.ndimage", "visual")
    found = []
    for label, place in enumerate(ndimage.find_objects(labels, count), start=1):
        if place is None:
            continue
        own = labels[place] == label
        values = excess[place][own]
        sure = np.count_nonzero(values >= _SURE * threshold)
        if values.size < min_area_px or sure < max(3, min_area_px // 3):
            continue
        rows, columns = place
        box = Box(columns.start, rows.start, columns.stop, rows.stop)
        found.append(Region(box=box, mask=own, strength=float(values.mean()) / threshold))
    return tuple(found)


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


def _without_specks(mask: NDArray[np.bool_], min_px: int) -> NDArray[np.bool_]:
    cv2 = require("cv2", "visual")
    if not mask.any():
        return mask
    _, labels, stats, _ = cv2.connectedComponentsWithStats(mask.view(np.uint8), connectivity=8)
    keep = stats[:, cv2.CC_STAT_AREA] >= min_px
    keep[0] = False
    kept: NDArray[np.bool_] = keep[labels]
    return kept


def _group(mask: NDArray[np.bool_], merge_px: int) -> tuple[NDArray[np.int32], int]:
    """Labels of the pixels of `mask`; the grouping itself is done on a coarser grid."""
    cv2 = require("cv2", "visual")
    cell = max(1, merge_px // 6)
    height, width = mask.shape
    grid = np.zeros((-(-height // cell) * cell, -(-width // cell) * cell), np.uint8)
    grid[:height, :width] = mask
    coarse = grid.reshape(grid.shape[0] // cell, cell, -1, cell).max(axis=(1, 3))
    reach = max(round(merge_px / cell / 2), 0)
    if reach:
        disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
        coarse = cv2.dilate(coarse, disc)
    count, labels = cv2.connectedComponents(coarse, connectivity=8)
    fine = labels.repeat(cell, axis=0).repeat(cell, axis=1)[:height, :width]
    return np.where(mask, fine, 0).astype(np.int32, copy=False), count - 1
