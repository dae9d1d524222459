"""Results of setup and doctor: rows of data, and their text form."""

import json
from dataclasses import dataclass

from envs.doctor import DoctorRow, Level

__all__ = ["DoctorRow", "Level", "SetupReport"]

_ORDER: tuple[Level, ...] = ("ok", "warn", "fail")
_MARK = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupReport:
    """All rows, in the order of the checks."""

    rows: tuple[DoctorRow, ...]

    @property
    def worst(self) -> Level:
        """Worst level of all rows."""
        return max((row.level for row in self.rows), key=_ORDER.index, default="ok")

    @property
    def exit_code(self) -> int:
        """1 if a row failed, else 0; warnings do not fail a script."""
        return 1 if self.worst == "fail" else 0

    def to_json(self) -> str:
        """Return the report as JSON: `{"worst": ..., "rows": [{"name", "level", "found", "expected", "fix"}, ...]}`."""
        rows = [
            {"name": row.name, "level": row.level, "found": row.actual, "expected": row.expected, "fix": row.fix}
            for row in self.rows
        ]
        return json.dumps({"worst": self.worst, "rows": rows}, ensure_ascii=False)

    def to_text(self) -> str:
        """Return one line per row, followed by the expected value and the command that fixes it."""
        width = max((len(row.name) for row in self.rows), default=0)
        return "\n".join(line for row in self.rows for line in _lines_of(row, width))


def _lines_of(row: DoctorRow, width: int) -> list[str]:
    indent = " " * (len(_MARK["ok"]) + width + 4)
    lines = [f"{_MARK[row.level]}  {row.name:<{width}}  {row.actual.splitlines()[0] if row.actual else ''}"]
    lines += [indent + line for line in row.actual.splitlines()[1:]]
    if row.expected:
        lines.append(f"{indent}expected: {row.expected}")
    if row.fix:
        lines.append(f"{indent}fix it:  {row.fix}")
    return lines
