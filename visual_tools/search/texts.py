"""Find text on an image, and the box of only the requested characters.

The comparison tolerates differences of case and spaces, and misread characters.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from visual_tools.box import Box
from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource, load_image
from visual_tools.ocr import TextLine, read_text
from visual_tools.results import ResultSequence

_SAME_SIGNS = str.maketrans("‘’`´“”„–—−‐‑×…·•", "''''\"\"\"-----x.··")
_ALIKE = ("0oO", "1lI|i", "5sS", "8B", "2zZ", "-_~", ".,:;·", "'\"", "uv", "cC")
_ALIKE_COST = 0.34
"""Cost of characters that OCR confuses, relative to a wrong character."""

_COST_OF = {(a, b): _ALIKE_COST for group in _ALIKE for a in group.casefold() for b in group.casefold() if a != b}
_MAX_GAP_HEIGHTS = 2.5  # gap between words of one line, in heights: columns are farther apart
_MAX_LEADING_HEIGHTS = 1.2  # gap to the line below that continues a text, in heights
_BREAKS = re.compile(r"\s|[-–—/](?=.)")
"""Positions where a text may continue on another line."""
Strictness = Literal["exact", "ignore_case", "fuzzy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSpan:
    """Part of a text that is similar to another text.

    Attributes:
        start: First character.
        end: Character after the last one.
        similarity: 1 is equal except for case and spaces; a wrong, missing or extra character costs 1 divided by the
            length of the searched text.
    """

    start: int
    end: int
    similarity: float


def find_spans(text: str, wanted: str, min_similarity: float) -> list[TextSpan]:
    """Return the parts of `text` that are similar to `wanted`, best first, without overlap."""
    folded, places = _fold(text)
    pattern, _ = _fold(wanted)
    if not pattern or not folded:
        return []
    ends = _find_ends(folded, pattern, (1.0 - min_similarity) * len(pattern) + 1e-9)
    spans: list[TextSpan] = []
    taken = [False] * len(folded)
    for cost, _, start, end in sorted(ends):
        if not any(taken[start:end]):
            taken[start:end] = [True] * (end - start)
            similarity = 1.0 - cost / len(pattern)
            spans.append(TextSpan(start=places[start], end=places[end - 1] + 1, similarity=similarity))
    return spans


def is_whole_word(text: str, span: TextSpan) -> bool:
    """Return True if no letters or digits adjoin the span."""
    before, after = text[: span.start][-1:], text[span.end :][:1]
    return not (before.isalnum() and text[span.start].isalnum()) and not (
        after.isalnum() and text[span.end - 1].isalnum()
    )


def _fold(text: str) -> tuple[str, list[int]]:
    """Normalize case, spaces and similar symbols; also return the original position of each character."""
    folded, places = [], []
    for index, char in enumerate(text):
        for part in unicodedata.normalize("NFKC", char).casefold().translate(_SAME_SIGNS):
            if not part.isspace():
                folded.append(part)
                places.append(index)
    return "".join(folded), places


def _find_ends(text: str, pattern: str, max_cost: float) -> list[tuple[float, int, int, int]]:
    """Return cost, error in length, start and end for each end of a likely place.

    Source: P. Sellers, The theory and computation of evolutionary distances, J. Algorithms 1 (1980): edit distance
    with a free start.
    """
    costs = [float(row) for row in range(len(pattern) + 1)]
    starts = [0] * (len(pattern) + 1)
    ends = []
    for column, char in enumerate(text):
        next_costs, next_starts = [0.0], [column + 1]
        for row, expected in enumerate(pattern):
            swap = 0.0 if char == expected else _COST_OF.get((char, expected), 1.0)
            choices = (
                (costs[row] + swap, starts[row] if row else column),
                (costs[row + 1] + 1.0, starts[row + 1]),
                (next_costs[row] + 1.0, next_starts[row]),
            )
            cost, start = min(choices, key=lambda choice: choice[0])
            next_costs.append(cost)
            next_starts.append(start)
        costs, starts = next_costs, next_starts
        if costs[-1] <= max_cost and starts[-1] <= column:
            length_error = abs(column + 1 - starts[-1] - len(pattern))
            ends.append((costs[-1], length_error, starts[-1], column + 1))
    return ends


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatch:
    """Place where the text was found.

    Attributes:
        text: Recognized text.
        box: Box of only these characters, in pixels of the image.
        similarity: Similarity to the requested text: 1 is equal except for case and spaces.
        confidence: Confidence of the OCR, 0 to 1.
        line: Whole line that contains it.
        is_exact: True if case and spaces match too.
        is_whole_word: True if no letters or digits adjoin it.
    """

    text: str
    box: Box
    similarity: float
    confidence: float
    line: str
    is_exact: bool
    is_whole_word: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatches(ResultSequence[TextMatch]):
    """Places where the text was found, best first; may be indexed and iterated.

    Attributes:
        matches: The places.
        num_lines: Number of text lines of the image, to distinguish "not found" from "no text at all".
    """

    _items = "matches"
    matches: tuple[TextMatch, ...]
    num_lines: int

    def __iter__(self) -> Iterator[TextMatch]:
        return iter(self.matches)


def find_text(
    image: ImageSource,
    text: str,
    *,
    match: Strictness = "fuzzy",
    min_similarity: float = 0.8,
    max_matches: int = 50,
) -> TextMatches:
    """Find a text on an image.

    The best come first: equal before similar, whole lines before parts, high confidence before low, then from top to
    bottom. A text with spaces or hyphens is also found across columns of a row and wrapped onto a second line.

    Args:
        image: Anything `load_image` takes.
        text: Text to search for, part of a line.
        match: "exact" compares case and spaces; "ignore_case" compares every character except case and spaces;
            "fuzzy" also tolerates misread characters.
        min_similarity: Minimum similarity for "fuzzy": 0.8 tolerates one wrong character in five.
        max_matches: Maximum number of matches; the best are kept.

    Raises:
        ImageError: If the text is blank.

    Example:
        >>> x_px, y_px = find_text("screen.png", "Delete")[0].box.center  # doctest: +SKIP
    """
    if not text.strip():
        raise ImageError(f"found the text {text!r}, expected some characters; read_text reads everything")
    lines = read_text(load_image(image))
    least = min_similarity if match == "fuzzy" else 1.0
    candidates = [candidate for line in lines for candidate in _search_line(line, text, least)]
    if _BREAKS.search(text.strip()):
        candidates += [candidate for pair in _neighbours(lines) for candidate in _search_pair(*pair, text, least)]
    if match == "exact":
        candidates = [candidate for candidate in candidates if candidate.is_exact]
    kept = _without_doubles(sorted(candidates, key=_rank))
    return TextMatches(matches=tuple(kept[:max_matches]), num_lines=len(lines))


def _rank(match: TextMatch) -> tuple[float | bool, ...]:
    is_alone = len(match.text.strip()) >= len(match.line.strip())
    return (
        -round(match.similarity, 3),
        not match.is_whole_word,
        not match.is_exact,
        not is_alone,
        -round(match.confidence, 1),
        match.box.top,
        match.box.left,
    )


def _search_line(line: TextLine, wanted: str, min_similarity: float) -> Iterator[TextMatch]:
    for span in find_spans(line.text, wanted, min_similarity):
        box = line.span(span.start, span.end) if line.char_x_px else line.box_px
        yield _make_match(line.text, span, wanted, box, line.confidence)


def _search_pair(first: TextLine, second: TextLine, wanted: str, min_similarity: float) -> Iterator[TextMatch]:
    """Search for text that spans both lines."""
    joined, middle = f"{first.text} {second.text}", len(first.text)
    for span in find_spans(joined, wanted, min_similarity):
        if span.start < middle < span.end - 1:
            box = first.span(span.start, middle).union(second.span(0, span.end - middle - 1))
            yield _make_match(joined, span, wanted, box, min(first.confidence, second.confidence))


def _make_match(line: str, span: TextSpan, wanted: str, box: Box, confidence: float) -> TextMatch:
    read = line[span.start : span.end]
    return TextMatch(
        text=read,
        box=box,
        similarity=span.similarity,
        confidence=confidence,
        line=line,
        is_exact=read == wanted.strip(),
        is_whole_word=is_whole_word(line, span),
    )


def _neighbours(lines: Sequence[TextLine]) -> Iterator[tuple[TextLine, TextLine]]:
    """Yield pairs of upright lines that may continue each other: right in the same row, or below and aligned.

    Lines below are aligned at the left edge or at the center.
    """
    lines = [line for line in lines if not line.angle_deg]
    rows = sorted(lines, key=lambda line: line.box_px.left)
    for index, line in enumerate(rows):
        box = line.box_px
        right = [
            other
            for other in rows[index + 1 :]
            if 0 <= other.box_px.left - box.right + 2 <= _MAX_GAP_HEIGHTS * box.height + 2
            and other.box_px.overlap_y(box) > 0.5 * min(box.height, other.box_px.height)
        ]
        if right:
            yield line, min(right, key=lambda other: other.box_px.left)
    yield from _pairs_below(lines)


def _pairs_below(lines: Sequence[TextLine]) -> Iterator[tuple[TextLine, TextLine]]:
    for upper in lines:
        box = upper.box_px
        for lower in lines:
            under = lower.box_px
            gap = under.top - box.bottom
            is_near = -0.2 * box.height <= gap <= _MAX_LEADING_HEIGHTS * box.height
            is_aligned = abs(under.left - box.left) <= box.height or abs(under.center[0] - box.center[0]) <= box.height
            if lower is not upper and is_near and is_aligned and under.top > box.top:
                yield upper, lower


def _without_doubles(matches: Sequence[TextMatch]) -> list[TextMatch]:
    kept: list[TextMatch] = []
    for match in matches:
        if all(match.box.intersection(other.box) <= 0.5 * min(match.box.area, other.box.area) for other in kept):
            kept.append(match)
    return kept
