"""Scores of texts, counts, tables and paths through mazes."""

import math
import re
import unicodedata
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

MAX_TEXT_CHARS = 100_000
"""Longer texts are cut: 100,000 by 100,000 different characters take 0.3 s."""

_BREAKS = re.compile(r"\s*[\r\n]\s*")


def text_score(prediction: str, truth: str) -> float:
    """Return 1 - edit distance / longer length, after NFC and with each line break as one space; case counts."""
    from rapidfuzz.distance import Levenshtein

    one, two = (_BREAKS.sub(" ", unicodedata.normalize("NFC", text[:MAX_TEXT_CHARS])) for text in (prediction, truth))
    return float(Levenshtein.normalized_similarity(one, two))


def count_score(prediction: float, truth: int) -> float:
    """Return max(0, 1 - |prediction - truth| / max(truth, 1))."""
    return max(0.0, 1.0 - abs(prediction - truth) / max(truth, 1))


def cells_score(
    prediction: Mapping[str, float | str], truth: Mapping[str, float | str], relative_tolerance: float
) -> float:
    """Return the F1 of cells: a cell counts if a cell of the same name has the same text or nearly the same number."""

    def is_right(value: float | str, expected: float | str) -> bool:
        if isinstance(value, str) or isinstance(expected, str):
            return isinstance(value, str) and isinstance(expected, str) and _plain(value) == _plain(expected)
        return math.isclose(value, expected, rel_tol=relative_tolerance, abs_tol=1e-12)

    hits = sum(name in prediction and is_right(prediction[name], expected) for name, expected in truth.items())
    total = len(prediction) + len(truth)
    return 2 * hits / total if total else 1.0


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


Cell = tuple[int, int]
"""Row and column of a cell of a maze."""


def path_score(path: Sequence[Cell], is_open: NDArray[np.bool_], start: Cell, goal: Cell) -> tuple[float, str]:
    """Return shortest length / length of a legal path, and why a path is refused.

    The path is verified, not compared with a known solution. A path of no cells says that there is no way, which is
    right if none exists.

    Args:
        path: Cells from start to goal; each is a neighbour (left, right, above, below) of the one before.
        is_open: True where a cell may be entered, [rows, columns].
        start: First cell.
        goal: Last cell.
    """
    shortest = _find_distance(is_open, start, goal)
    if not path:
        return (1.0, "") if shortest is None else (0.0, "there is a way")
    if tuple(path[0]) != start or tuple(path[-1]) != goal:
        return 0.0, f"the path leads from {path[0]} to {path[-1]}, expected {start} to {goal}"
    rows, columns = is_open.shape
    for row, column in path:
        if not (0 <= row < rows and 0 <= column < columns and is_open[row, column]):
            return 0.0, f"cell ({row}, {column}) is a wall or outside"
    for (row, column), (next_row, next_column) in pairwise(path):
        if abs(row - next_row) + abs(column - next_column) != 1:
            return 0.0, f"({next_row}, {next_column}) is not next to ({row}, {column})"
    return ((shortest or 0) + 1) / len(path), ""


def _find_distance(is_open: NDArray[np.bool_], start: Cell, goal: Cell) -> int | None:
    """Return the number of moves of a shortest path, or None."""
    rows, columns = is_open.shape
    distances, queue = {start: 0}, deque([start] if is_open[start] else [])
    while queue:
        row, column = queue.popleft()
        if (row, column) == goal:
            return distances[goal]
        for cell in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            if 0 <= cell[0] < rows and 0 <= cell[1] < columns and is_open[cell] and cell not in distances:
                distances[cell] = distances[row, column] + 1
                queue.append(cell)
    return None
