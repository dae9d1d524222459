"""Sample frames at given times, and arrange frames with their times on one image.

`frames` prepares a video as Kimi K2.5 takes it: two frames per second, in groups of four with the time of the first.

Source: Kimi K2.5 `preprocessor_config.json` (`media_proc_cfg`: sample_fps 2, temporal_merge_kernel_size 4,
in_patch_limit_each_frame 4096, patch_size 14, patch_limit_on_one_side 512, timestamp_mode hh:mm:ss.fff).
"""

import functools
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from visual_tools.errors import VideoError
from visual_tools.video.frames import FrameScaling, fit_side
from visual_tools.video.reader import count_image_bytes, decode_frames
from visual_tools.video.timeline import Timeline, read_timeline
from visual_tools.video.types import Frame, Frames, Progress, format_time

_PATCH_PX = 14
_MAX_SIDE_PX = 512 * _PATCH_PX


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FrameGroup:
    """Frames that the model processes as one.

    Attributes:
        timestamp: Time of the first frame, HH:MM:SS.mmm.
        timestamp_s: The same time in seconds: its index divided by the frame rate.
        indices: Numbers of the frames in the video.
        images: Images, (H, W, 3) uint8 RGB, all of one size.
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
    """Yield the frames of a video, sampled, grouped, timestamped and scaled as in the model's training.

    Args:
        path: Video file.
        fps: Frames per second; limited to the video's own rate.
        group_size: Frames per group; the last group may have fewer.
        max_patches: Maximum number of 14 px patches per image; larger images are downscaled.
        progress: Called with the number of frames read so far and in total.

    Returns:
        The groups one by one, as they are decoded.

    Raises:
        VideoError: If the file cannot be read.

    Example:
        >>> for group in frames("talk.mp4"): print(group.timestamp, len(group.images))
    """
    if not fps > 0 or group_size < 1 or max_patches < 1:
        raise VideoError(f"fps {fps:g}, group_size {group_size}, max_patches {max_patches}: all must be above 0")
    timeline = read_timeline(path)
    indices = find_indices(len(timeline.pts), timeline.fps, fps)
    fit = FrameScaling(find_size=functools.partial(find_size, max_patches=max_patches), is_bicubic=True)
    return _group(_repeat(path, timeline, indices, fit), timeline.fps, group_size, len(indices), progress)


def find_indices(num_frames: int, video_fps: float, fps: float = 2.0) -> list[int]:
    """Return the indices of the sampled frames: evenly from the first to the last, as many as `fps` gives.

    Args:
        num_frames: Frames of the video.
        video_fps: Average frame rate of the video.
        fps: Requested frames per second.
    """
    count = max(round(num_frames * min(fps, video_fps) / video_fps), 1)
    indices: list[int] = np.linspace(0, num_frames - 1, count).round().astype(int).tolist()
    return indices


def find_size(width_px: int, height_px: int, max_patches: int = 4096) -> tuple[int, int]:
    """Return the size of an image with at most about `max_patches` patches of 14 px; never larger than the original."""
    patches = max(1, width_px // _PATCH_PX) * max(1, height_px // _PATCH_PX)
    scale = min(1.0, math.sqrt(max_patches / patches), _MAX_SIDE_PX / width_px, _MAX_SIDE_PX / height_px)
    return max(1, int(width_px * scale)), max(1, int(height_px * scale))


def make_timestamp(time_s: float) -> str:
    """Format a time as HH:MM:SS.mmm: milliseconds truncated in floating point, hours restart at 0 after a day."""
    seconds = int(time_s)
    return f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{int(time_s % 1 * 1000):03}"


def _repeat(
    path: str | os.PathLike[str], timeline: Timeline, indices: list[int], fit: FrameScaling
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yield an image for every index; a damaged frame is replaced by the one before."""
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


_MAX_BYTES = 4 << 30
"""Maximum size of all images in memory."""
_MAX_TIMES = 10_000_000  # bounds the memory of a list of times


