"""`cua swarm`: an orchestrator with sub-agents, displayed as a grid on a terminal and as lines in a pipe."""

import collections
import re
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.cli import common, terminal
from apps.cli.config import choice, chosen_settings
from apps.cli.task import own_run

if TYPE_CHECKING:
    import asyncio

    from rich.live import Live

    from cua.guard import Approver, GuardVerdict
    from cua.run.events import Event
    from cua.step import Turn
    from cua.swarm import SwarmOptions
    from cua.swarm.session import SwarmResult
    from cua.swarm.swarm import Swarm
    from envs import Action
    from envs.suites.widesearch.tasks import WideSearchTask

Flag = typer.Option
_REFRESH_S = 0.2  # redraws of the grid: smooth, without flicker over slow connections
_OF_PRESET = "100; k2.6: 300"
DEMO_SETTINGS = {"model": "literal", "search": "local:world"}
"""Settings of the demo: the embedded model on a small fictional web, without key or network."""
_MARKS = {
    "failed": "x",
    "capped": "^",
    "suspended": "!",
    "running": ">",
    "waiting": "~",
    "queued": ".",
    "created": "+",
    "stopped": "-",
    "cancelled": "-",
    "finished": "=",
}
"""Marks of the states, in the order of the grid."""
_ORDER = re.compile(r"(cancel|tell)\s+t?(\d+)\b\s*:?\s*(.*)", re.I | re.S)
_ORDER_FORMS = "cancel ID, or tell ID: TEXT"


def swarm(
    given: typer.Context,
    question: Annotated[
        str | None, typer.Argument(metavar="QUESTION", help="Question or instruction; - reads it from stdin.")
    ] = None,
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="Files for the orchestrator.")] = None,
    demo: Annotated[
        bool, Flag("--demo", help="Collect a table with 30 sub-agents of the embedded model: no key, no network.")
    ] = False,
    demo_task: Annotated[str, Flag(hidden=True)] = "bridges-ostland",
    resume: common.Resume = None,
    restart_children: Annotated[
        bool, Flag("--restart-children", help="With --resume: restart unfinished sub-agents from the beginning.")
    ] = False,
    executor: Annotated[str, Flag(metavar="KIND", help="Where sub-agents run: local or ray.")] = "local",
    ray_address: common.RayAddress = None,
    other: common.Other = None,
    model: common.Model = None,
    base_url: common.BaseUrl = None,
    extended: Annotated[
        bool,
        common.ModelFlag("--extended", help="Let the model choose kind, model and files of sub-agents (unpublished)."),
    ] = False,
    limits_of: Annotated[
        str,
        common.LimitFlag(
            "--preset", metavar="NAME", help="Limits: standard, browsecomp, widesearch, in-house or k2.6."
        ),
    ] = "standard",
    max_children: Annotated[
        int | None,
        common.LimitFlag(metavar="AGENTS", min=1, help="Sub-agents of the run.", show_default=_OF_PRESET),
    ] = None,
    max_parallel: Annotated[
        int | None,
        common.LimitFlag(
            metavar="AGENTS", min=1, help="Sub-agents that run at the same time.", show_default=_OF_PRESET
        ),
    ] = None,
    max_depth: Annotated[
        int, common.LimitFlag(metavar="LEVELS", min=1, help="Levels of sub-agents; 2 lets sub-agents have sub-agents.")
    ] = 1,
    max_calls: common.MaxCalls = None,
    steps_of_all: Annotated[
        int | None,
        common.LimitFlag(
            "--max-steps",
            metavar="STEPS",
            min=1,
            help="Stop after this number of steps, of all agents.",
            show_default=common.NO_LIMIT,
        ),
    ] = None,
    max_time: common.MaxTime = None,
    max_tokens: common.MaxTokens = None,
    max_cost: common.MaxCost = None,
    sandbox: common.Sandbox = None,
    approve: common.ApproveCalls = None,
    output_format: common.StreamFormat = "text",
    report: common.Report = True,
) -> None:
    """Answer a question with an orchestrator and many sub-agents.

    The model creates sub-agents and assigns tasks to them, which run in parallel; each returns one message.
    All share one budget. --resume continues an interrupted run without running finished sub-agents again.

    While it runs on a terminal, type "cancel t003" and Enter to end a sub-agent; the orchestrator gets its last text.
    "tell t003: TEXT" gives it a new instruction. Enter alone hides the grid until an order is typed.

        cua swarm "Compare the prices of these ten phones: ..." --model kimi-k2.5
        cua swarm --demo
    """
    chosen = chosen_settings(given)
    form = choice("--output-format", output_format, ("text", "json", "stream-json"))
    if [question is not None, resume is not None, demo].count(True) != 1:
        raise typer.BadParameter('name a question, or a run with --resume, or --demo, such as: cua swarm "Compare ..."')
    table = _demo_table(demo_task) if demo else None
    if table is not None:
        question, chosen = table.instruction, {**DEMO_SETTINGS, **chosen}
    limits = {"max_children": max_children, "max_parallel": max_parallel, "max_depth": max_depth}
    options = _options(
        limits_of,
        limits,
        max_steps=steps_of_all,
        restarts_children=restart_children,
        is_extended=extended,
        executor=choice("--executor", executor, ("local", "ray")),
        ray_address=ray_address,
    )
    run_dir = own_run(resume, chosen, "swarm") if resume is not None else None
    words = sys.stdin.read() if question == "-" else question
    result = _watched(words, files or [], run_dir, options, form, chosen)
    _print(result, form, write_report=report)
    if table is not None:
        _print_demo(table, result)
    sys.exit(result.run.end.exit_code)


