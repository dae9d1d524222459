"""Open a video file, or explain why it is not one; find the times of its frames without decoding."""

import functools
import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import VideoError, require

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

_TEXT_FORMATS = {"tty", "bin", "xbin", "adf", "idf"}  # demuxers that accept any text as an image of it
_IMAGE_FORMATS = {"image2"}


@contextmanager
def open_video(path: str | os.PathLike[str]) -> "Iterator[tuple[InputContainer, VideoStream]]":
    """Open a file as a container and return it with its video stream.

    Raises:
        VideoError: If it is missing, empty, a folder, unreadable, an image, or has no video.
    """
    file = check_file(path)
    av = require("av", "visual")
    try:
        # "file:" because a colon in a name would read as a protocol; a playlist must not access the network
        container = av.open(f"file:{file}", container_options={"protocol_whitelist": "file"})
    except (av.FFmpegError, ValueError, OSError) as error:
        raise VideoError(_describe_unreadable(file, error)) from error
    with container:
        yield container, _find_stream(file, container)


def check_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that exists and is not empty.

    Raises:
        VideoError: If it is missing or empty.
    """
    file = Path(path).expanduser()
    if not file.exists():
        raise VideoError(f"no such file: {file}{_describe_neighbours(file)}")
    if not file.is_file():
        raise VideoError(f"{file} is a folder, and a video file was expected{_describe_neighbours(file / '_')}")
    if file.stat().st_size == 0:
        raise VideoError(f"{file} is empty (0 bytes), and a video file was expected")
    return file


def _describe_neighbours(file: Path) -> str:
    if not file.parent.is_dir():
        return f" (there is no folder {file.parent})"
    names = sorted(other.name for other in file.parent.iterdir() if other.is_file())
    return f"; in {file.parent} there are: {', '.join(names[:8])}{' ...' if len(names) > 8 else ''}" if names else ""


def _describe_unreadable(file: Path, error: Exception) -> str:
    with file.open("rb") as stream:
        head = stream.read(12)
    if head[4:8] in (b"ftyp", b"moov", b"mdat"):
        return (
            f"{file} is an MP4 or MOV file whose index is missing or broken: the recording was cut off before its end. "
            "Nothing of it can be read: record it again, or rebuild the index with a repair program"
        )
    return f"{file} cannot be read as a video ({error.__class__.__name__}): it is damaged, or another kind of file"


def _find_stream(file: Path, container: "InputContainer") -> "VideoStream":
    name = container.format.name
    if name in _TEXT_FORMATS:
        raise VideoError(f"{file} holds text or data, not a video")
    if name in _IMAGE_FORMATS or name.endswith("_pipe"):
        raise VideoError(f"{file} is an image, not a video: load it with load_image")
    cover = require("av.stream", "visual").Disposition.attached_pic
    streams = [stream for stream in container.streams.video if not stream.disposition & cover]
    if not streams:
        kinds = ", ".join(sorted({stream.type for stream in container.streams if stream.type}))
        raise VideoError(f"{file} holds no video, only {kinds or 'nothing'}")
    stream = max(streams, key=lambda stream: (stream.codec_context is not None, _area(stream), -stream.index))
    if stream.codec_context is None:
        raise VideoError(f"{file} holds video of a kind that no decoder here can read")
    return stream


def _area(stream: "VideoStream") -> int:
    context = stream.codec_context
    return int(context.width * context.height) if context is not None else 0


HALF_MS_S = 0.00051  # a time printed in rounded milliseconds still selects its frame
_CHECKED_PACKETS = 48  # after each of two seeks: enough to see times that no packet has, without reading the file again
_BUILT_ON_ALL = {"gif", "apng"}  # every image is drawn over the one before


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """Times of all displayed frames, in order. Second 0 is the first frame.

    Attributes:
        pts: Presentation time of each frame, (N,) int64 in ticks of `time_base`, ascending.
        key_pts: Presentation times of the keyframes, (K,) int64 in the same ticks.
        end_pts: End of the last frame, in ticks.
        time_base: Seconds per tick.
        fps: Average frame rate.
        has_times: True if the file contains frame times; otherwise frames can only be counted from the first on.
        is_truncated: True if the file ends before its header says.
        warnings: Unusual properties of the file, for the user.
    """

    pts: NDArray[np.int64] = field(repr=False)
    key_pts: NDArray[np.int64] = field(repr=False)
    end_pts: int
    time_base: Fraction
    fps: float
    has_times: bool
    is_truncated: bool
    warnings: tuple[str, ...]

    @property
    def times_s(self) -> NDArray[np.float64]:
        """Time of each frame, (N,) float64 in seconds from the first."""
        times_s: NDArray[np.float64] = (self.pts - self.pts[0]) * float(self.time_base)
        return times_s

    @property
    def duration_s(self) -> float:
        """Seconds from the first frame to the end of the last."""
        return float((self.end_pts - int(self.pts[0])) * self.time_base)

    def find_frames(self, times_s: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the frame shown at each of the times, as positions in `pts`; tolerance half a millisecond."""
        shown_s = self.times_s
        gap_s = float(np.diff(shown_s).min()) if len(shown_s) > 1 else 1.0
        positions = np.searchsorted(shown_s, times_s + min(HALF_MS_S, gap_s / 4), side="right") - 1
        return np.clip(positions, 0, len(shown_s) - 1).astype(np.int64)


