"""Shared parts of all operations: flags, parsing of values, output paths, printing, exit codes."""

import dataclasses
import io
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apps.cli import terminal
from apps.cli.common import OutputFlag
from visual_tools.box import Box
from visual_tools.errors import ImageError, VisualError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from visual_tools.colors.shares import ColorShares
    from visual_tools.ocr import TextLine
    from visual_tools.paths.search import PathResult

BOX = "LEFT,TOP,RIGHT,BOTTOM"
"""Form of a box in usage texts."""

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Image.")]
FilesArgument = Annotated[list[Path], typer.Argument(metavar="FILE", help="Images.")]
VideoArgument = Annotated[Path, typer.Argument(metavar="VIDEO", help="Video.")]
Output = Annotated[
    Path | None, OutputFlag("--output", "-o", metavar="FILE", help="File to write.", show_default="NAME-OPERATION.png")
]
AsJson = Annotated[bool, OutputFlag("--json", help="Print the result as JSON.")]
Force = Annotated[bool, OutputFlag("--force", help="Replace an existing file.")]

_MAX_GAPS, _MAX_BARS, _BASE_PX, _BASE_SHARE = 5, 40, 4, 0.05
_MAX_OFFSET = 0.3  # of a turned name from its bar, of the distance between two bars
_DARK_LEVEL = 4096  # of 65536: cameras and scanners of 12 bits store their levels unscaled
_TICKS = " .-–—|'"  # the tick of an axis next to a turned name may be read as one of these
_MARK = "cua see"
_MARK_KEY = "Software"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """Result of an operation on one file.

    Attributes:
        result: Data class returned by the function, or a dict, for JSON.
        lines: Summary of the result as text.
        image: (H, W, 3) uint8 RGB to write; None for none.
        is_found: False to exit with 1.
        written: Files that the operation wrote itself.
    """

    result: object
    lines: Sequence[str]
    image: "NDArray[np.uint8] | None" = field(default=None, repr=False)
    is_found: bool = True
    written: Sequence[Path] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Output of an operation.

    Attributes:
        operation: Its name.
        inputs: Input files, which are never overwritten.
        output: Value of --output.
        as_json: True to print JSON.
        force: True to replace files that `cua see` did not write.
    """

    operation: str
    inputs: Sequence[Path]
    output: Path | None = None
    as_json: bool = False
    force: bool = False

    def path_for(self, source: Path, suffix: str = ".png") -> Path:
        """Return the checked output path for a file.

        Raises:
            ImageError: If the path is an input, or a file that `cua see` did not write.
        """
        path = self.output if self.output is not None else Path(f"{source.stem}-{self.operation}{suffix}")
        check_may_write(path, self.inputs, self.force)
        return path

    def show(self, work: Callable[[Path], OperationResult]) -> None:
        """Run the operation on each file, write its image and print the result.

        Raises:
            VisualError: If --output is given with several files.
            typer.Exit: With 1, if something was not found.
        """
        if self.output is not None and len(self.inputs) > 1:
            raise VisualError("--output is one file, but several files were given; leave it out or give one file")
        all_found = True
        for source in self.inputs:
            all_found &= self.print(work(source), source)
        if not all_found:
            raise typer.Exit(1)

    def show_one(self, source: Path, work: Callable[[Path], OperationResult]) -> None:
        """Run an operation on one file that has further inputs, write its image and print the result.

        Raises:
            typer.Exit: With 1, if something was not found.
        """
        if not self.print(work(source), source, is_alone=True):
            raise typer.Exit(1)

    def print(self, result: OperationResult, source: Path, is_alone: bool = False) -> bool:
        """Write the image of one finding and print it; return True if something was found."""
        written = [str(path) for path in result.written]
        notes = [note for file in (self.inputs if is_alone else [source]) for note in describe_source(file)]
        if result.image is not None:
            path = self.path_for(source)
            write_image(result.image, path)
            written.append(str(path))
        if self.as_json:
            head = {"operation": self.operation, "file": str(source), "found": result.is_found, "written": written}
            terminal.echo_json({**head, "notes": notes, "result": to_json(result.result)})
        else:
            prefix = "" if is_alone or len(self.inputs) == 1 else f"{source}: "
            for line in result.lines:
                terminal.echo(prefix + line)
        for note in notes:
            terminal.echo(f"note: {note}", err=True)
        for name in written:
            terminal.secho(f"wrote {name}", err=True, dim=True)
        return result.is_found


def describe_source(source: Path) -> list[str]:
    """Return what an image file has that was not analysed: further frames or pages, grey levels that become black."""
    from visual_tools.images.files import BROKEN_FILE, open_image

    notes = []
    try:
        with open_image(source) as image:
            num_frames = getattr(image, "n_frames", 1)
            if num_frames > 1 and image.format != "MPO":  # the further ones of an MPO are smaller or for depth
                notes.append(f"{source} has {num_frames} frames or pages; only the first was used")
            if image.mode.startswith("I;16"):
                image.seek(0)
                high = int(image.getextrema()[1])  # type: ignore[arg-type]  # a pair of numbers for one channel
                if 0 < high < _DARK_LEVEL:
                    notes.append(
                        f"{source} has grey levels up to {high} of 65535, so that nearly all is black; stretch them"
                    )
    except (ImageError, *BROKEN_FILE):  # a video, or damaged after the first frame
        pass
    return notes


def check_may_write(path: Path, inputs: Sequence[Path], force: bool) -> None:
    """Check that a file may be written.

    Raises:
        ImageError: If it is an input, a folder, or an existing file that `cua see` did not write.
    """
    if any(os.path.realpath(path) == os.path.realpath(source) for source in inputs):
        raise ImageError(f"{path} is an input file, which is never overwritten; choose another --output")
    if path.is_dir():
        raise ImageError(f"{path} is a folder; --output is a file in it, such as {path / 'result.png'}")
    if path.exists() and not force and not is_ours(path):
        raise ImageError(f"{path} exists and was not written by cua see; choose another --output, or add --force")


def is_ours(path: Path) -> bool:
    """Return True if a file is an image that `cua see` wrote."""
    from PIL import Image

    from visual_tools.images.files import BROKEN_FILE

    try:
        with Image.open(path) as image:
            return image.info.get(_MARK_KEY) == _MARK
    except BROKEN_FILE:
        return False


def write_image(image: "NDArray[np.uint8]", path: Path) -> None:
    """Write an image atomically; a PNG is marked as written by `cua see`, other formats use `save_image`.

    Raises:
        ImageError: If the folder cannot be written to, or the format is unknown.
    """
    from visual_tools import save_image

    if path.suffix.lower() != ".png":
        save_image(image, path)
        return
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    note = PngInfo()
    note.add_text(_MARK_KEY, _MARK)
    data = io.BytesIO()
    Image.fromarray(image).save(data, "PNG", pnginfo=note, compress_level=3)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=path.suffix)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data.getbuffer())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise ImageError(f"{path} cannot be written: {error}; choose another --output") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def to_json(value: object) -> object:
    """Convert a value for `json.dumps`, without arrays and fields whose names start with an underscore."""
    import numpy as np

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: to_json(part) for name, part in fields.items() if not (name.startswith("_") or is_array(part))}
    if isinstance(value, dict):
        return {str(key): to_json(part) for key, part in value.items() if not is_array(part)}
    if isinstance(value, list | tuple):
        return [to_json(part) for part in value if not is_array(part)]
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, Path) else value


def is_array(value: object) -> bool:
    """Return True if a value is an array of pixels or points."""
    import numpy as np

    return isinstance(value, np.ndarray)


def parse_numbers(flag: str, text: str, count: int, example: str) -> tuple[float, ...]:
    """Parse comma-separated numbers.

    Raises:
        ImageError: If there are not `count` numbers.
    """
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if len(values) != count:
        raise ImageError(f"{flag} is {text!r}, expected {count} numbers such as {example}")
    return values


def parse_box(flag: str, text: str) -> Box:
    """Parse LEFT,TOP,RIGHT,BOTTOM.

    Raises:
        ImageError: If it is not a box.
    """
    left, top, right, bottom = (round(value) for value in parse_numbers(flag, text, 4, "10,20,200,120"))
    if right <= left or bottom <= top:
        raise ImageError(f"{flag} is {text!r}, expected LEFT,TOP,RIGHT,BOTTOM with left < right and top < bottom")
    return Box(left, top, right, bottom)


def parse_place(flag: str, text: str | None) -> tuple[int, int] | Box | str | None:
    """Parse X,Y or LEFT,TOP,RIGHT,BOTTOM; return any other word, such as a colour, unchanged.

    Raises:
        ImageError: If there are numbers, but neither two nor four.
    """
    if text is None or not any(char.isdigit() for char in text) or text.startswith("#"):
        return text
    if text.count(",") == 3:
        return parse_box(flag, text)
    x_px, y_px = (round(value) for value in parse_numbers(flag, text, 2, "10,20"))
    return x_px, y_px


def format_box(box: Box) -> str:
    """Format a box as it can be entered."""
    return f"{box.left},{box.top},{box.right},{box.bottom}"


def format_count(number: int, noun: str) -> str:
    """Format a number with its noun: "1 object", "2 objects"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def describe_other_road(search: "Callable[..., PathResult]", result: "PathResult") -> str:
    """Return what a detected tone of the road is worth: whether the other tone would connect the ends, too."""
    other = "dark" if result.road == "light" else "light"
    try:
        found = search(road=other)
    except ImageError:
        return f"detected; {other} does not have the ends on it"
    if not found.found:
        return f"detected; {other} does not connect the ends"
    return f"detected; unsure: {other} would also connect the ends, by {found.length_px:.1f} px: --road {other}"


