"""Frames of a recording in a bounded size and at a constant rate, with letterbox and browser toolbar cropped.

A frame is shown until the next one: it is repeated where frames are missing, so that a video of few or uneven frames is
read like one of 25 frames a second. An empty window before the page appears is skipped.

Long recordings are sampled less often, very long ones only at their keyframes: memory never holds more than the frames
that one transition needs, and time is bounded by the number of frames.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from apps.video2web.pixels import Mask, RgbImage
from cua.errors import CuaError
from visual_tools.box import Box
from visual_tools.errors import VideoError
from visual_tools.ocr import read_text
from visual_tools.video.info import probe
from visual_tools.video.sample import iter_frames, sample_frames
from visual_tools.video.types import Frame, Progress, VideoInfo

# Heuristics without another source; measured together in benchmarks/video2web.md, "Recordings".
MAX_SIDE_PX = 1280  # larger recordings are reduced, which bounds the time
MAX_FPS = 30.0
MAX_FRAMES = 4_500  # 2.5 minutes at 30 a second; bounds time and memory
_MIN_FPS, _USUAL_FPS = 4.0, 25.0
_MAX_DECODED_PIXELS = 25e9  # bounds the time to decode
_MIN_SIDE_PX = 120
_NUM_SAMPLES = 12
_BAR_LEVEL = 26
_MIN_BAR_SHARE = 0.015
_SAME_BARS = 0.35  # maximum difference of the bars on both sides, as a share of the larger one
_TOP_SHARE = 0.25
_SAME_TIME_S = 0.0006  # a frame's time is exact within half a millisecond
_MAX_BAR_PX = 190
_EDGE_LEVELS = 8
_PAINTED_LEVELS = 24  # of 255; above the noise of video codecs on an empty window
_MAX_EMPTY = 0.0004  # share of other pixels in an empty window: less than a word of small text, about a caret
_MIN_WINDOW = 0.6  # share of the width and the height of a frame that a window has beside padding
_LOADS_SHARE = 0.0015  # share of the pixels that changes while a page loads; a moving pointer changes less
_LOADED_S, _MAX_LOADING_S = 0.4, 2.5  # rest after which a page has loaded, and time after which it is taken as it is
_ADDRESS = re.compile(r"^\W*(https?://|www\.|localhost[:/]|file://|127\.0\.0\.1)\S*|^\W*[\w-]+(\.[\w-]+)+/\S+", re.I)


CheckStop = Callable[[], None]


def _go_on() -> None:
    """Never stop."""


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
        start_s: Time when the page is there: an empty window before it, and its loading, are skipped.
        check_stop: Function called for every decoded frame, and before long work on one; it raises to stop reading.
        warnings: Problems found in the recording.
    """

    path: Path
    info: VideoInfo
    fps: float | None
    scale: float
    crop_px: Box
    start_s: float = 0.0
    check_stop: CheckStop = _go_on
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
        return max(round((self.info.duration_s - self.start_s) * self.fps), 1)

    def frames(self, on_decoded: Progress = lambda done, of: None) -> Iterator[Frame]:
        """Yield all frames in order, cropped; repeats of a frame share its image.

        Args:
            on_decoded: Callback with the number of frames decoded so far and in total.
        """
        if self.fps is None:
            rate = min(self.info.num_keyframes, MAX_FRAMES) / max(self.info.duration_s, 1e-3)
            decoded = iter_frames(self.path, fps=rate, max_side_px=MAX_SIDE_PX, exact=False)
            yield from (self._cut(frame) for frame in decoded)
            return
        step_s, last = 1 / self.fps, None
        for frame in iter_frames(self.path, fps=self.fps, max_side_px=MAX_SIDE_PX, progress=on_decoded):
            if last is not None:
                yield from self._repeated(last, frame.timestamp_s, step_s)
            last = self._cut(frame)
            if frame.timestamp_s >= self.start_s:
                yield last
        if last is not None:
            yield from self._repeated(last, self.info.duration_s, step_s)

    def _repeated(self, frame: Frame, until_s: float, step_s: float) -> Iterator[Frame]:
        """Yield the repeats of a frame until the next one."""
        for number in range(1, round((until_s - frame.timestamp_s) / step_s)):
            time_s = frame.timestamp_s + number * step_s
            if time_s >= self.start_s:
                yield replace(frame, timestamp_s=time_s)

    def frames_at(self, times_s: Sequence[float]) -> Iterator[Frame]:
        """Yield the frame shown at each of the given times, ascending, cropped; its time is the given one."""
        if not times_s:
            return
        decoded = iter_frames(self.path, timestamps_s=times_s, max_side_px=MAX_SIDE_PX, exact=self.fps is not None)
        if self.fps is None:
            yield from (self._cut(frame) for frame in decoded)
            return
        shown = following = next(decoded, None)
        cut = None
        for time_s in times_s:
            while following is not None and (cut is None or following.timestamp_s <= time_s + _SAME_TIME_S):
                shown, following = following, next(decoded, None)
                cut = self._cut(shown)
            if cut is not None:
                yield replace(cut, timestamp_s=time_s)

    def _cut(self, frame: Frame) -> Frame:
        self.check_stop()
        box = self.crop_px
        image = np.ascontiguousarray(frame.image[box.slices])
        return Frame(index=frame.index, timestamp_s=frame.timestamp_s, image=image)


