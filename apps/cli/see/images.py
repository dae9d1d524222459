"""`cua see` on images: objects on a background, text, mazes, transformations, differences."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apps.cli.config import choice
from apps.cli.see.output import (
    BOX,
    AsJson,
    FileArgument,
    FilesArgument,
    Force,
    OperationResult,
    Output,
    Sink,
    describe_gaps,
    describe_other_road,
    format_box,
    format_count,
    parse_box,
    parse_place,
)
from visual_tools.errors import ImageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from visual_tools.paths.check import PathCheck
    from visual_tools.paths.search import PathResult
    from visual_tools.regions.measuring import Measurements, ScaleBar

_PLACE = "X,Y or LEFT,TOP,RIGHT,BOTTOM in pixels, or a colour."
_METHODS = ("auto", "otsu", "adaptive", "fixed", "color")

Split = Annotated[bool, typer.Option("--split/--no-split", help="Separate touching objects.")]
MinArea = Annotated[
    int | None, typer.Option(metavar="PIXELS", help="Ignore objects with a smaller area.", show_default="by the image")
]


def count(
    files: FilesArgument,
    color: Annotated[
        str | None, typer.Option(metavar="COLOUR", help="Count only this colour: a name or #rrggbb.")
    ] = None,
    foreground: Annotated[
        str, typer.Option(metavar="TONE", help="Objects are dark or light; auto detects it.")
    ] = "auto",
    method: Annotated[
        str, typer.Option(metavar="METHOD", help="Separation from the background: " + ", ".join(_METHODS) + ".")
    ] = "auto",
    threshold: Annotated[
        float | None, typer.Option(metavar="LEVEL", help="For --method fixed: grey level, 0 to 255.")
    ] = None,
    min_area: MinArea = None,
    split: Split = True,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Count objects on a background.

    The background is detected automatically, even under uneven light.
    """
    import visual_tools as vt

    separation = choice("--method", method, _METHODS)
    tone = choice("--foreground", foreground, ("auto", "dark", "light"))

    def work(file: Path) -> OperationResult:
        image = vt.load_image(file)
        result = vt.count_objects(
            image,
            method=separation,
            threshold=threshold,
            color=color,
            foreground=tone,
            split=split,
            min_area_px=min_area,
        )
        parts = f"{result.num_at_border} at the border, {result.num_split} cut from touching neighbours"
        lines = [
            f"{format_count(result.count, 'object')} ({parts}, {format_count(result.num_specks, 'speck')} left out)"
        ]
        return OperationResult(result=result, lines=lines, image=vt.draw_objects(image, result))

    Sink(operation="count", inputs=files, output=output, as_json=as_json, force=force).show(work)