class ReadOptions(TypedDict, total=False):
    """Options for reading frames; all are optional.

    Attributes:
        max_side_px: Longest side of each image; larger ones are downscaled during conversion.
        exact: False to use the nearest keyframe instead of the frame shown at a time: much faster, off by seconds.
        progress: Called with the number of frames read so far and in total.
        threads: Decoder threads, for callers that read several files at the same time; None for all processors.
    """

    max_side_px: int | None
    exact: bool
    progress: Progress | None
    threads: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """Requested frames: their positions in the timeline, in the requested order."""

    file: Path
    timeline: Timeline
    positions: NDArray[np.int64]
    warnings: tuple[str, ...]
    options: ReadOptions


def sample_frames(
    path: str | os.PathLike[str],
    *,
    n: int | None = None,
    fps: float | None = None,
    timestamps_s: Sequence[float] | None = None,
    start_s: float = 0.0,
    end_s: float | None = None,
    **options: Unpack[ReadOptions],
) -> Frames:
    """Sample frames of a video: `n` evenly spaced, `fps` per second, or the frames shown at given times.

    Every frame is exact: the one shown at that time (within half a millisecond). By default, 16 frames are sampled.

    Args:
        path: Video file.
        n: Number of frames, evenly from `start_s` to `end_s`, both included. Fewer if the video has fewer.
        fps: Frames per second. A frame is never returned twice.
        timestamps_s: Times in seconds from the first frame, in any order; one frame each.
        start_s: Start of the sampling by `n` or `fps`.
        end_s: End of the sampling; None for the last frame.
        options: `max_side_px`, `exact`, `progress`, `threads`: see `ReadOptions`.

    Returns:
        The frames in the requested order, and deviations from the request. All of them are in memory; `iter_frames`
        returns them one by one.

    Raises:
        VideoError: If the file cannot be read, a time is outside the video, or the images would not fit in memory.

    Example:
        >>> frames = sample_frames("talk.mp4", n=8, max_side_px=640)
        >>> sample_frames("talk.mp4", timestamps_s=[12.5, 61]).images
    """
    request = _find_request(path, (n, fps, timestamps_s), (start_s, end_s), options)
    _check_size(request)
    images = list(_read(request))
    shown_pts = np.array([pts for pts, _ in images], np.int64)
    asked_pts = request.timeline.pts[request.positions]
    chosen = np.searchsorted(shown_pts, asked_pts, side="right") - 1
    if options.get("exact", True):
        warnings = request.warnings + _damage_warnings(shown_pts, asked_pts, chosen)
    else:
        warnings = request.warnings
    frames = tuple(images[position][1] for position in chosen.tolist() if position >= 0)
    if not frames:
        raise VideoError(f"none of the frames asked for can be decoded: {request.file} is damaged")
    return Frames(path=request.file, frames=frames, warnings=warnings)


def iter_frames(
    path: str | os.PathLike[str],
    *,
    n: int | None = None,
    fps: float | None = None,
    timestamps_s: Sequence[float] | None = None,
    start_s: float = 0.0,
    end_s: float | None = None,
    **options: Unpack[ReadOptions],
) -> Iterator[Frame]:
    """Yield the frames of `sample_frames` one by one, in order of time, without duplicates, with low memory use.

    Args and Raises: as `sample_frames`.

    Example:
        >>> for frame in iter_frames("talk.mp4", fps=1): ...
    """
    request = _find_request(path, (n, fps, timestamps_s), (start_s, end_s), options)
    return (frame for _, frame in _read(request))


