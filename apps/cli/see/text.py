"""`cua see ocr` and `cua see codes`: what is written on an image."""

from pathlib import Path
from typing import Annotated, Any

import typer

from apps.cli.flags import choice
from apps.cli.see.output import AsJson, FilesArgument, Finding, Force, Output, Sink
from apps.cli.see.values import tell_box


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
        return Finding(result=found, lines=lines, picture=vt.annotate(image, marks))

    Sink(operation="codes", inputs=files, output=output, as_json=as_json, force=force).show(work)


def _read(file: Path) -> Finding:
    import visual_tools as vt

    image = vt.load_image(file)
    found = vt.read_text(image)
    if not found:
        return Finding(result={"lines": []}, lines=["no text"], is_found=False)
    marks = [vt.PathMark(points=line.corners_px, is_closed=True) for line in found]
    return Finding(result={"lines": found}, lines=[line.text for line in found], picture=vt.annotate(image, marks))


def _find(file: Path, wanted: str, match: Any) -> Finding:
    import visual_tools as vt

    image = vt.load_image(file)
    found = vt.find_text(image, wanted, match=match)
    if not len(found):
        lines = [f"{wanted!r} was not found among {found.num_lines} lines of text"]
        return Finding(result=found, lines=lines, is_found=False)
    marks = [vt.BoxMark(box=one.box, label=one.text) for one in found]
    lines = [f"{tell_box(one.box)}  {one.text}  (in: {one.line})" for one in found]
    return Finding(result=found, lines=lines, picture=vt.annotate(image, marks))
