"""`cua see share` and `cua see axes`: what charts say."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.cli.flags import choice
from apps.cli.see.output import AsJson, FilesArgument, Finding, Force, Output, Sink
from apps.cli.see.values import parse_box, parse_numbers

if TYPE_CHECKING:
    from pathlib import Path

    from visual_tools.charts import Axes


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
        return Finding(result=found, lines=[*lines, found.method], picture=vt.draw_share(image, found))

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
            result={"axes": found, "at": values}, lines=_tell(found, values), picture=vt.annotate(image, marks)
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
