"""Result types of the video functions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visual_tools.results import ResultSequence

Progress = Callable[[int, int], None]


def format_time(time_s: float) -> str:
    """Format a time as HH:MM:SS.mmm, rounded such that it selects the same frame when parsed."""
    seconds, milliseconds = divmod(round(time_s * 1000), 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{milliseconds:03}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Frame:
    """One frame of a video.

    Attributes:
        index: Number of the frame, 0 is the first frame shown.
        timestamp_s: Time in seconds from the first frame.
        image: Image as displayed, (H, W, 3) uint8 RGB.
    """

    index: int
    timestamp_s: float
    image: NDArray[np.uint8]

    def __repr__(self) -> str:
        height_px, width_px = self.image.shape[:2]
        return f"Frame(index={self.index}, timestamp_s={self.timestamp_s:.3f}, image={width_px}x{height_px} px)"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Frames(ResultSequence[Frame]):
    """Frames of a video, in the requested order. Indexing and iterating give each `Frame`.

    Attributes:
        path: Video file.
        frames: The frames.
        warnings: Deviations from the request, and unusual properties of the file.
    """

    _items = "frames"
    path: Path
    frames: tuple[Frame, ...]
    warnings: tuple[str, ...] = ()

    @property
    def images(self) -> list[NDArray[np.uint8]]:
        """Images of the frames."""
        return [frame.image for frame in self.frames]

    @property
    def timestamps_s(self) -> list[float]:
        """Time of each frame, in seconds from the first frame of the video."""
        return [frame.timestamp_s for frame in self.frames]

    def __repr__(self) -> str:
        if not self.frames:
            return f"Frames({self.path.name}: none{_tell(self.warnings)})"
        height_px, width_px = self.frames[0].image.shape[:2]
        first, last = self.frames[0], self.frames[-1]
        span = f"{format_time(first.timestamp_s)} to {format_time(last.timestamp_s)}"
        return f"Frames({self.path.name}: {len(self)} of {width_px}x{height_px} px, {span}{_tell(self.warnings)})"


def _tell(warnings: tuple[str, ...]) -> str:
    return f"; {'; '.join(warnings)}" if warnings else ""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VideoInfo:
    """Information about a video file.

    Attributes:
        path: Video file.
        container: Name of the file format.
        codec: Name of the video codec.
        width_px: Columns as displayed (pixels made square, turned upright).
        height_px: Rows as displayed.
        native_width_px: Columns as stored.
        native_height_px: Rows as stored.
        rotation_deg: Clockwise rotation from the stored image to the displayed one: 0, 90, 180 or 270.
        fps: Average frame rate.
        is_variable_rate: True if frame intervals vary.
        duration_s: Seconds from the first frame to the end of the last.
        num_frames: Number of frames shown.
        is_num_frames_exact: True if they were counted or are in the file's index; otherwise it is an estimate.
        num_keyframes: Number of frames where decoding can start.
        keyframe_gap_s: Median distance of keyframes; the whole duration if there is only one.
        max_keyframe_gap_s: Largest distance from a keyframe to the next, or to the end.
        has_audio: True if there is sound.
        is_truncated: True if the file ends before its header says.
        warnings: Unusual properties of the file.
    """

    path: Path
    container: str
    codec: str
    width_px: int
    height_px: int
    native_width_px: int
    native_height_px: int
    rotation_deg: int
    fps: float
    is_variable_rate: bool
    duration_s: float
    num_frames: int
    is_num_frames_exact: bool
    num_keyframes: int
    keyframe_gap_s: float
    max_keyframe_gap_s: float
    has_audio: bool
    is_truncated: bool
    warnings: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        shape = f"{self.width_px}x{self.height_px} px"
        if (self.width_px, self.height_px) != (self.native_width_px, self.native_height_px):
            shape += f" (stored {self.native_width_px}x{self.native_height_px}, turned {self.rotation_deg} deg)"
        rate = f"{self.fps:.4g} fps{' on average' if self.is_variable_rate else ''}"
        frames = f"{'' if self.is_num_frames_exact else 'about '}{self.num_frames} frames"
        sound = "with sound" if self.has_audio else "no sound"
        return (
            f"VideoInfo({self.path.name}: {self.codec}, {shape}, {rate}, {self.duration_s:.3f} s, {frames}, {sound}, "
            f"{self.num_keyframes} keyframes, {self.keyframe_gap_s:.3g} s apart, at most "
            f"{self.max_keyframe_gap_s:.3g} s"
            f"{_tell(self.warnings)})"
        )
