"""The sizes for which floors and predictions are told."""

from collections.abc import Sequence
from math import prod

from model_runtime.config import VisionConfig

Grid = tuple[int, int, int]
"""Frames, rows and columns of patches of one item."""

TOKENS = (1, 8, 64, 512, 4096, 16384)
CONTEXTS = (1024, 4096, 16384, 32768, 65536, 131072, 262144)
BATCHES = (1, 32)
PROMPTS = (4096, 16384, 65536)

CHUNK: Grid = (4, 32, 32)
"""Four frames of 448 x 448."""


def grid_of(width: int, height: int, vision: VisionConfig) -> Grid:
    """Patches of an image, padded so that they merge evenly. Not for images that have to be made smaller first."""
    rows, columns = vision.merge_kernel_size
    high, wide = vision.patch_size * rows, vision.patch_size * columns
    return 1, -(-height // high) * rows, -(-width // wide) * columns


def vision_inputs(vision: VisionConfig) -> dict[str, list[Grid]]:
    """Items by the name of their lot."""
    screenshot = grid_of(1920, 1080, vision)
    return {
        "448x448 image": [grid_of(448, 448, vision)],
        "1 screenshot": [screenshot],
        "3 screenshots": [screenshot] * 3,
        "16384 patches": [(1, 128, 128)],
        "64 chunks": [CHUNK] * 64,
        "512 chunks": [CHUNK] * 512,
    }


def patches_of(grids: Sequence[Grid]) -> int:
    """Rows of the vision tower."""
    return sum(map(prod, grids))
