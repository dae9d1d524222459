"""Score a collected table with the metrics of the published benchmark.

Item-F1, row-F1 and success. Differences: column names are aligned by known aliases, and keys by their text, without a
model; dates are parsed by stricter rules that do not guess.

Quirks that are kept: cells of key columns of a joined row always score 1; dates are equal within 31 days; a number or
date that cannot be parsed is equal to another one that cannot; the answer must have exactly the requested columns.

Source: WideSearch, arXiv 2508.07999; ByteDance-Seed/WideSearch, `src/evaluation/evaluation.py` and `metric_utils.py`.
"""

import asyncio
import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from urllib.parse import urlsplit

from envs.judge import Judge, ask_verdict, fence_text, fill_template
from envs.suites.widesearch.corpus import MONTHS, Metric

Compare = Callable[[str, str, str], bool]
"""Function of (column, answer, truth) that returns True if both mean the same; used for the metric `judge`."""

MAX_ANSWER_CHARS = 5_000_000  # with the limit below: bounds the time to match the rows of an answer
MAX_ROWS = 20_000
MAX_CELL_CHARS, MAX_ASKED = 2_000, 8
"""Maximum length of a judged cell; maximum number of cells that are judged concurrently."""
DAYS = 31
NEAR = 0.0
"""Default relative tolerance of numbers."""
_SYSTEM = "You compare values of a table with the truth."
_QUESTION = (
    "A table was collected from the web. In the column {column} the true value is: {truth}\n"
    "The value that was found: {answer}\n"
    "Decide whether the found value means the same as the true one. Wording, language, abbreviation and order do not "
    "matter; another thing, a less exact one, or several of which one is wrong, is not the same."
)
_WORDS = {"same": True, "different": False}
_FENCE = re.compile(r"```markdown[ \t]*\n(.*?)```", re.S | re.I)
_RULER = re.compile(r"[|\-: \t]*")
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?\s?%?")
_CITED = re.compile(r"(?<!\s)\s*\[\^[\w.]+(?:\^\]|\])")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredColumn:
    """Comparison rule of a column.

    Attributes:
        name: Requested column name.
        metric: `exact` (ignoring case), `in` (the answer is a part of the truth), `number`, `date`, `url` (same hosts),
            `judge`.
        near: Relative tolerance of numbers.
        aliases: Other names that an answer may use.
    """

    name: str
    metric: Metric = "exact"
    near: float = NEAR
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores of a table, all in [0, 1].

    Attributes:
        success: 1 if the whole table is right.
        row_precision: Share of right rows in the answer; a row scores as its worst cell.
        row_recall: Share of true rows that were found.
        item_precision: Share of right cells in the answer.
        item_recall: Share of true cells that were found.
    """

    success: float = 0.0
    row_precision: float = 0.0
    row_recall: float = 0.0
    item_precision: float = 0.0
    item_recall: float = 0.0

    @property
    def row_f1(self) -> float:
        """F1 of rows."""
        return f1(self.row_precision, self.row_recall)

    @property
    def item_f1(self) -> float:
        """F1 of cells."""
        return f1(self.item_precision, self.item_recall)


def f1(precision: float, recall: float) -> float:
    """Return the harmonic mean; 0 if both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall > 1e-9 else 0.0


def score_table(
    answer: str | None,
    truth: Sequence[Mapping[str, str]],
    columns: Sequence[ScoredColumn],
    *,
    keys: Sequence[str],
    compare: Compare | None = None,
) -> Scores:
    """Score an answer.

    Args:
        answer: The agent's answer, with a table in it.
        truth: The true rows, by column name.
        columns: All requested columns.
        keys: Names of the columns that identify a row.
        compare: Compares cells of the metric `judge` whose texts differ; None counts them as wrong.

    Returns:
        All zero for an answer without a table, or with other columns.
    """
    table = read_table(answer or "")
    named = _align(table[0] if table else (), columns)
    if table is None or named is None:
        return Scores()
    by_name = {column.name: column for column in columns}
    answered = _distinct([{name: _cell(row, at) for name, at in named.items()} for row in table[1]], keys, by_name)
    known = _distinct(truth, keys, by_name)
    cells = row_sum = 0.0
    for key, row in answered.items():
        if key in known:
            each = [
                1.0 if name in keys else float(_is_equal(row[name], known[key][name], by_name[name], compare))
                for name in named
            ]
            cells, row_sum = cells + sum(each), row_sum + min(each)
    rates = [_rate(row_sum, len(answered)), _rate(row_sum, len(known))]
    rates += [_rate(cells, len(answered) * len(columns)), _rate(cells, len(known) * len(columns))]
    return Scores(
        success=float(min(rates) == 1.0),
        row_precision=rates[0],
        row_recall=rates[1],
        item_precision=rates[2],
        item_recall=rates[3],
    )


