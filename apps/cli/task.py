"""`cua task`: run an instruction or resume a run; `cua demo`: a task in a bundled app."""

import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.cli import common, terminal
from apps.cli.config import choice, chosen_settings

if TYPE_CHECKING:
    from cua import RunResult, Watch
    from cua.trajectory.events import RunHeader


Flag = typer.Option


def task(
    given: typer.Context,
    instruction: Annotated[str | None, typer.Argument(help="What to do; - reads it from standard input.")] = None,
    env: Annotated[str | None, Flag(help="browser, desktop, or the environment of another package.")] = None,
    env_option: Annotated[list[str] | None, Flag(help="NAME=VALUE for such an environment; repeat for more.")] = None,
    url: Annotated[str | None, Flag(help="Page to start at.")] = None,
    app: Annotated[str | None, Flag(help="Program to start on the desktop, with its arguments.")] = None,
    display: Annotated[str | None, Flag(help="X display to work on, such as :0; a private one when left out.")] = None,
    model: Annotated[
        str | None,
        Flag("--model", "-m", help="literal or nano (both run here), scripted:FILE, or a model id at OPENAI_BASE_URL."),
    ] = None,
    base_url: common.BaseUrl = None,
    fallback_model: Annotated[str | None, Flag(help="Model to ask when the first one is down.")] = None,
    preset: Annotated[str | None, Flag(help="Sampling: kimi-k2.5, kimi-k2.5-instant, osworld, webarena, none.")] = None,
    temperature: Annotated[str | None, Flag(help="Sampling temperature, or omit.")] = None,
    thinking: Annotated[bool | None, Flag("--thinking/--no-thinking", help="Which prompt variant.")] = None,
    coordinates: Annotated[str | None, Flag(help="relative, absolute or qwen25.")] = None,
    image_format: Annotated[str | None, Flag(help="png, webp:QUALITY or jpeg:QUALITY.")] = None,
    max_steps: Annotated[int | None, Flag(help="Stop after so many steps (100).")] = None,
    max_time: common.MaxTime = None,
    max_tokens: common.MaxTokens = None,
    max_cost: common.MaxCost = None,
    prices: Annotated[Path | None, Flag(help="Price table (JSON) for costs.")] = None,
    output_format: common.StreamFormat = "text",
    allow_domain: Annotated[list[str] | None, Flag(help="Domain the browser may reach; repeat for more.")] = None,
    deny_domain: Annotated[list[str] | None, Flag(help="Domain the browser may not reach; repeat for more.")] = None,
    secrets: Annotated[Path | None, Flag(help="TOML file of secrets, written as {{name}} by the model.")] = None,
    policy: Annotated[Path | None, Flag(help="TOML file of action rules.")] = None,
    approve: Annotated[str | None, Flag(help="ask (every step), auto (risky steps) or yolo (never).")] = None,
    yolo: Annotated[bool, Flag("--yolo", "-y", help="Same as --approve yolo.")] = False,
    headed: Annotated[bool | None, Flag("--headed", help="Show the browser window.")] = None,
    viewport: Annotated[str | None, Flag(help="Size of the page, WIDTHxHEIGHT.")] = None,
    screen: Annotated[str | None, Flag(help="Size of the private display, WIDTHxHEIGHT.")] = None,
    monitor: Annotated[int | None, Flag(help="Monitor to work on, from 0.")] = None,
    storage_state: Annotated[Path | None, Flag(help="File that keeps logins between runs.")] = None,
    other: common.Other = None,
    schema: Annotated[str | None, Flag(help="JSON schema file, or file.py:Model, for the final answer.")] = None,
    resume: Annotated[str | None, Flag(help="Go on with this run: id, unique prefix, folder, or last.")] = None,
    report: common.Report = True,
) -> None:
    """Run an instruction in a browser or on a desktop.

    The embedded literal model needs no key and no GPU and follows plain steps literally. For a language model, set
    OPENAI_BASE_URL and OPENAI_API_KEY and name it with --model.
    """
    from apps.cli.running import run_and_exit
    from cua import resume_task, run_task
    from envs.registry import find_env_for

    chosen = chosen_settings(given)
    needs = [name for name, value in (("app", app), ("display", display)) if value]
    if needs and env is None:
        chosen.setdefault("env", find_env_for(needs))
    words = _instruction(instruction, resume)
    form = choice("--output-format", output_format, ("text", "json", "stream-json"))

    def work(watch: "Watch") -> "Coroutine[Any, Any, RunResult]":
        if resume is not None:
            return resume_task(own_run(resume, chosen, "task"), schema=schema, watch=watch, **chosen)
        return run_task(words or "", url=url, app=app, schema=schema, watch=watch, **chosen)

    run_and_exit(work, output_format=form, write_report=report)


def own_run(what: str, flags: dict[str, Any], command: str) -> Path:
    """Return the folder of a run recorded here; `last` is the newest one that `command` can resume.

    Raises:
        TrajectoryError: If no run matches; if `last` skips a newer run of another command, the message names it.
    """
    from cua.config import load_settings
    from cua.errors import TrajectoryError
    from cua.trajectory.runs import check_own, find_run

    newer: list[str] = []

    def fits(run_dir: Path, header: "RunHeader") -> bool:
        if (other := command_of(run_dir, header)) != command:
            name = run_dir.name
            newer.append(f"the newest run, {name}, is of `cua {other}`; resume it with: cua {other} --resume {name}")
        return other == command

    runs_dir = load_settings(flags).settings.runs_dir
    try:
        run_dir = find_run(what, runs_dir, fits)
    except TrajectoryError as error:
        raise TrajectoryError("\n".join([str(error), *newer[:1]])) from None
    check_own(run_dir, runs_dir)
    if what == "last":
        terminal.echo("\n".join([f"last is {run_dir.name}", *newer[:1]]), err=True)
    return run_dir


def command_of(run_dir: Path, header: "RunHeader") -> str:
    """Return the command that resumes a run: task, ask, swarm or video."""
    from cua.trajectory.run_record import TOOLS_ENV

    if header.env != TOOLS_ENV:
        return "task"
    if header.protocol.get("profile") != "swarm":
        return "ask"
    from apps.video_showcase.run import PLAN

    return "video" if (run_dir / PLAN).is_file() else "swarm"


def _instruction(given: str | None, resume: str | None) -> str | None:
    if resume is not None:
        if given:
            raise typer.BadParameter("a resumed run has its instruction already; leave it out")
        return None
    if given is None:
        raise typer.BadParameter('an instruction is needed, such as: cua task "Click Save" --url https://example.com')
    return sys.stdin.read() if given == "-" else given


def demo(
    model: Annotated[str | None, typer.Option("--model", "-m", help="Which model does it (literal).")] = None,
    headed: Annotated[bool | None, typer.Option("--headed", help="Show the browser window.")] = None,
    output_format: common.StreamFormat = "text",
) -> None:
    """Work in a small expense tracker: fill in a form, delete an old entry, read a total.

    The app runs on this machine only. Its saved state is read back at the end to verify the work.
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
