"""What setup and doctor found: rows of data, and how a person reads them."""

import json
from dataclasses import asdict, dataclass

from envs.doctor import Level, Row

__all__ = ["Level", "Report", "Row"]

_ORDER: tuple[Level, ...] = ("ok", "warn", "fail")
_MARK = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All rows, in the order in which they were looked at."""

    rows: tuple[Row, ...]

    @property
    def worst(self) -> Level:
        """The worst level of all rows."""
        return max((row.level for row in self.rows), key=_ORDER.index, default="ok")

    @property
    def exit_code(self) -> int:
        """1 when a row failed, else 0: a warning is no reason to stop a script."""
        return 1 if self.worst == "fail" else 0

    def to_json(self) -> str:
        """The same as data: `{"worst": ..., "rows": [{"name", "level", "found", "expected", "fix"}, ...]}`."""
        return json.dumps({"worst": self.worst, "rows": [asdict(row) for row in self.rows]}, ensure_ascii=False)

    def to_text(self) -> str:
        """One line a row; below it what was expected and the command that mends it."""
        width = max((len(row.name) for row in self.rows), default=0)
        return "\n".join(line for row in self.rows for line in _lines_of(row, width))


def _lines_of(row: Row, width: int) -> list[str]:
    indent = " " * (len(_MARK["ok"]) + width + 4)
    lines = [f"{_MARK[row.level]}  {row.name:<{width}}  {row.found.splitlines()[0] if row.found else ''}"]
    lines += [indent + line for line in row.found.splitlines()[1:]]
    if row.expected:
        lines.append(f"{indent}expected: {row.expected}")
    if row.fix:
        lines.append(f"{indent}fix it:  {row.fix}")
    return lines
