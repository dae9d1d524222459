"""Ink: the pixels of a crop that are not its background."""

import numpy as np
from numpy.typing import NDArray

from visual_tools.channels import largest_channel

_BITS_DROPPED = 3


def find_background(crop: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The commonest colour of a crop, (H, W, 3) uint8 RGB in, (3,) uint8 out.

    Colours are compared with their low bits dropped, so that gentle gradients count as one.
    """
    coarse = (crop >> _BITS_DROPPED).astype(np.uint32)
    codes = (coarse[..., 0] << 10 | coarse[..., 1] << 5 | coarse[..., 2]).ravel()
    commonest = np.bincount(codes, minlength=1).argmax()
    members = crop.reshape(-1, 3)[codes == commonest]
    return np.asarray(np.median(members, axis=0), dtype=np.uint8)


def find_ink(crop: NDArray[np.uint8], background: NDArray[np.uint8] | None = None) -> NDArray[np.bool_]:
    """Which pixels differ clearly from the background: (H, W) bool.

    "Clearly" is a quarter of the strongest difference in the crop, at least 24 of 255.
    """
    if crop.size == 0:
        return np.zeros(crop.shape[:2], dtype=bool)
    colour = find_background(crop) if background is None else background
    difference = largest_channel(np.abs(crop.astype(np.int16) - colour.astype(np.int16)))
    return np.asarray(difference >= max(24, int(difference.max()) // 4))


def measure_contrast(crop: NDArray[np.uint8]) -> int:
    """The strongest difference between a crop's pixels and its background, 0 to 255; 0 for an empty crop."""
    if crop.size == 0:
        return 0
    return int(np.abs(crop.astype(np.int16) - find_background(crop).astype(np.int16)).max())


def find_runs(mask: NDArray[np.bool_] | np.bool_, max_gap: int = 0) -> list[tuple[int, int]]:
    """Start and end (just outside) of each run of True; runs at most `max_gap` apart are joined."""
    padded = np.concatenate(([False], mask, [False])).astype(np.int8)
    steps = np.diff(padded)
    runs: list[tuple[int, int]] = []
    for start, end in zip(np.flatnonzero(steps == 1), np.flatnonzero(steps == -1), strict=True):
        if runs and start - runs[-1][1] <= max_gap:
            runs[-1] = (runs[-1][0], int(end))
        else:
            runs.append((int(start), int(end)))
    return runs
