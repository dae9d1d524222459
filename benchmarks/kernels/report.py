"""A run as a table for people and as JSON."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.kernels.case import OURS, Row
from benchmarks.kernels.cost.hardware import Hardware
from benchmarks.kernels.targets import judge
from model_runtime.errors import ConfigError

HEADS = ("kernel", "variant", "size", "peer", "us", "GB/s", "TFLOP/s", "% floor", "error", "ours/peer", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run.

    Attributes:
        machine: The GPU's name; of a toy run a text that says that nothing was measured.
        versions: Of torch, triton, CUDA, the driver, Python.
        commit: Of the repository.
        command: That made it.
        date: The day, ISO 8601.
        peaks: Measured; None in a toy run.
        rows: In the order of the cases, ours first.
    """

    machine: str
    versions: Mapping[str, str]
    commit: str
    command: str
    date: str
    peaks: Hardware | None
    rows: Sequence[Row]

    @property
    def is_measurement(self) -> bool:
        """Whether its figures mean something."""
        return self.peaks is not None


def as_json(report: Report) -> dict[str, Any]:
    """What is written to a file. Rows of a toy run say themselves that they are none."""
    peaks = report.peaks
    return {
        "machine": report.machine,
        "versions": dict(report.versions),
        "commit": report.commit,
        "command": report.command,
        "date": report.date,
        "ceilings": {
            "copy_gb_s": peaks.copy_tb_s * 1e3 if peaks else None,
            "matmul_tflop_s": peaks.matmul_tflop_s if peaks else None,
        },
        "rows": [_as_row(row, report) for row in report.rows],
    }


def _as_row(row: Row, report: Report) -> dict[str, Any]:
    values = asdict(row) | {"size": dict(row.size)}
    if not report.is_measurement:
        values["note"] = "; ".join(filter(None, (report.machine, row.note)))
    return values


def write(report: Report, path: Path) -> None:
    """To a file, which is whole or not there."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(as_json(report), indent=1, allow_nan=False, default=str) + "\n", "utf-8")
    part.replace(path)


def place_of(report: Report, folder: Path) -> Path:
    """Where a measurement is kept: `<machine>-<date>.json`.

    Raises:
        ConfigError: The run was none.
    """
    if not report.is_measurement:
        raise ConfigError(f"{report.machine}: this is not saved. Use --json FILE to look at it")
    machine = re.sub(r"[^a-z0-9]+", "-", report.machine.lower()).strip("-")
    return folder / f"{machine}-{report.date}.json"


def as_table(report: Report) -> str:
    """Everything as text."""
    lines = [*_head(report), "", *_align([HEADS, *(_cells(row, report) for row in sort_rows(report.rows))]), ""]
    outcomes = judge(report.rows, is_measurement=report.is_measurement)
    targets = [("target", "", ""), *((outcome.text, outcome.state, outcome.found) for outcome in outcomes)]
    return "\n".join([*lines, *_align(targets)])


def sort_rows(rows: Sequence[Row]) -> list[Row]:
    """Rows of one case together, ours first, cases in the order in which they came."""
    order: dict[Any, int] = {}
    for row in rows:
        order.setdefault(row.key, len(order))
    return sorted(rows, key=lambda row: (order[row.key], row.peer != OURS))


def _head(report: Report) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    yield f"{report.machine}; {versions}; commit {report.commit}; {report.date}"
    yield report.command
    if report.peaks:
        copy, matmul = report.peaks.copy_tb_s * 1e3, report.peaks.matmul_tflop_s
        yield f"peaks of this machine: copy {copy:,.0f} GB/s, bf16 matmul {matmul:,.0f} TFLOP/s"
        yield "ours/peer is the ratio of times: below 1 ours is quicker"


def _cells(row: Row, report: Report) -> tuple[str, ...]:
    size = " ".join(f"{name} {number:,}" for name, number in row.size.items())
    share = "" if row.floor_share is None else f"{100 * row.floor_share:.0f}"
    error = "" if row.error is None else f"{row.error:.1e}"
    figures = [_number(value) for value in (row.us, row.gb_s, row.tflop_s)]
    ratio = _find_ratio(row, report) if report.is_measurement else ""
    note = row.note if report.is_measurement else "; ".join(filter(None, ("toy", row.note)))
    return row.kernel, row.variant, size, row.peer, *figures, share, error, ratio, note


def _find_ratio(row: Row, report: Report) -> str:
    ours = [other.us for other in report.rows if other.key == row.key and other.peer == OURS and other.us]
    return f"{ours[0] / row.us:.2f}" if ours and row.us and row.peer != OURS else ""


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _align(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
