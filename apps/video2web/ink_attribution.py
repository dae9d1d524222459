"""Text blocks from screenshots on which each element's text has a unique colour."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.video2web.losses import PageWord
from apps.video2web.pixels import Mask, RgbImage
from visual_tools.box import Box
from visual_tools.pages.text_blocks import TextBlock

SHIFT = 50
"""Colour shift between the two paintings of `blocks.js`; the next two are colour tolerances (Design2Code: 50, 8, 4)."""

# Heuristics without another source; measured together in benchmarks/video2web.md, "Generated pages".
_NEAR_SHIFT, _NEAR_COLOR = 8, 4
_FIRST_LEVEL, _LEVEL_STEP, _NUM_LEVELS = 10, 16, 16
MIN_SEEN_LEVELS, _MIN_SEEN = 16, 0.5
"""Minimum change in levels for a pixel of text to be visible, and minimum visible share of a word's ink."""


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
) -> tuple[tuple[TextBlock, ...], tuple[PageWord, ...]]:
    """Return the text blocks and visible words from two screenshots with a unique colour for every element's text.

    A word is visible if half of its ink or more is; a block has the text of its visible words.

    Args:
        texts: Result of `blocks.js`: text, colour (red, green, blue of the first painting) and words of each text node.
        first: (H, W, 3) uint8.
        second: The second painting, with all colours shifted by 50.
        image: The page in its own colours.
        height: Rows of the whole page.
        is_seen: (H, W), True where text is visible.
        is_letter: (H, W), True where painted pixels are letters and not borders, which have the colour of the text
            unless they are given one.
    """
    moved = (first.astype(np.int16) + SHIFT) % 256
    is_text = (np.abs(moved - second) <= _NEAR_SHIFT).all(axis=2)
    steps = (first.astype(np.int16) - _FIRST_LEVEL + _LEVEL_STEP // 2) // _LEVEL_STEP
    off = np.abs(first.astype(np.int16) - (_FIRST_LEVEL + steps * _LEVEL_STEP))
    is_text &= ((off <= _NEAR_COLOR) & (steps >= 0) & (steps < _NUM_LEVELS)).all(axis=2)
    codes = np.where(is_text, (steps * np.array([_NUM_LEVELS**2, _NUM_LEVELS, 1])).sum(axis=2), -1)
    rows, columns = np.nonzero(is_text)
    sorting = np.argsort(codes[rows, columns], kind="stable")
    names, starts = np.unique(codes[rows, columns][sorting], return_index=True)
    pixels = dict(zip(names.tolist(), np.split(sorting, starts[1:]), strict=True)) if names.size else {}
    nodes: dict[int, list[tuple[str, list[tuple[str, list[list[float]]]]]]] = {}
    for text, color, node_words in texts:
        red, green, blue = ((int(level) - _FIRST_LEVEL) // _LEVEL_STEP for level in color)
        nodes.setdefault((red * _NUM_LEVELS + green) * _NUM_LEVELS + blue, []).append((str(text).lower(), node_words))
    blocks: list[TextBlock] = []
    words: list[PageWord] = []
    width = image.shape[1]
    for code, of_element in nodes.items():
        if code not in pixels:
            continue
        ys, xs = rows[pixels[code]], columns[pixels[code]]
        if not is_letter[ys, xs].any():
            continue
        parts = []
        num_before, num_words = len(words), 0
        for text, node_words in of_element:
            shown = [
                PageWord(text=str(word).lower(), box_px=box, block=len(blocks))
                for word, edges in node_words
                if _is_visible((box := _box_around(edges, codes.shape)), codes, code, is_letter, is_seen)
            ]
            words += shown
            num_words += len(node_words)
            parts += [text if len(shown) == len(node_words) else " ".join(word.text for word in shown)]
        if len(words) == num_before:
            continue
        if len(words) - num_before < num_words:
            kept = is_seen[ys, xs]
            ys, xs = ys[kept], xs[kept]
        red, green, blue = image[ys, xs].mean(axis=0).astype(int).tolist()
        blocks.append(
            TextBlock(
                text=" ".join(part for part in parts if part),
                left=float(xs.min() / width),
                top=float(ys.min() / height),
                width=float((xs.max() - xs.min() + 1) / width),
                height=float((ys.max() - ys.min() + 1) / height),
                rgb=(red, green, blue),
            )
        )
    return tuple(blocks), tuple(words)


def _box_around(edges: list[list[float]], shape: tuple[int, ...]) -> Box:
    """Return the box around the parts of a word, each given by left, top, right and bottom."""
    left, top, right, bottom = zip(*edges, strict=True)
    box = Box(math.floor(min(left)), math.floor(min(top)), math.ceil(max(right)), math.ceil(max(bottom)))
    return box.clipped(shape[1], shape[0])


def _is_visible(box: Box, codes: NDArray[np.int64], code: int, is_letter: Mask, is_seen: Mask) -> bool:
    ink = (codes[box.slices] == code) & is_letter[box.slices]
    return bool(ink.any() and is_seen[box.slices][ink].mean() >= _MIN_SEEN)
