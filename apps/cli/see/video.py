"""`cua see probe`, `sheet`, `frames`, `scenes` and `clip`: videos."""

import math
from pathlib import Path
from typing import Annotated

import typer

from apps.cli.see.output import (
    AsJson,
    Force,
    OperationResult,
    Output,
    Sink,
    VideoArgument,
    check_may_write,
    format_count,
    parse_numbers,
    write_image,
)

_MAX_SHEET_FRAMES = 48  # scenes of one sheet that are still recognizable

Start = Annotated[float, typer.Option(metavar="SECONDS", help="Start time.")]
End = Annotated[float | None, typer.Option(metavar="SECONDS", help="End time.", show_default="end of the video")]


def probe(video: VideoArgument, as_json: AsJson = False) -> None:
    """Print size, length, frame rate and codec of a video."""
    import visual_tools as vt

    def work(file: Path) -> OperationResult:
        result = vt.probe(file)
        lines = [
            f"{result.width_px}x{result.height_px} px, {result.duration_s:.3f} s, {result.codec} in {result.container}",
            f"{result.num_frames} frames, {result.fps:.4g} a second, {result.num_keyframes} keyframes"
            f", {'with' if result.has_audio else 'no'} sound",
            *result.warnings,
        ]
        return OperationResult(result=result, lines=lines)

    Sink(operation="probe", inputs=[video], as_json=as_json).show(work)


def sheet(
    video: VideoArgument,
    columns: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Frames per row.", show_default="by the number of frames")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Number of rows.", show_default="by the number of frames")
    ] = None,
    tile: Annotated[int, typer.Option(metavar="PIXELS", help="Longest side of each frame.")] = 320,
    start: Start = 0.0,
    end: End = None,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Show frames of a video on one image, each with its time."""
    import visual_tools as vt

    def work(file: Path) -> OperationResult:
        result = vt.contact_sheet(file, columns=columns, rows=rows, tile_px=tile, start_s=start, end_s=end)
        times = f"{result.timestamps_s[0]:.3f} s to {result.timestamps_s[-1]:.3f} s"
        lines = [f"{format_count(len(result.indices), 'frame')} from {times}", *result.warnings]
        return OperationResult(result=result, lines=lines, image=result.image)

    Sink(operation="sheet", inputs=[video], output=output, as_json=as_json, force=force).show(work)


def frames(
    video: VideoArgument,
    n: Annotated[
        int | None,
        typer.Option("--number", "-n", metavar="NUMBER", help="Number of frames, evenly spaced.", show_default="8"),
    ] = None,
    fps: Annotated[float | None, typer.Option(metavar="FPS", help="Frames per second, instead of --number.")] = None,
    at: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Comma-separated times, instead of --number.")
    ] = None,
    start: Start = 0.0,
    end: End = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the frames.", show_default="NAME-frames"),
    ] = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Write frames of a video as images, exact to the frame."""
    import visual_tools as vt

    folder = output if output is not None else Path(f"{video.stem}-frames")
    times = None if at is None else parse_numbers("--at", at, at.count(",") + 1, "1.5,2")
    number = 8 if n is None and fps is None and times is None else n

    def work(file: Path) -> OperationResult:
        result = vt.sample_frames(file, n=number, fps=fps, timestamps_s=times, start_s=start, end_s=end)
        written = []
        for frame in result:
            path = folder / f"{file.stem}-{frame.index:06}.png"
            check_may_write(path, [file], force)
            write_image(frame.image, path)
            written.append(path)
        lines = [f"frame {frame.index} at {frame.timestamp_s:.3f} s" for frame in result]
        return OperationResult(result=result, lines=[*lines, *result.warnings], written=written)

    Sink(operation="frames", inputs=[video], as_json=as_json).show(work)


def scenes(
    video: VideoArgument,
    sensitivity: Annotated[
        float, typer.Option(metavar="FACTOR", help="Sensitivity; 2 finds changes of half the strength.")
    ] = 1.0,
    min_length: Annotated[float, typer.Option(metavar="SECONDS", help="Shortest scene.")] = 0.5,
    output: Output = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Find the scenes of a video; the image shows a frame of each."""
    import visual_tools as vt

    def work(file: Path) -> OperationResult:
        result = vt.scenes(file, sensitivity=sensitivity, min_length_s=min_length)
        lines = [format_count(len(result), "scene")]
        for number, scene in enumerate(result, start=1):
            lines.append(f"{number}. {scene.start_s:.3f} s to {scene.end_s:.3f} s ({scene.transition})")
        step = math.ceil(len(result) / _MAX_SHEET_FRAMES)
        middles = [scene.middle_s for scene in result][::step]
        image = vt.contact_sheet(vt.sample_frames(file, timestamps_s=middles, max_side_px=320)).image
        return OperationResult(result=result, lines=[*lines, *result.warnings], image=image)

    Sink(operation="scenes", inputs=[video], output=output, as_json=as_json, force=force).show(work)


def clip(
    video: VideoArgument,
    start: Annotated[float, typer.Option(metavar="SECONDS", help="Start time.")],
    end: Annotated[float, typer.Option(metavar="SECONDS", help="End time.")],
    exact: Annotated[bool, typer.Option("--exact", help="Encode again, to start at the exact frame.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write.", show_default="NAME-clip")
    ] = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Cut a clip out of a video, with its sound.

    The clip starts at a keyframe unless --exact is given.

        cua see clip match.mp4 --start 61.5 --end 75
    """
    import visual_tools as vt

    sink = Sink(operation="clip", inputs=[video], output=output, as_json=as_json, force=force)

    def work(file: Path) -> OperationResult:
        result = vt.cut_clip(file, start, end, sink.path_for(file, file.suffix), exact=exact)
        lines = [f"{result.start_s:.3f} s to {result.end_s:.3f} s, {result.num_frames} frames", *result.warnings]
        return OperationResult(result=result, lines=lines, written=[result.path])

    sink.show(work)