def plan_frames(path: str | os.PathLike[str], check_stop: CheckStop = _go_on) -> FramePlan:
    """Select the frames of a recording to process, and crop everything outside of the page.

    Args:
        path: Path of the video.
        check_stop: Function called for every decoded frame; it raises to stop reading.

    Raises:
        RecordingError: If it is not a video, is too small to show a page, or shows only an empty window.
    """
    try:
        info = probe(path)
        samples = sample_frames(
            path,
            n=_NUM_SAMPLES,
            max_side_px=MAX_SIDE_PX,
            exact=info.keyframe_gap_s < 5,
            progress=lambda done, of: check_stop(),
        ).images
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
    plan = FramePlan(
        path=Path(path),
        info=info,
        fps=fps,
        scale=width / info.width_px,
        crop_px=crop,
        warnings=(*info.warnings, *warnings),
        check_stop=check_stop,
    )
    return replace(plan, start_s=find_start(plan)) if fps is not None else plan


def find_start(plan: FramePlan) -> float:
    """Return the time when a page that appears in an empty window has loaded; 0 if the window is not empty at first.

    Raises:
        RecordingError: If the window stays empty.
    """
    last: Frame | None = None
    shown_s = changed_s = 0.0
    for frame in plan.frames():
        if last is None or not changed_s:
            if not is_empty(_without_padding(frame.image)):
                if last is None:
                    return 0.0
                shown_s = changed_s = frame.timestamp_s
        elif frame.timestamp_s - changed_s >= _LOADED_S or frame.timestamp_s - shown_s >= _MAX_LOADING_S:
            return changed_s
        elif frame.image is not last.image:
            changed = (np.abs(frame.image.astype(np.int16) - last.image) > _PAINTED_LEVELS).any(axis=2)
            if changed.mean() > _LOADS_SHARE:
                changed_s = frame.timestamp_s
        last = frame
    if not changed_s:
        raise RecordingError(
            f"{plan.path.name} shows an empty window from start to end: a screen recording of a page was expected"
        )
    return changed_s


def _without_padding(image: RgbImage) -> RgbImage:
    """Cut off the plain bar at the right or the bottom with which recorders fill a window of another shape."""
    is_bar = (np.abs(image.astype(np.int16) - image[-1, -1]) <= _PAINTED_LEVELS).all(axis=2)
    height, width = (len(lines) - int(np.argmin(lines[::-1])) for lines in (is_bar.all(axis=1), is_bar.all(axis=0)))
    least = _MIN_WINDOW * image.shape[0], _MIN_WINDOW * image.shape[1]
    return image[:height, :width] if height >= least[0] and width >= least[1] else image


def is_empty(image: RgbImage) -> bool:
    """Return whether an image (H, W, 3) is of one colour, except for a few pixels."""
    ground = np.median(image[::4, ::4].reshape(-1, 3), axis=0).astype(np.int16)
    return bool((np.abs(image.astype(np.int16) - ground) > _PAINTED_LEVELS).any(axis=2).mean() <= _MAX_EMPTY)


def _choose_fps(info: VideoInfo) -> tuple[float | None, tuple[str, ...]]:
    """Return a frame rate that bounds the number of frames and of decoded pixels."""
    usual = min(max(info.fps, _USUAL_FPS), MAX_FPS)
    fps = min(usual, max(MAX_FRAMES / max(info.duration_s, 1e-3), 0.01))
    pixels = info.num_frames * info.native_width_px * info.native_height_px
    if pixels > _MAX_DECODED_PIXELS or fps < _MIN_FPS:
        warning = (
            f"{info.duration_s:.0f} s of {info.native_width_px}x{info.native_height_px} px at {info.fps:.0f} fps are "
            f"too much to look at: only its {info.num_keyframes} keyframes are, {info.keyframe_gap_s:.1f} s apart. "
            "Cut the recording into pieces of a minute for every transition"
        )
        return None, (warning,)
    if fps < min(usual, info.fps) - 0.5:
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
