"""Cut what the detector took for one line where columns or widgets stand between, and fit boxes to the ink."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.ink import find_runs
from visual_tools.text_recognition import Recognized

_FONT_PER_BOX = 0.5
_GAP_FONTS = 0.85
_PUNCTUATION_FONTS = 0.4
_CENTRE_GAP_FONTS = 1.9
"""Detector boxes are about twice as high as the font size. Words stand 0.25 to 0.4 font sizes apart, in fixed pitch up
to 0.8, and there a comma or colon adds its own white; neighbours in a menu bar or a table stand further apart, with no
ink between. Two labels with a radio button between them are 1.9 font sizes apart (by their middles)."""

_BOX_SIGNS = "□■☐☑☒▢▣◻◼口回○●◯◉◎▪"
"""What a checkbox or a radio button before a text is read as; it is no part of the text."""

_PUNCTUATION = ",.:;"

CharSpans = tuple[tuple[float, float], ...]


def make_lines(read: Recognized, box: Box, ink: NDArray[np.bool_]) -> list[tuple[str, Box, CharSpans]]:
    """Split a recognized crop at wide gaps.

    Args:
        read: What the crop says.
        box: Where the crop stands on the picture, in pixels.
        ink: The crop's ink, (H, W) bool.

    Returns:
        For each part its text, its tight box and its characters' left and right edges, in pixels of the picture.
    """
    centres = [column * box.width for column in read.columns]
    font_px = max(box.height * _FONT_PER_BOX, 6.0)
    ink = _without_borders(ink)
    rows = _main_rows(ink)
    blank_columns = np.asarray(~ink[rows[0] : rows[1]].any(axis=0))
    parts = []
    for start, end in _split(read.text, centres, blank_columns, font_px):
        parts.append(_make_part(read.text[start:end], centres[start:end], box, ink, rows, font_px))
    return parts


def _without_borders(ink: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Without the columns and rows that are ink from end to end: edges of boxes, never letters."""
    bare = ink.copy()
    bare[:, ink.mean(axis=0) > 0.95] = False
    bare[ink.mean(axis=1) > 0.95, :] = False
    return bare


def _main_rows(ink: NDArray[np.bool_]) -> tuple[int, int]:
    """First row and row after the last one of the text: rows of borders at the crop's edges left out."""
    height = ink.shape[0]
    runs = find_runs(ink.any(axis=1), max_gap=max(2, height // 10))
    if not runs:
        return 0, height
    middle = height / 2
    inner = [run for run in runs if run[0] > 0 and run[1] < height] or runs
    return min(inner, key=lambda run: max(run[0] - middle, middle - run[1], 0) - (run[1] - run[0]) / height)


def _split(text: str, centres: list[float], blank: NDArray[np.bool_], font_px: float) -> list[tuple[int, int]]:
    visible = [index for index, char in enumerate(text) if not char.isspace()]
    while len(visible) > 1 and text[visible[0]] in _BOX_SIGNS:
        del visible[0]
    if not visible:
        return []
    parts, start, previous = [], visible[0], visible[0]
    for index in visible[1:]:
        left, right = int(centres[previous]), int(centres[index]) + 1
        widest = max((end - begin for begin, end in find_runs(blank[left:right])), default=0)
        allowed = _GAP_FONTS + (_PUNCTUATION_FONTS if text[previous] in _PUNCTUATION else 0.0)
        if widest > allowed * font_px or right - left > _CENTRE_GAP_FONTS * font_px + 4:
            parts.append((start, previous + 1))
            start = index
        previous = index
    return [*parts, (start, previous + 1)]


def _make_part(
    text: str, centres: list[float], box: Box, ink: NDArray[np.bool_], rows: tuple[int, int], font_px: float
) -> tuple[str, Box, CharSpans]:
    reach = font_px * 0.75
    first = max(int(centres[0] - reach), 0)
    last = min(int(centres[-1] + reach) + 1, ink.shape[1])
    runs = find_runs(ink[rows[0] : rows[1], first:last].any(axis=0))
    left, right = first, last
    if runs:
        left = first + min(runs, key=lambda run: _distance(run, centres[0] - first))[0]
        right = first + min(runs, key=lambda run: _distance(run, centres[-1] - first))[1]
    left, right = min(left, int(centres[0])), max(right, int(centres[-1]) + 1)
    edges = [left, *((a + b) / 2 for a, b in pairwise(centres)), right]
    chars = tuple((box.left + a, box.left + b) for a, b in pairwise(edges))
    part_rows = find_runs(ink[rows[0] : rows[1], left:right].any(axis=1), max_gap=ink.shape[0])
    top, bottom = (rows[0] + part_rows[0][0], rows[0] + part_rows[0][1]) if part_rows else rows
    return text, Box(box.left + left, box.top + top, box.left + right, box.top + bottom), chars


def _distance(run: tuple[int, int], x: float) -> float:
    return max(run[0] - x, x - run[1], 0.0)
