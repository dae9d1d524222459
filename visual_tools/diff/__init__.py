"""Differences between two images, grouped as a person would list them."""

from visual_tools.diff.compare import pixel_diff
from visual_tools.diff.halves import split_halves
from visual_tools.diff.result import Difference, Differences, Halves, Transform, draw_diff

__all__ = ["Difference", "Differences", "Halves", "Transform", "draw_diff", "pixel_diff", "split_halves"]
