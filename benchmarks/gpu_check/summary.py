"""The results as a page to read: states, figures of kernels beside their goals and of the engine, two images."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.gpu_check.parts import MEASURED_FILES, Part, as_row, read_rows
from benchmarks.gpu_check.runner import Outcome, Plan
from benchmarks.kernels.targets import TARGETS

Bar = tuple[str, float, str]
"""What it stands for, its length as a share of the goal, and what is written beside it."""

TUNED_FILES = tuple(name.replace(".", "-tuned.") for name in MEASURED_FILES)
SHOWN_TAIL_LINES = 15
BAR_PX, ROW_PX, LABEL_PX = 300, 22, 330
"""Width of a bar that reaches its goal, height of a line, room for its text."""


def write_summary(parts: Sequence[Part], outcomes: Mapping[str, Outcome], plan: Plan) -> Path:
    """Write `gpu-check.md` and its images.

    Returns:
        The page.
    """
    folder = plan.setting.folder
    lines = [*_head(plan), *_states(parts, outcomes, plan), *_kernels(folder), *_programs(folder), *_faults(outcomes)]
    path = folder / "gpu-check.md"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _head(plan: Plan) -> Iterator[str]:
    details = ", ".join(f"{name} {value}" for name, value in plan.device.details.items())
    yield f"# GPU check: {plan.device.name or 'no GPU'}"
    yield ""
    yield f"Code {plan.version}; {details}."
    if plan.setting.is_rehearsal:
        yield "A rehearsal at toy sizes: no figure on this page is a measurement."
    yield ""


def _states(parts: Sequence[Part], outcomes: Mapping[str, Outcome], plan: Plan) -> Iterator[str]:
    yield from ("| part | state | seconds | |", "|---|---|---|---|")
    for part in parts:
        one = outcomes.get(part.name)
        if one is None:
            yield f"| {part.name} | not run | | |"
            continue
        is_other = (one.version, one.device) != (plan.version, plan.device.key)
        note = "; ".join(filter(None, (one.note, "of other code or another device" if is_other else "")))
        yield f"| {part.name} | {one.state} | {one.seconds:.0f} | {_cell(note)} |"
    yield ""


def _kernels(folder: Path) -> Iterator[str]:
    before, after = read_rows(folder, *MEASURED_FILES), read_rows(folder, *TUNED_FILES)
    if not before and not after:
        return
    tuned = {_key(row): row for row in after if row.get("peer") == "ours"}
    yield from ("## Kernels", "")
    yield "| kernel | size | us | % of floor | TFLOP/s | error | best peer | after tuning, us |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in before:
        if row.get("peer") == "ours":
            yield _kernel_line(row, before, tuned.get(_key(row)))
    if bars := _find_bars(before, after):
        (folder / "floors.svg").write_text(
            draw_bars("share of each target, at its worst size", bars, goal=1.0), "utf-8"
        )
        yield from ("", "![Share of each target](floors.svg)")
    yield ""


def _kernel_line(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], tuned: Mapping[str, Any] | None) -> str:
    size = " ".join(f"{name} {number:,}" for name, number in row["size"].items())
    peers = [other for other in rows if _key(other) == _key(row) and other["peer"] != "ours" and other.get("us")]
    best = min(peers, key=lambda other: float(other["us"]), default=None)
    share = "" if row.get("floor_share") is None else f"{100 * row['floor_share']:.0f}"
    error = "" if row.get("error") is None else f"{row['error']:.1e}"
    peer = f"{best['peer']} {best['us']:.1f}" if best else ""
    cells = (
        f"{row['kernel']} {row['variant']}".strip(),
        size,
        _number(row.get("us")) or _cell(row.get("note", "")),
        share,
        _number(row.get("tflop_s")),
        error,
        peer,
        _number((tuned or {}).get("us")),
    )
    return f"| {' | '.join(cells)} |"


def _find_bars(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[Bar]:
    bars = []
    for name, rows in (("", before), (", tuned", after)):
        known = [row for row in map(as_row, rows) if row is not None]
        for target in TARGETS:
            reached = [share for row in filter(target.holds, known) if (share := target.reach(row)) is not None]
            if reached:
                bars.append((target.text + name, min(reached), f"{100 * min(reached):.0f} %"))
    return sorted(bars)


def _programs(folder: Path) -> Iterator[str]:
    """Figures of our own programs: each file has a title, columns, rows, and maybe bars."""
    for name in ("peaks", "operators", "graphs", "tower", "engine"):
        found = _read(folder / f"{name}.json")
        if not found:
            continue
        yield from (
            f"## {found['title']}",
            "",
            f"| {' | '.join(found['columns'])} |",
            "|---" * len(found["columns"]) + "|",
        )
        yield from (f"| {' | '.join(map(_cell, map(_shown, row)))} |" for row in found["rows"])
        if found.get("bars"):
            most = max(length for _, length, _ in found["bars"])
            bars = [(label, length / (most or 1), text) for label, length, text in found["bars"]]
            (folder / f"{name}.svg").write_text(draw_bars(found["title"], bars), "utf-8")
            yield from ("", f"![{found['title']}]({name}.svg)")
        yield ""


def _faults(outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    bad = [one for one in outcomes.values() if one.tail]
    if bad:
        yield from ("## What went wrong", "")
    for one in bad:
        yield from (f"**{one.part}**: {one.note}", "", "```")
        yield from one.tail.splitlines()[-SHOWN_TAIL_LINES:]
        yield from ("```", "")


def draw_bars(title: str, bars: Sequence[Bar], goal: float | None = None) -> str:
    """An SVG of horizontal bars; a line marks the goal."""
    width, height = LABEL_PX + 2 * BAR_PX, ROW_PX * (len(bars) + 2)
    text = 'font-family="sans-serif" font-size="13"'
    shapes = [f'<text x="8" y="{ROW_PX - 6}" {text} font-weight="bold">{escape(title)}</text>']
    for place, (label, length, shown) in enumerate(bars, start=1):
        y, long = ROW_PX * place + 4, min(length, 1.6) * BAR_PX
        colour = "#2a7" if goal is None or length >= goal else "#c63"
        shapes += [
            f'<text x="8" y="{y + 13}" {text}>{escape(label)}</text>',
            f'<rect x="{LABEL_PX}" y="{y}" width="{long:.0f}" height="{ROW_PX - 6}" fill="{colour}"/>',
            f'<text x="{LABEL_PX + long + 6:.0f}" y="{y + 13}" {text}>{escape(shown)}</text>',
        ]
    if goal is not None:
        x = LABEL_PX + goal * BAR_PX
        shapes.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{ROW_PX}" y2="{height - ROW_PX}" stroke="#333"/>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="#fff"/>', *shapes, "</svg>"]) + "\n"


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["kernel"], row["variant"], tuple(row["size"].items())


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return found if {"title", "columns", "rows"} <= found.keys() else {}
    except (OSError, ValueError, AttributeError):
        return {}


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "/")
