"""Measurements of `python -m benchmarks.kernels`, read back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_runtime.errors import ConfigError

OURS = "ours"
NOT_MEASURED = "not measured"

Key = tuple[str, str, tuple[tuple[str, int], ...]]
"""Kernel, variant, and size in the order of its names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One peer at one case.

    Attributes:
        key: The case.
        peer: `ours`, or whose.
        us: Microseconds.
        gb_s: Gigabytes a second, where they are shown.
        tflop_s: Likewise.
        floor_share: Of the floor's speed, 0 to 1.
        error: Relative, against float64.
        note: What a reader has to know of it.
    """

    key: Key
    peer: str
    us: float
    gb_s: float | None = None
    tflop_s: float | None = None
    floor_share: float | None = None
    error: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """One run.

    Attributes:
        title: Machine, versions, commit, day.
        command: That made it.
        ceilings: Copy in GB/s, matmul in TFLOP/s, of that machine.
        rows: Those that were timed.
    """

    title: str
    command: str
    ceilings: tuple[float, float]
    rows: tuple[Row, ...]

    def find_us(self, key: Key) -> float | None:
        """What ours took."""
        return next((row.us for row in self.rows if row.key == key and row.peer == OURS), None)


def key_of(kernel: str, variant: str, size: Mapping[str, int]) -> Key:
    """A case's key."""
    return kernel, variant, tuple(sorted(size.items()))


def read_measurements(path: Path) -> Measurements:
    """Read one file; rows without a time, which say why in a note, are left out.

    Raises:
        ConfigError: It cannot be read, is malformed, or was no measurement.
    """
    try:
        values = json.loads(path.read_text("utf-8"))
        versions = ", ".join(f"{name} {version}" for name, version in values["versions"].items())
        ceilings = values["ceilings"]
        if ceilings["copy_gb_s"] is None:
            raise ConfigError(f"{path} has no measured ceilings: {values['machine']}")
        return Measurements(
            title=f"{values['machine']}; {versions}; commit {values['commit']}; {values['date']}",
            command=str(values["command"]),
            ceilings=(float(ceilings["copy_gb_s"]), float(ceilings["matmul_tflop_s"])),
            rows=tuple(_read_row(row) for row in values["rows"] if row["us"] is not None),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"{path} has no measurements: {error!r}"
        raise ConfigError(f"{text}; they are written by: python -m benchmarks.kernels") from error


def _read_row(row: Mapping[str, Any]) -> Row:
    return Row(
        key=key_of(row["kernel"], row["variant"], row["size"]),
        peer=row["peer"],
        us=float(row["us"]),
        gb_s=row.get("gb_s"),
        tflop_s=row.get("tflop_s"),
        floor_share=row.get("floor_share"),
        error=row.get("error"),
        note=row.get("note", ""),
    )


def measured_tables(runs: Sequence[Measurements]) -> str:
    """Markdown of all runs, the newest file's last; `not measured` where there are none."""
    return "\n\n".join(map(_run_table, runs)) or NOT_MEASURED


def _run_table(run: Measurements) -> str:
    copy, matmul = run.ceilings
    lines = [
        f"{run.title}. Command: `{run.command}`. Ceilings: copy {copy:,.0f} GB/s, bf16 matmul {matmul:,.0f} TFLOP/s.",
        "",
        "| kernel | variant | size | ours us | GB/s or TFLOP/s | of the floor | error | peers us |",
        "|---" * 8 + "|",
    ]
    for key in dict.fromkeys(row.key for row in run.rows):
        kernel, variant, size = key
        of_case = [row for row in run.rows if row.key == key]
        ours = next((row for row in of_case if row.peer == OURS), None)
        peers = ", ".join(f"{row.peer} {_number(row.us)}" for row in of_case if row.peer != OURS)
        figures = ("-",) * 4 if ours is None else _our_figures(ours)
        sizes = " ".join(f"{name} {number:,}" for name, number in size)
        lines.append(f"| {kernel} | {variant} | {sizes} | {' | '.join(figures)} | {peers or '-'} |")
    return "\n".join(lines)


def _our_figures(row: Row) -> tuple[str, ...]:
    speeds = [f"{_number(value)} {unit}" for value, unit in ((row.gb_s, "GB/s"), (row.tflop_s, "TFLOP/s")) if value]
    share = "-" if row.floor_share is None else f"{100 * row.floor_share:.0f} %"
    error = (row.note or "-") if row.error is None else f"{row.error:.1e}"
    return _number(row.us), ", ".join(speeds) or "-", share, error


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
