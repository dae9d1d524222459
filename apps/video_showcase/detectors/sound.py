"""Sounds louder than their surroundings, with their level and whether they are tones."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.video_showcase.events import VideoEvent
from apps.video_showcase.sources import VideoSource
from apps.video_showcase.spans import VideoSpan
from visual_tools.errors import VideoError, require
from visual_tools.video.timeline import read_timeline

RATE_HZ = 8000
WINDOW_S = 0.05
_SILENCE_DB = -90.0
_STANDS_OUT_DB = 9.0
_STILL_DB = 5.0
"""Level above the usual at which an event begins (`_STANDS_OUT_DB`) and continues (`_STILL_DB`)."""
_QUIET_DB = -52.0
_USUAL_S = 30.0
_JOIN_S = 0.35
_MIN_S = 0.12
_MIN_TONE_S = 0.25
_TONE_SHARE = 0.5
"""Minimum share of the power in the strongest frequency and its neighbours for a tone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loudness:
    """Loudness of a span.

    Attributes:
        start_s: Start of the first window, in seconds from the file's first frame.
        level_db: Level of each window of `WINDOW_S`, (N,) float64, in dB of full scale.
        tone_hz: Strongest frequency of each window if it is a tone; else 0.
    """

    start_s: float
    level_db: NDArray[np.float64]
    tone_hz: NDArray[np.float64]

    def times_s(self) -> NDArray[np.float64]:
        """Return the start of each window."""
        return self.start_s + np.arange(len(self.level_db), dtype=np.float64) * WINDOW_S


def read_loudness(span: VideoSpan) -> Loudness:
    """Measure a span; only a level and a frequency per window are kept.

    Raises:
        VideoError: If the sound cannot be read at all.
    """
    size = round(RATE_HZ * WINDOW_S)
    levels: list[NDArray[np.float64]] = []
    tones: list[NDArray[np.float64]] = []
    left: NDArray[np.float32] = np.zeros(0, np.float32)
    start_s: float | None = None
    for time_s, wave in iter_waves(span.source, span.read_start_s, span.read_end_s, RATE_HZ):
        start_s = time_s if start_s is None else start_s
        left = np.concatenate((left, wave), dtype=np.float32)
        if len(left) >= 200 * size:
            count = len(left) // size
            _measure(left[: count * size].reshape(count, size), levels, tones)
            left = left[count * size :].astype(np.float32, copy=False)
    if len(left) >= size:
        count = len(left) // size
        _measure(left[: count * size].reshape(count, size), levels, tones)
    empty = np.zeros(0)
    return Loudness(
        start_s=start_s or 0.0,
        level_db=np.concatenate(levels) if levels else empty,
        tone_hz=np.concatenate(tones) if tones else empty,
    )


def _measure(windows: NDArray[np.float32], levels: list[NDArray[np.float64]], tones: list[NDArray[np.float64]]) -> None:
    power = np.square(windows, dtype=np.float64).mean(axis=1)
    levels.append(np.maximum(10 * np.log10(power + 1e-12), _SILENCE_DB))
    spectrum = np.abs(np.fft.rfft(windows * np.hanning(windows.shape[1]), axis=1)) ** 2
    spectrum[:, :3] = 0  # without hum and wind
    peak = spectrum.argmax(axis=1)
    rows = np.arange(len(peak))
    around = sum(spectrum[rows, np.clip(peak + offset, 0, spectrum.shape[1] - 1)] for offset in range(-2, 3))
    is_tone = around >= _TONE_SHARE * (spectrum.sum(axis=1) + 1e-12)
    tones.append(np.where(is_tone, peak * RATE_HZ / windows.shape[1], 0.0))


def iter_waves(
    source: VideoSource, begin_s: float, end_s: float, rate_hz: int
) -> Iterator[tuple[float, NDArray[np.float32]]]:
    """Yield mono sound of a file in pieces with their times; gaps are filled with silence.

    Args:
        source: The file; nothing is yielded for a file without sound.
        begin_s: Start, in seconds from its first frame.
        end_s: End, in seconds from its first frame.
        rate_hz: Samples per second.

    Raises:
        VideoError: If the sound cannot be read at all.
    """
    av = require("av", "visual")
    zero_s = _zero_s(source)
    try:
        with av.open(f"file:{source.path}", container_options={"protocol_whitelist": "file"}) as container:
            if not container.streams.audio:
                return
            stream = container.streams.audio[0]
            if begin_s > 0:
                container.seek(round((begin_s + zero_s) / stream.time_base), stream=stream)
            resampler = av.AudioResampler(format="flt", layout="mono", rate=rate_hz)
            expected_s: float | None = None
            for frame in _decode(container, stream, av.FFmpegError):
                time_s = float(frame.pts * frame.time_base) - zero_s if frame.pts is not None else (expected_s or 0.0)
                if time_s >= end_s:
                    return
                until_s = time_s + frame.samples / frame.sample_rate
                if until_s <= begin_s:
                    continue
                gap_s = time_s - expected_s if expected_s is not None else 0.0
                if 0.1 < gap_s < end_s - begin_s:
                    yield time_s - gap_s, np.zeros(round(gap_s * rate_hz), np.float32)
                for piece in resampler.resample(frame):
                    yield time_s, piece.to_ndarray().reshape(-1).astype(np.float32, copy=False)
                expected_s = until_s
    except (av.FFmpegError, ValueError, OSError) as error:
        raise VideoError(f"the sound of {source.path} cannot be read: {error}") from error