def _demo_table(name: str) -> "WideSearchTask":
    from envs.registry import load_suite
    from envs.suites.widesearch.tasks import PREFIX, WideSearchTask

    task = load_suite("widesearch", size="small", num_seeds=1).make_task(f"{PREFIX}{name}", 0)
    assert isinstance(task, WideSearchTask)
    return task


def _print_demo(table: "WideSearchTask", result: "SwarmResult") -> None:
    score, measures = table.score(result.run.end.answer), result.metrics
    terminal.echo(
        f"demo: {100 * score.item_f1:.0f} % of the cells of {len(table.table.rows)} rows are right (item-F1); "
        f"{measures.critical_steps} of {measures.total_steps} steps are critical, "
        f"{measures.step_speedup:.1f} times fewer",
        err=True,
    )


def _options(preset: str, limits: dict[str, Any], *, max_steps: int | None, **more: Any) -> "SwarmOptions":
    from cua.swarm import PRESETS, SwarmOptions
    from cua.swarm.budget import SwarmLimits

    chosen = PRESETS[choice("--preset", preset, tuple(PRESETS))]
    given, base = {name: value for name, value in limits.items() if value is not None}, SwarmLimits.of(chosen)
    run = replace(base.run, max_steps=max_steps)
    return SwarmOptions(preset=chosen, limits=replace(base, run=run, **given), **more)


def _watched(
    question: str | None,
    files: list[Path],
    run_dir: Path | None,
    options: "SwarmOptions",
    form: str,
    chosen: Mapping[str, object],
) -> "SwarmResult":
    import asyncio

    from apps.cli.running import StopSwitch
    from cua import Watch
    from cua.swarm import resume_swarm, run_swarm

    switch, view = StopSwitch(), _View(form)
    watch = Watch(listener=view.listen, approver=view.approver(), on_control=switch.connect)

    async def work() -> "SwarmResult":
        given: dict[str, Any] = {"options": options, "watch": watch, "on_swarm": view.follow, **chosen}
        async with view.taking_orders():
            if run_dir is not None:
                return await resume_swarm(run_dir, **given)
            return await run_swarm(question or "", files, **given)

    with view:
        return asyncio.run(switch.guarded(work()))


