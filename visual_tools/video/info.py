"""Read information about a video file from its packets and its first frame."""

import os

import numpy as np
from numpy.typing import NDArray

from visual_tools.video.frames import FrameShape, fit_side
from visual_tools.video.reader import VideoReader
from visual_tools.video.timeline import Timeline, check_file, open_video, read_timeline
from visual_tools.video.types import VideoInfo

_HDR = {16: "PQ", 18: "HLG"}  # transfer characteristics of ITU-T H.273
_EVEN_SHARE = 0.99
"""Minimum share of equal gaps between frames; below it the frame rate is called variable."""


def probe(path: str | os.PathLike[str]) -> VideoInfo:
    """Return information about a video file: displayed size, frame rate, duration, keyframes, sound, damage.

    Only the first frame is decoded; everything else comes from the file's index or its packets.

    Raises:
        VideoError: If the file is missing, not a video, or too damaged to read.

    Example:
        >>> probe("talk.mp4").duration_s
        754.2
    """
    timeline = read_timeline(path)
    with VideoReader(path, timeline, fit_side(None), 1) as reader:
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
            + _image_warnings(frame.color_trc, frame.interlaced_frame, shape)
            + (("frames come at uneven distances",) if is_variable else ())
            + tuple(others if len(container.streams.video) > 1 else ()),
        )


def is_variable_rate(pts: NDArray[np.int64]) -> bool:
    """Return True if frame intervals vary: more than one in a hundred is off by a tenth and by more than a tick."""
    gaps = np.diff(pts)
    if len(gaps) < 2:
        return False
    usual = np.median(gaps)
    return bool((np.abs(gaps - usual) <= max(0.1 * usual, 1)).mean() < _EVEN_SHARE)


def _find_key_gaps(timeline: Timeline) -> tuple[float, float]:
    """Return the median distance of keyframes in seconds, and the largest one, including the gap to the end."""
    gaps_s = np.diff([*timeline.key_pts.tolist(), timeline.end_pts]) * float(timeline.time_base)
    return float(np.median(gaps_s[:-1] if len(gaps_s) > 1 else gaps_s)), float(gaps_s.max())


def _image_warnings(color_trc: int, is_interlaced: bool, shape: FrameShape) -> tuple[str, ...]:
    warnings = []
    if int(color_trc) in _HDR:
        warnings.append(f"high dynamic range ({_HDR[int(color_trc)]}): images look pale, tones are not mapped")
    if is_interlaced:
        warnings.append("interlaced: moving edges are combed")
    if shape.is_flipped:
        warnings.append("shown mirrored")
    return tuple(warnings)
