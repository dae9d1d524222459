"""`cua see count`, `measure`, `polygons`, `edges`: things on a background; `ocr` and `codes`: what is written on it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.cli.config import choice
from apps.cli.see.output import AsJson, FilesArgument, Finding, Force, Output, Sink, tell_box, tell_number
from visual_tools.errors import ImageError

if TYPE_CHECKING:
    from visual_tools.regions import Measurements, ScaleBar


_METHODS = ("auto", "otsu", "adaptive", "fixed", "color")

Split = Annotated[bool, typer.Option("--split/--no-split", help="Cut touching objects apart.")]
MinArea = Annotated[int | None, typer.Option(help="Smaller ones, in pixels, are specks.")]


def count(
    files: FilesArgument,
    color: Annotated[str | None, typer.Option(help="Only things of this colour: a name or #rrggbb.")] = None,
    foreground: Annotated[str, typer.Option(help="Things are auto, dark or light.")] = "auto",
    method: Annotated[
        str, typer.Option(help="How things are told from the background: " + ", ".join(_METHODS))
    ] = "auto",
    threshold: Annotated[float | None, typer.Option(help="For --method fixed: a grey level, 0 to 255.")] = None,
    min_area: MinArea = None,
    split: Split = True,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Count the objects on a background that is found by itself, also under uneven light."""
    import visual_tools as vt

    way: Any = choice("--method", method, _METHODS)
    tone: Any = choice("--foreground", foreground, ("auto", "dark", "light"))

    def work(file: Path) -> Finding:
        image = vt.load_image(file)
        found = vt.count_objects(
            image, method=way, threshold=threshold, color=color, foreground=tone, split=split, min_area_px=min_area
        )
        parts = f"{found.num_at_border} at the border, {found.num_split} cut from touching neighbours"
        lines = [f"{tell_number(found.count, 'object')} ({parts}, {tell_number(found.num_specks, 'speck')} left out)"]
        return Finding(result=found, lines=lines, image=vt.draw_objects(image, found))

    Sink(operation="count", inputs=files, output=output, as_json=as_json, force=force).show(work)


