"""The page of a swarm: tree of agents, Gantt chart with critical path, costs; each child's page one click away."""

import html
from collections.abc import Iterator, Sequence
from pathlib import Path

from cua.errors import TrajectoryError
from cua.swarm.child import Child, load_children
from cua.swarm.measure import SwarmMeasures, measure
from cua.trajectory.describe import describe_cost, describe_duration, describe_tokens, printable
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.images import write_atomically
from cua.trajectory.load import load_run
from cua.trajectory.report import render_report
from cua.trajectory.report.page import inline_policy, write_report
from cua.trajectory.run_files import REPORT
from cua.trajectory.run_record import RunRecord

PAGE = "swarm.html"
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1d2430;
  background: #fff }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.facts { display: flex; flex-wrap: wrap; gap: .6rem 2rem } .facts b { display: block; font-size: 1.3rem }
table { border-collapse: collapse; width: 100%; font-size: .85rem } th, td { text-align: left;
  padding: .2rem .6rem .2rem 0; border-bottom: 1px solid #dde2ea; vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
pre { white-space: pre-wrap; background: #f4f6f9; padding: 1rem } svg { width: 100%; height: auto; display: block }
svg text { font: 10px system-ui, sans-serif; fill: #1d2430 } a { color: #0b57d0 }
.scroll { overflow-x: auto } details summary { cursor: pointer }
"""
_FILLS = {"finished": "#8fb3e8", "capped": "#e8c266", "failed": "#e08a8a", "stopped": "#b9bfc9"}
_CRITICAL = "#c2410c"
_WIDTH, _LEFT, _ROW = 1000, 120, 14


def write_swarm_report(run_dir: Path | str) -> Path:
    """Write the page of a swarm, its orchestrator's and one for each child.

    Args:
        run_dir: The run's folder.

    Returns:
        The swarm's page.

    Raises:
        TrajectoryError: The record cannot be read or a file cannot be written.
    """
    record = load_run(run_dir, images=0)
    _, children = load_children(record)
    for child in children:
        own = record.agents.get(child.agent_id)
        if own is None:
            continue
        target = record.run_dir / "children" / child.id / REPORT
        with translate_os_errors("write", target):
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, render_report(own).encode("utf-8", "replace"))
    write_report(record.run_dir)
    target = record.run_dir / PAGE
    with translate_os_errors("write", target):
        write_atomically(target, render_swarm(record, children).encode("utf-8", "replace"))
    return target


def is_swarm(record: RunRecord) -> bool:
    """Whether a run was one of a swarm."""
    return record.header.protocol.get("profile") == "swarm"


def render_swarm(record: RunRecord, children: Sequence[Child]) -> str:
    """The page as HTML that needs nothing else and runs no script.

    Raises:
        TrajectoryError: The run is none of a swarm.
    """
    if not is_swarm(record):
        raise TrajectoryError(f"{record.run_dir.name} is no run of a swarm")
    wall_s = max(0.0, record.last_at - record.header.started_at)
    figures = measure(record.tool_steps, children, wall_s=wall_s)
    end = record.end
    title = _safe(record.header.instruction[:200])
    body = [
        f"<h1>{title}</h1>",
        f"<p>{_safe(f'{end.status}: {end.reason}' if end else 'not ended')} "
        f'<a href="{REPORT}">the orchestrator\'s own page</a></p>',
        _facts(figures, len(children)),
        f"<h2>Answer</h2><pre>{_safe(end.answer or '(none)') if end else '(none)'}</pre>",
        "<h2>Who worked when</h2><p>Bars: time at work by end state; outlined and marked * : the longest branch of its "
        f'stage.</p><div class="scroll">{_gantt(record, children, figures)}</div>',
        f"<h2>Tree</h2>{_tree(record, children)}",
        f"<h2>Steps, calls, cost</h2>{_table(children, figures)}",
    ]
    policy = inline_policy(_STYLE, "")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
        f"<style>{_STYLE}</style></head><body>{''.join(body)}</body></html>"
    )


def _safe(text: str) -> str:
    return "\n".join(html.escape(printable(line)) for line in text.splitlines())


def _facts(figures: SwarmMeasures, num_children: int) -> str:
    facts = {
        "sub-agents": str(num_children),
        "critical steps": str(figures.critical_steps),
        "steps of all": str(figures.total_steps),
        "speed-up in steps": f"{figures.step_speedup:.2f}",
        "speed-up by the clock": f"{figures.wall_speedup:.2f}",
        "busy while held": f"{100 * figures.efficiency:.0f} %",
        "tool calls": str(figures.num_calls),
        "wall": describe_duration(figures.wall_s),
        "tokens": describe_tokens(figures.usage.total_tokens),
        "cost": describe_cost(figures.usage.cost_usd) or "-",
    }
    return '<div class="facts">' + "".join(f"<div><b>{_safe(v)}</b>{k}</div>" for k, v in facts.items()) + "</div>"


def _gantt(record: RunRecord, children: Sequence[Child], figures: SwarmMeasures) -> str:
    begin = record.header.started_at
    last = max([record.last_at, *(child.ended_at for child in children)])
    scale = (_WIDTH - _LEFT - 10) / max(last - begin, 1e-3)
    height = (len(children) + 2) * _ROW + 16
    pieces = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="Gantt chart of {len(children)} sub-agents">'
    ]
    for tick in range(6):
        x = _LEFT + tick * (_WIDTH - _LEFT - 10) / 5
        pieces.append(f'<line x1="{x:.1f}" y1="12" x2="{x:.1f}" y2="{height}" stroke="#dde2ea"/>')
        anchor = "end" if tick == 5 else "start"
        pieces.append(
            f'<text x="{x:.1f}" y="10" text-anchor="{anchor}">{describe_duration(tick * (last - begin) / 5)}</text>'
        )
    pieces += _main_row(record, begin, scale)
    longest = set(figures.longest)
    for row, child in enumerate(children, start=1):
        x, y = _LEFT + max(0.0, child.started_at - begin) * scale, 16 + row * _ROW
        width = max(1.0, ((child.ended_at or last) - child.started_at) * scale) if child.started_at else 0
        is_longest = child.id in longest
        outline = f' stroke="{_CRITICAL}" stroke-width="2"' if is_longest else ""
        name = f"{child.id} {child.assignment.config.name}"[:20] + (" *" if is_longest else "")
        pieces.append(f'<text x="0" y="{y + 10}">{_safe(name)}</text>')
        pieces.append(
            f'<a href="children/{child.id}/{REPORT}"><rect x="{x:.1f}" y="{y + 2}" width="{width:.1f}" '
            f'height="{_ROW - 4}" fill="{_FILLS.get(child.state, "#d8dde6")}"{outline}>'
            f"<title>{_safe(child.assignment.prompt[:200])} "
            f"({child.state}, {child.num_steps} steps)</title></rect></a>"
        )
    return "".join((*pieces, "</svg>"))


def _main_row(record: RunRecord, begin: float, scale: float) -> Iterator[str]:
    """The orchestrator's own model calls, which are on the critical path throughout."""
    yield '<text x="0" y="26">orchestrator</text>'
    for step in record.tool_steps:
        x = _LEFT + max(0.0, step.started_at - begin) * scale
        width = max(1.0, step.timings.get("model", 0.0) * scale)
        yield f'<rect x="{x:.1f}" y="18" width="{width:.1f}" height="{_ROW - 4}" fill="{_CRITICAL}"/>'


def _tree(record: RunRecord, children: Sequence[Child]) -> str:
    by_call = {child.call: child for child in children}
    stages = []
    for step in record.tool_steps:
        made = [by_call[outcome.number] for outcome in step.outcomes if outcome.number in by_call]
        names = [outcome.call.name for outcome in step.outcomes]
        counted = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names)) or "answer"
        items = "".join(
            f'<li><a href="children/{child.id}/{REPORT}">{child.id}</a> {_safe(child.assignment.config.name)}, '
            f"{child.state}: {_safe(child.assignment.prompt[:160])}"
            f"<details><summary>its message</summary><pre>{_safe(child.message[:2000])}</pre></details></li>"
            for child in made
        )
        stages.append(f"<li>step {step.index}: {_safe(counted)}" + (f"<ul>{items}</ul>" if items else "") + "</li>")
    return f"<ol>{''.join(stages)}</ol>"


def _table(children: Sequence[Child], figures: SwarmMeasures) -> str:
    heads = '<tr><th>task</th><th>agent</th><th>state</th><th class="n">steps</th><th class="n">calls</th>'
    heads += '<th class="n">tokens</th><th class="n">cost</th><th class="n">busy</th><th class="n">held</th></tr>'
    rows = "".join(
        f'<tr><td><a href="children/{child.id}/{REPORT}">{child.id}</a></td>'
        f"<td>{_safe(child.assignment.config.name)}</td><td>{child.state}</td>"
        + "".join(
            f'<td class="n">{_safe(text)}</td>'
            for text in (
                str(child.num_steps),
                str(child.num_calls),
                describe_tokens(child.usage.total_tokens),
                describe_cost(child.usage.cost_usd) or "-",
                describe_duration(child.busy_s),
                describe_duration(max(0.0, child.ended_at - child.started_at)),
            )
        )
        + "</tr>"
        for child in children
    )
    total = (
        f"{figures.total_steps} steps, {figures.num_calls} calls, {describe_tokens(figures.usage.total_tokens)} tokens"
    )
    return f'<div class="scroll"><table>{heads}{rows}</table></div><p>All agents: {_safe(total)}.</p>'