def _decode(container: Any, stream: Any, failure: type[Exception]) -> Iterator[Any]:
    """Yield decoded sound frames; damaged ones are skipped, and a damaged end ends the sound."""
    try:
        for packet in container.demux(stream):
            try:
                yield from packet.decode()
            except failure:
                continue
    except failure:
        return


def _zero_s(source: VideoSource) -> float:
    """Return the time of the first frame on the file's clock, which is second 0 of all events."""
    if not source.has_video:
        return 0.0
    timeline = read_timeline(source.path)
    return float(int(timeline.pts[0]) * timeline.time_base) if timeline.has_times else 0.0


def find_sounds(loudness: Loudness, file: str) -> list[VideoEvent]:
    """Return events louder than the usual level, the median of the last and next 30 s."""
    levels = loudness.level_db
    if len(levels) < 4:
        return []
    usual = np.maximum(_rolling_median(levels, round(_USUAL_S / WINDOW_S)), _QUIET_DB - _STANDS_OUT_DB)
    is_loud, is_still = levels >= usual + _STANDS_OUT_DB, levels >= usual + _STILL_DB
    times_s = loudness.times_s()
    events = []
    for run in _runs(is_loud, is_still, round(_JOIN_S / WINDOW_S)):
        for first, end in _split_at_tones(loudness.tone_hz, *run):
            if (end - first) * WINDOW_S >= _MIN_S and is_loud[first:end].any():
                events.append(_sound_event(loudness, times_s, first, end, file))
    return events


def _split_at_tones(tone_hz: NDArray[np.float64], first: int, end: int) -> list[tuple[int, int]]:
    """Split a run into tones and other sounds: a bang may follow a beep."""
    is_tone = tone_hz[first:end] > 0
    least = round(_MIN_TONE_S / WINDOW_S)
    pieces: list[list[int]] = []
    borders = [0, *(np.flatnonzero(np.diff(is_tone.astype(np.int8))) + 1).tolist(), end - first]
    for begin, stop in pairwise(borders):
        if pieces and (stop - begin < least or bool(is_tone[begin]) == bool(pieces[-1][2])):
            pieces[-1][1] = stop
        else:
            pieces.append([begin, stop, bool(is_tone[begin])])
    return [(first + begin, first + stop) for begin, stop, _ in pieces]


def _runs(is_loud: NDArray[np.bool_], is_still: NDArray[np.bool_], join: int) -> list[tuple[int, int]]:
    """Return first and end window of each run that starts loud and continues above the lower level."""
    runs: list[tuple[int, int]] = []
    for first in np.flatnonzero(is_loud).tolist():
        if runs and first < runs[-1][1]:
            continue
        end = first + 1
        while end < len(is_still) and is_still[end]:
            end += 1
        if runs and first - runs[-1][1] <= join:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((first, end))
    return runs


def _rolling_median(levels: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return the median around each window, computed once per second and interpolated linearly."""
    step = max(round(1 / WINDOW_S), 1)
    at = np.arange(0, len(levels), step)
    medians = [float(np.median(levels[max(middle - width, 0) : middle + width + 1])) for middle in at.tolist()]
    rolling: NDArray[np.float64] = np.interp(np.arange(len(levels)), at, medians)
    return rolling


def _sound_event(loudness: Loudness, times_s: NDArray[np.float64], first: int, end: int, file: str) -> VideoEvent:
    tones, peak_db = loudness.tone_hz[first:end], float(loudness.level_db[first:end].max())
    heard = tones[tones > 0]
    is_tone = len(heard) >= 0.6 * len(tones) and float(np.ptp(np.percentile(heard, [20, 80]))) <= 120
    length_s = (end - first) * WINDOW_S
    is_beep = is_tone and length_s <= 5
    description = f"tone of {_round(float(np.median(heard)))} Hz" if is_tone else "loud sound"
    return VideoEvent(
        file=file,
        start_s=max(float(times_s[first]), 0.0),
        end_s=max(float(times_s[first]), 0.0) + length_s,
        kind="beep" if is_beep else "sound",
        text=f"{description}, {peak_db:.0f} dB, {length_s:.1f} s",
        confidence=0.9,
        evidence_s=(max(float(times_s[first]), 0.0),),
        is_open=end >= len(times_s) - 1,
        began_before=first <= 1,
        source="sound",
    )


def _round(frequency_hz: float) -> int:
    """Round to two significant digits, the resolution of a window."""
    unit = 10 ** math.floor(math.log10(frequency_hz) - 1)
    return int(unit * round(frequency_hz / unit))
