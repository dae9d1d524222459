"""`cua demo`: the main job on a bundled web app, from start to a verified end."""

from typing import Annotated, Any

import typer

from apps.cli import terminal
from apps.cli.flags import choice


def demo(
    model: Annotated[str | None, typer.Option("--model", "-m", help="Which model does it (literal).")] = None,
    headed: Annotated[bool | None, typer.Option("--headed", help="Show the browser window.")] = None,
    output_format: Annotated[str, typer.Option(help="text, json or stream-json.")] = "text",
) -> None:
    """Work in a small expense tracker: fill in a form, delete an old entry, read a total.

    The app runs on this machine only. At the end its saved state is read back to verify the work.
    """
    from apps.cli.running import run_and_exit
    from apps.demo.task import ExpenseTask
    from cua import run_task

    task = ExpenseTask()
    terminal.echo(f"{task.instruction}\n", err=True)
    flags: dict[str, Any] = {"model": model, "headed": headed, "env": "browser", "approve": "yolo"}
    chosen = {name: value for name, value in flags.items() if value is not None}
    form = choice("--output-format", output_format, ("text", "json", "stream-json"))
    run_and_exit(lambda watch: run_task(task, watch=watch, **chosen), output_format=form, write_report=True)