def read_timeline(path: str | os.PathLike[str]) -> Timeline:
    """Read the timeline of a file; cached for each version of the file.

    Raises:
        VideoError: If the file cannot be read or has no frames.
    """
    file = check_file(path).resolve()
    status = file.stat()
    version = file, status.st_size, status.st_mtime_ns
    return _REMEMBERED[version] if version in _REMEMBERED else _read_timeline(*version)


_REMEMBERED: "dict[tuple[Path, int, int], Timeline]" = {}


def save_timeline(path: str | os.PathLike[str], target: Path) -> None:
    """Save the timeline of a file for other processes, since most formats require reading the whole file.

    Raises:
        VideoError: If the file cannot be read or has no frames.
    """
    timeline = read_timeline(path)
    facts = {
        "end_pts": timeline.end_pts,
        "time_base": [timeline.time_base.numerator, timeline.time_base.denominator],
        "fps": timeline.fps,
        "has_times": timeline.has_times,
        "is_truncated": timeline.is_truncated,
        "warnings": list(timeline.warnings),
    }
    with target.open("wb") as stream:
        np.savez_compressed(stream, pts=timeline.pts, key_pts=timeline.key_pts, facts=np.array(json.dumps(facts)))


def remember_timeline(path: str | os.PathLike[str], saved: Path) -> None:
    """Load a timeline saved by `save_timeline` into the cache, valid while the file is unchanged."""
    file = check_file(path).resolve()
    status = file.stat()
    with np.load(saved, allow_pickle=False) as held:
        facts = json.loads(str(held["facts"]))
        _REMEMBERED[file, status.st_size, status.st_mtime_ns] = Timeline(
            pts=held["pts"],
            key_pts=held["key_pts"],
            end_pts=facts["end_pts"],
            time_base=Fraction(*facts["time_base"]),
            fps=facts["fps"],
            has_times=facts["has_times"],
            is_truncated=facts["is_truncated"],
            warnings=tuple(facts["warnings"]),
        )


@functools.lru_cache(maxsize=8)
def _read_timeline(file: Path, size_bytes: int, _mtime_ns: int) -> Timeline:
    with open_video(file) as (container, stream):
        packets = _read_index(stream, size_bytes)
        if packets is not None and _is_borne_out(container, stream, packets):
            return _make_timeline(file, container, stream, packets)
    with open_video(file) as (container, stream):
        return _make_timeline(file, container, stream, _read_packets(container, stream))


@dataclass(slots=True)
class _Packets:
    """Packets that become frames, in file order; `pts` is None if missing."""

    pts: list[int | None]
    dts: list[int | None]
    is_key: list[bool]
    last_duration: int = 0
    is_cut: bool = False


def _read_index(stream: "VideoStream", size_bytes: int) -> _Packets | None:
    """Read the packets from the index of an MP4 or MOV file; None if the index is not sufficient.

    The index contains decoding times. They are converted to presentation times only if the frame rate is constant:
    presentation times are then the same steps, shifted by the delay of the first frame.
    """
    entries = getattr(stream, "index_entries", ())
    if not stream.frames or len(entries) != stream.frames or stream.start_time is None:
        return None
    table = [(entry.timestamp, entry.is_keyframe, entry.is_discard, entry.pos + entry.size) for entry in entries]
    dts = np.array([row[0] for row in table], np.int64)
    steps = np.diff(dts)
    if any(row[2] for row in table) or len(steps) == 0 or steps.min() != steps.max() or steps[0] <= 0:
        return None
    present = [row for row in table if row[3] <= size_bytes]
    shift = stream.start_time - int(dts[0])
    pts: list[int | None] = [row[0] + shift for row in present]
    return _Packets(pts, pts, [row[1] for row in present], int(steps[0]), is_cut=len(present) < len(table))


