"""Short clips of events, small and playable in any browser, within a size limit."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from apps.video_showcase.detectors.sound import iter_waves
from apps.video_showcase.events import VideoEvent
from apps.video_showcase.sources import VideoSource
from visual_tools.errors import VideoError, require
from visual_tools.video.sample import iter_frames

SIDE_PX = 480
BEFORE_S, AFTER_S, MAX_S = 1.0, 1.5, 12.0
_FPS = 20.0
_SOUND_HZ = 48_000
_SOUND_CHUNK = 960
_BITS_A_SECOND = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipSpan:
    """Time span of a clip.

    Attributes:
        start_s: Start, in seconds of the file.
        end_s: End, in seconds of the file.
    """

    start_s: float
    end_s: float


def clip_span(event: VideoEvent, source: VideoSource) -> ClipSpan:
    """Return the clip span of an event: from slightly before it to its end or the maximum length."""
    start_s = max(event.start_s - BEFORE_S, 0.0)
    end_s = min(max(event.end_s, event.start_s + 0.5) + AFTER_S, start_s + MAX_S, source.duration_s)
    return ClipSpan(start_s=start_s, end_s=max(end_s, min(start_s + 0.2, source.duration_s)))


def choose_clips(events: Sequence[VideoEvent], most: int) -> list[int]:
    """Return the positions of the events that get a clip: kinds in turn, highest confidence first."""
    queues: dict[str, list[int]] = {}
    for position, event in sorted(enumerate(events), key=lambda item: -item[1].confidence):
        queues.setdefault(event.kind, []).append(position)
    chosen: list[int] = []
    while len(chosen) < min(most, len(events)):
        for queue in queues.values():
            if queue and len(chosen) < most:
                chosen.append(queue.pop(0))
    return chosen


def write_clip(source: VideoSource, span: ClipSpan, target: Path) -> int:
    """Write a clip as WebM (VP8 and Opus, playable in every browser) and return its size in bytes.

    Frames are upright, at most 480 px wide and at most 20 per second, each at its original time.

    Raises:
        VideoError: If nothing of the clip can be read.
    """
    av = require("av", "visual")
    try:
        with av.open(f"file:{target}", "w", format="webm") as out:
            num_frames = _write(source, span, out)
    except (av.FFmpegError, ValueError, OSError) as error:
        target.unlink(missing_ok=True)
        raise VideoError(f"the clip {target.name} cannot be written: {error}") from error
    if not num_frames:
        target.unlink(missing_ok=True)
        raise VideoError(f"no frame of {source.name} can be decoded in this span")
    return target.stat().st_size


def _write(source: VideoSource, span: ClipSpan, out: Any) -> int:
    av = require("av", "visual")
    fps = min(source.fps or _FPS, _FPS)
    frames = iter_frames(source.path, fps=fps, start_s=span.start_s, end_s=span.end_s, max_side_px=SIDE_PX, threads=1)
    first = next(frames, None)
    if first is None:
        return 0
    height, width = first.image.shape[:2]
    size = max(width // 2 * 2, 2), max(height // 2 * 2, 2)  # encoders require even numbers
    video = _add_video(out, fps, size)
    sound = _add_sound(out) if source.has_audio else None
    if sound is not None:
        for piece in _sound_frames(source, span):
            out.mux(sound.encode(piece))
        out.mux(sound.encode(None))
    count, last = 0, -1
    for frame in itertools.chain([first], frames):
        ticks = max(round((frame.timestamp_s - span.start_s) * 1000), 0)
        if ticks <= last:
            continue
        last, count = ticks, count + 1
        image = np.ascontiguousarray(frame.image[: size[1], : size[0]])
        encoded = av.VideoFrame.from_ndarray(image, "rgb24").reformat(format="yuv420p")
        encoded.pts, encoded.time_base = ticks, Fraction(1, 1000)
        out.mux(video.encode(encoded))
    out.mux(video.encode(None))
    return count


def _add_video(out: Any, fps: float, size: tuple[int, int]) -> Any:
    options = {"deadline": "realtime", "cpu-used": "6", "auto-alt-ref": "0"}
    video = out.add_stream("libvpx", rate=Fraction(fps).limit_denominator(1000), options=options)
    video.width, video.height = size
    video.pix_fmt, video.bit_rate = "yuv420p", _BITS_A_SECOND
    video.codec_context.time_base = Fraction(1, 1000)
    video.codec_context.thread_count = 1
    return video


def _add_sound(out: Any) -> Any:
    sound = out.add_stream("libopus", rate=_SOUND_HZ, layout="mono")
    sound.bit_rate = 40_000
    return sound


def _sound_frames(source: VideoSource, span: ClipSpan) -> Iterator[Any]:
    """Yield the sound of a clip in frames of 20 ms from its start."""
    av = require("av", "visual")
    left, written = np.zeros(0, np.float32), 0
    most = round((span.end_s - span.start_s) * _SOUND_HZ)
    for time_s, wave in iter_waves(source, span.start_s, span.end_s, _SOUND_HZ):
        if not written and not len(left):
            lead = round((time_s - span.start_s) * _SOUND_HZ)
            wave = wave[-lead:] if lead < 0 else np.concatenate((np.zeros(lead, np.float32), wave))
        left = np.concatenate((left, wave))
        while len(left) >= _SOUND_CHUNK and written < most:
            frame = av.AudioFrame.from_ndarray(left[None, :_SOUND_CHUNK], format="flt", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = _SOUND_HZ, written, Fraction(1, _SOUND_HZ)
            yield frame
            left, written = left[_SOUND_CHUNK:], written + _SOUND_CHUNK
