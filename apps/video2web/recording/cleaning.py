"""Frames as the page was before an encoder: flat grounds have one colour again, edges and gradients stay."""

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import require

_SMOOTHED_LEVELS = 16
_BIN = 4  # levels
_MIN_SHARE = 0.004
_PEAK_SHARE = 0.55  # of what is near a colour, so much has nearly that colour: a ground, and no gradient
_NEAR_BINS, _AROUND_BINS = 1, 4
_SNAP_LEVELS = 5
_MAX_COLORS = 12


def clean_frame(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """An image without the faint noise of an encoder.

    Args:
        image: (H, W, 3) uint8 RGB.
    """
    cv2 = require("cv2", "visual")
    smooth = np.asarray(cv2.bilateralFilter(image, 5, _SMOOTHED_LEVELS, 2), np.uint8)
    cleaned = smooth.copy()
    done = np.zeros(image.shape[:2], np.bool_)
    for color in find_grounds(smooth):
        low, high = (np.clip(color + step, 0, 255) for step in (-_SNAP_LEVELS, _SNAP_LEVELS))
        near = (cv2.inRange(smooth, low.astype(np.float64), high.astype(np.float64)) > 0) & ~done
        cleaned[near] = color.round().astype(np.uint8)
        done |= near
    return cleaned


def find_grounds(image: NDArray[np.uint8]) -> list[NDArray[np.float64]]:
    """Colours of flat grounds, the largest first.

    Args:
        image: (H, W, 3) uint8 RGB.
    """
    pixels = image[::2, ::2].reshape(-1, 3)
    bins = (pixels // _BIN).astype(np.int32)
    codes, inverse, counts = np.unique(bins @ np.array([4096, 64, 1]), return_inverse=True, return_counts=True)
    places = np.stack([codes // 4096, codes // 64 % 64, codes % 64], axis=1)
    left = counts.astype(np.float64)
    found: list[NDArray[np.float64]] = []
    while len(found) < _MAX_COLORS:
        best = int(left.argmax())
        if left[best] < _MIN_SHARE * len(pixels):
            break
        off = np.abs(places - places[best]).max(axis=1)
        near, around = off <= _NEAR_BINS, off <= _AROUND_BINS
        if counts[near].sum() >= _PEAK_SHARE * counts[around].sum():
            found.append(pixels[near[inverse.ravel()]].mean(axis=0))
            left[around] = 0
        else:
            left[near] = 0
    return found
