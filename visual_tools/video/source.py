"""Open a video file, or say what it is instead; and what it holds, found in its packets and its first frame."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import VideoError
from visual_tools.require import require
from visual_tools.video.frames import Shape, fit_side
from visual_tools.video.reader import Reader
from visual_tools.video.timeline import Timeline, read_timeline
from visual_tools.video.types import VideoInfo

_TEXT_FORMATS = {"tty", "bin", "xbin", "adf", "idf"}  # demuxers that take any text for an image of it
_IMAGE_FORMATS = {"image2"}


@contextmanager
def open_video(path: str | os.PathLike[str]) -> Iterator[tuple[Any, Any]]:
    """The open container of a file and its video stream.

    Raises:
        VideoError: It is missing, empty, a folder, unreadable, an image, or holds no video.
    """
    file = check_file(path)
    av = require("av", "visual")
    try:
        # "file:" because a colon in a name would read as a protocol; a playlist may not reach the network
        container = av.open(f"file:{file}", container_options={"protocol_whitelist": "file"})
    except (av.FFmpegError, ValueError, OSError) as error:
        raise VideoError(_tell_unreadable(file, error)) from error
    with container:
        yield container, _find_stream(file, container)


def check_file(path: str | os.PathLike[str]) -> Path:
    """The path of a file that is there and holds something.

    Raises:
        VideoError: It does not.
    """
    file = Path(path).expanduser()
    if not file.exists():
        raise VideoError(f"no such file: {file}{_tell_neighbours(file)}")
    if not file.is_file():
        raise VideoError(f"{file} is a folder, and a video file was expected{_tell_neighbours(file / '_')}")
    if file.stat().st_size == 0:
        raise VideoError(f"{file} is empty (0 bytes), and a video file was expected")
    return file


def _tell_neighbours(file: Path) -> str:
    if not file.parent.is_dir():
        return f" (there is no folder {file.parent})"
    names = sorted(other.name for other in file.parent.iterdir() if other.is_file())
    return f"; in {file.parent} there are: {', '.join(names[:8])}{' ...' if len(names) > 8 else ''}" if names else ""


def _tell_unreadable(file: Path, error: Exception) -> str:
    with file.open("rb") as stream:
        head = stream.read(12)
    if head[4:8] in (b"ftyp", b"moov", b"mdat"):
        return (
            f"{file} is an MP4 or MOV file whose index is missing or broken: the recording was cut off before its end. "
            "Record it again, or rebuild the index with a repair program"
        )
    return f"{file} cannot be read as a video ({error.__class__.__name__}): it is damaged, or another kind of file"


def _find_stream(file: Path, container: Any) -> Any:
    name = container.format.name
    if name in _TEXT_FORMATS:
        raise VideoError(f"{file} holds text or data, not a video")
    if name in _IMAGE_FORMATS or name.endswith("_pipe"):
        raise VideoError(f"{file} is a picture, not a video: load it with load_image")
    cover = require("av.stream", "visual").Disposition.attached_pic
    streams = [stream for stream in container.streams.video if not stream.disposition & cover]
    if not streams:
        kinds = sorted({stream.type for stream in container.streams if stream.type}) or ["nothing"]
        raise VideoError(f"{file} holds no video, only {', '.join(kinds)}")
    stream = max(streams, key=lambda one: (one.codec_context is not None, _area(one), -one.index))
    if stream.codec_context is None:
        raise VideoError(f"{file} holds video of a kind that no decoder here can read")
    return stream


def _area(stream: Any) -> int:
    context = stream.codec_context
    return int(context.width * context.height) if context is not None else 0


_HDR = {16: "PQ", 18: "HLG"}  # transfer characteristics of ITU-T H.273
_EVEN_SHARE = 0.99


def probe(path: str | os.PathLike[str]) -> VideoInfo:
    """What a video file holds: size as shown, frame rate, length, keyframes, sound, damage.

    Only the first frame is decoded; everything else stands in the file's index or in its packets.

    Raises:
        VideoError: The file is missing, damaged beyond reading, or not a video.

    Example:
        >>> probe("talk.mp4").duration_s
        754.2
    """
    timeline = read_timeline(path)
    with Reader(path, timeline, fit_side(None), 1) as reader:
        frame, shape = reader.read_first()
    is_variable = is_variable_rate(timeline.pts)
    gap_s, max_gap_s = _find_key_gaps(timeline)
    with open_video(path) as (container, stream):
        others = [f"{len(container.streams.video)} video streams: the largest is read"]
        return VideoInfo(
            path=check_file(path),
            container=container.format.name,
            codec=stream.codec_context.codec.canonical_name,
            width_px=shape.width_px,
            height_px=shape.height_px,
            native_width_px=frame.width,
            native_height_px=frame.height,
            rotation_deg=shape.turn * 90,
            fps=timeline.fps,
            is_variable_rate=is_variable,
            duration_s=timeline.duration_s,
            num_frames=len(timeline.pts),
            is_num_frames_exact=timeline.has_times,
            num_keyframes=len(timeline.key_pts),
            keyframe_gap_s=gap_s,
            max_keyframe_gap_s=max_gap_s,
            has_audio=bool(container.streams.audio),
            is_truncated=timeline.is_truncated,
            warnings=timeline.warnings
            + _tell_image(frame.color_trc, frame.interlaced_frame, shape)
            + (("frames come at uneven distances",) if is_variable else ())
            + tuple(others if len(container.streams.video) > 1 else ()),
        )


def is_variable_rate(pts: NDArray[np.int64]) -> bool:
    """Whether frames come at uneven distances: more than one in a hundred off by a tenth and by more than a tick."""
    gaps = np.diff(pts)
    if len(gaps) < 2:
        return False
    usual = np.median(gaps)
    return bool((np.abs(gaps - usual) <= max(0.1 * usual, 1)).mean() < _EVEN_SHARE)


def _find_key_gaps(timeline: Timeline) -> tuple[float, float]:
    """Median distance of keyframes in seconds, and the largest one, that to the end of the video included."""
    gaps_s = np.diff([*timeline.key_pts.tolist(), timeline.end_pts]) * float(timeline.time_base)
    return float(np.median(gaps_s[:-1] if len(gaps_s) > 1 else gaps_s)), float(gaps_s.max())


def _tell_image(color_trc: int, is_interlaced: bool, shape: Shape) -> tuple[str, ...]:
    told = []
    if int(color_trc) in _HDR:
        told.append(f"high dynamic range ({_HDR[int(color_trc)]}): pictures look pale, tones are not mapped")
    if is_interlaced:
        told.append("interlaced: moving edges are combed")
    if shape.is_flipped:
        told.append("shown mirrored")
    return tuple(told)
