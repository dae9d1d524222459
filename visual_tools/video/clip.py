"""Cut a clip from a video, with its sound."""

import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from visual_tools.errors import VideoError, require
from visual_tools.video.frames import fit_side
from visual_tools.video.reader import VideoReader
from visual_tools.video.timeline import HALF_MS_S, Timeline, check_file, open_video, read_timeline

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """Part of a video in its own file.

    Attributes:
        path: The new file.
        start_s: Actual start, in seconds of the source video.
        end_s: Actual end, in seconds of the source video.
        num_frames: Number of frames shown.
        is_exact: True if it was re-encoded and begins exactly where requested; otherwise packets were copied starting
            at a keyframe.
        has_audio: True if the sound was included.
        warnings: Deviations from the request.
    """

    path: Path
    start_s: float
    end_s: float
    num_frames: int
    is_exact: bool
    has_audio: bool
    warnings: tuple[str, ...] = ()


def cut_clip(
    path: str | os.PathLike[str],
    start_s: float,
    end_s: float,
    output: str | os.PathLike[str],
    *,
    exact: bool = False,
) -> Clip:
    """Cut part of a video into a new file: copied, fast and lossless, or re-encoded, exact to the frame.

    Args:
        path: Source file.
        start_s: Start, in seconds from the first frame.
        end_s: End (exclusive); limited to the end of the video.
        output: New file; its suffix selects the format (.mp4, .mkv, ...). An existing file is replaced.
        exact: True to re-encode. Otherwise the clip begins at the keyframe before `start_s`, see `Clip.start_s`.

    Raises:
        VideoError: If the file cannot be read, the times are outside the video, or the format cannot hold its streams.

    Example:
        >>> cut_clip("talk.mp4", 61.5, 75, "answer.mp4").start_s
        60.0
    """
    file, target = check_file(path), Path(output).expanduser()
    timeline = read_timeline(file)
    _check_request(file, target, timeline, start_s, end_s)
    first = int(timeline.find_frames(np.array([start_s]))[0])
    end = max(int(np.searchsorted(timeline.times_s, end_s - HALF_MS_S)), first + 1)
    start_pts = int(timeline.pts[first])
    key_pts = int(timeline.key_pts[max(int(np.searchsorted(timeline.key_pts, start_pts, side="right")) - 1, 0)])
    end_pts = int(timeline.pts[end]) if end < len(timeline.pts) else timeline.end_pts
    piece = _ClipRange(key_pts=key_pts, start_pts=start_pts if exact else key_pts, end_pts=end_pts)
    av = require("av", "visual")
    try:
        with open_video(file) as (container, stream), av.open(f"file:{target}", "w") as out:
            track = _Encoder(file, timeline, stream, out) if exact else _Copier(stream, out)
            _seek(container, stream, timeline, piece.key_pts)
            has_audio = _write(container, stream, out, piece, track)
    except (av.FFmpegError, ValueError) as error:
        target.unlink(missing_ok=True)
        raise VideoError(
            f"the piece cannot be written to {target.name} ({error}): take the ending of the source, {file.suffix}"
        ) from error
    return _make_clip(target, timeline, piece, (start_s, end_s), track, has_audio)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClipRange:
    """Part to cut, in ticks: the keyframe to read from, its start, and its end."""

    key_pts: int
    start_pts: int
    end_pts: int


def _check_request(file: Path, target: Path, timeline: Timeline, start_s: float, end_s: float) -> None:
    if not timeline.has_times:
        raise VideoError(f"{file} does not say when its frames are shown, so no piece of it can be cut out")
    if not 0 <= start_s < timeline.duration_s or not end_s > start_s:
        raise VideoError(
            f"from {start_s:g} to {end_s:g} s is not a part of {file.name}: "
            f"it runs from 0 to {timeline.duration_s:.3f} s"
        )
    if not target.parent.is_dir():
        raise VideoError(f"there is no folder {target.parent} to write {target.name} into")
    if target.is_dir() or (target.exists() and target.samefile(file)):
        raise VideoError(f"{target} is the source itself or a folder: give the name of another file")


class _Copier:
    """Track writer that copies packets unchanged."""

    def __init__(self, stream: "VideoStream", out: Any) -> None:
        self._out, self._target = out, out.add_stream_from_template(stream)
        self._held: list[Any] = []  # not known yet whether they are needed, or what their decoding time is
        self.num_frames, self.end_pts = 0, 0

    def write(self, packet: Any, piece: _ClipRange) -> None:
        """Add a packet of the clip."""
        if packet.pts is None or packet.pts < piece.start_pts:
            return
        self._held.append(packet)
        if packet.pts < piece.end_pts and packet.dts is not None:  # earlier packets may be its references
            self._mux_held(packet.dts, piece)

    def close(self, piece: _ClipRange) -> None:
        """Write the remaining packets."""
        while self._held and self._held[-1].pts >= piece.end_pts:
            self._held.pop()
        if self._held:
            self._mux_held(self._held[-1].pts, piece)

    def _mux_held(self, last_dts: int, piece: _ClipRange) -> None:
        """Write the held packets; in some files the first packets after a seek have no decoding time."""
        for before, packet in enumerate(reversed(self._held)):
            if packet.dts is None:
                packet.dts = min(last_dts - before, packet.pts)
        for packet in self._held:
            self.num_frames += 1
            self.end_pts = max(self.end_pts, packet.pts + (packet.duration or 0))
            _mux(self._out, self._target, packet, piece.start_pts)
        self._held.clear()


