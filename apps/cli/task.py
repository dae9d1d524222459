"""`cua task`: run an instruction or resume a run; `cua demo`: a task in a bundled app."""

import sys
from collections.abc import Coroutine, Mapping
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
    instruction: Annotated[
        str | None, typer.Argument(metavar="INSTRUCTION", help="Instruction in words; - reads it from stdin.")
    ] = None,
    env: Annotated[
        str | None,
        Flag(metavar="ENV", help="browser, desktop, or an environment of another package.", show_default="browser"),
    ] = None,
    env_option: Annotated[
        list[str] | None, Flag(metavar="NAME=VALUE", help="Option of an environment of another package; repeatable.")
    ] = None,
    url: Annotated[str | None, Flag(metavar="URL", help="Web page to start at.")] = None,
    app: Annotated[str | None, Flag(metavar="COMMAND", help="Program to start on the desktop.")] = None,
    resume: common.Resume = None,
    other: common.Other = None,
    model: common.EmbeddedModel = None,
    base_url: common.BaseUrl = None,
    fallback_model: common.FallbackModel = None,
    preset: common.Preset = None,
    temperature: common.Temperature = None,
    thinking: Annotated[
        bool | None,
        common.ModelFlag(
            "--thinking/--no-thinking", help="Use the system prompt with thinking.", show_default="thinking"
        ),
    ] = None,
    coordinates: Annotated[
        str | None,
        common.ModelFlag(
            metavar="FRAME",
            help="Coordinates that the model writes: relative (0 to 1), absolute (pixels) or qwen25.",
            show_default="relative",
        ),
    ] = None,
    image_format: Annotated[
        str | None,
        common.ModelFlag(
            metavar="FORMAT", help="Screenshots as png, webp:QUALITY or jpeg:QUALITY.", show_default="png"
        ),
    ] = None,
    prices: common.Prices = None,
    display: Annotated[
        str | None,
        common.ScreenFlag(metavar="DISPLAY", help="X display to use, such as :0.", show_default="a private display"),
    ] = None,
    screen: Annotated[
        str | None,
        common.ScreenFlag(
            metavar="WIDTHxHEIGHT", help="Size of the private display in pixels.", show_default="1920x1080"
        ),
    ] = None,
    monitor: Annotated[
        int | None, common.ScreenFlag(metavar="NUMBER", help="Monitor to use, from 0.", show_default="the whole screen")
    ] = None,
    headed: Annotated[bool | None, common.ScreenFlag("--headed", help="Show the browser window.")] = None,
    viewport: Annotated[
        str | None,
        common.ScreenFlag(metavar="WIDTHxHEIGHT", help="Size of the web page in CSS pixels.", show_default="1280x720"),
    ] = None,
    storage_state: Annotated[
        Path | None, common.ScreenFlag(metavar="FILE", help="File that keeps cookies and logins between runs.")
    ] = None,
    max_steps: Annotated[
        int | None, common.LimitFlag(metavar="STEPS", help="Stop after this number of steps.", show_default="100")
    ] = None,
    max_time: common.MaxTime = None,
    max_tokens: common.MaxTokens = None,
    max_cost: common.MaxCost = None,
    approve: Annotated[
        str | None,
        common.SafetyFlag(
            metavar="MODE",
            help="Ask before actions: ask (each step), auto (risky steps) or yolo (never).",
            show_default="auto",
        ),
    ] = None,
    yolo: common.Yolo = False,
    policy: common.Policy = None,
    allow_domain: common.AllowDomain = None,
    deny_domain: Annotated[
        list[str] | None, common.SafetyFlag(metavar="DOMAIN", help="Domain that the browser may not open; repeatable.")
    ] = None,
    secrets: Annotated[
        Path | None,
        common.SafetyFlag(metavar="FILE", help="TOML file of secrets; the model types {{name}} and never sees them."),
    ] = None,
    output_format: common.StreamFormat = "text",
    schema: common.Schema = None,
    report: common.Report = True,
) -> None:
    """Carry out an instruction in a browser or on a desktop.

    The embedded model literal needs no key and no GPU and follows plain steps word by word. For a language model, set
    OPENAI_BASE_URL and OPENAI_API_KEY, and name the model with --model.

        cua task "Click Save, then click OK" --url https://example.com
        cua task "Compute 12 times 7" --app galculator --model kimi-k2.5
        cua task --resume last
    """
    import asyncio

    from cua.config import load_settings
    from envs.registry import find_env_for, starting_early

    chosen = chosen_settings(given)
    needs = [name for name, value in (("app", app), ("display", display)) if value]
    if needs and env is None:
        chosen.setdefault("env", find_env_for(needs))
    words = _instruction(instruction, resume)
    form = choice("--output-format", output_format, ("text", "json", "stream-json"))

    name = None if resume else load_settings(chosen).settings.env
    with asyncio.Runner() as runner, starting_early(name, runner):  # meanwhile, the agent is imported
        from apps.cli.running import run_and_exit
        from cua import resume_task, run_task

        def work(watch: "Watch") -> "Coroutine[object, object, RunResult]":
            if resume is not None:
                return resume_task(own_run(resume, chosen, "task"), schema=schema, watch=watch, **chosen)
            return run_task(words or "", url=url, app=app, schema=schema, watch=watch, **chosen)

        run_and_exit(work, runner, output_format=form, write_report=report)


