"""HTML page of a swarm: evidence of the answer, Gantt chart with critical path, tree of agents, costs.

The page links to the page of each child and to each cited result.
"""

import html
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from markdown_it import MarkdownIt

from cua.errors import TrajectoryError
from cua.swarm.child import AT_WORK, Child, load_children, made_calls
from cua.swarm.metrics import SwarmMetrics, compute_metrics
from cua.trajectory.describe import describe_cost, describe_duration, describe_tokens, printable
from cua.trajectory.disk import is_locked, translate_os_errors
from cua.trajectory.images import write_atomically
from cua.trajectory.load import load_run
from cua.trajectory.report import render_report, write_report
from cua.trajectory.report.shell import inline_policy
from cua.trajectory.run_files import REPORT
from cua.trajectory.run_record import MAIN, RunRecord

PAGE = "swarm.html"
_STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1d2430; --soft: #5b6472; --line: #dde2ea; --sunk: #f4f6f9;
  --link: #0b57d0; --critical: #c2410c; --finished: #8fb3e8; --capped: #e8c266; --failed: #e08a8a; --other: #b9bfc9 }
@media (prefers-color-scheme: dark) { :root { --page: #121315; --ink: #e8e9ea; --soft: #9aa1aa; --line: #2d3035;
  --sunk: #1b1d20; --link: #8fb0ff; --critical: #ff8a4c; --finished: #3f6299; --capped: #8a6d1f; --failed: #9c4444;
  --other: #5a606a } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: var(--ink);
  background: var(--page); overflow-wrap: anywhere }
h1 { font-size: 1.4rem; white-space: pre-wrap } h2 { font-size: 1.1rem; margin-top: 2rem } a { color: var(--link) }
.facts { display: flex; flex-wrap: wrap; gap: .6rem 2rem; color: var(--soft) }
.facts b { display: block; font-size: 1.3rem; color: var(--ink) }
table { border-collapse: collapse; width: 100%; font-size: .85rem; overflow-wrap: normal } th, td { text-align: left;
  padding: .2rem .6rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.answer { border-left: 3px solid var(--line); padding-left: 1rem } .answer table { width: auto }
pre { white-space: pre-wrap; background: var(--sunk); padding: 1rem; overflow-wrap: anywhere }
td.claim { min-width: 8rem } td small { color: var(--soft); overflow-wrap: anywhere } .lost { color: var(--critical) }
svg { width: 100%; min-width: 44rem; height: auto; display: block } svg text { font: 10px system-ui, sans-serif;
  fill: var(--ink) } .grid { stroke: var(--line) } .main { fill: var(--critical) } .bar { fill: var(--other) }
.bar.suspended, .bar.stopped, .bar.cancelled { fill: var(--other) }
.bar.finished { fill: var(--finished) } .bar.capped { fill: var(--capped) } .bar.failed { fill: var(--failed) }
.bar.longest { stroke: var(--critical); stroke-width: 2 }
.path { fill: none; stroke: var(--critical); stroke-width: 1.5; stroke-linejoin: round; pointer-events: none }
.scroll { overflow-x: auto } details summary { cursor: pointer }
"""
_STATES = ("finished", "capped", "failed")
_WIDTH, _LEFT, _ROW = 1000, 120, 14
_CITED = re.compile(r"\[\^(?:(t\d{3,6})\.)?(\d{1,9})(?:\.\d{1,9})?\^\]")
"""Citations in an answer: `[^3^]` the orchestrator's call, `[^t005.3^]` a child's; one more dot adds an image."""
_MAX_CLAIMS, _MAX_CLAIM_CHARS = 1000, 400  # bounds the page: statements, and the text of one


def write_swarm_report(run_dir: Path | str) -> Path:
    """Write the pages of a swarm, of its orchestrator and of each child; one whose process ended is shown as stopped.

    Args:
        run_dir: The run's folder.

    Returns:
        Path of the swarm's page.

    Raises:
        TrajectoryError: If the record cannot be read or a file cannot be written.
    """
    record = load_run(run_dir, images=0)
    _, children = load_children(record)
    is_over = not is_locked(record.run_dir)
    for child in children:
        if is_over and child.state in AT_WORK:
            child.state, child.ended_at = "stopped", record.last_at if child.started_at else 0.0
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
    """Return True if the run is a swarm."""
    return record.header.mode == "swarm"


def render_swarm(record: RunRecord, children: Sequence[Child]) -> str:
    """Render the page as self-contained HTML without scripts.

    Raises:
        TrajectoryError: If the run is not a swarm.
    """
    if not is_swarm(record):
        raise TrajectoryError(f"{record.run_dir.name} is not a run of a swarm")
    figures = compute_metrics(record.tool_steps, children, wall_s=record.active_s)
    end, cited = record.end, _Citations(record, children)
    question = record.header.instruction
    title = _escape(textwrap.shorten(question, 200, placeholder=" ..."))
    whole = f"<details><summary>Whole question</summary><pre>{_escape(question)}</pre></details>"
    answer = end.answer or "(none)" if end else "(none)"
    body = [
        f"<h1>{title}</h1>{whole if len(question) > 200 else ''}",
        f"<p>{_escape(f'{end.status}: {end.reason}' if end else 'not ended')} "
        f'<a href="{REPORT}">the orchestrator\'s own page</a></p>',
        _facts(figures, len(children)),
        f"<h2>Answer</h2><div class='answer'>{cited.rendered(answer)}</div>",
        cited.table(answer),
        "<h2>Who worked when</h2><p>Bars: time at work by end state. The line is the critical path: the orchestrator's "
        "replies, and of each stage its longest branch (outlined, marked *).</p>"
        f'<div class="scroll">{_Gantt(record, children, figures).svg()}</div>',
        f"<h2>Tree</h2>{_tree(record, children, cited)}",
        f"<h2>Steps, calls, cost</h2>{_table(record, children, figures)}",
    ]
    policy = inline_policy(_STYLE, "")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
        f"<style>{_STYLE}</style></head><body>{''.join(body)}</body></html>"
    )


def _escape(text: str) -> str:
    return "\n".join(html.escape(printable(line)) for line in text.split("\n"))


def _facts(figures: SwarmMetrics, num_children: int) -> str:
    facts = {
        "sub-agents": str(num_children),
        "critical steps": str(figures.critical_steps),
        "steps of all": str(figures.total_steps),
        "steps over critical steps": f"{figures.step_speedup:.2f}",
        "busy while held": f"{100 * figures.efficiency:.0f} %",
        "tool calls": str(figures.num_calls),
        "wall": describe_duration(figures.wall_s),
        "tokens": describe_tokens(figures.usage.total_tokens),
        "cost": describe_cost(figures.usage.cost_usd) or "-",
    }
    return '<div class="facts">' + "".join(f"<div><b>{_escape(v)}</b>{k}</div>" for k, v in facts.items()) + "</div>"


class _Citations:
    """Citations in an answer and in the messages of children, with their targets."""

    def __init__(self, record: RunRecord, children: Sequence[Child]) -> None:
        agents = {child.id: record.agents.get(child.agent_id) for child in children}
        self._pages = {"": REPORT} | {name: f"children/{name}/{REPORT}" for name in agents}
        self._outcomes = {
            (name, outcome.number): outcome
            for name, agent in {"": record, **agents}.items()
            for step in (agent.tool_steps if agent else ())
            for outcome in step.outcomes
        }
        self._names = {child.id: child.assignment.config.name for child in children}

    def linked(self, text: str, own: str = "") -> str:
        """Render a text as HTML, with its citations as links to the calls.

        Args:
            text: Text of the orchestrator, or of a child as given to its parent.
            own: Id of the agent for citations without a name.
        """
        pieces, start = [], 0
        for match in _CITED.finditer(text):
            pieces += [_escape(text[start : match.start()]), self._link(match, own)]
            start = match.end()
        return "".join((*pieces, _escape(text[start:])))

    def rendered(self, text: str) -> str:
        """Render Markdown as HTML without images and markup of its own, with its citations as links to the calls."""
        plain = "\n".join(printable(line) for line in _unfenced(text.split("\n")))
        page: str = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image").render(plain)
        return _CITED.sub(self._link, page)

    def table(self, answer: str) -> str:
        """Render the lines of the answer with the results that they cite and the agents that produced them."""
        rows: list[str] = []
        for line in answer.splitlines():
            marks = list(_CITED.finditer(line))
            says_something = any(char.isalnum() for char in _CITED.sub("", line))
            if marks and says_something and len(rows) < _MAX_CLAIMS:
                text = " ".join(_CITED.sub("", line).replace("|", " ").split()).replace(" .", ".")[:_MAX_CLAIM_CHARS]
                evidence = "".join(f"<div>{self._link(mark)} {self._evidence(mark)}</div>" for mark in marks)
                names = dict.fromkeys(mark[1] or "" for mark in marks)
                whose = ", ".join(self._agent_link(name) for name in names)
                rows.append(f'<tr><td class="claim">{_escape(text)}</td><td>{whose}</td><td>{evidence}</td></tr>')
        if not rows:
            return ""
        heads = "<tr><th>says</th><th>found by</th><th>rests on</th></tr>"
        table = f'<div class="scroll"><table>{heads}{"".join(rows)}</table></div>'
        note = "Stored copies lie in the folder of the child. They are foreign pages: a browser runs their scripts."
        return f"<h2>Claims and their evidence</h2><p>{note}</p>{table}"

    def _agent_link(self, name: str) -> str:
        page = self._pages.get(name)
        shown = _escape(f"{name} {self._names.get(name, '')}" if name else "orchestrator")
        return f'<a href="{page}">{shown}</a>' if page else shown

    def _link(self, mark: "re.Match[str]", own: str = "") -> str:
        name, number = mark[1] or own, int(mark[2])
        if (name, number) not in self._outcomes:
            return f'<span class="lost" title="there is no such result">{_escape(mark[0])}</span>'
        return f'<a href="{self._pages[name]}#call-{number}">{_escape(mark[0])}</a>'

    def _evidence(self, mark: "re.Match[str]") -> str:
        outcome = self._outcomes.get((mark[1] or "", int(mark[2])))
        if outcome is None:
            return '<small class="lost">no such result</small>'
        parts = [outcome.call.name, *(str(outcome.result.data.get(key, "")) for key in ("url", "stored"))]
        failed = ' <small class="lost">failed</small>' if outcome.result.is_error else ""
        return f"<small>{_escape(' · '.join(filter(None, parts)))}</small>{failed}"


def _unfenced(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of an answer without the fences of blocks of Markdown, which are part of the answer."""
    is_inside = False
    for line in lines:
        is_fence = line.strip() == "```" if is_inside else line.strip() in ("```markdown", "```md")
        is_inside ^= is_fence
        yield "" if is_fence else line


class _Gantt:
    """Gantt chart of the agents as an SVG image."""

    def __init__(self, record: RunRecord, children: Sequence[Child], figures: SwarmMetrics) -> None:
        self._record, self._children = record, children
        self._begin = record.header.started_at
        self._last = max([record.last_at, *(child.ended_at for child in children)])
        self._scale = (_WIDTH - _LEFT - 10) / max(self._last - self._begin, 1e-3)
        self._rows = {child.id: row for row, child in enumerate(children, start=1)}
        self._stages = {stage.index: stage.longest for stage in figures.stages if stage.longest}
        self._by_id = {child.id: child for child in children}

    def svg(self) -> str:
        """Return the image."""
        height = (len(self._children) + 2) * _ROW + 16
        name = f"Gantt chart of {len(self._children)} sub-agents"
        points = list(self._path())
        on_path = {name for name, _, _ in points}
        line = " ".join(f"{x:.1f},{y:.1f}" for _, x, y in points)
        pieces = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{name}">']
        for tick in range(6):
            x = _LEFT + tick * (_WIDTH - _LEFT - 10) / 5
            shown = describe_duration(tick * (self._last - self._begin) / 5)
            pieces.append(f'<line class="grid" x1="{x:.1f}" y1="12" x2="{x:.1f}" y2="{height}"/>')
            pieces.append(f'<text x="{x:.1f}" y="10" text-anchor="{"end" if tick == 5 else "start"}">{shown}</text>')
        pieces += self._main_row()
        pieces += [self._bar(child, is_longest=child.id in on_path) for child in self._children]
        return "".join((*pieces, f'<polyline class="path" points="{line}"/></svg>'))

    def _x(self, at: float) -> float:
        return _LEFT + max(0.0, at - self._begin) * self._scale

    def _main_row(self) -> Iterator[str]:
        """Yield the bars of the orchestrator's model calls, which are all on the critical path."""
        yield '<text x="0" y="26">orchestrator</text>'
        for step in self._record.tool_steps:
            width = max(1.0, step.timings.get("model", 0.0) * self._scale)
            x = self._x(step.started_at)
            yield f'<rect class="main" x="{x:.1f}" y="18" width="{width:.1f}" height="{_ROW - 4}"/>'

    def _bar(self, child: Child, *, is_longest: bool) -> str:
        y = 16 + self._rows[child.id] * _ROW
        x = self._x(child.started_at)
        width = max(1.0, self._x(child.ended_at or self._last) - x) if child.started_at else 0
        name = f"{'· ' * (child.depth - 1)}{child.id} {child.assignment.config.name}"[:20] + (
            " *" if is_longest else ""
        )
        kind = " ".join(("bar", child.state if child.state in _STATES else "", "longest" if is_longest else "")).strip()
        tooltip = f"{child.assignment.prompt[:200]} ({child.state}, {child.num_steps} steps)"
        return (
            f'<text x="0" y="{y + 10}">{_escape(name)}</text><a href="children/{child.id}/{REPORT}">'
            f'<rect class="{kind}" x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="{_ROW - 4}">'
            f"<title>{_escape(tooltip)}</title></rect></a>"
        )

    def _path(self) -> Iterator[tuple[str, float, float]]:
        """Yield the corners of the critical path, each with the agent of its row."""
        y = 18 + (_ROW - 4) / 2
        for step in self._record.tool_steps:
            replied_at = step.started_at + step.timings.get("model", 0.0)
            yield MAIN, self._x(step.started_at), y
            yield MAIN, self._x(replied_at), y
            if step.index in self._stages:
                yield from self._down(self._by_id[self._stages[step.index]], y)

    def _down(self, child: Child, above: float) -> Iterator[tuple[str, float, float]]:
        """Yield the corners from the parent's row to a child's, along it through its longest child, and back up."""
        y = 16 + self._rows[child.id] * _ROW + _ROW / 2
        ended_at = child.ended_at or self._last
        yield child.id, self._x(child.started_at), above
        yield child.id, self._x(child.started_at), y
        stages: dict[int, list[Child]] = {}
        for other in self._children:
            if other.parent == child.id:
                stages.setdefault(other.stage, []).append(other)
        for _, below in sorted(stages.items()):
            yield from self._down(max(below, key=lambda child: (child.num_steps, child.busy_s)), y)
        yield child.id, self._x(ended_at), y
        yield child.id, self._x(ended_at), above


def _tree(record: RunRecord, children: Sequence[Child], cited: _Citations) -> str:
    by_call = {child.call: child for child in children if child.parent == MAIN}
    stages = []
    for step in record.tool_steps:
        started = [by_call[outcome.number] for outcome in step.outcomes if outcome.number in by_call]
        names = [outcome.call.name for outcome in step.outcomes]
        counted = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names)) or "answer"
        refused = len(step.outcomes) - made_calls(step)
        counted += f" ({refused} refused)" if refused else ""
        stages.append(f"<li>step {step.index}: {_escape(counted)}{_branches(started, children, cited)}</li>")
    return f"<ol>{''.join(stages)}</ol>"