class _Encoder:
    """Track writer that decodes the frames and re-encodes those of the clip."""

    def __init__(self, file: Path, timeline: Timeline, stream: "VideoStream", out: Any) -> None:
        self._out, self._stream = out, stream
        with VideoReader(file, timeline, fit_side(None), 1) as reader:
            self._target = _add_encoder(out, stream, reader.read_first()[0])
        self.num_frames, self.end_pts = 0, 0

    def write(self, packet: Any, piece: _ClipRange) -> None:
        """Add a packet, starting with the keyframe before the clip."""
        try:
            frames = self._stream.codec_context.decode(packet if packet.size else None)
        except require("av", "visual").FFmpegError:  # damaged: only the other frames are used
            return
        for frame in frames:
            if frame.pts is not None and piece.start_pts <= frame.pts < piece.end_pts:
                self._encode(frame, piece.start_pts)
        self.end_pts = piece.end_pts

    def _encode(self, frame: Any, start_pts: int) -> None:
        frame.pts, frame.time_base = frame.pts - start_pts, self._stream.time_base
        frame.pict_type = 0  # the encoder decides
        self.num_frames += 1
        self._out.mux(self._target.encode(frame))

    def close(self, piece: _ClipRange) -> None:
        """Flush the decoder and the encoder."""
        self.write(require("av", "visual").Packet(0), piece)
        self._out.mux(self._target.encode(None))


def _add_encoder(out: Any, stream: "VideoStream", frame: Any) -> Any:
    """Add an encoder of the output's format for frames like `frame`, with the same display parameters."""
    av = require("av", "visual")
    name = "libx264" if "h264" in out.supported_codecs else out.default_video_codec
    options = {"crf": "18", "preset": "veryfast"} if name == "libx264" else {}
    target = out.add_stream(name, rate=stream.average_rate or stream.guessed_rate or 25, options=options)
    target.width, target.height = frame.width, frame.height
    known = [pixel_format.name for pixel_format in av.codec.Codec(name, "w").video_formats or ()]
    is_even = frame.width % 2 == frame.height % 2 == 0
    choices = (frame.format.name, "yuv420p") if is_even else ("yuv444p",)  # chroma subsampling needs even sizes
    target.pix_fmt = next((name for name in choices if name in known), known[0])
    context = target.codec_context
    context.time_base = stream.time_base
    context.sample_aspect_ratio = stream.sample_aspect_ratio or Fraction(1)
    for name in ("colorspace", "color_range", "color_primaries", "color_trc"):
        setattr(context, name, getattr(frame, name))
    matrix = frame.side_data.get(require("av.sidedata.sidedata", "visual").Type.DISPLAYMATRIX)
    if matrix is not None:
        target.set_display_matrix(np.frombuffer(bytes(matrix), np.int32).tolist())
    return target


def _seek(container: "InputContainer", stream: "VideoStream", timeline: Timeline, key_pts: int) -> None:
    """Seek to a keyframe or before it: some formats land later than requested."""
    for start in reversed(timeline.key_pts[timeline.key_pts <= key_pts].tolist()):
        container.seek(start, stream=stream)
        landed = next((packet.pts for packet in container.demux(stream) if packet.pts is not None), None)
        container.seek(start, stream=stream)
        if landed is not None and landed <= key_pts:
            return


def _write(container: Any, stream: Any, out: Any, piece: _ClipRange, track: _Copier | _Encoder) -> bool:
    """Read from the keyframe on until every stream has passed the end; return True if there was sound."""
    sounds = {
        sound: out.add_stream_from_template(sound)
        for sound in container.streams.audio
        if sound.codec_context is not None
    }
    start_s, end_s = piece.start_pts * stream.time_base, piece.end_pts * stream.time_base
    running = {stream, *sounds}
    for packet in container.demux([stream, *sounds]):
        if not packet.size or packet.stream not in running:
            continue
        if packet.dts is not None and packet.dts * packet.time_base >= end_s:
            running.discard(packet.stream)
            if not running:
                break
        elif packet.stream is stream:
            track.write(packet, piece)
        elif packet.pts is not None and packet.pts * packet.time_base >= start_s:
            _mux(out, sounds[packet.stream], packet, round(start_s / packet.time_base))
    track.close(piece)
    return bool(sounds)


def _mux(out: Any, target: Any, packet: Any, start: int) -> None:
    packet.pts -= start
    packet.dts -= start
    packet.stream = target
    out.mux(packet)


def _make_clip(
    target: Path,
    timeline: Timeline,
    piece: _ClipRange,
    asked_s: tuple[float, float],
    track: _Copier | _Encoder,
    has_audio: bool,
) -> Clip:
    zero, tick_s = int(timeline.pts[0]), float(timeline.time_base)
    start_s, end_s = (piece.start_pts - zero) * tick_s, (track.end_pts - zero) * tick_s
    warnings = []
    if asked_s[0] - start_s > 1.5 / timeline.fps:
        warnings.append(f"it begins at {start_s:.3f} s, the keyframe before {asked_s[0]:g} s: exact=True begins there")
    if asked_s[1] > timeline.duration_s + 1 / timeline.fps:
        warnings.append(f"it ends with the video, at {timeline.duration_s:.3f} s")
    if track.num_frames == 0:
        target.unlink(missing_ok=True)
        raise VideoError(f"no frame between {asked_s[0]:g} and {asked_s[1]:g} s can be read: the file is damaged there")
    return Clip(
        path=target,
        start_s=start_s,
        end_s=end_s,
        num_frames=track.num_frames,
        is_exact=isinstance(track, _Encoder),
        has_audio=has_audio,
        warnings=tuple(warnings),
    )
