"""`cua see diff` and `cua see template`: two images."""

from pathlib import Path
from typing import Annotated

import typer

from apps.cli.see.output import AsJson, FileArgument, Finding, Force, Output, Sink
from apps.cli.see.values import tell_box, tell_number


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
            return Finding(result=found, lines=lines, picture=vt.draw_diff(one, other, found), is_found=False)
        lines = [f"{tell_number(found.count, 'difference')}, similarity {found.similarity:.3f}"]
        for item in found.differences:
            places = f"{tell_box(item.first_box)} -> {tell_box(item.second_box)}"
            lines.append(f"{item.number}. {item.kind}: {places}")
        return Finding(result=found, lines=lines, picture=vt.draw_diff(one, other, found))

    inputs = [first] if second is None else [first, second]
    sink = Sink(operation="diff", inputs=inputs, output=output, as_json=as_json, force=force)
    sink.show_one(first, work)


def template(
    picture: FileArgument,
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
        return Finding(result=found, lines=lines, picture=vt.annotate(image, marks))

    sink = Sink(operation="template", inputs=[picture, wanted], output=output, as_json=as_json, force=force)
    sink.show_one(picture, work)