def measure(
    files: FilesArgument,
    mm_per_px: Annotated[float | None, typer.Option(metavar="MM", help="Length of one pixel.")] = None,
    dpi: Annotated[float | None, typer.Option(metavar="DPI", help="Pixels per inch of a scan.")] = None,
    scale_bar: Annotated[
        str | None,
        typer.Option(metavar="BAR", help="LENGTH_PX,VALUE,UNIT such as 240,50,mm; find reads it from the image."),
    ] = None,
    min_area: MinArea = None,
    split: Split = True,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Measure every object, in pixels or units of length."""
    import visual_tools as vt

    def work(file: Path) -> OperationResult:
        image = vt.load_image(file)
        bar = None if scale_bar is None else _read_scale_bar(scale_bar, image)
        result = vt.measure_objects(
            image, mm_per_px=mm_per_px, dpi=dpi, scale_bar=bar, split=split, min_area_px=min_area
        )
        return OperationResult(
            result={"unit": result.unit, "units_per_px": result.units_per_px, "objects": result.objects},
            lines=_table(result),
            image=vt.draw_objects(image, result),
        )

    Sink(operation="measure", inputs=files, output=output, as_json=as_json, force=force).show(work)


def polygons(
    files: FilesArgument,
    color: Annotated[
        str | None, typer.Option(metavar="COLOUR", help="Find only this colour: a name or #rrggbb.")
    ] = None,
    min_area: Annotated[float, typer.Option(metavar="PIXELS", help="Ignore shapes with a smaller area.")] = 60,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Classify drawn shapes, with their corners.

    Triangles, squares, rectangles, circles, ellipses and other polygons.
    """
    import visual_tools as vt

    def work(file: Path) -> OperationResult:
        image = vt.load_image(file)
        result = vt.find_polygons(image, color=color, min_area_px=min_area)
        lines = [
            f"{format_count(len(result), 'shape')}: "
            + (", ".join(f"{num} {kind}" for kind, num in result.kinds.items()) or "none")
        ]
        for shape in result:
            corners = " ".join(f"{x:g},{y:g}" for x, y in shape.corners_px)
            lines.append(
                f"{shape.number}. {shape.kind} in {format_box(shape.box_px)}" + (f", corners {corners}" * bool(corners))
            )
        return OperationResult(result=result, lines=lines, image=vt.draw_objects(image, result))

    Sink(operation="polygons", inputs=files, output=output, as_json=as_json, force=force).show(work)


def edges(
    files: FilesArgument,
    low: Annotated[
        float | None,
        typer.Option(
            metavar="LEVELS",
            help="Gradient at which an edge continues, in grey levels per pixel.",
            show_default="by the image",
        ),
    ] = None,
    high: Annotated[
        float | None,
        typer.Option(
            metavar="LEVELS",
            help="Gradient at which an edge starts, in grey levels per pixel.",
            show_default="by the image",
        ),
    ] = None,
    blur: Annotated[float, typer.Option(metavar="PIXELS", help="Standard deviation of the smoothing.")] = 1.0,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Find edges, drawn as thin white lines on black."""
    import visual_tools as vt

    def work(file: Path) -> OperationResult:
        result = vt.detect_edges(file, low=low, high=high, blur_px=blur)
        lines = [f"{result.share:.2%} of the image is edge (thresholds {result.low:g} and {result.high:g})"]
        return OperationResult(result=result, lines=lines, image=vt.load_image(result.mask))

    Sink(operation="edges", inputs=files, output=output, as_json=as_json, force=force).show(work)


def _read_scale_bar(text: str, image: "NDArray[np.uint8]") -> "ScaleBar | tuple[float, float, str]":
    if text == "find":
        import visual_tools as vt

        return vt.find_scale_bar(image)  # type: ignore[no-any-return]
    try:
        length, value, unit = text.split(",")
        return float(length), float(value), unit.strip()
    except ValueError as error:
        raise ImageError(
            f"--scale-bar is {text!r}, expected find, or LENGTH_PX,VALUE,UNIT such as 240,50,mm"
        ) from error


def _table(result: "Measurements") -> list[str]:
    unit = result.unit
    head = f"{format_count(len(result), 'object')}, lengths in {unit}"
    if unit != "px":
        head += f" ({result.units_per_px:.6g} {unit} a pixel)"
    names = ("area", "perimeter", "length", "width", "equivalent_diameter")
    rows = [f"{'':>4}" + "".join(f"{name.replace('equivalent_', ''):>11}" for name in names) + f"{'circular':>11}"]
    for row in result:
        cells = "".join(f"{getattr(row, name):>11.5g}" for name in names)
        note = "  at the border" if row.is_at_border else ""
        rows.append(f"{row.number:>4}{cells}{row.circularity:>11.2f}{note}")
    return [head, *(rows if len(result) else [])]


def ocr(
    files: FilesArgument,
    find: Annotated[str | None, typer.Option(metavar="TEXT", help="Print only the positions of this text.")] = None,
    match: Annotated[str, typer.Option(metavar="MODE", help="With --find: exact, ignore_case or fuzzy.")] = "fuzzy",
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Read the text of an image, or find a text in it."""
    match_mode = choice("--match", match, ("exact", "ignore_case", "fuzzy"))

    def work(file: Path) -> OperationResult:
        return _read(file) if find is None else _find(file, find, match_mode)

    Sink(operation="ocr", inputs=files, output=output, as_json=as_json, force=force).show(work)


def codes(files: FilesArgument, output: Output = None, as_json: AsJson = False, force: Force = False) -> None:
    """Read barcodes and QR codes."""
    import visual_tools as vt

    def work(file: Path) -> OperationResult:
        image = vt.load_image(file)
        result = vt.read_codes(image)
        if not len(result):
            return OperationResult(result=result, lines=["no code"], is_found=False)
        marks = [vt.PathMark(points=code.corners_px, label=code.text, is_closed=True) for code in result]
        lines = [f"{code.format}: {code.text}" for code in result]
        return OperationResult(result=result, lines=lines, image=vt.annotate(image, marks))

    Sink(operation="codes", inputs=files, output=output, as_json=as_json, force=force).show(work)


def _read(file: Path) -> OperationResult:
    import visual_tools as vt

    image = vt.load_image(file)
    result = vt.read_text(image)
    if not result:
        return OperationResult(result={"lines": []}, lines=["no text"], is_found=False)
    marks = [vt.PathMark(points=line.corners_px, is_closed=True) for line in result]
    return OperationResult(
        result={"lines": result}, lines=[line.text for line in result], image=vt.annotate(image, marks)
    )


def _find(file: Path, wanted: str, mode: str) -> OperationResult:
    import visual_tools as vt

    image = vt.load_image(file)
    result = vt.find_text(image, wanted, match=mode)
    if not len(result):
        lines = [f"{wanted!r} was not found among {result.num_lines} lines of text"]
        return OperationResult(result=result, lines=lines, is_found=False)
    marks = [vt.BoxMark(box=match.box, label=match.text) for match in result]
    lines = [f"{format_box(match.box)}  {match.text}  (in: {match.line})" for match in result]
    return OperationResult(result=result, lines=lines, image=vt.annotate(image, marks))


def maze(
    files: FilesArgument,
    start: Annotated[str | None, typer.Option(metavar="PLACE", help=_PLACE, show_default="detected")] = None,
    goal: Annotated[str | None, typer.Option(metavar="PLACE", help=_PLACE, show_default="detected")] = None,
    diagonal: Annotated[bool, typer.Option("--diagonal", help="Allow diagonal steps.")] = False,
    clearance: Annotated[float, typer.Option(metavar="PIXELS", help="Distance to keep from walls.")] = 0.0,
    method: Annotated[str, typer.Option(metavar="METHOD", help="Path search: bfs, astar or centered.")] = "bfs",
    road: Annotated[str, typer.Option(metavar="TONE", help="Paths are light or dark; auto detects it.")] = "auto",
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Find, verify and draw the shortest path through a maze.

    Start and goal are detected unless they are given. An image without a maze gets no path. Gaps in the walls that are
    much narrower than the corridors are reported, with the length of the path without them.

        cua see maze maze.png --start red --goal green
    """
    import visual_tools as vt

    chosen = choice("--method", method, ("bfs", "astar", "centered"))
    tones = choice("--road", road, ("auto", "light", "dark"))
    begin = parse_place("--start", start)
    end = parse_place("--goal", goal)

    def work(file: Path) -> OperationResult:
        image = vt.load_image(file)
        search = functools.partial(
            vt.shortest_path,
            image,
            start=begin,
            goal=end,
            connectivity=8 if diagonal else 4,
            clearance_px=clearance,
            method=chosen,
        )
        try:
            result: PathResult = search(road=tones)
        except ImageError as error:
            if begin is not None or end is not None:
                raise
            return OperationResult(result={"reason": str(error)}, lines=[f"no maze: {error}"], is_found=False)
        if result.found and not vt.has_maze(result):
            ends = f"{_point(result.start_px)} and {_point(result.goal_px)}"
            reason = f"no wall is between {ends}, and nothing divides the image into corridors"
            return OperationResult(result={"reason": reason}, lines=[f"no maze: {reason}"], is_found=False)
        used = (
            f"road: {result.road}, {describe_other_road(search, result)}" if tones == "auto" else f"road: {result.road}"
        )
        if not result.found:
            return OperationResult(result=result, lines=[f"no path: {result.reason}", used], is_found=False)
        check = vt.check_path(
            result.mask, result.points_px, start=result.start_px, goal=result.goal_px, connectivity=result.connectivity
        )
        lines = [
            f"a path of {result.num_points} pixels from {_point(result.start_px)} to {_point(result.goal_px)}, "
            f"{result.length_px:.1f} px long",
            "checked step by step: " + _describe_check(check),
            used,
            *describe_gaps(result),
        ]
        return OperationResult(result=result, lines=lines, image=vt.draw_path(image, result), is_found=check.is_valid)

    Sink(operation="maze", inputs=files, output=output, as_json=as_json, force=force).show(work)


def _describe_check(check: "PathCheck") -> str:
    if not check.is_valid:
        return "; ".join(check.problems)
    return "no wall is touched, and no path is shorter" if check.is_shortest else "no wall is touched"


def _point(point: tuple[int, int]) -> str:
    return f"{point[0]},{point[1]}"


def crop(
    files: FilesArgument,
    box: Annotated[str, typer.Option(metavar=BOX, help="Part in pixels.")],
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Crop a part of an image."""
    import visual_tools as vt

    part = parse_box("--box", box)

    def work(file: Path) -> OperationResult:
        return _view(vt.crop(file, part), {"box": part})

    Sink(operation="crop", inputs=files, output=output, as_json=as_json, force=force).show(work)


def zoom(
    files: FilesArgument,
    box: Annotated[str | None, typer.Option(metavar=BOX, help="Part in pixels.", show_default="whole image")] = None,
    scale: Annotated[
        float | None, typer.Option(metavar="FACTOR", help="Enlargement.", show_default="up to --max-side")
    ] = None,
    max_side: Annotated[int, typer.Option(metavar="PIXELS", help="Longest side of the result.")] = 1536,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Enlarge a part of an image."""
    import visual_tools as vt

    part = None if box is None else parse_box("--box", box)

    def work(file: Path) -> OperationResult:
        result = vt.zoom(file, part, scale, max_side_px=max_side)
        height, width = result.image.shape[:2]
        lines = [f"{width}x{height} px, {result.scale:g} times {format_box(result.box)}"]
        return OperationResult(result=result, lines=lines, image=result.image)

    Sink(operation="zoom", inputs=files, output=output, as_json=as_json, force=force).show(work)


def rotate(
    files: FilesArgument,
    by: Annotated[float, typer.Option(metavar="DEGREES", help="Angle, counterclockwise.")],
    expand: Annotated[
        bool, typer.Option("--expand/--no-expand", help="Enlarge the canvas to the whole result.")
    ] = True,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Rotate an image counterclockwise."""
    import visual_tools as vt

    def work(file: Path) -> OperationResult:
        return _view(vt.rotate(file, by, expand=expand), {"degrees": by})

    Sink(operation="rotate", inputs=files, output=output, as_json=as_json, force=force).show(work)


def grid(
    files: FilesArgument,
    step: Annotated[
        int | None, typer.Option(metavar="PIXELS", help="Distance of the lines.", show_default="a round number")
    ] = None,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Draw a grid with coordinates over an image."""
    import visual_tools as vt

    def work(file: Path) -> OperationResult:
        return _view(vt.overlay_grid(file, step), {"step_px": step})

    Sink(operation="grid", inputs=files, output=output, as_json=as_json, force=force).show(work)


def _view(image: "NDArray[np.uint8]", arguments: dict[str, object]) -> OperationResult:
    height, width = image.shape[:2]
    result = {**arguments, "width_px": width, "height_px": height}
    return OperationResult(result=result, lines=[f"{width}x{height} px"], image=image)


def diff(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="First image, or one image of both halves.")],
    second: Annotated[Path | None, typer.Argument(metavar="SECOND", help="Second image.")] = None,
    sensitivity: Annotated[
        float, typer.Option(metavar="FACTOR", help="Sensitivity; 2 finds differences of half the contrast.")
    ] = 1.0,
    min_area: Annotated[
        int | None,
        typer.Option(metavar="PIXELS", help="Ignore differences with a smaller area.", show_default="by the image"),
    ] = None,
    register: Annotated[
        bool, typer.Option("--register/--no-register", help="Align the images: shift, scale, small rotation.")
    ] = True,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Find the differences between two images or two halves.

    Lists the regions that were added, removed, moved, recoloured or changed.

        cua see diff before.png after.png
    """
    import visual_tools as vt

    def work(file: Path) -> OperationResult:
        image, other = vt.load_image(file), None if second is None else vt.load_image(second)
        result = vt.pixel_diff(image, other, register=register, min_area_px=min_area, sensitivity=sensitivity)
        if not result.comparable:
            lines = [f"these cannot be compared: {result.reason}"]
            return OperationResult(result=result, lines=lines, image=vt.draw_diff(image, other, result), is_found=False)
        lines = [f"{format_count(result.count, 'difference')}, similarity {result.similarity:.3f}"]
        for item in result.differences:
            places = f"{format_box(item.first_box)} -> {format_box(item.second_box)}"
            lines.append(f"{item.number}. {item.kind}: {places}")
        return OperationResult(result=result, lines=lines, image=vt.draw_diff(image, other, result))

    inputs = [first] if second is None else [first, second]
    sink = Sink(operation="diff", inputs=inputs, output=output, as_json=as_json, force=force)
    sink.show_one(first, work)


def template(
    image: FileArgument,
    wanted: Annotated[Path, typer.Argument(metavar="TEMPLATE", help="Smaller image to search for.")],
    min_score: Annotated[float, typer.Option(metavar="SCORE", help="Least similarity, 0 to 1.")] = 0.8,
    max_matches: Annotated[int, typer.Option(metavar="NUMBER", help="Largest number of matches.")] = 50,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Find an image in another image, even at a different scale."""
    import visual_tools as vt

    def work(file: Path) -> OperationResult:
        image = vt.load_image(file)
        result = vt.match_template(image, wanted, min_score=min_score, max_matches=max_matches)
        if not len(result):
            lines = [f"not found; the most similar place has {result.best_score:.2f} of {min_score:.2f}"]
            return OperationResult(result=result, lines=lines, is_found=False)
        lines = [
            f"{format_box(match.box)}  score {match.score:.3f}, scale {match.scale:.2f}" for match in result.matches
        ]
        marks = [vt.BoxMark(box=match.box, label=f"{match.score:.2f}") for match in result.matches]
        return OperationResult(result=result, lines=lines, image=vt.annotate(image, marks))

    sink = Sink(operation="template", inputs=[image, wanted], output=output, as_json=as_json, force=force)
    sink.show_one(image, work)
