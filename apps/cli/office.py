"""`cua office`: make and edit documents with an agent; check and compare them without one."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.cli import terminal
from apps.cli.config import choice, chosen_settings

if TYPE_CHECKING:
    from apps.office.check.findings import CheckReport

Flag = typer.Option
HELP = """Make, edit, check and compare docx, xlsx, pptx and pdf files.

\b
    cua office check report.docx --expect 'words>=10000'

LibreOffice draws and calculates; `cua setup office` gets it. Everything is read in the sandbox, without network."""

app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _office() -> None:
    pass


@app.command("check")
def check_command(
    given: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="docx, xlsx, pptx or pdf files.")],
    expect: Annotated[
        list[str] | None, Flag(help="A count that was asked for, such as 'words>=10000'; repeat for more.")
    ] = None,
    images: Annotated[
        Path | None, Flag("--images", "-i", help="Folder for images of the pages; beside each file by default.")
    ] = None,
    no_images: Annotated[bool, Flag("--no-images", help="Write no images.")] = False,
    sandbox: Annotated[str | None, Flag(help="auto, bubblewrap, landlock, or none (no isolation at all).")] = None,
    output_format: Annotated[str, Flag(help="text or json.")] = "text",
) -> None:
    """Open files with a second library, render them, calculate them anew, and say what is wrong; with images.

    Exit codes: 0 clean, 1 something is wrong, 2 a file cannot be read.
    """
    import asyncio

    from apps.cli.running import StopSwitch

    form = choice("--output-format", output_format, ("text", "json"))
    places = {file: None if no_images else _images_of(file, images, len(files)) for file in files}
    switch = StopSwitch(is_for_agent=False)
    reports = asyncio.run(switch.guarded(_check(places, expect or [], chosen_settings(given))))
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


async def _check(places: dict[Path, Path | None], expect: list[str], settings: dict[str, Any]) -> list["CheckReport"]:
    from apps.office.sandbox import office_kernels
    from apps.office.verify import verify_file

    async with office_kernels(settings) as maker:
        return [await verify_file(maker, file, place, expect) for file, place in places.items()]