def keyframes(
    path: str | os.PathLike[str],
    *,
    max_side_px: int | None = 448,
    max_frames: int = 256,
    progress: Progress | None = None,
) -> Frames:
    """Return the keyframes of a video: the fastest overview of a long one.

    Args:
        path: Video file.
        max_side_px: Longest side of each image; None keeps the size of the video.
        max_frames: Maximum number of keyframes; if there are more, evenly spaced ones are returned.
        progress: Called with the number of frames read so far and in total.

    Raises:
        VideoError: If the file cannot be read.
    """
    timeline = read_timeline(path)
    positions = np.searchsorted(timeline.pts, timeline.key_pts)
    warnings = timeline.warnings
    if len(positions) > max_frames:
        warnings += (f"{max_frames} of {len(positions)} keyframes, spread evenly",)
        positions = positions[np.linspace(0, len(positions) - 1, max_frames).round().astype(np.int64)]
    options = ReadOptions(max_side_px=max_side_px, progress=progress)
    request = _Request(file=Path(path), timeline=timeline, positions=positions, warnings=warnings, options=options)
    _check_size(request)
    return Frames(path=request.file, frames=tuple(frame for _, frame in _read(request)), warnings=warnings)


def _read(request: _Request) -> Iterator[tuple[int, Frame]]:
    """Yield the frames with their presentation times, without duplicates, in order."""
    timeline = request.timeline
    wanted_pts = timeline.pts[np.unique(request.positions)].tolist()
    progress = request.options.get("progress")
    fit, threads = fit_side(request.options.get("max_side_px")), request.options.get("threads")
    decoded = decode_frames(request.file, timeline, wanted_pts, fit, threads=threads)
    for done, frame in enumerate(decoded, 1):
        index = int(np.searchsorted(timeline.pts, frame.pts, side="right")) - 1
        timestamp_s = float((frame.pts - int(timeline.pts[0])) * timeline.time_base)
        yield frame.pts, Frame(index=index, timestamp_s=timestamp_s, image=frame.image)
        if progress is not None:
            progress(done, len(wanted_pts))


def _find_request(
    path: str | os.PathLike[str],
    choice: tuple[int | None, float | None, Sequence[float] | None],
    span_s: tuple[float, float | None],
    options: ReadOptions,
) -> _Request:
    n, fps, timestamps_s = choice
    if sum(value is not None for value in choice) > 1:
        raise VideoError("n, fps and timestamps_s exclude each other: give one of them")
    _check_options(options)
    timeline = read_timeline(path)
    if timestamps_s is not None:
        positions = timeline.find_frames(_check_times(timeline, timestamps_s))
        warnings = timeline.warnings
    else:
        start_s, end_s = _check_span(timeline, *span_s)
        times_s = _spread(16 if n is None else n, start_s, end_s) if fps is None else _tick(fps, start_s, end_s)
        positions = np.unique(timeline.find_frames(times_s))
        few = n is not None and len(positions) < n
        warnings = timeline.warnings + ((f"there are only {len(positions)} frames, {n} were asked for",) if few else ())
    if not options.get("exact", True):
        positions = _move_to_keyframes(timeline, positions, is_unique=timestamps_s is None)
    return _Request(file=Path(path), timeline=timeline, positions=positions, warnings=warnings, options=options)


def _check_options(options: ReadOptions) -> None:
    unknown = sorted(set(options) - set(ReadOptions.__annotations__))
    if unknown:
        raise VideoError(f"no such option: {', '.join(unknown)}; there are: {', '.join(ReadOptions.__annotations__)}")
    max_side_px = options.get("max_side_px")
    if max_side_px is not None and max_side_px < 1:
        raise VideoError(f"max_side_px is {max_side_px}, and at least 1 was expected")


def _check_times(timeline: Timeline, timestamps_s: Sequence[float]) -> NDArray[np.float64]:
    times_s = np.asarray(timestamps_s, np.float64).reshape(-1)
    if times_s.size == 0:
        raise VideoError("timestamps_s is empty: give at least one time in seconds")
    outside = times_s[~((times_s >= 0) & (times_s <= timeline.duration_s + 0.5 / timeline.fps))]
    if outside.size:
        raise VideoError(
            f"{outside[0]:g} s lies outside of the video, which runs from 0 to {timeline.duration_s:.3f} s"
        )
    return times_s


