"""Where in a text another one stands, give or take case, blanks and misread characters."""

import unicodedata
from dataclasses import dataclass

_SAME_SIGNS = str.maketrans("‘’`´“”„–—−‐‑×…·•", "''''\"\"\"-----x.··")
_ALIKE = ("0oO", "1lI|i", "5sS", "8B", "2zZ", "-_~", ".,:;·", "'\"", "uv", "cC")
_ALIKE_COST = 0.34
"""Characters that a reader of pictures takes for each other cost a third of a wrong one."""

_COST_OF = {(a, b): _ALIKE_COST for group in _ALIKE for a in group.casefold() for b in group.casefold() if a != b}


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a text that is like another text.

    Attributes:
        start: First character.
        end: Character after the last one.
        similarity: 1 is equal but for case and blanks; a wrong, missing or extra character costs one part in the
            length of what was looked for.
    """

    start: int
    end: int
    similarity: float


def find_spans(text: str, wanted: str, min_similarity: float) -> list[Span]:
    """The parts of `text` that are like `wanted`, best first, without overlap."""
    folded, places = _fold(text)
    pattern, _ = _fold(wanted)
    if not pattern or not folded:
        return []
    ends = _find_ends(folded, pattern, (1.0 - min_similarity) * len(pattern) + 1e-9)
    found: list[Span] = []
    taken = [False] * len(folded)
    for cost, _, start, end in sorted(ends):
        if not any(taken[start:end]):
            taken[start:end] = [True] * (end - start)
            similarity = 1.0 - cost / len(pattern)
            found.append(Span(start=places[start], end=places[end - 1] + 1, similarity=similarity))
    return found


def is_whole_word(text: str, span: Span) -> bool:
    """Whether neither letters nor digits go on at either end."""
    before, after = text[: span.start][-1:], text[span.end :][:1]
    return not (before.isalnum() and text[span.start].isalnum()) and not (
        after.isalnum() and text[span.end - 1].isalnum()
    )


def _fold(text: str) -> tuple[str, list[int]]:
    """Without case, blanks and fine differences of signs; and where each character was."""
    folded, places = [], []
    for index, char in enumerate(text):
        for part in unicodedata.normalize("NFKC", char).casefold().translate(_SAME_SIGNS):
            if not part.isspace():
                folded.append(part)
                places.append(index)
    return "".join(folded), places


def _find_ends(text: str, pattern: str, max_cost: float) -> list[tuple[float, int, int, int]]:
    """For each end of a likely place: cost, error in length, start, end.

    Source: P. Sellers, The theory and computation of evolutionary distances, J. Algorithms 1 (1980): edit distance
    with a free start.
    """
    costs = [float(row) for row in range(len(pattern) + 1)]
    starts = [0] * (len(pattern) + 1)
    found = []
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
            found.append((costs[-1], length_error, starts[-1], column + 1))
    return found