def _branches(started: Sequence[Child], children: Sequence[Child], cited: _Citations) -> str:
    items = "".join(
        f'<li><a href="children/{child.id}/{REPORT}">{child.id}</a> {_escape(child.assignment.config.name)}, '
        f"{child.state}: {_escape(child.assignment.prompt[:160])}"
        f"<details><summary>its message</summary><pre>{cited.linked(child.message[:2000], child.id)}</pre></details>"
        f"{_branches([other for other in children if other.parent == child.id], children, cited)}</li>"
        for child in started
    )
    return f"<ul>{items}</ul>" if items else ""


def _calls(child: Child, record: RunRecord | None) -> str:
    steps = record.tool_steps if record is not None else ()
    refused = sum(len(step.outcomes) - made_calls(step) for step in steps)
    return f"{child.num_calls} + {refused} refused" if refused else str(child.num_calls)


def _table(record: RunRecord, children: Sequence[Child], figures: SwarmMetrics) -> str:
    heads = '<tr><th>task</th><th>agent</th><th>state</th><th class="n">steps</th><th class="n">calls</th>'
    heads += '<th class="n">tokens</th><th class="n">cost</th><th class="n">busy</th><th class="n">held</th></tr>'
    rows = "".join(
        f'<tr><td><a href="children/{child.id}/{REPORT}">{child.id}</a></td>'
        f"<td>{_escape(child.assignment.config.name)}</td><td>{child.state}</td>"
        + "".join(
            f'<td class="n">{_escape(text)}</td>'
            for text in (
                str(child.num_steps),
                _calls(child, record.agents.get(child.agent_id)),
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
    return f'<div class="scroll"><table>{heads}{rows}</table></div><p>All agents: {_escape(total)}.</p>'
