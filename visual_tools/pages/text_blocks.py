"""Comparison of the text blocks of two pages: the four parts of Design2Code's score that need no weights.

Their mean is called *D2C-4* here. It is not Design2Code's score, whose fifth part is a CLIP similarity.

Source: Si et al., "Design2Code: Benchmarking Multimodal Code Generation for Automated Front-End Engineering", 2024;
`Design2Code/metrics/visual_score.py` of its repository, with which this agrees on the same blocks.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import ImageError, require
from visual_tools.images.files import ImageSource, load_image
from visual_tools.ink import find_background
from visual_tools.ocr import TextLine
from visual_tools.ocr import read_text as read_lines

MAX_BLOCKS = 800
"""Maximum number of blocks per page, first ones in reading order; matching is cubic in their number."""

MAX_EXACT_BLOCKS = 200
"""Number of blocks above which exactly matched blocks are not merged with their neighbours."""

_MIN_MERGE_GAIN = 0.05
_MIN_TEXT_RATIO = 0.5
_CONTEXT_BONUS, _CONTEXT_REACH = 0.1, 1
"""Final matching: bonus of a pair from its neighbours in both lists, and maximum distance of the neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlock:
    """Block of text on a page.

    Attributes:
        text: Text in lower case, as the published code compares it.
        left: Left edge as a share of the page's width.
        top: Upper edge as a share of the page's height.
        width: Width as a share of the page's width.
        height: Height as a share of the page's height.
        rgb: Mean colour of its ink, 0 to 255.
    """

    text: str
    left: float
    top: float
    width: float
    height: float
    rgb: tuple[float, float, float]

    @property
    def area(self) -> float:
        """Area as a share of the page."""
        return self.width * self.height

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, width, height."""
        return self.left, self.top, self.width, self.height


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockScores:
    """Similarity of a page's text to a reference, each part in [0, 1].

    Attributes:
        block_match: Area of matched blocks divided by the area of all blocks of both pages.
        text: Mean similarity of the texts of matched blocks.
        position: Mean of 1 minus the larger of the shifts of the centers, as shares of the page.
        color: Mean of 1 minus CIEDE2000 / 100 of the colours.
        num_matched: Number of matched pairs.
        unmatched: Texts of the reference, then of the page, without a match.
        pairs: Matched pairs: block of the reference (neighbours may be merged), block of the page.
    """

    block_match: float
    text: float
    position: float
    color: float
    num_matched: int
    unmatched: tuple[tuple[str, ...], tuple[str, ...]]
    pairs: tuple[tuple[TextBlock, TextBlock], ...] = ()

    @property
    def d2c4(self) -> float:
        """Mean of the four parts."""
        return (self.block_match + self.text + self.position + self.color) / 4


def match_blocks(reference: Sequence[TextBlock], page: Sequence[TextBlock]) -> BlockScores:
    """Compare the text blocks of a page with those of a reference.

    Neighbouring blocks of either page are merged if that improves the mean similarity by more than 0.05;
    pairs whose texts are less than half alike do not count.

    Args:
        reference: Blocks in reading order (of its HTML, if available); at most `MAX_BLOCKS` are used.
        page: Blocks of the evaluated page, likewise.

    Returns:
        All parts are 0 if nothing matches; a page without text equals a reference without text.
    """
    first, second = _merge_same_boxes(page[:MAX_BLOCKS]), _merge_same_boxes(reference[:MAX_BLOCKS])
    if not first and not second:
        return BlockScores(block_match=1, text=1, position=1, color=1, num_matched=0, unmatched=((), ()))
    if not first or not second:
        left = tuple(block.text for block in second), tuple(block.text for block in first)
        return BlockScores(block_match=0, text=0, position=0, color=0, num_matched=0, unmatched=left)
    ratios = _Ratios()
    first, second = _merge_neighbours(first, second, ratios)
    costs = _add_context(-ratios.matrix(first, second))
    pairs = [(row, column, ratios.of(first[row].text, second[column].text)) for row, column in _assign(costs)]
    return _score(first, second, [pair for pair in pairs if pair[2] >= _MIN_TEXT_RATIO])


def _score(
    page: Sequence[TextBlock], reference: Sequence[TextBlock], pairs: Sequence[tuple[int, int, float]]
) -> BlockScores:
    ours, theirs = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    free_page = [block for index, block in enumerate(page) if index not in ours]
    free_reference = [block for index, block in enumerate(reference) if index not in theirs]
    matched = sum(page[row].area + reference[column].area for row, column, _ in pairs)
    unmatched = sum(block.area for block in (*free_page, *free_reference))
    texts = tuple(block.text for block in free_reference), tuple(block.text for block in free_page)
    if not pairs:
        return BlockScores(block_match=0, text=0, position=0, color=0, num_matched=0, unmatched=texts)
    shifts = [_shift(page[row], reference[column]) for row, column, _ in pairs]
    distances = color_distance(
        [page[row].rgb for row, _, _ in pairs], [reference[column].rgb for _, column, _ in pairs]
    )
    return BlockScores(
        block_match=float(matched / (matched + unmatched)) if matched + unmatched else 1.0,
        text=float(np.mean([ratio for _, _, ratio in pairs])),
        position=float(1 - np.mean(shifts)),
        color=float(np.mean(np.maximum(0, 1 - distances / 100))),
        num_matched=len(pairs),
        unmatched=texts,
        pairs=tuple((reference[column], page[row]) for row, column, _ in pairs),
    )


def _shift(first: TextBlock, second: TextBlock) -> float:
    return max(
        abs(first.left + first.width / 2 - second.left - second.width / 2),
        abs(first.top + first.height / 2 - second.top - second.height / 2),
    )


def color_distance(
    first: Sequence[tuple[float, float, float]], second: Sequence[tuple[float, float, float]]
) -> NDArray[np.float64]:
    """Return CIEDE2000 between colours (N, 3) in RGB, 0 to 255, pair by pair: (N,) float64."""
    color = require("skimage.color", "visual")
    labs = [color.rgb2lab(np.asarray(values, np.float64).reshape(-1, 3) / 255) for values in (first, second)]
    distance: NDArray[np.float64] = color.deltaE_ciede2000(*labs)
    return distance


# ------------------------------------------------------------------ matching


class _Ratios:
    """Cache of text similarities, each pair computed once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], float] = {}
        self._matchers: dict[str, SequenceMatcher[str]] = {}

    def of(self, page: str, reference: str) -> float:
        key = page, reference
        if key not in self._known:
            matcher = self._matchers.get(reference)
            if matcher is None:
                matcher = self._matchers[reference] = SequenceMatcher(None, "", reference)
            matcher.set_seq1(page)
            self._known[key] = matcher.ratio()
        return self._known[key]

    def matrix(self, page: Sequence[TextBlock], reference: Sequence[TextBlock]) -> NDArray[np.float64]:
        return np.array(
            [[self.of(block.text, reference_block.text) for reference_block in reference] for block in page], np.float64
        )