def measure(
    files: FilesArgument,
    mm_per_px: Annotated[float | None, typer.Option(help="How long one pixel is.")] = None,
    dpi: Annotated[float | None, typer.Option(help="Pixels per inch of a scan.")] = None,
    scale_bar: Annotated[
        str | None, typer.Option(help="LENGTH_PX,VALUE,UNIT such as 240,50,mm; or find, to find and read the bar.")
    ] = None,
    min_area: MinArea = None,
    split: Split = True,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Measure every object, in pixels or, with a scale, in units of length."""
    import visual_tools as vt

    def work(file: Path) -> Finding:
        image = vt.load_image(file)
        bar = None if scale_bar is None else _read_scale_bar(scale_bar, image)
        found = vt.measure_objects(
            image, mm_per_px=mm_per_px, dpi=dpi, scale_bar=bar, split=split, min_area_px=min_area
        )
        return Finding(
            result={"unit": found.unit, "units_per_px": found.units_per_px, "objects": found.objects},
            lines=_table(found),
            image=vt.draw_objects(image, found),
        )

    Sink(operation="measure", inputs=files, output=output, as_json=as_json, force=force).show(work)


def polygons(
    files: FilesArgument,
    color: Annotated[str | None, typer.Option(help="Only shapes of this colour: a name or #rrggbb.")] = None,
    min_area: Annotated[float, typer.Option(help="Smaller ones, in pixels, are left out.")] = 60,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Name drawn shapes: triangles, squares, rectangles, circles, ellipses, polygons with their corners."""
    import visual_tools as vt

    def work(file: Path) -> Finding:
        image = vt.load_image(file)
        found = vt.find_polygons(image, color=color, min_area_px=min_area)
        lines = [
            f"{tell_number(len(found), 'shape')}: "
            + (", ".join(f"{num} {kind}" for kind, num in found.kinds.items()) or "none")
        ]
        for one in found:
            corners = " ".join(f"{x:g},{y:g}" for x, y in one.corners_px)
            lines.append(
                f"{one.number}. {one.kind} in {tell_box(one.box_px)}" + (f", corners {corners}" * bool(corners))
            )
        return Finding(result=found, lines=lines, image=vt.draw_objects(image, found))

    Sink(operation="polygons", inputs=files, output=output, as_json=as_json, force=force).show(work)


def edges(
    files: FilesArgument,
    low: Annotated[float | None, typer.Option(help="Grey levels a pixel where an edge may go on.")] = None,
    high: Annotated[float | None, typer.Option(help="Grey levels a pixel where an edge may start.")] = None,
    blur: Annotated[float, typer.Option(help="Smoothing before, in pixels.")] = 1.0,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Find edges: thin white lines on black."""
    import visual_tools as vt

    def work(file: Path) -> Finding:
        found = vt.detect_edges(file, low=low, high=high, blur_px=blur)
        lines = [f"{found.share:.2%} of the image is edge (thresholds {found.low:g} and {found.high:g})"]
        return Finding(result=found, lines=lines, image=vt.load_image(found.mask))

    Sink(operation="edges", inputs=files, output=output, as_json=as_json, force=force).show(work)


def _read_scale_bar(text: str, image: Any) -> "ScaleBar | tuple[float, float, str]":
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


def _table(found: "Measurements") -> list[str]:
    unit = found.unit
    head = f"{tell_number(len(found), 'object')}, lengths in {unit}"
    if unit != "px":
        head += f" ({found.units_per_px:.6g} {unit} a pixel)"
    names = ("area", "perimeter", "length", "width", "equivalent_diameter")
    rows = [f"{'':>4}" + "".join(f"{name.replace('equivalent_', ''):>11}" for name in names) + f"{'circular':>11}"]
    for one in found:
        cells = "".join(f"{getattr(one, name):>11.5g}" for name in names)
        note = "  at the border" if one.is_at_border else ""
        rows.append(f"{one.number:>4}{cells}{one.circularity:>11.2f}{note}")
    return [head, *(rows if len(found) else [])]


def ocr(
    files: FilesArgument,
    find: Annotated[str | None, typer.Option(help="Only places where this text stands.")] = None,
    match: Annotated[str, typer.Option(help="With --find: exact, ignore_case or fuzzy.")] = "fuzzy",
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Read the text of an image, or find a text on it."""
    way: Any = choice("--match", match, ("exact", "ignore_case", "fuzzy"))

    def work(file: Path) -> Finding:
        return _read(file) if find is None else _find(file, find, way)

    Sink(operation="ocr", inputs=files, output=output, as_json=as_json, force=force).show(work)


def codes(
    files: FilesArgument,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Read barcodes and QR codes."""
    import visual_tools as vt

    def work(file: Path) -> Finding:
        image = vt.load_image(file)
        found = vt.read_codes(image)
        if not len(found):
            return Finding(result=found, lines=["no code"], is_found=False)
        marks = [vt.PathMark(points=one.corners_px, label=one.text, is_closed=True) for one in found]
        lines = [f"{one.format}: {one.text}" for one in found]
        return Finding(result=found, lines=lines, image=vt.annotate(image, marks))

    Sink(operation="codes", inputs=files, output=output, as_json=as_json, force=force).show(work)


def _read(file: Path) -> Finding:
    import visual_tools as vt

    image = vt.load_image(file)
    found = vt.read_text(image)
    if not found:
        return Finding(result={"lines": []}, lines=["no text"], is_found=False)
    marks = [vt.PathMark(points=line.corners_px, is_closed=True) for line in found]
    return Finding(result={"lines": found}, lines=[line.text for line in found], image=vt.annotate(image, marks))


def _find(file: Path, wanted: str, match: Any) -> Finding:
    import visual_tools as vt

    image = vt.load_image(file)
    found = vt.find_text(image, wanted, match=match)
    if not len(found):
        lines = [f"{wanted!r} was not found among {found.num_lines} lines of text"]
        return Finding(result=found, lines=lines, is_found=False)
    marks = [vt.BoxMark(box=one.box, label=one.text) for one in found]
    lines = [f"{tell_box(one.box)}  {one.text}  (in: {one.line})" for one in found]
    return Finding(result=found, lines=lines, image=vt.annotate(image, marks))