def _check_span(timeline: Timeline, start_s: float, end_s: float | None) -> tuple[float, float]:
    last_s = float(timeline.times_s[-1])
    if not 0 <= start_s < timeline.duration_s:
        raise VideoError(f"start_s is {start_s:g}, and the video runs from 0 to {timeline.duration_s:.3f} s")
    if end_s is not None and not end_s >= start_s:
        raise VideoError(f"end_s is {end_s:g}, which is before start_s, {start_s:g}")
    return start_s, max(last_s if end_s is None else min(end_s, last_s), start_s)


def _spread(n: int, start_s: float, end_s: float) -> NDArray[np.float64]:
    if not 1 <= n <= _MAX_TIMES:
        raise VideoError(f"n is {n}, and 1 to {_MAX_TIMES} frames were expected")
    return np.linspace(start_s, end_s, n)


def _tick(fps: float, start_s: float, end_s: float) -> NDArray[np.float64]:
    if not 0 < fps * max(end_s - start_s, 1) < _MAX_TIMES:
        raise VideoError(
            f"fps is {fps:g}: a number of frames per second above 0 was expected, {_MAX_TIMES} frames in all at most"
        )
    return start_s + np.arange(int((end_s - start_s) * fps + 1e-6) + 1) / fps


def _move_to_keyframes(timeline: Timeline, positions: NDArray[np.int64], *, is_unique: bool) -> NDArray[np.int64]:
    """Return the nearest keyframe of each frame."""
    keys = np.searchsorted(timeline.pts, timeline.key_pts)
    after = np.clip(np.searchsorted(keys, positions), 0, len(keys) - 1)
    before = np.maximum(after - 1, 0)
    nearest = np.where(positions - keys[before] <= keys[after] - positions, keys[before], keys[after])
    nearest = np.where(positions >= keys[after], keys[after], nearest)
    return np.unique(nearest) if is_unique else nearest


def _check_size(request: _Request) -> None:
    count = len(np.unique(request.positions))
    size_bytes = count * count_image_bytes(request.file, request.timeline, fit_side(request.options.get("max_side_px")))
    if size_bytes > _MAX_BYTES:
        raise VideoError(
            f"{count} images need {size_bytes / 1e9:.1f} GB of memory, and {_MAX_BYTES / 1e9:.1f} GB is the limit: "
            "take fewer, give max_side_px, or go through iter_frames one by one"
        )


def _damage_warnings(
    shown_pts: NDArray[np.int64], asked_pts: NDArray[np.int64], chosen: NDArray[np.int64]
) -> tuple[str, ...]:
    missing = int((chosen < 0).sum())
    other = int((shown_pts[chosen[chosen >= 0]] != asked_pts[chosen >= 0]).sum()) if len(shown_pts) else 0
    warnings = []
    if missing:
        warnings.append(f"{missing} of {len(asked_pts)} frames cannot be decoded and are left out")
    if other:
        warnings.append(f"{other} of {len(asked_pts)} frames cannot be decoded: an earlier frame is used instead")
    return tuple(warnings)


_GAP_PX = 4
_BACKGROUND = (32, 32, 32)
_MAX_PIXELS = 100_000_000  # bounds the memory of a contact sheet


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactSheet:
    """Frames arranged in rows, in order of time.

    Attributes:
        image: The image, (H, W, 3) uint8 RGB.
        timestamps_s: Time of each frame, in seconds from the first of the video.
        indices: Numbers of the frames in the video.
        columns: Frames per row.
        rows: Number of rows.
        warnings: Deviations from the request, and unusual properties of the file.
    """

    image: NDArray[np.uint8] = field(repr=False)
    timestamps_s: tuple[float, ...]
    indices: tuple[int, ...]
    columns: int
    rows: int
    warnings: tuple[str, ...] = ()


