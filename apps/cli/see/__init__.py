"""`cua see OPERATION FILE...`: analyse images and videos without a model."""

from collections.abc import Callable

import typer

from apps.cli.see import images, video

HELP = """Look at images and videos without a model.

\b
    cua see count coins.png
    cua see diff before.png after.png --json

The finding goes to stdout, or with --json one object for each file; where the image went goes to stderr. Images
are written to the current folder as NAME-OPERATION.png, or where --output says. A file that is already there is
replaced when an earlier `cua see` wrote it, else only with --force; a file that was given is never written to.

Exit codes: 0 found, 1 not found (no way, no match), 2 wrong usage or a file that cannot be read."""

app = typer.Typer(name="see", help=HELP, no_args_is_help=True, rich_markup_mode=None)

OPERATIONS: dict[str, Callable[..., None]] = {
    "maze": images.maze,
    "share": images.share,
    "axes": images.axes,
    "diff": images.diff,
    "template": images.template,
    "count": images.count,
    "measure": images.measure,
    "polygons": images.polygons,
    "edges": images.edges,
    "ocr": images.ocr,
    "codes": images.codes,
    "crop": images.crop,
    "zoom": images.zoom,
    "rotate": images.rotate,
    "grid": images.grid,
    "probe": video.probe,
    "sheet": video.sheet,
    "frames": video.frames,
    "scenes": video.scenes,
    "clip": video.clip,
}

for _name, _command in OPERATIONS.items():
    app.command(_name)(_command)
