"""Pixel by pixel: how far two pictures of one size differ, and how alike their structure is.

Both go over the pictures in strips, so that a large picture needs little more memory than itself.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from visual_tools.require import require

_STRIP_PX = 128
_REACH_PX = 4  # rows beyond a strip that its result depends on
_EDGE_SHARE = 0.35  # of the local contrast that resampling and compression may change
_WINDOW_PX = 7
_K1, _K2, _LEVELS = 0.01, 0.03, 255


def find_excess(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """How far each pixel differs beyond what noise, resampling and a pixel's shift explain.

    In Lab, so that a change of hue alone counts. A pixel is compared with the range of the other picture's 3 x 3
    neighbours, both ways round, and a share of the contrast that both pictures have around it is let off.

    Args:
        first: (H, W, 3) uint8 RGB.
        second: The same size.

    Returns:
        (H, W) uint8; one unit is about one unit of CIE Lab in a or b, 0.8 in lightness.
    """
    excess = np.empty(first.shape[:2], np.uint8)

    def compare(rows: tuple[int, int, int, int]) -> None:
        start, end, above, below = rows
        found = _compare_strip(first[above:below], second[above:below])
        excess[start:end] = found[start - above : end - above]

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compare, _strips(first.shape[0], _REACH_PX)))
    return excess


def _compare_strip(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.uint8]:
    cv2 = require("cv2", "visual")
    near = np.ones((3, 3), np.uint8)
    labs = [cv2.cvtColor(cv2.GaussianBlur(image, (3, 3), 0), cv2.COLOR_RGB2Lab) for image in (first, second)]
    lows, highs = [cv2.erode(lab, near) for lab in labs], [cv2.dilate(lab, near) for lab in labs]
    apart = cv2.max(
        cv2.max(cv2.subtract(labs[1], highs[0]), cv2.subtract(lows[0], labs[1])),
        cv2.max(cv2.subtract(labs[0], highs[1]), cv2.subtract(lows[1], labs[0])),
    )
    contrast = cv2.min(*(cv2.subtract(cv2.dilate(high, near), cv2.erode(low, near)) for low, high in zip(lows, highs)))
    over = cv2.subtract(apart, cv2.convertScaleAbs(contrast, alpha=_EDGE_SHARE))
    light, green_red, blue_yellow = cv2.split(over)
    result: NDArray[np.uint8] = cv2.max(cv2.convertScaleAbs(light, alpha=0.5), cv2.max(green_red, blue_yellow))
    return result


def find_structure(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Structural similarity around each pixel of two (H, W) uint8 grey pictures, (H, W) float32, -1 to 1.

    Windows of 7 x 7 of equal weight (less on smaller pictures), reflected at the edge.

    Source: Wang, Bovik, Sheikh, Simoncelli, "Image quality assessment: from error visibility to structural
    similarity", 2004, equation 13, K1 = 0.01, K2 = 0.03, with sample covariance.
    """
    window = min(_WINDOW_PX, (min(first.shape) - 1) // 2 * 2 + 1)
    similarity = np.empty(first.shape, np.float32)

    def compare(rows: tuple[int, int, int, int]) -> None:
        start, end, above, below = rows
        found = _structure_strip(first[above:below], second[above:below], window)
        similarity[start:end] = found[start - above : end - above]

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compare, _strips(first.shape[0], window // 2)))
    return similarity


def mean_structure(similarity: NDArray[np.float32], covered: NDArray[np.uint8]) -> float:
    """Mean of a structure map over the covered pixels whose window lies inside the picture."""
    margin = min(_WINDOW_PX // 2, (min(similarity.shape) - 1) // 2)
    height, width = similarity.shape
    inside = slice(margin, height - margin), slice(margin, width - margin)
    cv2 = require("cv2", "visual")
    mean = cv2.mean(similarity[inside], np.ascontiguousarray(covered[inside]))
    return float(mean[0])


def _structure_strip(first: NDArray[np.uint8], second: NDArray[np.uint8], window: int) -> NDArray[np.float32]:
    cv2 = require("cv2", "visual")
    count = window * window
    x, y = first.astype(np.float32), second.astype(np.float32)

    def total(values: NDArray[np.float32]) -> NDArray[np.float32]:
        sums: NDArray[np.float32] = cv2.boxFilter(
            values, cv2.CV_32F, (window, window), normalize=False, borderType=cv2.BORDER_REFLECT
        )
        return sums

    mean_x, mean_y = total(x) / count, total(y) / count
    product, squares = mean_x * mean_y, mean_x * mean_x + mean_y * mean_y
    sample = count / max(count - 1, 1)
    covariance = sample * (total(x * y) / count - product)
    variances = sample * (total(x * x + y * y) / count - squares)
    c1, c2 = (_K1 * _LEVELS) ** 2, (_K2 * _LEVELS) ** 2
    return (2 * product + c1) * (2 * covariance + c2) / ((squares + c1) * (variances + c2))


def _strips(height: int, reach_px: int) -> Iterator[tuple[int, int, int, int]]:
    """Strips as first row, row after the last, and the same with the rows they depend on."""
    for start in range(0, height, _STRIP_PX):
        end = min(start + _STRIP_PX, height)
        yield start, end, max(start - reach_px, 0), min(end + reach_px, height)