def contact_sheet(
    video: str | os.PathLike[str] | Frames | Sequence[Frame],
    *,
    n: int | None = None,
    columns: int | None = None,
    rows: int | None = None,
    tile_px: int = 320,
    start_s: float = 0.0,
    end_s: float | None = None,
) -> ContactSheet:
    """Arrange evenly spaced or given frames of a video on one image, each labelled with its time.

    Args:
        video: A file, or frames from `sample_frames` or `keyframes`.
        n: Number of frames of a file; by default `columns` times `rows` if both are given, else 16.
        columns: Frames per row; by default as close to a square as possible.
        rows: Number of rows, if `columns` or `n` is not given.
        tile_px: Longest side of each frame on the sheet.
        start_s: Start of the sampled part of a file.
        end_s: End of the sampled part; None for the last frame.

    Raises:
        VideoError: If the file cannot be read, there is nothing to show, or the sheet would be too large.

    Example:
        >>> sheet = contact_sheet("talk.mp4", columns=4, rows=3)
        >>> middles_s = [scene.middle_s for scene in scenes("talk.mp4")]
        >>> one_a_scene = contact_sheet(sample_frames("talk.mp4", timestamps_s=middles_s))
    """
    if any(value is not None and value < 1 for value in (n, columns, rows)) or not 16 <= tile_px <= 4096:
        raise VideoError(f"n {n}, columns {columns}, rows {rows} must be 1 or more, tile_px {tile_px} from 16 to 4096")
    warnings: tuple[str, ...] = ()
    if isinstance(video, str | os.PathLike):
        count = n or (columns * rows if columns and rows else 16)
        sampled = sample_frames(video, n=count, start_s=start_s, end_s=end_s, max_side_px=tile_px)
        shown, warnings = list(sampled), sampled.warnings
    else:
        shown = list(video)
    if not shown:
        raise VideoError("there is no frame to put on the sheet")
    columns = columns or (math.ceil(len(shown) / rows) if rows else _find_columns(shown))
    return ContactSheet(
        image=_lay_out([_make_tile(frame, tile_px) for frame in shown], columns),
        timestamps_s=tuple(frame.timestamp_s for frame in shown),
        indices=tuple(frame.index for frame in shown),
        columns=columns,
        rows=math.ceil(len(shown) / columns),
        warnings=warnings,
    )


def _find_columns(frames: Sequence[Frame]) -> int:
    """Return the number of columns that makes the sheet about as wide as high, or wider."""
    height_px, width_px = frames[0].image.shape[:2]
    return min(max(math.ceil(math.sqrt(len(frames) * height_px / width_px) - 1e-9), 1), len(frames))


def _make_tile(frame: Frame, tile_px: int) -> Image.Image:
    tile = Image.fromarray(frame.image)
    tile.thumbnail((tile_px, tile_px), Image.Resampling.BICUBIC, reducing_gap=3)
    text = format_time(frame.timestamp_s)
    size_px = max(round(tile.height * 0.09), 11)
    font = ImageFont.load_default(size_px)
    draw = ImageDraw.Draw(tile)
    while size_px > 7 and draw.textlength(text, font) > tile.width - 6:
        size_px -= 1
        font = ImageFont.load_default(size_px)
    left, top, right, bottom = draw.textbbox((0, 0), text, font)
    draw.rectangle((0, tile.height - (bottom - top) - 7, right - left + 7, tile.height), fill=(0, 0, 0))
    draw.text((3 - left, tile.height - bottom - 4), text, fill=(255, 255, 255), font=font)
    return tile


def _lay_out(tiles: Sequence[Image.Image], columns: int) -> NDArray[np.uint8]:
    width_px, height_px = max(tile.width for tile in tiles), max(tile.height for tile in tiles)
    rows, columns_used = math.ceil(len(tiles) / columns), min(columns, len(tiles))
    size = (columns_used * (width_px + _GAP_PX) + _GAP_PX, rows * (height_px + _GAP_PX) + _GAP_PX)
    if size[0] * size[1] > _MAX_PIXELS:
        raise VideoError(f"the sheet would be {size[0]}x{size[1]} px: take fewer frames or a smaller tile_px")
    sheet = Image.new("RGB", size, _BACKGROUND)
    for position, tile in enumerate(tiles):
        row, column = divmod(position, columns)
        sheet.paste(tile, (_GAP_PX + column * (width_px + _GAP_PX), _GAP_PX + row * (height_px + _GAP_PX)))
    return np.array(sheet)
