"""A video as Kimi K2.5 takes it: two frames a second, in groups of four that carry the time of their first.

Source: Kimi K2.5 `preprocessor_config.json` (`media_proc_cfg`: sample_fps 2, temporal_merge_kernel_size 4,
in_patch_limit_each_frame 4096, patch_size 14, patch_limit_on_one_side 512, timestamp_mode hh:mm:ss.fff).
"""

import functools
import itertools
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visual_tools.errors import VideoError
from visual_tools.video.frames import Fit
from visual_tools.video.reader import decode_frames
from visual_tools.video.timeline import Timeline, read_timeline
from visual_tools.video.types import Progress

_PATCH_PX = 14
_MAX_SIDE_PX = 512 * _PATCH_PX


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FrameGroup:
    """Frames that the model sees as one.

    Attributes:
        timestamp: The time of the first, HH:MM:SS.mmm.
        timestamp_s: The same in seconds: its index over the frame rate.
        indices: The frames' numbers in the video.
        images: The images, (H, W, 3) uint8 RGB, all of one size.
    """

    timestamp: str
    timestamp_s: float
    indices: tuple[int, ...]
    images: tuple[NDArray[np.uint8], ...]

    def __repr__(self) -> str:
        height_px, width_px = self.images[0].shape[:2]
        return f"FrameGroup({self.timestamp}: frames {list(self.indices)}, {width_px}x{height_px} px)"


def frames(
    path: str | os.PathLike[str],
    *,
    fps: float = 2.0,
    group_size: int = 4,
    max_patches: int = 4096,
    progress: Progress | None = None,
) -> Iterator[FrameGroup]:
    """The frames of a video, sampled, grouped, timed and sized as the model was taught to see them.

    Args:
        path: The file.
        fps: Frames a second; the video's own rate where that is lower.
        group_size: Frames of a group; the last group may have fewer.
        max_patches: Patches of 14 px that an image may have; larger ones are made smaller.
        progress: Called with the frames read so far and the frames in all.

    Returns:
        The groups one by one, as they are decoded.

    Raises:
        VideoError: The file cannot be read.

    Example:
        >>> for group in frames("talk.mp4"): print(group.timestamp, len(group.images))
    """
    if not fps > 0 or group_size < 1 or max_patches < 1:
        raise VideoError(f"fps {fps:g}, group_size {group_size}, max_patches {max_patches}: all must be above 0")
    timeline = read_timeline(path)
    indices = find_indices(len(timeline.pts), timeline.fps, fps)
    fit = Fit(find_size=functools.partial(find_size, max_patches=max_patches), is_bicubic=True)
    return _group(_repeat(path, timeline, indices, fit), timeline.fps, group_size, len(indices), progress)


def find_indices(num_frames: int, video_fps: float, fps: float = 2.0) -> list[int]:
    """The frames that are sampled: evenly from the first to the last, as many as `fps` gives.

    Args:
        num_frames: Frames of the video.
        video_fps: Its average frame rate.
        fps: Frames a second that are wanted.
    """
    count = max(round(num_frames * min(fps, video_fps) / video_fps), 1)
    indices: list[int] = np.linspace(0, num_frames - 1, count).round().astype(int).tolist()
    return indices


def find_size(width_px: int, height_px: int, max_patches: int = 4096) -> tuple[int, int]:
    """The size of an image that has about `max_patches` patches of 14 px at most; never larger than it was."""
    patches = max(1, width_px // _PATCH_PX) * max(1, height_px // _PATCH_PX)
    scale = min(1.0, math.sqrt(max_patches / patches), _MAX_SIDE_PX / width_px, _MAX_SIDE_PX / height_px)
    return max(1, int(width_px * scale)), max(1, int(height_px * scale))


def make_timestamp(time_s: float) -> str:
    """A time as HH:MM:SS.mmm: milliseconds cut off, as floating point has them, hours from 0 again after a day."""
    seconds = int(time_s)
    return f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{int(time_s % 1 * 1000):03}"


def _repeat(
    path: str | os.PathLike[str], timeline: Timeline, indices: list[int], fit: Fit
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """An image for every index; where a frame is damaged, the one before it again."""
    wanted_pts = timeline.pts[indices].tolist()
    decoded = decode_frames(path, timeline, wanted_pts, fit)
    shown = next(decoded, None)
    if shown is None:
        raise VideoError(f"{path}: none of the frames can be decoded, the file is damaged")
    following = next(decoded, None)
    for index, pts in zip(indices, wanted_pts, strict=True):
        while following is not None and following.pts <= pts:
            shown, following = following, next(decoded, None)
        yield index, shown.image


def _group(
    images: Iterator[tuple[int, NDArray[np.uint8]]],
    fps: float,
    group_size: int,
    total: int,
    progress: Progress | None,
) -> Iterator[FrameGroup]:
    done = 0
    while pairs := list(itertools.islice(images, group_size)):
        size = pairs[0][1].shape[1::-1]
        yield FrameGroup(
            timestamp=make_timestamp(pairs[0][0] / fps),
            timestamp_s=pairs[0][0] / fps,
            indices=tuple(index for index, _ in pairs),
            images=tuple(_resize(image, size) for _, image in pairs),
        )
        done += len(pairs)
        if progress is not None:
            progress(done, total)


def _resize(image: NDArray[np.uint8], size: tuple[int, ...]) -> NDArray[np.uint8]:
    if image.shape[1::-1] == size:
        return image
    return np.array(Image.fromarray(image).resize((size[0], size[1]), Image.Resampling.BICUBIC))
