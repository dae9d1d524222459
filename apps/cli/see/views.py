"""`cua see crop`, `zoom`, `rotate`, `grid`: another view of an image; `diff` and `template`: two images."""

from pathlib import Path
from typing import Annotated, Any

import typer

from apps.cli.see.output import (
    AsJson,
    FileArgument,
    FilesArgument,
    Finding,
    Force,
    Output,
    Sink,
    parse_box,
    tell_box,
    tell_number,
)

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
        return Finding(result=found, lines=lines, image=found.image)

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


def _view(image: Any, asked: dict[str, Any]) -> Finding:
    height, width = image.shape[:2]
    result = {**asked, "width_px": width, "height_px": height}
    return Finding(result=result, lines=[f"{width}x{height} px"], image=image)


def diff(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="An image, or one that holds both.")],
    second: Annotated[Path | None, typer.Argument(metavar="SECOND", help="The image to compare with.")] = None,
    sensitivity: Annotated[float, typer.Option(help="2 finds differences of half the contrast.")] = 1.0,
    min_area: Annotated[int | None, typer.Option(help="Fewest differing pixels of a difference.")] = None,
    register: Annotated[
        bool, typer.Option("--register/--no-register", help="Allow for shift, scale and a small turn.")
    ] = True,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Find where two images differ, or the two halves of one, as a person would list it."""
    import visual_tools as vt

    def work(file: Path) -> Finding:
        one, other = vt.load_image(file), None if second is None else vt.load_image(second)
        found = vt.pixel_diff(one, other, register=register, min_area_px=min_area, sensitivity=sensitivity)
        if not found.comparable:
            lines = [f"these cannot be compared: {found.reason}"]
            return Finding(result=found, lines=lines, image=vt.draw_diff(one, other, found), is_found=False)
        lines = [f"{tell_number(found.count, 'difference')}, similarity {found.similarity:.3f}"]
        for item in found.differences:
            places = f"{tell_box(item.first_box)} -> {tell_box(item.second_box)}"
            lines.append(f"{item.number}. {item.kind}: {places}")
        return Finding(result=found, lines=lines, image=vt.draw_diff(one, other, found))

    inputs = [first] if second is None else [first, second]
    sink = Sink(operation="diff", inputs=inputs, output=output, as_json=as_json, force=force)
    sink.show_one(first, work)


def template(
    image: FileArgument,
    wanted: Annotated[Path, typer.Argument(metavar="TEMPLATE", help="The smaller image to look for.")],
    min_score: Annotated[float, typer.Option(help="How like it a place must be, 0 to 1.")] = 0.8,
    max_matches: Annotated[int, typer.Option(help="At most so many places.")] = 50,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Find an image in an image, also smaller or larger than it is."""
    import visual_tools as vt

    def work(file: Path) -> Finding:
        image = vt.load_image(file)
        found = vt.match_template(image, wanted, min_score=min_score, max_matches=max_matches)
        if not len(found):
            lines = [f"not found; the most similar place has {found.best_score:.2f} of {min_score:.2f}"]
            return Finding(result=found, lines=lines, is_found=False)
        lines = [f"{tell_box(one.box)}  score {one.score:.3f}, scale {one.scale:.2f}" for one in found.matches]
        marks = [vt.BoxMark(box=one.box, label=f"{one.score:.2f}") for one in found.matches]
        return Finding(result=found, lines=lines, image=vt.annotate(image, marks))

    sink = Sink(operation="template", inputs=[image, wanted], output=output, as_json=as_json, force=force)
    sink.show_one(image, work)
