"""Frames of a recording in a bounded size, with letterbox and browser toolbar cropped.

Long recordings are sampled less often, very long ones only at their keyframes: memory never holds more than the frames
that one transition needs, and time is bounded by the number of frames.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from apps.video2web.pixels import Mask, RgbImage
from cua.errors import CuaError
from visual_tools.box import Box
from visual_tools.errors import VideoError
from visual_tools.ocr import read_text
from visual_tools.video.info import probe
from visual_tools.video.sample import iter_frames, sample_frames
from visual_tools.video.types import Frame, VideoInfo

# Heuristics without another source; measured together in benchmarks/video2web.md, "Recordings".
MAX_SIDE_PX = 1280  # larger recordings are reduced, which bounds the time
MAX_FPS = 30.0
MAX_FRAMES = 4_500  # 2.5 minutes at 30 a second; bounds time and memory
_MIN_FPS, _LOW_FPS = 4.0, 10.0
_MAX_DECODED_PIXELS = 25e9  # bounds the time to decode
_MIN_SIDE_PX = 120
_NUM_SAMPLES = 12
_BAR_LEVEL = 26
_MIN_BAR_SHARE = 0.015
_SAME_BARS = 0.35  # maximum difference of the bars on both sides, as a share of the larger one
_TOP_SHARE = 0.25
_MAX_BAR_PX = 190
_EDGE_LEVELS = 8
_ADDRESS = re.compile(r"^\W*(https?://|www\.|localhost[:/]|file://|127\.0\.0\.1)\S*|^\W*[\w-]+(\.[\w-]+)+/\S+", re.I)


class RecordingError(CuaError):
    """Error for a recording that cannot be used; the message says what was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FramePlan:
    """Selection of the frames of a video, and their crop.

    Attributes:
        path: Path of the video.
        info: Metadata of the video.
        fps: Frames per second; None for keyframes only.
        scale: Pixels of the frames per pixel of the video.
        crop_px: Box of the page, in pixels of the scaled frames.
        warnings: Problems found in the recording.
    """

    path: Path
    info: VideoInfo
    fps: float | None
    scale: float
    crop_px: Box
    warnings: tuple[str, ...] = ()

    @property
    def size_px(self) -> tuple[int, int]:
        """Width and height of the cropped frames."""
        return self.crop_px.width, self.crop_px.height

    @property
    def num_frames(self) -> int:
        """Approximate number of frames."""
        if self.fps is None:
            return min(self.info.num_keyframes, MAX_FRAMES)
        return min(self.info.num_frames, max(round(self.info.duration_s * self.fps), 1))

    def frames(self) -> Iterator[Frame]:
        """Yield all frames in order, cropped."""
        if self.fps is None:
            rate = min(self.info.num_keyframes, MAX_FRAMES) / max(self.info.duration_s, 1e-3)
            decoded = iter_frames(self.path, fps=rate, max_side_px=MAX_SIDE_PX, exact=False)
        else:
            decoded = iter_frames(self.path, fps=self.fps, max_side_px=MAX_SIDE_PX)
        yield from (self._cut(frame) for frame in decoded)

    def frames_at(self, times_s: Sequence[float]) -> Iterator[Frame]:
        """Yield the frames shown at the given times, in order, each once, cropped."""
        if times_s:
            for frame in iter_frames(
                self.path, timestamps_s=times_s, max_side_px=MAX_SIDE_PX, exact=self.fps is not None
            ):
                yield self._cut(frame)

    def _cut(self, frame: Frame) -> Frame:
        box = self.crop_px
        image = np.ascontiguousarray(frame.image[box.slices])
        return Frame(index=frame.index, timestamp_s=frame.timestamp_s, image=image)