def _is_borne_out(container: "InputContainer", stream: "VideoStream", packets: _Packets) -> bool:
    """Return True if sample packets, from the beginning and the middle, match the index."""
    known = set(packets.pts)
    try:
        for start in (packets.pts[0], packets.pts[len(packets.pts) // 2]):
            assert start is not None
            container.seek(start, stream=stream)
            some = itertools.islice(container.demux(stream), _CHECKED_PACKETS)
            if any(packet.size and packet.pts not in known for packet in some):
                return False
    except require("av", "visual").FFmpegError:
        return False
    return True


def _read_packets(container: "InputContainer", stream: "VideoStream") -> _Packets:
    """Read every packet of the file."""
    error_type = require("av", "visual").FFmpegError
    packets = _Packets([], [], [])
    try:
        for packet in container.demux(stream):
            if packet.size == 0 or packet.is_discard:
                continue
            packets.pts.append(packet.pts)
            packets.dts.append(packet.dts)
            packets.is_key.append(packet.is_keyframe)
            packets.last_duration = packet.duration or packets.last_duration
    except error_type:
        packets.is_cut = True
    return packets


def _make_timeline(file: Path, container: "InputContainer", stream: "VideoStream", packets: _Packets) -> Timeline:
    if not packets.pts:
        raise VideoError(f"{file} holds a video track without a single frame that can be read")
    warnings = []
    has_times = None not in packets.pts and not _jumps_back(packets.dts) and not _guesses(container, stream, packets)
    rate = stream.average_rate or stream.guessed_rate or Fraction(25)
    if has_times:
        assert stream.time_base is not None
        shown, time_base = np.array(packets.pts, np.int64), Fraction(stream.time_base)
    else:
        shown, time_base = np.arange(len(packets.pts), dtype=np.int64), 1 / Fraction(rate)
        warnings.append("the file does not say when frames are shown: they are counted at an even rate")
    pts, keys = np.unique(shown), np.unique(shown[np.array(packets.is_key, bool)])
    if len(keys) == 0 or container.format.name in _BUILT_ON_ALL:
        keys = pts[:1]
    span_s = float((int(pts[-1]) - int(pts[0])) * time_base)
    fps = float(stream.average_rate or 0) or ((len(pts) - 1) / span_s if span_s else float(rate))
    last = packets.last_duration if has_times else 1
    end_pts = int(pts[-1]) + (last or max(round(1 / (fps * float(time_base))), 1))
    end_s, promised_s = float(end_pts * time_base), _promised_s(container, stream)
    is_truncated = packets.is_cut or bool(stream.frames and len(pts) < 0.99 * stream.frames - 1)
    is_truncated |= end_s < promised_s - max(1.0, 0.02 * promised_s)
    if is_truncated:
        whole = f" of {_round_s(promised_s)} s" if promised_s > end_s else ""
        first_s = _round_s(end_s - float(pts[0] * time_base))
        warnings.append(f"the file is cut off: only its first {first_s} s{whole} can be read")
    return Timeline(
        pts=pts,
        key_pts=keys,
        end_pts=end_pts,
        time_base=time_base,
        fps=fps,
        has_times=has_times,
        is_truncated=is_truncated,
        warnings=tuple(warnings),
    )


def _round_s(time_s: float) -> str:
    """Return a time in whole seconds, short ones in tenths."""
    return f"{time_s:.0f}" if time_s >= 10 else f"{max(time_s, 0.1):.1f}"


def _jumps_back(dts: list[int | None]) -> bool:
    """Return True if the clock restarts in the middle, as in concatenated files."""
    known = np.array([value for value in dts if value is not None], np.int64)
    return bool((np.diff(known) < 0).any())


def _guesses(container: "InputContainer", stream: "VideoStream", packets: _Packets) -> bool:
    """Return True if presentation times merely copy decoding times although the order differs, as in AVI."""
    if container.format.name != "avi" or not stream.codec_context.has_b_frames:
        return False
    delays = {
        pts - dts for pts, dts in zip(packets.pts, packets.dts, strict=True) if pts is not None and dts is not None
    }
    return len(delays) == 1


def _promised_s(container: "InputContainer", stream: "VideoStream") -> float:
    """Return the end of the video in seconds by the file's header; 0 if it does not say."""
    if stream.duration is not None and stream.start_time is not None and stream.time_base is not None:
        return float((stream.start_time + stream.duration) * stream.time_base)
    if container.duration is None or (len(container.streams) > 1 and _reaches(container, container.duration / 1e6)):
        return 0.0
    return (container.duration + (container.start_time or 0)) / 1e6


def _reaches(container: "InputContainer", end_s: float) -> bool:
    """Return True if any stream, such as longer sound, has packets near the end that the header gives."""
    try:
        container.seek(round(max(end_s - 2, 0) * 1e6))
        return any(
            packet.pts is not None and packet.time_base and packet.pts * packet.time_base > 0.98 * end_s - 2
            for packet in container.demux()
        )
    except require("av", "visual").FFmpegError:
        return False
