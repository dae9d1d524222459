"""`cua see` on charts: shares of colours, bars and sectors, and the values of axes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apps.cli.config import choice
from apps.cli.see.output import (
    BOX,
    AsJson,
    FilesArgument,
    Force,
    OperationResult,
    Output,
    Sink,
    describe_bars,
    parse_box,
    parse_numbers,
)

if TYPE_CHECKING:
    from visual_tools.charts.axes import Axes


def share(
    files: FilesArgument,
    colors: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Largest number of colours.", show_default="by the image")
    ] = None,
    kind: Annotated[str, typer.Option(metavar="KIND", help="Kind of image: auto, pie, bars or area.")] = "auto",
    box: Annotated[
        str | None, typer.Option(metavar=BOX, help="Part to measure, in pixels.", show_default="whole image")
    ] = None,
    background: Annotated[
        str | None, typer.Option(metavar="COLOUR", help="Colour to ignore.", show_default="detected")
    ] = None,
    labels: Annotated[bool, typer.Option("--labels/--no-labels", help="Read legend and labels.")] = True,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Measure the share of each colour in a pie, in bars or in an area.

    Bars or sectors of one colour are listed one by one. Where shares are not those of the values, or a name has no bar,
    the output says so.
    """
    import visual_tools as vt

    form = choice("--kind", kind, ("auto", "pie", "bars", "area"))
    part = None if box is None else parse_box("--box", box)

    def work(file: Path) -> OperationResult:
        image = vt.load_image(file)
        result = vt.color_share(
            image, num_colors=colors, box=part, background=background, kind=form, read_labels=labels
        )
        lines = [f"{row.share:7.2%}  {row.color_hex}  {row.color_name}" + _label(row.label) for row in result.shares]
        lines += describe_bars(image, result)
        return OperationResult(result=result, lines=[*lines, result.method], image=vt.draw_share(image, result))

    Sink(operation="share", inputs=files, output=output, as_json=as_json, force=force).show(work)


def axes(
    files: FilesArgument,
    at: Annotated[str | None, typer.Option(metavar="X,Y", help="Also print the values at this pixel.")] = None,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Find the axes of a chart and map its pixels to values."""
    import visual_tools as vt

    point = None if at is None else parse_numbers("--at", at, 2, "320,115")

    def work(file: Path) -> OperationResult:
        image = vt.load_image(file)
        result = vt.find_axes(image)
        values = None if point is None else _values_at(result, point)
        marks = [vt.BoxMark(box=result.frame, label="axes", color="blue")]
        for axis, is_x in ((result.x, True), (result.y, False)):
            for tick in axis.labels if axis is not None else ():
                x_px, y_px = (tick.px, result.frame.bottom) if is_x else (result.frame.left, tick.px)
                if tick.value is not None:
                    marks.append(vt.PointMark(x_px=x_px, y_px=y_px, label=f"{tick.value:g}", color="red"))
        if point is not None and values is not None:
            text = f"{_number(values['x'])}, {_number(values['y'])}"
            marks.append(vt.PointMark(x_px=point[0], y_px=point[1], label=text, color="green"))
        return OperationResult(
            result={"axes": result, "at": values}, lines=_tell(result, values), image=vt.annotate(image, marks)
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
