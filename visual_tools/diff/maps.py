"""Find differing regions of two images of one size, each one difference for a person.

First, the difference and the structural similarity are computed for each pixel. Both process the images in strips,
so that a large image needs little more memory than itself. A difference of brightness or contrast over the whole image
is not a difference: it is measured and removed.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.packages import cv2

_STRIP_PX = 128
_REACH_PX = 4  # rows beyond a strip that its result depends on
_EDGE_SHARE = 0.35  # share of the local contrast that resampling and compression may change
_MAX_LIMIT = 150.0  # a structural similarity of 0.6
_MIN_APART = 1.2  # multiple of the threshold, in levels of lightness, above which structure counts
_DETAIL = 25  # levels of lightness within 5 x 5 pixels
_WINDOW_PX = 7  # as in scikit-image
# Source: see `find_structure`
_K1, _K2, _LEVELS = 0.01, 0.03, 255
_SAMPLES = 20_000
_TRIALS = 300
_NEAR = 5  # levels
_GAINS = (0.5, 2.0)
_ENOUGH = 0.45  # minimum share of pixels that must agree with a tone curve
_BETTER_BY = 0.15
_MIN_SPREAD = 8.0  # levels: in an image of one colour, a tone change cannot be distinguished from a content change
_MAX_SHIFT = 70.0  # levels at middle grey


def find_excess(
    first: NDArray[np.uint8], second: NDArray[np.uint8], covered: NDArray[np.uint8], threshold: float
) -> NDArray[np.uint8]:
    """Return the difference of each pixel beyond what noise, resampling and a shift of a pixel explain.

    Colour: in Lab, so that a change of hue alone counts. A pixel is compared with the range of the other image's
    3 x 3 neighbours, in both directions, and a share of the local contrast of both images is subtracted.

    Structure: where that subtracts too much (one word replaced by another), a low structural similarity counts. Its
    limit depends on these two images: the similarity of most of their detail is treated as unchanged.

    Args:
        first: (H, W, 3) uint8 RGB.
        second: (H, W, 3) uint8 RGB, the same size.
        covered: (H, W) uint8, 0 where the second image has no content; the result is 0 there.
        threshold: Difference from which a pixel will count as different.

    Returns:
        (H, W) uint8; one unit is about one unit of CIE Lab in a or b, 0.8 in lightness.
    """
    shape = first.shape[:2]
    colour, structure, weight = (np.empty(shape, np.uint8) for _ in range(3))

    def compare(rows: tuple[int, int, int, int]) -> NDArray[np.int64]:
        start, end, above, below = rows
        *parts, detailed = _compare_strip(first[above:below], second[above:below])
        for whole, part in zip((colour, structure, weight), parts, strict=True):
            whole[start:end] = part[start - above : end - above]
        return np.bincount(parts[1][(detailed > 0) & (covered[above:below] > 0)], minlength=256)

    with ThreadPoolExecutor(2) as pool:
        spread = sum(pool.map(compare, _strips(shape[0], _REACH_PX)), np.zeros(256, np.int64))
    limit = _structure_limit(spread)
    levels = np.arange(256, dtype=np.float32)
    table = np.where(levels < limit, threshold * (1 + 2 * (limit - levels) / max(limit, 1)), 0)
    unlike = cv2.LUT(structure, np.clip(np.rint(table), 0, 255).astype(np.uint8))
    unlike[weight < _MIN_APART * threshold] = 0
    excess: NDArray[np.uint8] = cv2.max(colour, unlike)
    excess[covered == 0] = 0
    return excess


def _structure_limit(spread: NDArray[np.int64]) -> float:
    """Return the similarity (0 to 255) below which detail is different, from the histogram of similarities."""
    reached = np.cumsum(spread)
    if reached[-1] < 200:
        return _MAX_LIMIT
    usual = int(np.searchsorted(reached, 0.25 * reached[-1]))
    return max(0.0, min(_MAX_LIMIT, usual - 40))


def _compare_strip(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], ...]:
    """Return colour excess, structural similarity times 255, difference of lightness, and 1 where both have detail."""
    near = np.ones((3, 3), np.uint8)
    labs = [cv2.cvtColor(cv2.GaussianBlur(image, (3, 3), 0), cv2.COLOR_RGB2Lab) for image in (first, second)]
    lows, highs = [cv2.erode(lab, near) for lab in labs], [cv2.dilate(lab, near) for lab in labs]
    apart = cv2.max(
        cv2.max(cv2.subtract(labs[1], highs[0]), cv2.subtract(lows[0], labs[1])),
        cv2.max(cv2.subtract(labs[0], highs[1]), cv2.subtract(lows[1], labs[0])),
    )
    ranges = [cv2.subtract(cv2.dilate(highs[at], near), cv2.erode(lows[at], near)) for at in range(2)]
    contrast = cv2.min(*ranges)
    over = cv2.subtract(apart, cv2.convertScaleAbs(contrast, alpha=_EDGE_SHARE))
    light, green_red, blue_yellow = cv2.split(over)
    colour = cv2.max(cv2.convertScaleAbs(light, alpha=0.5), cv2.max(green_red, blue_yellow))
    before, after = (np.ascontiguousarray(lab[:, :, 0]) for lab in labs)
    window = min(_WINDOW_PX, (min(before.shape) - 1) // 2 * 2 + 1)
    similarity = _structure_strip(before, after, window)
    detailed = (contrast[:, :, 0] >= _DETAIL).view(np.uint8)
    return colour, np.clip(similarity * 255, 0, 255).astype(np.uint8), cv2.absdiff(before, after), detailed


def find_structure(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Compute the structural similarity around each pixel of two (H, W) uint8 grey images, (H, W) float32, -1 to 1.

    Windows are 7 x 7 with equal weights (smaller on smaller images), reflected at the edge.

    Source: Wang, Bovik, Sheikh, Simoncelli, "Image quality assessment: from error visibility to structural
    similarity", 2004, equation 13, K1 = 0.01, K2 = 0.03, with sample covariance.
    """
    window = min(_WINDOW_PX, (min(first.shape) - 1) // 2 * 2 + 1)
    similarity = np.empty(first.shape, np.float32)

    def compare(rows: tuple[int, int, int, int]) -> None:
        start, end, above, below = rows
        strip = _structure_strip(first[above:below], second[above:below], window)
        similarity[start:end] = strip[start - above : end - above]

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compare, _strips(first.shape[0], window // 2)))
    return similarity


def mean_structure(similarity: NDArray[np.float32], covered: NDArray[np.uint8]) -> float:
    """Return the mean of a structure map over the covered pixels whose window is inside the image."""
    margin = min(_WINDOW_PX // 2, (min(similarity.shape) - 1) // 2)
    height, width = similarity.shape
    inside = slice(margin, height - margin), slice(margin, width - margin)
    mean = cv2.mean(similarity[inside], np.ascontiguousarray(covered[inside]))
    return float(mean[0])


def _structure_strip(first: NDArray[np.uint8], second: NDArray[np.uint8], window: int) -> NDArray[np.float32]:
    count = window * window
    x, y = first.astype(np.float32), second.astype(np.float32)

    def total(values: NDArray[np.float32]) -> NDArray[np.float32]:
        sums: NDArray[np.float32] = cv2.boxFilter(
            values, cv2.CV_32F, (window, window), normalize=False, borderType=cv2.BORDER_REFLECT
        )
        return sums

    mean_x, mean_y = total(x) / count, total(y) / count
    product, squares = mean_x * mean_y, mean_x * mean_x + mean_y * mean_y
    sample = np.float32(count / max(count - 1, 1))
    covariance = sample * (total(x * y) / count - product)
    variances = sample * (total(x * x + y * y) / count - squares)
    c1, c2 = np.float32((_K1 * _LEVELS) ** 2), np.float32((_K2 * _LEVELS) ** 2)
    similarity = (2 * product + c1) * (2 * covariance + c2) / ((squares + c1) * (variances + c2))
    return similarity.astype(np.float32, copy=False)


def _strips(height: int, reach_px: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield strips as first row, row after the last, and the same including the rows they depend on."""
    for start in range(0, height, _STRIP_PX):
        end = min(start + _STRIP_PX, height)
        yield start, end, max(start - reach_px, 0), min(end + reach_px, height)


def match_tone(
    first: NDArray[np.uint8], second: NDArray[np.uint8], covered: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Remove one gain and offset per channel between two images, estimated where most pixels agree.

    The darker image is brightened or the lighter one darkened, such that values clipped at 255 are clipped in both.
    Nothing is changed if most pixels already agree.

    Args:
        first: (H, W, 3) uint8.
        second: (H, W, 3) uint8, the same size.
        covered: (H, W) uint8, 0 where the second image has no content.
    """
    rng = np.random.default_rng(0)
    rows, columns = (rng.integers(0, side, _SAMPLES) for side in covered.shape)
    inside = covered[rows, columns] > 0
    if covered.size < 100 or np.count_nonzero(inside) < 100:
        return first, second
    rows, columns = rows[inside], columns[inside]
    before, after = (image[rows, columns].astype(np.float32) for image in (first, second))
    if _share(after - before, 3) > 0.8 or min(before.std(), after.std()) < _MIN_SPREAD:
        return first, second
    curves = [_fit_tone(before[:, channel], after[:, channel], rng) for channel in range(3)]
    gains, offsets = (np.array([curve[part] for curve in curves], np.float32) for part in (0, 1))
    middles = gains * 128 + offsets
    if np.abs(middles - 128).max() > _MAX_SHIFT:
        return first, second
    agreeing = _share(after - np.clip(before * gains + offsets, 0, 255), _NEAR)
    if agreeing < _ENOUGH or agreeing < _share(after - before, _NEAR) + _BETTER_BY:
        return first, second
    if middles.mean() >= 128:
        return _apply(first, gains, offsets), second
    return first, _apply(second, 1 / gains, -offsets / gains)


def _share(errors: NDArray[np.float32], near: float) -> float:
    return float(np.mean(np.abs(errors).max(axis=1) <= near))


def _fit_tone(before: NDArray[np.float32], after: NDArray[np.float32], rng: np.random.Generator) -> tuple[float, float]:
    """Return the gain and offset on which most pixels agree: a plain offset, or the line through two pixels."""
    trials = rng.integers(0, before.size, (2, _TRIALS))
    (low, high), (low_after, high_after) = before[trials], after[trials]
    apart = np.abs(high - low) > 40
    gains = np.divide(high_after - low_after, high - low, out=np.ones_like(low), where=apart)
    gains = np.where((gains > _GAINS[0]) & (gains < _GAINS[1]), gains, 1.0)
    offsets = low_after - gains * low
    few = rng.integers(0, before.size, 2000)
    errors = np.abs(after[few, None] - np.clip(before[few, None] * gains + offsets, 0, 255))
    best = int(np.argmax((errors <= _NEAR).mean(axis=0)))
    gain, offset = float(gains[best]), float(offsets[best])
    close = (np.abs(after - (before * gain + offset)) <= _NEAR) & (after > 0) & (after < 255)
    if np.count_nonzero(close) > 50 and before[close].std() > 10:
        slope, start = np.polyfit(before[close], after[close], 1)
        return float(slope), float(start)
    return gain, offset


def _apply(image: NDArray[np.uint8], gains: NDArray[np.floating], offsets: NDArray[np.floating]) -> NDArray[np.uint8]:
    levels = np.arange(256, dtype=np.float32)[:, None]
    table = np.clip(np.rint(levels * gains + offsets), 0, 255).astype(np.uint8)
    return np.stack([table[:, channel][image[:, :, channel]] for channel in range(3)], axis=2)


# Heuristics without another source; measured together in benchmarks/visual/README.md, "Differences".
_FRAGMENT_SHARE, _FRAGMENT_REACH = 0.15, 0.4  # of the larger region's box and of its longer side
_SURE = 2.0  # minimum peak of a region, as a multiple of the threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRegion:
    """Differing pixels that belong together, in the first image's frame.

    Attributes:
        box: Bounding box.
        mask: (box.height, box.width) bool.
        strength: Mean excess of the pixels divided by the threshold.
    """

    box: Box
    mask: NDArray[np.bool_] = field(repr=False)
    strength: float

    @property
    def area_px(self) -> int:
        """Number of differing pixels."""
        return int(np.count_nonzero(self.mask))


def find_regions(
    excess: NDArray[np.uint8], threshold: float, min_area_px: int, merge_px: int
) -> tuple[DiffRegion, ...]:
    """Group pixels above `threshold` within `merge_px` of each other, and drop small and faint groups."""
    rows, columns = _without_specks(excess >= max(threshold, 1), max(min(3, min_area_px), min_area_px // 4))
    regions = []
    for own in _group(rows, columns, excess.shape, merge_px):
        values = excess[rows[own], columns[own]]
        sure = np.count_nonzero(values >= _SURE * threshold)
        if values.size >= min_area_px and sure >= max(min(3, min_area_px), min_area_px // 3):
            regions.append(_make_region(rows[own], columns[own], float(values.mean()) / threshold))
    return _absorb_fragments(regions, merge_px)


def _absorb_fragments(regions: list[DiffRegion], merge_px: int) -> tuple[DiffRegion, ...]:
    """Join a small region with a much larger one next to it: parts of a large object may be further apart."""
    kept: list[DiffRegion] = []
    for region in sorted(regions, key=lambda region: -region.box.area):
        for at, large in enumerate(kept):
            reach = min(2 * merge_px, round(_FRAGMENT_REACH * max(large.box.width, large.box.height)))
            near = max(-large.box.overlap_x(region.box), -large.box.overlap_y(region.box)) <= reach
            if near and region.box.area <= _FRAGMENT_SHARE * large.box.area:
                kept[at] = join((large, region))
                break
        else:
            kept.append(region)
    return tuple(kept)


def paint(regions: tuple[DiffRegion, ...], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return all pixels of the regions, (H, W) bool."""
    mask = np.zeros(shape[:2], np.bool_)
    for region in regions:
        box = region.box
        mask[box.top : box.bottom, box.left : box.right] |= region.mask
    return mask


def join(regions: tuple[DiffRegion, ...]) -> DiffRegion:
    """Join several regions into one."""
    box = regions[0].box
    for region in regions[1:]:
        box = box.union(region.box)
    mask = np.zeros((box.height, box.width), np.bool_)
    for region in regions:
        at = region.box.moved(-box.left, -box.top)
        mask[at.top : at.bottom, at.left : at.right] |= region.mask
    areas = [region.area_px for region in regions]
    strength = float(np.average([region.strength for region in regions], weights=areas))
    return DiffRegion(box=box, mask=mask, strength=strength)


def _make_region(rows: NDArray[np.intp], columns: NDArray[np.intp], strength: float) -> DiffRegion:
    box = Box(int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1)
    mask = np.zeros((box.height, box.width), np.bool_)
    mask[rows - box.top, columns - box.left] = True
    return DiffRegion(box=box, mask=mask, strength=strength)


def _without_specks(mask: NDArray[np.bool_], min_px: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of the pixels of `mask` in sufficiently large components."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats(mask.view(np.uint8), connectivity=8)
    rows, columns = np.divmod(np.flatnonzero(mask), mask.shape[1])
    keep = stats[labels[rows, columns], cv2.CC_STAT_AREA] >= min_px
    return rows[keep], columns[keep]


def _group(
    rows: NDArray[np.intp], columns: NDArray[np.intp], shape: tuple[int, ...], merge_px: int
) -> list[NDArray[np.intp]]:
    """Group pixels that belong together, as indices; computed on a grid coarser than the pixels."""
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