def plan_frames(path: str | os.PathLike[str]) -> FramePlan:
    """Select the frames of a recording to process, and crop everything outside of the page.

    Raises:
        RecordingError: If it is not a video, or too small to show a page.
    """
    try:
        info = probe(path)
        samples = sample_frames(path, n=_NUM_SAMPLES, max_side_px=MAX_SIDE_PX, exact=info.keyframe_gap_s < 5).images
    except VideoError as error:
        raise RecordingError(f"{error}. A screen recording was expected (MP4, WebM, MOV, GIF)") from error
    fps, warnings = _choose_fps(info)
    width = samples[0].shape[1]
    crop = find_letterbox(samples)
    inner = [image[crop.slices] for image in samples]
    bar_px = find_browser_bar(inner)
    crop = Box(crop.left, crop.top + bar_px, crop.right, crop.bottom)
    if min(crop.width, crop.height) < _MIN_SIDE_PX:
        raise RecordingError(
            f"{Path(path).name} shows {crop.width}x{crop.height} px: a page of at least {_MIN_SIDE_PX} px a side was "
            "expected"
        )
    return FramePlan(
        path=Path(path),
        info=info,
        fps=fps,
        scale=width / info.width_px,
        crop_px=crop,
        warnings=(*info.warnings, *warnings),
    )


def _choose_fps(info: VideoInfo) -> tuple[float | None, tuple[str, ...]]:
    """Return a frame rate that bounds the number of frames and of decoded pixels."""
    is_uneven = info.is_variable_rate or info.fps < _LOW_FPS  # few frames: all of them, whatever their times
    usual = min(max(info.fps, 25.0 if is_uneven else 1.0), MAX_FPS)
    fps = min(usual, max(MAX_FRAMES / max(info.duration_s, 1e-3), 0.01))
    pixels = info.num_frames * info.native_width_px * info.native_height_px
    if pixels > _MAX_DECODED_PIXELS or fps < _MIN_FPS:
        warning = (
            f"{info.duration_s:.0f} s of {info.native_width_px}x{info.native_height_px} px at {info.fps:.0f} fps are "
            f"too much to look at: only its {info.num_keyframes} keyframes are, {info.keyframe_gap_s:.1f} s apart. "
            "Cut the recording into pieces of a minute for every transition"
        )
        return None, (warning,)
    if fps < usual - 0.5:
        return fps, (f"a long recording: {fps:.1f} frames a second are looked at",)
    return fps, ()


def find_letterbox(images: Sequence[RgbImage]) -> Box:
    """Return the part of the frames between black bars, which lie on two opposite sides and are about equally wide.

    Args:
        images: Frames from all over the video, (H, W, 3) uint8 RGB.
    """
    height, width = images[0].shape[:2]
    brightest = np.max([image.max(axis=2) for image in images], axis=0)
    is_bar = brightest <= _BAR_LEVEL
    top, bottom = _pair(is_bar.mean(axis=1) > 0.995)
    left, right = _pair(is_bar[top : height - bottom].mean(axis=0) > 0.995)
    return Box(left, top, width - right, height - bottom)


def _pair(is_dark: Mask) -> tuple[int, int]:
    """Return the lengths of the dark runs at both ends if both exist and are similar; else zeros."""
    if is_dark.all():
        return 0, 0
    first, last = int(np.argmin(is_dark)), int(np.argmin(is_dark[::-1]))
    if min(first, last) < max(_MIN_BAR_SHARE * len(is_dark), 4):
        return 0, 0
    if abs(first - last) > _SAME_BARS * max(first, last):
        return 0, 0
    return first, last


def find_browser_bar(images: Sequence[RgbImage]) -> int:
    """Return the height of a browser's tab and address bars at the top of all frames; 0 without an address bar.

    Args:
        images: Frames from all over the video, (H, W, 3) uint8 RGB.
    """
    first = images[len(images) // 2]
    depth = min(round(first.shape[0] * _TOP_SHARE), _MAX_BAR_PX)
    addresses = [line.box_px for line in read_text(first[:depth]) if _ADDRESS.search(line.text)]
    if not addresses:
        return 0
    bottom = addresses[0].bottom
    rows = first[: depth + 1].astype(np.int16)
    steps = (np.abs(np.diff(rows, axis=0)).max(axis=2) > _EDGE_LEVELS).mean(axis=1)
    below = [row for row in range(bottom + 2, depth) if steps[row] > 0.9]
    return below[-1] + 1 if below and below[-1] - bottom < 70 else 0
