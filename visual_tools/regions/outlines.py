"""Outlines of regions: their outermost pixels, in turn."""

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.regions.inputs import Mask
from visual_tools.require import require

Outline = NDArray[np.int32]

_FRAME_SPAN = 0.95
_FRAME_FILL = 0.2


def trace_outline(region: Mask, left: int = 0, top: int = 0) -> Outline:
    """(N, 2) int32, x and y of the outermost pixels of the largest piece of a mask, in turn.

    Args:
        region: (h, w) bool, often a crop.
        left: Column of the picture where the crop begins.
        top: Row of the picture where the crop begins.
    """
    cv2 = require("cv2", "visual")
    contours, _ = cv2.findContours(
        np.ascontiguousarray(region).view(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE, offset=(left, top)
    )
    if not contours:
        return np.zeros((0, 2), dtype=np.int32)
    outline: Outline = max(contours, key=len).reshape(-1, 2)
    return outline


def hull_area(outline: Outline) -> float:
    """Pixels of the convex hull of an outline; its points are pixel centres, so half a pixel is added all around."""
    cv2 = require("cv2", "visual")
    hull = cv2.convexHull(outline)
    return float(cv2.contourArea(hull)) + float(cv2.arcLength(hull, True)) / 2 + 1


def is_frame(area_px: int, box: Box, width: int, height: int) -> bool:
    """Whether a region with this many pixels in this box is a thin frame around a picture of this size."""
    spans = box.width >= _FRAME_SPAN * width and box.height >= _FRAME_SPAN * height
    return spans and area_px < _FRAME_FILL * box.area
