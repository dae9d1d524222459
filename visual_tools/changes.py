"""Where two pictures differ, and where a picture holds anything at all."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.channels import any_channel
from visual_tools.widgets import find_edges


def find_changed_box(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> Box | None:
    """The smallest box around all pixels that differ between two (H, W, 3) uint8 pictures of one size.

    Raises:
        ValueError: The sizes differ.
    """
    if before.shape != after.shape:
        raise ValueError(f"the pictures differ in size: {before.shape} and {after.shape}")
    return _box_around(any_channel(before != after))


def find_content_box(image: NDArray[np.uint8]) -> Box | None:
    """The smallest box around everything that is not one flat colour up to the picture's edge: (H, W, 3) uint8."""
    return _box_around(find_edges(image).astype(bool))


def grow_to_cover(region: Box, boxes: Iterable[Box]) -> Box:
    """`region`, grown until each of `boxes` lies inside of it or apart from it."""
    apart = list(boxes)
    while True:
        touching = [box for box in apart if region.intersection(box) > 0 and not region.contains(box)]
        if not touching:
            return region
        for box in touching:
            region = region.union(box)


def _box_around(mask: NDArray[np.bool_]) -> Box | None:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if rows.size == 0:
        return None
    return Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)