def own_run(name: str, flags: Mapping[str, object], command: str) -> Path:
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
            newest = run_dir.name
            newer.append(
                f"the newest run, {newest}, is of `cua {other}`; resume it with: cua {other} --resume {newest}"
            )
        return other == command

    runs_dir = load_settings(flags).settings.runs_dir
    try:
        run_dir = find_run(name, runs_dir, fits)
    except TrajectoryError as error:
        raise TrajectoryError("\n".join([str(error), *newer[:1]])) from None
    check_own(run_dir, runs_dir)
    if name == "last":
        terminal.echo("\n".join([f"last is {run_dir.name}", *newer[:1]]), err=True)
    return run_dir


def command_of(run_dir: Path, header: "RunHeader") -> str:
    """Return the command that resumes a run: task, ask, swarm or video."""
    from cua.trajectory.events import TOOLS_ENV

    if header.env != TOOLS_ENV:
        return "task"
    if header.protocol.get("profile") != "swarm":
        return "ask"
    from apps.video_showcase.run import PLAN

    return "video" if (run_dir / PLAN).is_file() else "swarm"


def _instruction(given: str | None, resume: str | None) -> str | None:
    if resume is not None:
        if given:
            raise typer.BadParameter("a resumed run keeps its instruction; leave out INSTRUCTION")
        return None
    if given is None:
        raise typer.BadParameter('an instruction is needed, such as: cua task "Click Save" --url https://example.com')
    return sys.stdin.read() if given == "-" else given


def demo(
    model: common.EmbeddedModel = None,
    headed: Annotated[bool | None, typer.Option("--headed", help="Show the browser window.")] = None,
    output_format: common.StreamFormat = "text",
) -> None:
    """Run a sample task in a bundled expense tracker, without a key.

    The agent fills in a form, deletes an old entry and reads a total. The app runs on this machine only; its saved data
    is read at the end to verify the work.
    """
    import asyncio

    from envs.registry import starting_early

    flags: dict[str, Any] = {"model": model, "headed": headed, "env": "browser", "approve": "yolo"}
    chosen = {name: value for name, value in flags.items() if value is not None}
    form = choice("--output-format", output_format, ("text", "json", "stream-json"))
    with asyncio.Runner() as runner, starting_early("browser", runner):
        from apps.cli.running import run_and_exit
        from apps.demo.task import ExpenseTask
        from cua import run_task

        task = ExpenseTask()
        terminal.echo(f"{task.instruction}\n", err=True)
        run_and_exit(lambda watch: run_task(task, watch=watch, **chosen), runner, output_format=form, write_report=True)
