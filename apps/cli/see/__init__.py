"""`cua see OPERATION FILE...`: analyse images and videos without a model."""

from collections.abc import Callable

from apps.cli.help_page import App
from apps.cli.see import charts, images, rewards, video

HELP = """Analyse images and videos without a model.

    cua see count coins.png
    cua see diff before.png after.png --json

The result goes to stdout, with --json as one object for each file; the path of the image that shows it goes to stderr.
Of several frames or pages the first is used, with a note on stderr.
Images are written to the current folder as NAME-OPERATION.png, or to --output. An existing file is replaced only if an
earlier `cua see` wrote it, or with --force; input files are never overwritten.

Exit codes: 0 found, 1 not found (no path, no match), 2 wrong usage or a file that cannot be read."""

_PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Objects and shapes": {
        "count": images.count,
        "measure": images.measure,
        "polygons": images.polygons,
        "template": images.template,
        "edges": images.edges,
    },
    "Text, charts, mazes": {
        "ocr": images.ocr,
        "codes": images.codes,
        "axes": charts.axes,
        "share": charts.share,
        "maze": images.maze,
        "diff": images.diff,
    },
    "Views": {"crop": images.crop, "zoom": images.zoom, "rotate": images.rotate, "grid": images.grid},
    "Videos": {
        "probe": video.probe,
        "sheet": video.sheet,
        "frames": video.frames,
        "scenes": video.scenes,
        "clip": video.clip,
    },
}
"""Operations by their section of the help page."""
OPERATIONS = {name: operation for operations in _PANELS.values() for name, operation in operations.items()}

app = App(name="see", help=HELP)
for _panel, _operations in _PANELS.items():
    for _name, _operation in _operations.items():
        app.command(_name, rich_help_panel=_panel)(_operation)
app.command("reward", rich_help_panel="Rewards")(rewards.reward)
