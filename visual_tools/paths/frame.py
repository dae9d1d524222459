"""Tell walls from roads by the frame: walls close a maze off, roads do not run all around it."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visual_tools.require import require

MIN_PART_SHARE = 0.02
MAX_FRAME_GAPS = 3
SLACK_PX = 3


def guess_road(light: NDArray[np.bool_]) -> Literal["light", "dark"]:
    """Which tone is road, judged from the outline of the tone that the edge of the picture does not have.

    If that outline is closed up to the openings, it is a frame of walls with a margin around it, so the margin's tone
    is road. If it has many gaps it is the outer rim of roads, and the edge of the picture is wall.
    """
    edge = np.concatenate([light[0], light[-1], light[:, 0], light[:, -1]])
    is_edge_light = bool(edge.mean() >= 0.5)
    is_frame = _count_gaps(light != is_edge_light) <= MAX_FRAME_GAPS
    return "light" if is_edge_light == is_frame else "dark"


def _count_gaps(inner: NDArray[np.bool_]) -> int:
    """How often the convex outline of the large parts of a mask leaves them, by more than a few pixels inward."""
    cv2 = require("cv2", "visual")
    count, labels, stats, _ = cv2.connectedComponentsWithStats(inner.view(np.uint8), connectivity=8)
    areas = stats[1:, cv2.CC_STAT_AREA]
    if count == 1:
        return MAX_FRAME_GAPS + 1
    is_large = np.append(False, areas >= MIN_PART_SHARE * areas.sum())
    large = is_large[labels]
    filled = np.flatnonzero(large.any(axis=1))
    first = large[filled].argmax(axis=1)
    last = large.shape[1] - 1 - large[filled, ::-1].argmax(axis=1)
    rims = np.concatenate([np.column_stack([first, filled]), np.column_stack([last, filled])]).astype(np.int32)
    hull = cv2.convexHull(rims)[:, 0].astype(np.float64)
    sides = np.roll(hull, -1, axis=0) - hull
    counts = np.maximum(1, np.ceil(np.hypot(*sides.T))).astype(int)
    along = np.concatenate(
        [hull[at] + sides[at] * np.linspace(0, 1, n, endpoint=False)[:, None] for at, n in enumerate(counts)]
    )
    inward = hull.mean(axis=0) - along
    inward /= np.maximum(1e-9, np.hypot(*inward.T))[:, None]
    columns, rows = np.rint(along + np.arange(SLACK_PX + 1)[:, None, None] * inward).astype(int).transpose(2, 0, 1)
    on = large[rows, columns].any(axis=0)
    return int(np.count_nonzero(on & ~np.roll(on, -1)))
