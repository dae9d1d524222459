"""The page of a training run: curves of its losses and the last look at what the model does, in one folder, offline."""

import json
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from apps.train.look import Look

PAGE, CLICKS = "index.html", "look-{stage}.png"
_WIDTH, _HEIGHT, _MAX_POINTS = 420, 160, 400
_STYLE = """body{margin:24px auto;max-width:1300px;padding:0 16px;font:15px/1.45 system-ui,sans-serif;color:#222}
.curves{display:flex;flex-wrap:wrap;gap:16px}figure{margin:0}figcaption{font-weight:600}
svg{background:#f6f7f9;border:1px solid #d9dde3}polyline{fill:none;stroke:#2458c6;stroke-width:1.6}
line{stroke:#b8bec8;stroke-dasharray:3 3}text{font-size:11px;fill:#555}img{max-width:100%;border:1px solid #d9dde3}
td,th{padding:2px 14px 2px 0;text-align:right}th:first-child,td:first-child{text-align:left}"""


def write_page(folder: Path, rows: Sequence[dict[str, Any]], stage: str, seen: Look) -> None:
    """Write `index.html` and the stage's image; images of earlier stages stay.

    Args:
        folder: Of the run.
        rows: Of its log, in order; one at least.
        stage: The current one.
        seen: What the model does now.
    """
    seen.image.save(folder / CLICKS.format(stage=stage))
    stages = list(dict.fromkeys(row["stage"] for row in rows))
    names = list(dict.fromkeys(name for row in rows for name in row["losses"]))
    curves = "\n".join(_draw_curve(name, rows) for name in names)
    table = "".join(_describe_stage([row for row in rows if row["stage"] == name], name) for name in stages)
    what = f"{seen.num_right} of {seen.count} right" if seen.count else "nothing to judge"
    titles = {name: name for name in stages} | {stage: f"{stage}: {what}"}
    images = "\n".join(
        f'<h2>{escape(titles[name])}</h2><img src="{escape(CLICKS.format(stage=name))}" alt="">'
        for name in reversed(stages)
        if (folder / CLICKS.format(stage=name)).is_file()
    )
    html = f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Training, step {rows[-1]["step"]}</title><style>{_STYLE}</style></head>
<body><h1>Step {rows[-1]["step"]}, stage {escape(rows[-1]["stage"])}</h1>
<table><tr><th>stage</th><th>steps</th><th>minutes</th><th>last losses</th></tr>{table}</table>
<h2>Losses, smoothed</h2><div class="curves">{curves}</div>
<p>Screens below have names that training never has. Letters: green is read right, red wrong. Clicks: the blue frame is
what was asked for, the cross where the likeliest coordinates are.</p>
{images}</body></html>
"""
    (folder / PAGE).write_text(html, encoding="utf-8")


def read_log(file: Path) -> list[dict[str, Any]]:
    """Rows of a log, of an interrupted run too: a step that was made again after it went on counts as made last."""
    if not file.is_file():
        return []
    rows = {row["step"]: row for row in map(json.loads, file.read_text("utf-8").splitlines())}
    return [rows[step] for step in sorted(rows)]


def _describe_stage(rows: Sequence[dict[str, Any]], name: str) -> str:
    losses = ", ".join(f"{loss} {value:.3f}" for loss, value in rows[-1]["losses"].items())
    minutes = sum(
        max(after["seconds"] - before["seconds"], 0) for before, after in pairwise(rows)
    )  # it counts from 0 again where a run went on
    steps = f"{rows[0]['step']} to {rows[-1]['step']}"
    return f"<tr><td>{escape(name)}</td><td>{steps}</td><td>{minutes / 60:.0f}</td><td>{losses}</td></tr>"


def _draw_curve(name: str, rows: Sequence[dict[str, Any]]) -> str:
    points = [(row["step"], row["losses"][name]) for row in rows if name in row["losses"]]
    points = points[:: max(len(points) // _MAX_POINTS, 1)] + points[-1:]
    last = max(row["step"] for row in rows)
    low, high = min(value for _, value in points), max(value for _, value in points)
    spread = (high - low) or 1.0

    def place(step: float, value: float) -> tuple[float, float]:
        return 4 + (_WIDTH - 8) * step / last, 6 + (_HEIGHT - 12) * (high - value) / spread

    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
    starts = [after["step"] for before, after in pairwise(rows) if before["stage"] != after["stage"]]
    edges = "".join(
        f'<line x1="{place(s, low)[0]:.1f}" x2="{place(s, low)[0]:.1f}" y1="0" y2="{_HEIGHT}"/>' for s in starts
    )
    return (
        f"<figure><figcaption>{escape(name)}: {points[-1][1]:.3f}</figcaption>"
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}">{edges}<polyline points="{line}"/>'
        f'<text x="6" y="14">{high:.2f}</text><text x="6" y="{_HEIGHT - 6}">{low:.2f}</text></svg></figure>'
    )
