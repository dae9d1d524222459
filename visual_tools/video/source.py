"""Open a video file, or say what it is instead."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from visual_tools.errors import VideoError
from visual_tools.require import require

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
        raise VideoError(f"{file} is an image, not a video: load it with load_image")
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
