"""`cua see crop`, `zoom`, `rotate` and `grid`: another view of an image."""

from pathlib import Path
from typing import Annotated, Any

import typer

from apps.cli.see.output import AsJson, FilesArgument, Finding, Force, Output, Sink
from apps.cli.see.values import parse_box, tell_box

_BOX = "LEFT,TOP,RIGHT,BOTTOM in pixels."


def crop(
    files: FilesArgument,
    box: Annotated[str, typer.Option(help=_BOX)],
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Cut a part out of an image."""
    import visual_tools as vt

    part = parse_box("--box", box)

    def work(file: Path) -> Finding:
        return _view(vt.crop(file, part), {"box": part})

    Sink(operation="crop", inputs=files, output=output, as_json=as_json, force=force).show(work)


def zoom(
    files: FilesArgument,
    box: Annotated[str | None, typer.Option(help=_BOX + " All of it when left out.")] = None,
    scale: Annotated[float | None, typer.Option(help="How many times larger.")] = None,
    max_side: Annotated[int, typer.Option(help="Longest side of the result, in pixels.")] = 1536,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Enlarge a part of an image."""
    import visual_tools as vt

    part = None if box is None else parse_box("--box", box)

    def work(file: Path) -> Finding:
        found = vt.zoom(file, part, scale, max_side_px=max_side)
        height, width = found.image.shape[:2]
        lines = [f"{width}x{height} px, {found.scale:g} times {tell_box(found.box)}"]
        return Finding(result=found, lines=lines, picture=found.image)

    Sink(operation="zoom", inputs=files, output=output, as_json=as_json, force=force).show(work)


def rotate(
    files: FilesArgument,
    by: Annotated[float, typer.Option(help="Degrees, counterclockwise.")],
    expand: Annotated[bool, typer.Option("--expand/--no-expand", help="Make room for all of it.")] = True,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Turn an image counterclockwise."""
    import visual_tools as vt

    def work(file: Path) -> Finding:
        return _view(vt.rotate(file, by, expand=expand), {"degrees": by})

    Sink(operation="rotate", inputs=files, output=output, as_json=as_json, force=force).show(work)


def grid(
    files: FilesArgument,
    step: Annotated[int | None, typer.Option(help="Pixels between lines; a round number when left out.")] = None,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Lay a grid with coordinates over an image."""
    import visual_tools as vt

    def work(file: Path) -> Finding:
        return _view(vt.overlay_grid(file, step), {"step_px": step})

    Sink(operation="grid", inputs=files, output=output, as_json=as_json, force=force).show(work)


def _view(picture: Any, asked: dict[str, Any]) -> Finding:
    height, width = picture.shape[:2]
    result = {**asked, "width_px": width, "height_px": height}
    return Finding(result=result, lines=[f"{width}x{height} px"], picture=picture)
