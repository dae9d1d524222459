"""Inventory of the input files: read once, never copied, with files that are not videos left out."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cua.errors import CuaError
from visual_tools.errors import VideoError, require
from visual_tools.video.info import probe
from visual_tools.video.timeline import check_file

_HASHED_BYTES = 1 << 20
"""Bytes hashed at the beginning, the middle and the end each, which identify a file without reading 40 GB."""


class VideoInputError(CuaError):
    """Error for files that cannot be watched; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoSource:
    """Input file.

    Attributes:
        name: Name in citations: the file name, with a number if two files have the same name.
        path: Path of the file.
        size_bytes: Size at the time of the inventory.
        mtime_ns: Time of the last modification.
        digest: Hash of parts of its content.
        duration_s: Duration from the first frame to the end of the last; of the sound if it has no video.
        width_px: Columns as shown; 0 without video.
        height_px: Rows as shown.
        fps: Average frame rate; 0 without video.
        codec: Name of the video codec.
        key_gap_s: Largest distance between keyframes.
        has_audio: True if it has sound.
        is_truncated: True if the file ends before its header says.
        warnings: Unusual properties.
    """

    name: str
    path: str
    size_bytes: int
    mtime_ns: int
    digest: str
    duration_s: float
    width_px: int = 0
    height_px: int = 0
    fps: float = 0.0
    codec: str = ""
    key_gap_s: float = 0.0
    has_audio: bool = False
    is_truncated: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def has_video(self) -> bool:
        """True if it has video frames."""
        return self.width_px > 0

    def check_unchanged(self) -> None:
        """Check that the file is unchanged since the inventory.

        Raises:
            VideoInputError: If the file is missing or has changed.
        """
        try:
            status = Path(self.path).stat()
        except OSError as error:
            raise VideoInputError(
                f"{self.path} no longer exists; it did when the run started ({error.strerror})"
            ) from error
        if (status.st_size, status.st_mtime_ns) != (self.size_bytes, self.mtime_ns):
            raise VideoInputError(f"{self.path} was changed since the run started; start a new run")

    def to_json(self) -> dict[str, Any]:
        """Return the source as JSON values."""
        return asdict(self)


def source_from_json(data: dict[str, Any]) -> VideoSource:
    """Return a source from its JSON values."""
    return VideoSource(**{**data, "warnings": tuple(data["warnings"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Result of an inventory.

    Attributes:
        sources: Files that can be watched, in the order given.
        left_out: Reasons why others cannot, one line each.
        repeated: Files that were named twice, one line each.
    """

    sources: tuple[VideoSource, ...]
    left_out: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        """Total duration in seconds."""
        return sum(source.duration_s for source in self.sources)


def take_inventory(paths: Sequence[Path], *, with_sound: bool = False) -> Inventory:
    """Inspect each file; damaged files and files that are not videos are left out with a reason.

    Args:
        paths: The files.
        with_sound: True to include files with sound only.

    Raises:
        VideoInputError: If none of the files can be watched.
    """
    sources: list[VideoSource] = []
    left_out: list[str] = []
    repeated: list[str] = []
    for path in paths:
        try:
            source = _inspect(path, {known.name for known in sources}, with_sound=with_sound)
        except (VideoError, OSError) as error:
            left_out.append(_one_line(error, path))
            continue
        twin = next((known for known in sources if _is_same(known, source)), None)
        if twin is not None:
            repeated.append(f"{path} is the same file as {twin.path}: it is watched once")
        else:
            sources.append(source)
    if not sources:
        reasons = "\n  ".join(left_out) or "no file was given"
        raise VideoInputError(f"none of the files can be watched:\n  {reasons}")
    return Inventory(sources=tuple(sources), left_out=tuple(left_out), repeated=tuple(repeated))


def _one_line(error: Exception, path: Path) -> str:
    text = str(error) if isinstance(error, VideoError) else f"{path} cannot be read: {error}"
    return text.replace("\n", " ")


def _is_same(source: VideoSource, other: VideoSource) -> bool:
    return source.path == other.path or (source.size_bytes, source.digest) == (other.size_bytes, other.digest)


def _inspect(path: Path, taken: set[str], *, with_sound: bool) -> VideoSource:
    file = check_file(path).resolve()
    status = file.stat()
    given: dict[str, Any] = {
        "name": _free_name(file.name, taken),
        "path": str(file),
        "size_bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "digest": _digest(file, status.st_size),
    }
    try:
        info = probe(file)
    except VideoError:
        sound_s = _sound_s(file) if with_sound else 0.0
        if not sound_s:
            raise
        warnings = ("the file contains no frames, only sound",)
        return VideoSource(**given, duration_s=sound_s, has_audio=True, warnings=warnings)
    return VideoSource(
        **given,
        duration_s=info.duration_s,
        width_px=info.width_px,
        height_px=info.height_px,
        fps=info.fps,
        codec=info.codec,
        key_gap_s=info.max_keyframe_gap_s,
        has_audio=info.has_audio,
        is_truncated=info.is_truncated,
        warnings=info.warnings,
    )


def _sound_s(file: Path) -> float:
    """Return the seconds of sound in a file without video; 0 without sound."""
    av = require("av", "visual")
    try:
        with av.open(f"file:{file}", container_options={"protocol_whitelist": "file"}) as container:
            if not container.streams.audio:
                return 0.0
            stream = container.streams.audio[0]
            if stream.duration is not None:
                return float(stream.duration * stream.time_base)
            return float(container.duration or 0) / 1e6
    except (av.FFmpegError, ValueError, OSError):
        return 0.0


def _free_name(name: str, taken: set[str]) -> str:
    """Return the file's name as text that is valid in a page and a record, with a number if it is taken."""
    whole = os.fsencode(name).decode("utf-8", "replace")
    normalize_text = Path("".join(char if char.isprintable() else "\ufffd" for char in whole))
    free, number = normalize_text.name, 2
    while free in taken:
        free, number = f"{normalize_text.stem}-{number}{normalize_text.suffix}", number + 1
    return free


def _digest(file: Path, size_bytes: int) -> str:
    digest = hashlib.sha256(str(size_bytes).encode())
    with file.open("rb") as stream:
        for start in (0, size_bytes // 2, max(size_bytes - _HASHED_BYTES, 0)):
            stream.seek(start)
            digest.update(stream.read(_HASHED_BYTES))
    return digest.hexdigest()