async def score_with_judge(
    answer: str | None,
    truth: Sequence[Mapping[str, str]],
    columns: Sequence[ScoredColumn],
    *,
    keys: Sequence[str],
    judge: Judge,
) -> Scores:
    """Score an answer like `score_table`, with a model that judges cells whose wording may differ.

    The judge gets one cell at a time, so that the text of a cell cannot influence the verdict on another one, and only
    cells whose texts differ; each pair once.

    Raises:
        EnvDiedError: If the judge does not answer, or its answer is not a verdict.
    """
    pairs: dict[tuple[str, str, str], bool] = {}

    def collect(column: str, cell: str, true: str) -> bool:
        pairs[column, cell, true] = False
        return False

    score_table(answer, truth, columns, keys=keys, compare=collect)
    places = asyncio.Semaphore(MAX_ASKED)

    async def decide(column: str, cell: str, true: str) -> None:
        async with places:
            pairs[column, cell, true] = bool(cell) and await is_same_cell(judge, column, cell, true)

    await asyncio.gather(*(decide(*pair) for pair in pairs))
    return score_table(answer, truth, columns, keys=keys, compare=lambda *pair: pairs[pair])


async def is_same_cell(judge: Judge, column: str, cell: str, true: str) -> bool:
    """Ask a judge whether a cell is right.

    Raises:
        EnvDiedError: See `ask_verdict`.
    """
    shown, mark = fence_text(cell[:MAX_CELL_CHARS])
    asked = fill_template(_QUESTION, column=column, truth=true, answer=shown)
    return await ask_verdict(judge, asked, system=_SYSTEM, name="found value", mark=mark, words=_WORDS)


def _rate(part: float, whole: int) -> float:
    return part / whole if whole else 0.0


def read_table(answer: str) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]] | None:
    """Parse the table in an answer: a block with the tag `markdown`, else from the first | to the last.

    Citation marks are removed.

    Returns:
        Header and rows; None if no table is found.
    """
    answer = answer[:MAX_ANSWER_CHARS].replace("\r\n", "\n")
    block = _FENCE.search(answer)
    text = block[1] if block else answer[answer.find("|") : answer.rfind("|") + 1] if answer.count("|") >= 4 else ""
    lines = [line.strip() for line in _CITED.sub("", text).split("\n")]
    lines = [line for line in lines if "|" in line and not _RULER.fullmatch(line)]
    if not lines:
        return None
    header, *rows = (_cells(line) for line in lines[: MAX_ROWS + 1])
    return header, tuple(rows)


def _cells(line: str) -> tuple[str, ...]:
    r"""Split one line of a Markdown table into cells; `\|` is an escaped bar."""
    bare = line.removeprefix("|")
    bare = bare[:-1] if bare.endswith("|") and not bare.endswith("\\|") else bare
    try:
        row = next(csv.reader(io.StringIO(bare.replace("\\|", "\x1f")), delimiter="|", quoting=csv.QUOTE_NONE), [])
    except csv.Error:  # a cell longer than the csv field limit
        row = bare.split("|")
    return tuple(cell.replace("\x1f", "|").strip() for cell in row)


def _cell(row: Sequence[str], at: int) -> str:
    return row[at] if at < len(row) else ""