def describe_gaps(result: "PathResult") -> list[str]:
    """Return a line on gaps of the walls that a path depends on, if there are any."""
    import visual_tools as vt

    gaps = vt.find_narrow_gaps(result)
    if gaps is None:
        return []
    places = ", ".join(f"{point[0]},{point[1]}" for point in gaps.points_px[:_MAX_GAPS])
    without = "there is no path" if gaps.length_px is None else f"the path is {gaps.length_px:.1f} px long"
    return [
        f"unsure: it needs {format_count(len(gaps.points_px), 'narrow gap')} in the walls, {gaps.width_px} px where "
        f"corridors are {gaps.corridor_px:.0f} px wide, at {places}; without them {without}"
    ]


def describe_bars(image: "NDArray[np.uint8]", shares: "ColorShares") -> list[str]:
    """Return a line for each bar, in order, where several have one colour: share, name below or beside it, value.

    Sectors of a pie are listed with their places. The last lines say what is unsure.
    """
    import visual_tools as vt

    if shares.kind == "area" and len(shares.shares) == 1:
        return ["unsure: everything measured has one colour; no bars or sectors were told apart in it"]
    bars = [piece for share in shares.shares for piece in share.pieces]
    if shares.kind == "area" or all(len(share.pieces) == 1 for share in shares.shares):
        return []
    if shares.kind == "pie":
        return [f"sector at {piece.center_px[0]},{piece.center_px[1]}: {piece.share:7.2%}" for piece in bars]
    is_upright = len({piece.box_px.bottom // _BASE_PX for piece in bars}) <= len(
        {p.box_px.left // _BASE_PX for p in bars}
    )
    bars.sort(key=lambda piece: piece.box_px.left if is_upright else piece.box_px.top)
    try:
        axes = vt.find_axes(image)
        axis = axes.y if is_upright else axes.x
    except ImageError:
        axis = None
    boxes = [bar.box_px for bar in bars]
    read = vt.read_text(image) if len(bars) <= _MAX_BARS else []
    words, unplaced = _place_names(read, boxes, is_upright=is_upright)
    lines: list[str] = []
    ranges: list[tuple[float, float]] = []
    names: list[tuple[str, Box]] = []
    for number, piece in enumerate(bars[:_MAX_BARS], 1):
        box = piece.box_px
        ends = (box.top, box.bottom) if is_upright else (box.left, box.right)
        values = [] if axis is None else sorted((axis.to_value(end - 0.5) for end in ends), key=abs)
        value = f"  value {values[-1]:.4g}" if values else ""
        ranges += [(values[0], values[-1])] if values else []
        near = [
            (gap, text, place)
            for text, place in words
            if (gap := place.top - box.bottom if is_upright else box.left - place.right) >= -2
            and (place.overlap_x(box) if is_upright else place.overlap_y(box)) > 0
        ]
        names += [min(near)[1:]] if near else []
        name = f"  {min(near)[1]}" if near else ""
        lines.append(f"bar {number}: {piece.share:7.2%}{value}{name}")
    is_mixed = len({end > 0 for _, end in ranges}) > 1
    base, top = (max((abs(pair[at]) for pair in ranges), default=0.0) for at in (0, 1))
    rest = ", ".join(
        text
        for text, place in words
        if not text.isdecimal() and (text, place) not in names and _is_in_row(place, names, is_upright)
    )
    doubts = {
        "no axis with numbers was read, so the bars have shares and no values": axis is None,
        f"bars begin at {base:.4g} and not at 0, so that shares are of drawn lengths, not values": base / _BASE_SHARE
        > top,
        "the axis is logarithmic, so that shares are of drawn lengths, not values": axis and axis.kind == "log",
        "bars lie on both sides of 0; shares are of lengths without their sign": is_mixed,
        f"no bar was found for {rest}: it may be too short, or its name be given to another bar": rest,
        f"turned names cannot be assigned to bars: {', '.join(unplaced)}": unplaced,
    }
    unsure = [f"unsure: {doubt}" for doubt, is_held in doubts.items() if is_held]
    more = [f"... and {len(bars) - _MAX_BARS} more bars"] if len(bars) > _MAX_BARS else []
    return [*lines, *more, *unsure]


def _place_names(
    lines: "Sequence[TextLine]", bars: Sequence[Box], *, is_upright: bool
) -> tuple[list[tuple[str, Box]], list[str]]:
    """Return the texts with their boxes, and the turned names of bars that cannot be assigned.

    The bar of a turned name is at its middle, or at its end next to the axis. Of both points the one is used that fits
    the bars better; the box of the name is moved to the bar.
    """
    import numpy as np

    axis = 0 if is_upright else 1
    base = max(bar.bottom for bar in bars) if is_upright else min(bar.left for bar in bars)
    names, turned = [], []
    for line in lines:
        is_outside = line.box_px.top >= base - _BASE_PX if is_upright else line.box_px.right <= base + _BASE_PX
        if line.angle_deg % 360 and is_outside:
            turned.append(line)
        else:
            names.append((line.text, line.box_px))
    if not turned:
        return names, []
    middles = np.array(sorted(bar.center[axis] for bar in bars))
    reach = _MAX_OFFSET * float(np.diff(middles).min()) if len(bars) > 1 else math.inf
    places = np.array([(line.box_px.center[axis], _end_at_axis(line, axis)) for line in turned])
    nearest = np.abs(places[:, :, None] - middles).argmin(axis=2)
    offsets = np.abs(places - middles[nearest])
    best = int(np.median(offsets, axis=0).argmin())
    if np.median(offsets[:, best]) > reach:
        return names, [line.text.strip(_TICKS) for line in turned]
    for line, place, at, offset in zip(turned, places[:, best], nearest[:, best], offsets[:, best], strict=True):
        px, box = round(float(middles[at] if offset <= reach else place)), line.box_px
        moved = Box(px, box.top, px + 1, box.bottom) if is_upright else Box(box.left, px, box.right, px + 1)
        names.append((line.text.strip(_TICKS), moved))
    return names, []


def _end_at_axis(line: "TextLine", axis: int) -> float:
    """Return where the end of a turned text next to an axis below it (0) or right of it (1) lies along the axis."""
    corners = line.corners_px
    ends = [
        ((corners[one][0] + corners[two][0]) / 2, (corners[one][1] + corners[two][1]) / 2)
        for one, two in ((0, 3), (1, 2))
    ]
    return min(ends, key=lambda end: end[1] if axis == 0 else -end[0])[axis]


def _is_in_row(place: Box, names: list[tuple[str, Box]], is_upright: bool) -> bool:
    """Return True if a text is lined up with the names of bars."""
    if is_upright:
        return any(2 * place.overlap_y(name) > min(place.height, name.height) for _, name in names)
    return any(min(abs(place.right - name.right), abs(place.left - name.left)) <= _BASE_PX for _, name in names)