_Merged = Callable[[NDArray[np.float64], TextBlock, int], NDArray[np.float64]]
"""Function that returns the costs if a block is merged with its next neighbour, by index."""


def _assign(costs: NDArray[np.float64]) -> list[tuple[int, int]]:
    optimize = require("scipy.optimize", "visual")
    rows, columns = optimize.linear_sum_assignment(costs)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def _matched_costs(costs: NDArray[np.float64]) -> list[float]:
    return [float(costs[pair]) for pair in _assign(costs)]


def _add_context(costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add the best of their neighbours' costs to likely pairs, so that order has a small influence."""
    adjusted = costs.copy()
    reach = _CONTEXT_REACH
    for row, column in np.argwhere(costs < -0.5).tolist():
        near = costs[max(row - reach, 0) : row + reach + 1, max(column - reach, 0) : column + reach + 1]
        others = np.sort(near, axis=None)[::-1].tolist()
        others.remove(costs[row, column])
        adjusted[row, column] += _CONTEXT_BONUS * sum(others[-2 * reach :])
    return adjusted


def _merge_neighbours(
    page: list[TextBlock], reference: list[TextBlock], ratios: _Ratios
) -> tuple[list[TextBlock], list[TextBlock]]:
    """Merge neighbours on either side as long as that clearly improves the matching."""
    while True:
        before = len(page), len(reference)
        page = _merge_where_better(page, -ratios.matrix(page, reference), _merged_rows(reference, ratios), 0)
        costs = -ratios.matrix(page, reference)
        reference = _merge_where_better(reference, costs, _merged_columns(page, ratios), 1)
        if (len(page), len(reference)) == before:
            return page, reference


def _merged_rows(reference: Sequence[TextBlock], ratios: _Ratios) -> _Merged:
    def merged(costs: NDArray[np.float64], block: TextBlock, index: int) -> NDArray[np.float64]:
        changed = np.delete(costs, index + 1, axis=0)
        changed[index] = [-ratios.of(block.text, other.text) for other in reference]
        return changed

    return merged


def _merged_columns(page: Sequence[TextBlock], ratios: _Ratios) -> _Merged:
    def merged(costs: NDArray[np.float64], block: TextBlock, index: int) -> NDArray[np.float64]:
        changed = np.delete(costs, index + 1, axis=1)
        changed[:, index] = [-ratios.of(page_block.text, block.text) for page_block in page]
        return changed

    return merged


def _merge_where_better(
    blocks: list[TextBlock],
    costs: NDArray[np.float64],
    costs_when_merged: _Merged,
    axis: int,
) -> list[TextBlock]:
    """Merge neighbours that improve the matching, largest gain first, each block at most once.

    `axis` is the axis of the costs that belongs to the blocks.
    """
    pairs = _assign(costs)
    now = [float(costs[pair]) for pair in pairs]
    met = {pair[axis] for pair in pairs if costs[pair] <= -1} if len(blocks) > MAX_EXACT_BLOCKS else set()
    gains = []
    for index in range(len(blocks) - 1):
        if index in met and index + 1 in met:
            continue
        merged = _merge(blocks[index], blocks[index + 1])
        gain = _gain(now, _matched_costs(costs_when_merged(costs, merged, index)))
        if gain > _MIN_MERGE_GAIN:
            gains.append((gain, index))
    gains.sort(key=lambda item: -item[0])
    firsts: set[int] = set()
    for _, index in gains:
        if not firsts & {index - 1, index, index + 1}:
            firsts.add(index)
    return [
        _merge(block, blocks[index + 1]) if index in firsts else block
        for index, block in enumerate(blocks)
        if index - 1 not in firsts
    ]


def _gain(before: Iterable[float], after: Iterable[float]) -> float:
    """Return the average decrease of the costs; 0 if the best of them got worse."""
    lost, won = Counter(before), Counter(after)
    gone, new = list((lost - won).elements()), list((won - lost).elements())
    gain = (sum(gone) / len(gone) if gone else 0.0) - (sum(new) / len(new) if new else 0.0)
    return gain if gain <= 0 or min(gone) > min(new) else 0.0


def _merge(first: TextBlock, second: TextBlock) -> TextBlock:
    left, top = min(first.left, second.left), min(first.top, second.top)
    red, green, blue = ((ours + theirs) // 2 for ours, theirs in zip(first.rgb, second.rgb, strict=True))
    return TextBlock(
        text=f"{first.text} {second.text}",
        left=left,
        top=top,
        width=max(first.left + first.width, second.left + second.width) - left,
        height=max(first.top + first.height, second.top + second.height) - top,
        rgb=(red, green, blue),
    )


def _merge_same_boxes(blocks: Iterable[TextBlock]) -> list[TextBlock]:
    """Merge texts with the same box, which belong to one element."""
    merged: dict[tuple[float, float, float, float], TextBlock] = {}
    for block in blocks:
        known = merged.get(block.box)
        if known is not None:
            red, green, blue = ((first + second) / 2 for first, second in zip(known.rgb, block.rgb, strict=True))
            block = replace(known, text=f"{known.text} {block.text}", rgb=(red, green, blue))
        merged[block.box] = block
    return list(merged.values())


# ------------------------------------------------------------------ blocks of an image


def read_blocks(image: ImageSource, lines: Sequence[TextLine] | None = None) -> tuple[TextBlock, ...]:
    """Read the text blocks of a screenshot, one per line of text, for pages without available HTML.

    Args:
        image: Any image.
        lines: Result of `read_text` for it; read if not given.

    Raises:
        ImageError: If it cannot be read.
    """
    page = load_image(image)
    height, width = page.shape[:2]
    lines_read = read_lines(page) if lines is None else lines
    blocks = []
    for line in sorted(lines_read, key=lambda line: (line.box_px.top, line.box_px.left)):
        box = line.box_px.clipped(width, height)
        if box.area and line.text.strip():
            blocks.append(make_block(line.text, box, page))
    return tuple(blocks)


def make_block(text: str, box: Box, page: NDArray[np.uint8]) -> TextBlock:
    """Make a block from its box on a page, (H, W, 3) uint8 RGB.

    Raises:
        ImageError: If the box is empty.
    """
    if not box.area:
        raise ImageError(f"the text {text[:60]!r} has an empty box {box}; expected one with at least a pixel")
    height, width = page.shape[:2]
    return TextBlock(
        text=text.strip().lower(),
        left=box.left / width,
        top=box.top / height,
        width=box.width / width,
        height=box.height / height,
        rgb=ink_color(page[box.top : box.bottom, box.left : box.right]),
    )


def ink_color(crop: NDArray[np.uint8]) -> tuple[float, float, float]:
    """Return the text colour on a crop (H, W, 3): the pixels that differ most from the background."""
    background = find_background(crop).astype(np.int16)
    difference = np.abs(crop.astype(np.int16) - background).max(axis=2)
    ink = crop[difference >= max(24, int(difference.max() * 0.75))]
    red, green, blue = np.median(ink, axis=0).tolist() if ink.size else background.tolist()
    return float(red), float(green), float(blue)