def _align(header: Sequence[str], columns: Sequence[ScoredColumn]) -> dict[str, int] | None:
    """Return the index of each column by name; None if the columns are not the requested ones."""
    names = {plain_name(alias): column.name for column in columns for alias in column.aliases}
    names |= {plain_name(column.name): column.name for column in columns}
    indices: dict[str, int] = {}
    for at, cell in enumerate(header):
        if not cell:
            continue  # a column without a name is dropped
        name = names.get(plain_name(cell))
        if name is None or name in indices:
            return None
        indices[name] = at
    return indices if len(indices) == len(columns) else None


def plain_name(name: str) -> str:
    """Return a column name without case, whitespace and emphasis."""
    return re.sub(r"[\s*_`]", "", name).lower()


def _distinct(
    rows: Sequence[Mapping[str, str]], keys: Sequence[str], columns: Mapping[str, ScoredColumn]
) -> dict[tuple[str, ...], Mapping[str, str]]:
    """Map rows by key; the first of several rows with the same key is kept."""
    by_key: dict[tuple[str, ...], Mapping[str, str]] = {}
    for row in rows:
        by_key.setdefault(tuple(_key(row[key], columns[key]) for key in keys), row)
    return by_key


def _key(cell: str, column: ScoredColumn) -> str:
    """Return the normalized key that rows are joined by."""
    match column.metric:
        case "date":
            day = read_date(cell)
            return day.isoformat() if day else "NULL"
        case "number":
            return str(read_number(cell))
        case _:
            return plain_text(cell)


def plain_text(cell: str) -> str:
    """Return a text without case, whitespace and asterisks."""
    return re.sub(r"[\s*]", "", cell).lower()


def _is_equal(answer: str, truth: str, column: ScoredColumn, compare: Compare | None) -> bool:
    match column.metric:
        case "exact":
            return plain_text(answer) == plain_text(truth)
        case "in":
            return bool(plain_text(answer)) and plain_text(answer) in plain_text(truth)
        case "number":
            return _is_near(read_number(answer), read_number(truth), column.near)
        case "date":
            return is_same_date(read_date(answer), read_date(truth))
        case "url":
            return hosts_of(answer) == hosts_of(truth)
        case "judge":
            return plain_text(answer) == plain_text(truth) or (
                compare is not None and compare(column.name, answer, truth)
            )


def _is_near(answer: float | None, truth: float | None, near: float) -> bool:
    if answer is None or truth is None:
        return answer is truth
    return abs(answer - truth) <= abs(truth) * near + 1e-12 * abs(truth)


def is_same_date(answer: date | None, truth: date | None) -> bool:
    """Return True if two dates are at most 31 days apart, or neither could be parsed."""
    if answer is None or truth is None:
        return answer is truth
    return abs((answer - truth).days) <= DAYS


def read_number(cell: str) -> float | None:
    """Return the first number of a text; parses thousands separators and percentages; None if there is none."""
    match = _NUMBER.search(cell[:1000])
    if match is None:
        return None
    text = match[0].replace(",", "").replace(" ", "").replace("\u00a0", "")
    try:
        value = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except (ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def read_date(cell: str) -> date | None:
    """Parse `1931-05-03`, `3 May 1931`, `May 3, 1931`, `May 1931` (first of May) or `1931` (first of January)."""
    text = cell[:200].strip().strip("*").lower()
    if match := re.search(r"\b(\d{4})[-/.](\d{1,2})(?:[-/.](\d{1,2}))?\b", text):
        return _day(match[1], match[2], match[3] or "1")
    month = next((number for number, name in enumerate(MONTHS, 1) if re.search(rf"\b{name[:3].lower()}", text)), None)
    year = re.search(r"\b\d{4}\b", text)
    if year is None:
        return None
    rest = text[: year.start()] + text[year.end() :]
    day = re.search(r"\b(\d{1,2})(?:st|nd|rd|th)?\b", rest)
    return _day(year[0], str(month or 1), day[1] if day and month else "1")


def _day(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def hosts_of(cell: str) -> frozenset[str]:
    """Return the hosts of the addresses in a text, with or without a scheme."""
    hosts = set()
    for word in re.findall(r"[^\s<>()\[\],|]+", cell[:5000]):
        try:
            host = urlsplit(word if "://" in word else f"//{word}").hostname
        except ValueError:
            continue
        if host and "." in host:
            hosts.add(host.lower())
    return frozenset(hosts)