class _View:
    """Display of a running swarm: a grid on a terminal, lines in a pipe, JSON on request. Takes orders of the user."""

    def __init__(self, form: str) -> None:
        from apps.cli.progress import stream_listener

        self._swarm: Swarm | None = None
        self._live: Live | None = None
        self._num_rows = 0
        self._reader = terminal.LineReader(self._on_line)
        self._has_keyboard = sys.stdin.isatty() and sys.stderr.isatty()
        self._orders: set[asyncio.Task[None]] = set()
        self._keyboard: asyncio.Lock | None = None
        self._listener = stream_listener(names_agents=True) if form == "stream-json" else self._tell
        self._is_live = form != "stream-json" and sys.stderr.isatty()

    def __enter__(self) -> "_View":
        self._show_grid()
        return self

    def __exit__(self, *_: object) -> None:
        self._hide_grid()

    def _show_grid(self) -> None:
        if self._is_live:
            from rich.console import Console
            from rich.live import Live

            # sys.stderr makes control codes visible, and the grid consists of them
            console = Console(file=sys.__stderr__)
            self._num_rows = max(5, console.size.height - 4)
            self._live = Live(
                console=console, get_renderable=self._grid, refresh_per_second=1 / _REFRESH_S, transient=True
            )
            self._live.start()

    def _hide_grid(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    @asynccontextmanager
    async def taking_orders(self) -> AsyncIterator[None]:
        """Take orders of the user inside this context, if there is a keyboard."""
        import asyncio

        if not self._has_keyboard:
            yield
            return
        self._keyboard = asyncio.Lock()
        self._reader.start()
        try:
            yield
        finally:
            for order in self._orders:
                order.cancel()
            await asyncio.gather(*self._orders, return_exceptions=True)
            self._reader.stop()

    def approver(self) -> "Approver | None":
        """Return an approver that asks on the terminal; None if there is no terminal."""
        from apps.cli.running import terminal_approver

        ask = terminal_approver()
        if ask is None:
            return None

        async def ask_alone(verdict: "GuardVerdict", turn: "Turn", actions: "Sequence[Action]") -> bool:
            async with self._prompting():
                return await ask(verdict, turn, actions)

        return ask_alone

    @asynccontextmanager
    async def _prompting(self) -> AsyncIterator[None]:
        """Remove the grid, and leave the keyboard to one question."""
        assert self._keyboard is not None
        async with self._keyboard:
            self._reader.stop()
            self._hide_grid()
            try:
                yield
            finally:
                self._show_grid()
                self._reader.start()

    def _on_line(self, line: str) -> None:
        import asyncio

        if self._live is not None:
            terminal.cursor_up()  # back to the grid, whose last line was left
        order = asyncio.create_task(self._take_order(line))
        self._orders.add(order)
        order.add_done_callback(self._orders.discard)

    async def _take_order(self, line: str) -> None:
        async with self._prompting():
            line = line or await terminal.ask_line(f"  {_ORDER_FORMS} (Enter to go on): ")
            if line:
                terminal.echo(f"  {await self._carry_out(line)}", err=True)

    async def _carry_out(self, line: str) -> str:
        """Carry out an order; return its outcome as a line."""
        from cua.errors import CuaError

        order = _ORDER.fullmatch(line)
        if order is None or self._swarm is None or (order[1].lower() == "tell") != bool(order[3]):
            return f"expected {_ORDER_FORMS}, such as: tell t003: only look at prices in euros"
        name, text = f"t{int(order[2]):03}", order[3]
        try:
            await (self._swarm.redirect(name, text) if text else self._swarm.cancel(name))
        except CuaError as error:
            return str(error)
        return f"{name} sees this in its next step" if text else f"{name} is cancelled"

    def follow(self, swarm: "Swarm") -> None:
        """Set the swarm to display."""
        self._swarm = swarm

    def listen(self, event: "Event") -> None:
        """Handle an event."""
        self._listener(event)

    def _tell(self, event: "Event") -> None:
        from cua.run.events import CallsStarted, Noted, RunStarted

        if self._is_live:
            return
        match event:
            case RunStarted(run_dir=run_dir) if event.ids.agent_id == "main":
                terminal.echo(f"run {run_dir}", err=True)
            case CallsStarted(reply=reply) if event.ids.agent_id == "main":
                names = [call.name for call in reply.tool_calls]
                counted = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
                terminal.echo(f"orchestrator: {counted}", err=True)
            case Noted(kind="child", text=text):
                terminal.echo(f"{text}   {self._totals()}", err=True)
            case Noted(kind=kind, text=text) if kind in ("budget", "retry", "context"):
                terminal.echo(f"{kind}: {text}", err=True)
            case _:
                pass

    def _totals(self) -> str:
        if self._swarm is None:
            return ""
        swarm = self._swarm
        states = [child.state for child in swarm.children]
        counted = " ".join(f"{states.count(state)} {state}" for state in _MARKS if state in states)
        used = swarm.scope.budget
        cost = f" {used.usage.cost_usd:.4f} USD" if used.usage.cost_usd else ""
        most = swarm.limits.run.max_calls
        measures = swarm.metrics()
        steps = f"{measures.critical_steps} critical of {measures.total_steps} steps"
        calls = f"{used.num_calls}/{most}" if most else f"{used.num_calls}"
        return f"[{counted} | {calls} calls | {used.usage.total_tokens} tokens{cost} | {steps}]"

    def _grid(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        from cua.trajectory.describe import describe_duration, printable

        table = Table.grid(padding=(0, 2))
        for _ in range(7):
            table.add_column(no_wrap=True, overflow="ellipsis")
        children = list(self._swarm.children) if self._swarm else []
        order = list(_MARKS)
        children.sort(key=lambda child: (order.index(child.state), child.started_at or time.time()))  # slow ones first
        for child in children[: self._num_rows]:
            cost = f"{child.usage.cost_usd:.4f} USD" if child.usage.cost_usd else f"{child.usage.total_tokens} tokens"
            name = child.assignment.config.name
            worked = describe_duration((child.ended_at or time.time()) - child.started_at) if child.started_at else ""
            cells = (
                f"{_MARKS[child.state]} {child.id}",
                name[:20],
                child.state,
                worked,
                f"{child.num_calls} calls",
                cost,
            )
            doing = child.reason if child.state in ("failed", "capped", "suspended", "cancelled") else child.last_action
            table.add_row(*(Text(printable(cell)) for cell in (*cells, doing[:60])))
        rest = collections.Counter(child.state for child in children[self._num_rows :])
        counted = ", ".join(f"{count} {state}" for state, count in rest.items())
        left_out = f"... and {rest.total()} more: {counted}" if rest else ""
        hint = [Text(f"Enter: {_ORDER_FORMS}", style="dim")] if self._has_keyboard else []
        return Group(table, Text(left_out), Text(self._totals()), *hint)


def _print(result: "SwarmResult", form: str, *, write_report: bool) -> None:
    from apps.cli.running import fingerprint_of, print_outcome

    run, measures = result.run, result.metrics
    more: dict[str, object] = {}
    if run.run_dir is not None:
        if write_report:
            from cua.swarm.report import write_swarm_report

            more["report"] = str(write_swarm_report(run.run_dir))
        more["fingerprint"] = fingerprint_of(run)
    if form == "text":
        terminal.echo(
            f"{len(result.children)} sub-agents, {measures.critical_steps} of {measures.total_steps} steps critical "
            f"({measures.step_speedup:.2f} times fewer), {measures.wall_s:.1f} s, {measures.num_calls} calls, "
            f"{100 * measures.efficiency:.0f} % busy",
            err=True,
        )
    else:
        more |= result.to_json()
    print_outcome(run, form, more)
