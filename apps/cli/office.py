"""`cua office`: create and edit documents with an agent; check and compare them without one."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.cli import common, terminal
from apps.cli.config import choice, chosen_settings
from apps.cli.help_page import App, DefaultGroup

if TYPE_CHECKING:
    from apps.cli.running import StopSwitch
    from apps.office.agent import OfficeRequest, OfficeResult
    from apps.office.check.findings import CheckReport
    from apps.office.diff import DocumentComparison

Flag = typer.Option
LongFlag = partial(typer.Option, rich_help_panel="Long documents")
HELP = """Create, edit, check and compare docx, xlsx, pptx and pdf files.

    cua office "Summarise the sales, with a chart" -f sales.xlsx --model kimi-k2.5
    cua office check report.docx --expect 'words>=10000'
    cua office diff before.docx after.docx
    cua office --demo

`cua office make --help` lists the options. LibreOffice renders and calculates; `cua setup office` installs it. All
files are read in a sandbox without network."""


class _OfficeGroup(DefaultGroup):
    default = "make"


app = App(cls=_OfficeGroup, help=HELP)


@app.command("make")
def make_command(
    given: typer.Context,
    instruction: Annotated[
        str | None, typer.Argument(metavar="INSTRUCTION", help="Documents to make, or changes to files, in words.")
    ] = None,
    files: Annotated[list[Path] | None, Flag("--files", "-f", metavar="FILE", help="Input file; repeatable.")] = None,
    output: Annotated[
        Path, Flag("--output", "-o", metavar="FOLDER", help="Folder for the documents; checks go to FOLDER/check.")
    ] = Path("office"),
    expect: Annotated[
        list[str] | None,
        Flag(metavar="COUNT", help="Required count, such as 'words>=10000' or FILE:COUNT; repeatable."),
    ] = None,
    rounds: Annotated[
        int, Flag(metavar="NUMBER", min=0, help="Rounds in which the agent corrects the verifier's findings.")
    ] = 3,
    demo: Annotated[bool, Flag("--demo", help="Make four files with a scripted agent: no key, no network.")] = False,
    other: common.Other = None,
    long: Annotated[
        bool, LongFlag("--long", help="Let sub-agents write the chapters of report.docx and report.pdf.")
    ] = False,
    resume: Annotated[str | None, LongFlag(metavar="RUN", help=f"Continue this run: {common.RUN}")] = None,
    restart_children: Annotated[
        bool, LongFlag("--restart-children", help="With --resume: restart unfinished chapters from the beginning.")
    ] = False,
    model: common.Model = None,
    base_url: common.BaseUrl = None,
    max_steps: common.RoundSteps = None,
    max_time: common.MaxTime = None,
    max_tokens: common.MaxTokens = None,
    max_cost: common.MaxCost = None,
    sandbox: common.Sandbox = None,
    approve: common.ApproveCalls = None,
    output_format: common.TextOrJson = "text",
) -> None:
    """Create or edit documents; `cua office TEXT` for short.

    Every file is verified, and the agent corrects the findings. The output folder has the documents; its subfolder
    check/ has images of the pages and the findings. Exit codes: 0 all files are clean, 1 a file has findings, 2 wrong
    usage.

        cua office "Summarise the sales, with a chart" -f sales.xlsx -o summary
        cua office "Write a report on ..." --long --expect 'words>=10000'
    """
    import asyncio

    from apps.cli.running import StopSwitch
    from apps.office.agent import OfficeRequest

    form = choice("--output-format", output_format, ("text", "json"))
    settings = chosen_settings(given)
    if demo:
        from apps.office.demo import EXPECT, INSTRUCTION, scripted_agent

        instruction, expect = instruction or INSTRUCTION, [*EXPECT, *(expect or [])]
        settings["model"] = scripted_agent()
    if resume is not None:
        from apps.cli.task import own_run

        settings["resume"] = own_run(resume, settings, "swarm")
    if restart_children:
        from cua.swarm import SwarmOptions

        settings["options"] = SwarmOptions(restarts_children=True)
        instruction = instruction or "(as in the run)"
    if not instruction:
        raise typer.BadParameter(
            'the instruction is missing; expected a text such as: cua office "Summarise notes.docx" -f notes.docx'
        )
    request = OfficeRequest(
        instruction=instruction, files=tuple(files or ()), output=output, expect=tuple(expect or ()), rounds=rounds
    )
    switch = StopSwitch(is_for_agent=False)
    result = asyncio.run(switch.guarded(_make(request, settings, switch, is_long=long or resume is not None)))
    _print_result(result, request, form)
    sys.exit(0 if result.is_clean else result.run.end.exit_code or 1)


async def _make(
    request: "OfficeRequest", settings: dict[str, Any], switch: "StopSwitch", *, is_long: bool
) -> "OfficeResult":
    from apps.cli.progress import terminal_listener
    from apps.cli.running import terminal_approver
    from apps.office.agent import make_documents
    from apps.office.long_report import make_long_document
    from cua import Watch
    from cua.config import load_settings
    from cua.errors import ConfigError

    model, resume, options = settings.get("model"), settings.pop("resume", None), settings.pop("options", None)
    if (not model or isinstance(model, str)) and load_settings(settings).settings.has_embedded_model:
        raise ConfigError("documents need a language model; name one with --model, or see cua office --demo")
    watch = Watch(listener=terminal_listener(), approver=terminal_approver(), on_control=switch.connect)

    def emit(line: str) -> None:
        terminal.echo(f"\n{line}\n", err=True)

    if is_long:
        return await make_long_document(request, resume=resume, options=options, watch=watch, emit=emit, **settings)
    return await make_documents(request, watch=watch, emit=emit, **settings)


def _print_result(result: "OfficeResult", request: "OfficeRequest", form: str) -> None:
    answer = result.run.end.answer or result.run.end.reason
    if form == "json":
        terminal.echo_json(
            {
                "status": result.run.end.status,
                "answer": answer,
                "is_clean": result.is_clean,
                "rounds": result.rounds,
                "files": [str(path) for path in result.files],
                "checks": [report.to_json() for report in result.reports],
                "missing": result.missing,
                "run_dir": str(result.run.run_dir or ""),
            }
        )
        return
    terminal.echo(answer or "", err=True)
    terminal.echo(f"{'clean' if result.is_clean else 'NOT clean'} after {result.rounds} round(s)", err=True)
    terminal.echo(f"checks and images: {request.output / 'check'}", err=True)
    for path in result.files:
        terminal.echo(str(path))


@app.command("check")
def check_command(
    given: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="docx, xlsx, pptx or pdf files.")],
    expect: Annotated[
        list[str] | None, Flag(metavar="COUNT", help="Required count, such as 'words>=10000'; repeatable.")
    ] = None,
    images: Annotated[
        Path | None,
        Flag("--images", "-i", metavar="FOLDER", help="Folder for images of the pages.", show_default="FILE-pages"),
    ] = None,
    no_images: Annotated[bool, Flag("--no-images", help="Write no images.")] = False,
    sandbox: common.Sandbox = None,
    output_format: common.TextOrJson = "text",
) -> None:
    """Check files for errors of content and layout, without a model.

    Opens the files with a second library, renders and recalculates them, and reports findings with images. Exit codes:
    0 clean, 1 findings, 2 a file cannot be read.

        cua office check report.docx --expect 'words>=10000'
    """
    from apps.cli.running import run_cancelled_by_signals

    form = choice("--output-format", output_format, ("text", "json"))
    places = {file: None if no_images else _images_of(file, images, len(files)) for file in files}
    reports = run_cancelled_by_signals(_check(places, expect or [], chosen_settings(given)))
    if form == "json":
        terminal.echo_json([report.to_json() for report in reports])
    for report, place in zip(reports, places.values(), strict=True):
        if form == "text":
            terminal.echo(report.to_text())
            if place is not None and report.images:
                terminal.echo(f"images: {place}", err=True)
    sys.exit(0 if all(report.is_clean for report in reports) else 1)


def _images_of(file: Path, folder: Path | None, count: int) -> Path:
    if folder is None:
        return file.with_name(f"{file.name}-pages")
    return folder if count == 1 else folder / file.name


async def _check(
    places: dict[Path, Path | None], expect: list[str], settings: Mapping[str, object]
) -> list["CheckReport"]:
    from apps.office.sandbox import office_kernels
    from apps.office.verify import verify_in_sandbox

    async with office_kernels(settings) as maker:
        return [await verify_in_sandbox(maker, file, place, expect) for file, place in places.items()]


@app.command("diff")
def diff_command(
    given: typer.Context,
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="Earlier file.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Later file, of the same kind.")],
    images: Annotated[
        Path | None,
        Flag(
            "--images",
            "-i",
            metavar="FOLDER",
            help="Folder for images of the pages that differ.",
            show_default="BEFORE-AFTER-diff",
        ),
    ] = None,
    no_images: Annotated[bool, Flag("--no-images", help="Write no images.")] = False,
    sandbox: common.Sandbox = None,
    output_format: common.TextOrJson = "text",
) -> None:
    """Compare two files, and show pages that differ side by side.

    Exit codes: 0 no difference, 1 the files differ, 2 a file cannot be read.
    """
    from apps.cli.running import run_cancelled_by_signals

    form = choice("--output-format", output_format, ("text", "json"))
    place = None if no_images else images or after.with_name(f"{before.stem}-{after.stem}-diff")
    comparison = run_cancelled_by_signals(_diff(before, after, place, chosen_settings(given)))
    if form == "json":
        terminal.echo_json(comparison.to_json())
    else:
        terminal.echo(comparison.to_text())
        if place is not None and comparison.images:
            terminal.echo(f"images: {place}", err=True)
    sys.exit(1 if comparison.changes or comparison.images else 0)


async def _diff(before: Path, after: Path, images: Path | None, settings: Mapping[str, object]) -> "DocumentComparison":
    from apps.office.sandbox import office_kernels
    from apps.office.verify import compare_in_sandbox

    async with office_kernels(settings) as maker:
        return await compare_in_sandbox(maker, before, after, images)
