"""Text blocks from screenshots on which each element's text has a unique colour."""

from typing import Any

import numpy as np

from apps.video2web.pixels import Mask, RgbImage
from visual_tools.pages.text_blocks import TextBlock

SHIFT = 50
"""Colour shift between the two paintings of `blocks.js`; the next two are colour tolerances (Design2Code: 50, 8, 4)."""

# Heuristics without another source; measured together in benchmarks/video2web.md, "Generated pages".
_NEAR_SHIFT, _NEAR_COLOR = 8, 4
_FIRST_LEVEL, _LEVEL_STEP, _NUM_LEVELS = 10, 16, 16
MIN_SEEN_LEVELS, _MIN_SEEN = 16, 0.5
"""Minimum change in levels for a pixel of text to be visible, and minimum visible share of a block's ink."""


def find_text_ink(image: RgbImage, bare: RgbImage, min_levels: int = MIN_SEEN_LEVELS) -> Mask:
    """Return the pixels, (H, W), where a page (H, W, 3) without its text differs by at least `min_levels`."""
    changed: Mask = np.abs(image.astype(np.int16) - bare).max(axis=2) >= min_levels
    return changed


def blocks_of_ink(
    texts: list[list[Any]],
    first: RgbImage,
    second: RgbImage,
    image: RgbImage,
    height: int,
    is_seen: Mask,
    is_letter: Mask,
) -> tuple[TextBlock, ...]:
    """Return text blocks from two screenshots on which every element's text has a unique colour.

    Args:
        texts: Text and colour (red, green, blue of the first painting) of each text node, in order.
        first: (H, W, 3) uint8.
        second: The second painting, with all colours shifted by 50.
        image: The page in its own colours.
        height: Rows of the whole page.
        is_seen: (H, W), True where text is visible; everywhere if omitted.
        is_letter: (H, W), True where painted pixels are letters and not borders, which have the colour of the text
            unless they are given one; everywhere if omitted.
    """
    moved = (first.astype(np.int16) + SHIFT) % 256
    is_text = (np.abs(moved - second) <= _NEAR_SHIFT).all(axis=2)
    steps = (first.astype(np.int16) - _FIRST_LEVEL + _LEVEL_STEP // 2) // _LEVEL_STEP
    off = np.abs(first.astype(np.int16) - (_FIRST_LEVEL + steps * _LEVEL_STEP))
    is_text &= ((off <= _NEAR_COLOR) & (steps >= 0) & (steps < _NUM_LEVELS)).all(axis=2)
    rows, columns = np.nonzero(is_text)
    codes = (steps[rows, columns] * np.array([_NUM_LEVELS**2, _NUM_LEVELS, 1])).sum(axis=1)
    sorting = np.argsort(codes, kind="stable")
    names, starts = np.unique(codes[sorting], return_index=True)
    pixels = dict(zip(names.tolist(), np.split(sorting, starts[1:]), strict=True)) if names.size else {}
    joined: dict[int, list[str]] = {}
    for text, *color in texts:
        red, green, blue = ((int(level) - _FIRST_LEVEL) // _LEVEL_STEP for level in color)
        joined.setdefault((red * _NUM_LEVELS + green) * _NUM_LEVELS + blue, []).append(str(text).lower())
    width = image.shape[1]
    blocks = []
    for code, parts in joined.items():
        if code not in pixels:
            continue
        ys, xs = rows[pixels[code]], columns[pixels[code]]
        letters = is_letter[ys, xs]
        if not (letters.any() and is_seen[ys, xs][letters].mean() >= _MIN_SEEN):
            continue
        red, green, blue = image[ys, xs].mean(axis=0).astype(int).tolist()
        blocks.append(
            TextBlock(
                text=" ".join(parts),
                left=float(xs.min() / width),
                top=float(ys.min() / height),
                width=float((xs.max() - xs.min() + 1) / width),
                height=float((ys.max() - ys.min() + 1) / height),
                rgb=(red, green, blue),
            )
        )
    return tuple(blocks)
