"""`cua see share` and `axes`: what charts say; `cua see maze`: the shortest way through a maze."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.cli.config import choice
from apps.cli.see.output import (
    AsJson,
    FilesArgument,
    Finding,
    Force,
    Output,
    Sink,
    parse_box,
    parse_numbers,
    parse_place,
)

if TYPE_CHECKING:
    from pathlib import Path

    from visual_tools.charts import Axes
    from visual_tools.paths import PathCheck


def share(
    files: FilesArgument,
    colors: Annotated[int | None, typer.Option(help="At most so many colours.")] = None,
    kind: Annotated[str, typer.Option(help="What it is: auto, pie, bars or area.")] = "auto",
    box: Annotated[str | None, typer.Option(help="Only this part: LEFT,TOP,RIGHT,BOTTOM.")] = None,
    background: Annotated[str | None, typer.Option(help="Colour to leave out, found when left out.")] = None,
    labels: Annotated[bool, typer.Option("--labels/--no-labels", help="Read legend and labels.")] = True,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Measure how much of a pie, of bars or of an area each colour takes."""
    import visual_tools as vt

    form: Any = choice("--kind", kind, ("auto", "pie", "bars", "area"))
    part = None if box is None else parse_box("--box", box)

    def work(file: "Path") -> Finding:
        image = vt.load_image(file)
        found = vt.color_share(image, num_colors=colors, box=part, background=background, kind=form, read_labels=labels)
        lines = [f"{one.share:7.2%}  {one.color_hex}  {one.color_name}" + _label(one.label) for one in found.shares]
        return Finding(result=found, lines=[*lines, found.method], image=vt.draw_share(image, found))

    Sink(operation="share", inputs=files, output=output, as_json=as_json, force=force).show(work)


def axes(
    files: FilesArgument,
    at: Annotated[str | None, typer.Option(help="Also the values at this pixel: X,Y.")] = None,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Find the axes of a chart and what their pixels mean."""
    import visual_tools as vt

    point = None if at is None else parse_numbers("--at", at, 2, "320,115")

    def work(file: "Path") -> Finding:
        image = vt.load_image(file)
        found = vt.find_axes(image)
        values = None if point is None else _values_at(found, point)
        marks: list[Any] = [vt.BoxMark(box=found.frame, label="axes", color="blue")]
        for axis, is_x in ((found.x, True), (found.y, False)):
            for tick in axis.labels if axis is not None else ():
                x_px, y_px = (tick.px, found.frame.bottom) if is_x else (found.frame.left, tick.px)
                if tick.value is not None:
                    marks.append(vt.PointMark(x_px=x_px, y_px=y_px, label=f"{tick.value:g}", color="red"))
        if point is not None and values is not None:
            text = f"{_number(values['x'])}, {_number(values['y'])}"
            marks.append(vt.PointMark(x_px=point[0], y_px=point[1], label=text, color="green"))
        return Finding(
            result={"axes": found, "at": values}, lines=_tell(found, values), image=vt.annotate(image, marks)
        )

    Sink(operation="axes", inputs=files, output=output, as_json=as_json, force=force).show(work)


def _values_at(axes: "Axes", point: tuple[float, ...]) -> dict[str, float | None]:
    return {
        "x": None if axes.x is None else axes.x.to_value(point[0]),
        "y": None if axes.y is None else axes.y.to_value(point[1]),
    }


def _tell(axes: "Axes", values: dict[str, float | None] | None) -> list[str]:
    lines = []
    for name, axis in (("x", axes.x), ("y", axes.y)):
        if axis is None:
            lines.append(f"{name}: no numbers")
        else:
            doubt = f", {axis.num_used} labels, {axis.residual_px:.2f} px off on average"
            lines.append(f"{name}: {axis.start:g} to {axis.end:g}, {axis.kind}{doubt}")
    if values is not None:
        lines.append(f"there: x {_number(values['x'])}, y {_number(values['y'])}")
    return lines


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.6g}"


def _label(label: str | None) -> str:
    return f"  {label}" if label else ""


_PLACE = "X,Y, LEFT,TOP,RIGHT,BOTTOM, or a colour; found by itself when left out."


def maze(
    files: FilesArgument,
    start: Annotated[str | None, typer.Option(help=_PLACE)] = None,
    goal: Annotated[str | None, typer.Option(help=_PLACE)] = None,
    diagonal: Annotated[bool, typer.Option("--diagonal", help="Steps to diagonal neighbours too.")] = False,
    clearance: Annotated[float, typer.Option(help="Pixels to keep away from walls.")] = 0.0,
    method: Annotated[str, typer.Option(help="bfs, astar or centered.")] = "bfs",
    road: Annotated[str, typer.Option(help="Tones that are road: auto, light or dark.")] = "auto",
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Find the shortest way through a maze, prove it step by step, and draw it."""
    import visual_tools as vt

    chosen: Any = choice("--method", method, ("bfs", "astar", "centered"))
    tones: Any = choice("--road", road, ("auto", "light", "dark"))
    begin: Any = parse_place("--start", start)
    end: Any = parse_place("--goal", goal)

    def work(file: Path) -> Finding:
        image = vt.load_image(file)
        found = vt.shortest_path(
            image,
            start=begin,
            goal=end,
            connectivity=8 if diagonal else 4,
            clearance_px=clearance,
            method=chosen,
            road=tones,
        )
        if not found.found:
            return Finding(result=found, lines=[f"no way: {found.reason}"], is_found=False)
        check = vt.check_path(
            found.mask,
            found.points_px,
            start=found.start_px,
            goal=found.goal_px,
            connectivity=found.connectivity,
        )
        lines = [
            f"a way of {found.num_points} pixels from {_point(found.start_px)} to {_point(found.goal_px)}, "
            f"{found.length_px:.1f} px long",
            "checked step by step: " + _tell_check(check),
        ]
        return Finding(result=found, lines=lines, image=vt.draw_path(image, found), is_found=check.is_valid)

    Sink(operation="maze", inputs=files, output=output, as_json=as_json, force=force).show(work)


def _tell_check(check: "PathCheck") -> str:
    if not check.is_valid:
        return "; ".join(check.problems)
    return "no wall is touched, and no way is shorter" if check.is_shortest else "no wall is touched"


def _point(point: tuple[int, int]) -> str:
    return f"{point[0]},{point[1]}"
