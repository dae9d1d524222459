"""`cua runs`, `cua replay`, `cua report`, `cua export`: recorded runs."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from apps.cli import common, terminal
from apps.cli.config import choice

Flag = typer.Option
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help=common.RUN.capitalize())]


def runs(
    limit: Annotated[int, Flag("--limit", "-n", metavar="NUMBER", help="Largest number of runs to list.")] = 20,
    as_json: Annotated[bool, Flag("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """List recorded runs, newest first."""
    from cua.trajectory.describe import describe_time
    from cua.trajectory.runs import list_runs

    runs = list_runs(_runs_dir(), limit)
    if as_json:
        for run in runs:
            terminal.echo_json({"id": run.id, **asdict(run)})
        return
    if not runs:
        terminal.echo(f'no runs in {_runs_dir()} yet; start one with: cua task "..."', err=True)
    for run in runs:
        when = describe_time(run.started_at)[:16]
        terminal.echo(
            f"{run.id}  {when}  {run.status:<11} {run.num_steps:>4} steps {run.duration_s:>7.1f} s  {run.model}"
        )
        terminal.secho(f"    {' '.join(run.instruction.split())[:110]}", dim=True)


def replay(
    run: RunArgument,
    execute: Annotated[
        bool, Flag("--execute", help="Execute the recorded actions in a new environment and compare.")
    ] = False,
) -> None:
    """Print a recorded run step by step, or execute it again.

    With --execute the actions are repeated without a model and without approval.
    """
    from cua.trajectory import load_run
    from cua.trajectory.replay import show
    from cua.trajectory.runs import check_own, find_run

    run_dir = find_run(run, _runs_dir())
    if execute:
        check_own(run_dir, _runs_dir())
    record = load_run(run_dir, images=0)
    if execute:
        from apps.cli.running import reexecute_and_exit

        reexecute_and_exit(record)
    for line in show(record):
        terminal.echo(line)


def report(
    run: RunArgument,
    out: Annotated[
        Path | None,
        Flag("--out", "-o", metavar="FILE", help="File to write.", show_default="report.html in the run folder"),
    ] = None,
    full: Annotated[bool, Flag("--full", help="Embed the screenshots as PNG: exact pixels, larger file.")] = False,
) -> None:
    """Write the report of a run as one HTML file."""
    from cua.swarm.report import is_swarm, write_swarm_report
    from cua.trajectory import load_run
    from cua.trajectory.report import write_report
    from cua.trajectory.runs import find_run

    run_dir = find_run(run, _runs_dir())
    if out is None and is_swarm(load_run(run_dir, images=0)):
        terminal.echo(str(write_swarm_report(run_dir)))
        return
    terminal.echo(str(write_report(run_dir, out, "png" if full else "small")))


def export(
    run: RunArgument,
    result_dir: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to export to.")],
    to: Annotated[
        str | None,
        Flag(metavar="FORMAT", help="atif: Agent Trajectory Interchange Format.", show_default="by kind of run"),
    ] = None,
    domain: Annotated[str, Flag(metavar="NAME", help="Subfolder of the domain, for a run of `cua task`.")] = "custom",
    task_id: Annotated[
        str | None, Flag(metavar="NAME", help="Subfolder of the task.", show_default="id of the run")
    ] = None,
) -> None:
    """Export a run for other programs.

    A run of `cua task` is exported in OSWorld's result layout, a run of `cua ask` as a conversation in OpenAI's format
    with its notebook. --to atif exports either as trajectory.json with its images.
    """
    import asyncio

    from cua.tool_agent.export import export_conversation
    from cua.trajectory import load_run
    from cua.trajectory.atif_export import FILE as ATIF_FILE
    from cua.trajectory.atif_export import export_atif
    from cua.trajectory.osworld_export import OSWorldNames, export_osworld
    from cua.trajectory.run_files import check_name
    from cua.trajectory.runs import find_run

    run_dir = find_run(run, _runs_dir())
    record = load_run(run_dir, images=0)
    if to is not None:
        choice("--to", to, ("atif",))
        whole = load_run(run_dir, images=None) if record.is_tool_run else record
        folder = Path(result_dir).joinpath(*check_name(task_id or run_dir.name))
        terminal.echo(str(export_atif(whole, folder / ATIF_FILE)))
        return
    if record.is_tool_run:
        whole = load_run(run_dir, images=None)
        terminal.echo(str(asyncio.run(export_conversation(whole, result_dir, task_id or run_dir.name))))
        return
    names = OSWorldNames(domain=domain, task_id=task_id or run_dir.name, model=record.header.model or "unknown")
    terminal.echo(str(export_osworld(record, result_dir, names)))


def _runs_dir() -> Path:
    from cua.config import load_settings
    from cua.trajectory import default_runs_dir

    return load_settings().settings.runs_dir or default_runs_dir()
