"""Sheets compared by value or as printed: the rules `sheet_name`, `sheet_data` and `sheet_print` of `compare_table`.

Source: `metrics/table.py` of xlang-ai/OSWorld, for what a rule means. Values are read and compared by pandas, as there:
a column of whole numbers is another one than the same numbers with a decimal point.
"""

import contextlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError
from zipfile import BadZipFile

from envs.errors import EvaluationError

RULES = ("sheet_name", "sheet_data", "sheet_print")
_ENCODINGS = ("utf-8", "latin-1")
_DIGITS = 4
_MAX_WORKBOOK_BYTES = 64 * 2**20


def why_not_compared(options: Mapping[str, Any]) -> str | None:
    """What is missing for the rules of a comparison, in one clause; None: nothing."""
    rules = options.get("rules") or []
    other = next((rule.get("type") for rule in rules if rule.get("type") not in RULES), None)
    if other is not None:
        return f"the rule {other} of compare_table"
    missing = [name for name in ("pandas", "openpyxl") if importlib.util.find_spec(name) is None]
    return f"{' and '.join(missing)}, which the extra osworld brings" if missing else None


def compare_table(result: str | None, expected: str | None, options: Mapping[str, Any]) -> float:
    """Whether a workbook follows all rules, most of which name a sheet of the reference.

    Args:
        result: Path of a workbook; None: there is none.
        expected: Path of the reference.
        options: `rules`, each with `type`, `sheet_idx0` and `sheet_idx1`: a number, `RI0`, `RNname` of the result, or
            `EI0`, `ENname` of the reference.

    Raises:
        EvaluationError: The reference cannot be read, or a rule names no sheet.
    """
    if result is None:
        return 0.0
    found = _read(result)
    wanted = _read(expected) if expected is not None else None
    if found is None:
        return 0.0
    if expected is not None and wanted is None:
        raise EvaluationError(f"the reference {Path(expected).name} is no workbook")
    return float(all(_follows(rule, found, wanted) for rule in options["rules"]))


def _follows(rule: Mapping[str, Any], found: "_Book", wanted: "_Book | None") -> bool:
    if rule["type"] == "sheet_name":
        return found.names == (wanted.names if wanted is not None else None)
    books = [_find(rule[name], found, wanted) for name in ("sheet_idx0", "sheet_idx1")]
    read: Callable[[_Book, str], Any] = _Book.printed if rule["type"] == "sheet_print" else _Book.values
    first = read(*books[0])
    if first is None:
        return False
    second = read(*books[1])
    if second is None:
        raise EvaluationError(f"there is no sheet {rule['sheet_idx1']!r} to compare with")
    if rule["type"] == "sheet_print":
        is_same = bool(first == second)
        return is_same or (bool(rule.get("ignore_case")) and _lower(first) == _lower(second))
    digits = int(rule.get("precision", _DIGITS))
    return bool(first.round(digits).equals(second.round(digits)))


def _lower(lines: Sequence[str]) -> list[str]:
    return [line.lower() for line in lines]


class _Book:
    """A workbook, and the files of comma-separated values beside it that show its sheets as printed."""

    def __init__(self, path: str, pandas_file: Any) -> None:
        self._path = Path(path)
        self._file = pandas_file
        self.names: list[str] = list(pandas_file.sheet_names)

    def values(self, name: str) -> Any:
        """A sheet by value, a `pandas.DataFrame`; None: there is none."""
        import pandas

        return pandas.read_excel(self._file, name) if name in self.names else None

    def printed(self, name: str) -> list[str] | None:
        """Lines of `BOOK-SHEET.csv`, the last one first, without empty ones at the end; None: there is none."""
        file = self._path.with_name(f"{self._path.stem}-{name}.csv")
        for encoding in _ENCODINGS:
            with contextlib.suppress(UnicodeDecodeError):
                try:
                    lines = [line.strip() for line in file.read_text(encoding).splitlines()]
                except OSError:
                    return None
                while lines and not lines[-1]:
                    lines.pop()
                return lines[::-1]
        return None


def _read(path: str) -> _Book | None:
    """A workbook; None: the file is none."""
    import openpyxl
    import pandas
    from openpyxl.utils.exceptions import InvalidFileException as InvalidFile

    try:
        if Path(path).stat().st_size > _MAX_WORKBOOK_BYTES:
            raise EvaluationError(f"{Path(path).name} has more than {_MAX_WORKBOOK_BYTES} bytes")
        openpyxl.load_workbook(path)
        return _Book(path, pandas.ExcelFile(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile, ParseError, InvalidFile):
        return None  # openpyxl has no error of its own for most of what a file can be


def _find(index: int | str, found: _Book, wanted: _Book | None) -> tuple[_Book, str]:
    """The workbook and the name of a sheet; "" where it has no such one.

    Raises:
        EvaluationError: It names none, or one of a reference that is not there.
    """
    text = f"RI{index}" if isinstance(index, int) else str(index)
    book = {"R": found, "E": wanted}.get(text[:1])
    if book is None or text[1:2] not in ("I", "N"):
        raise EvaluationError(f"{index!r} names no sheet; expected a number, RI0, RNname, EI0 or ENname")
    if text[1] == "N":
        return book, text[2:]
    number = int(text[2:]) if text[2:].isdecimal() else len(book.names)
    return book, book.names[number] if number < len(book.names) else ""
