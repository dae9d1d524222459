"""Conversion of image and video files to items for the vision tower; videos are decoded with PyAV (FFmpeg).

A video file is scanned once without decoding, which gives each frame's time and the key frames, regardless of its
header. Then sampled frames are decoded in order, from the nearest key frame if that skips frames.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL import __version__ as PILLOW_VERSION

from model_runtime.cancellation import check_cancelled
from model_runtime.errors import MediaError, require
from model_runtime.media import MediaItem
from model_runtime.processor.decode import check_bytes, check_pixels, decode_image
from model_runtime.processor.media_rules import (
    CHUNK_FRAMES,
    MediaLimits,
    MediaOptions,
    ResizedShape,
    fit_size,
    format_timestamp,
    load_media_options,
    make_item,
    sample_indices,
)

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

CONTAINERS = ("mov", "mp4", "matroska", "webm", "avi", "mpegts", "gif")
OPEN_OPTIONS = {"format_whitelist": ",".join(CONTAINERS), "protocol_whitelist": "file"}
"""Options for opening a file. A playlist may refer to other files and URLs of the server: such containers are not
opened.
"""
PROCESSOR_VERSION = 1
"""Version of the rules in this package; raised with each change of the pixels that they give."""
SEEK_FRAMES = 8
"""Minimum number of frames to skip for which seeking is cheaper than decoding: a seek flushes the decoder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoIndex:
    """Result of scanning a file.

    Attributes:
        fps: Average frames per second.
        times: Time of each frame in display order, in the stream's unit; empty if the file has no times.
        key_times: Times of key frames, ascending.
        num_frames: Number of frames.
    """

    fps: float
    times: tuple[int, ...] = field(repr=False)
    key_times: tuple[int, ...] = field(repr=False)
    num_frames: int

    def num_frames_between(self, start: int, end: int) -> int:
        """Return the number of frames shown after the one at `start` and before the one at `end`."""
        return bisect_left(self.times, end) - bisect_right(self.times, start)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledFrame:
    """One sampled frame: its index in the video and 8-bit RGB pixels."""

    index: int
    image: Image.Image


def sample_video(source: bytes | Path, sample_fps: float, limits: MediaLimits) -> tuple[float, Iterator[SampledFrame]]:
    """Sample frames evenly over a video.

    Args:
        source: Bytes or path of the file.
        sample_fps: Frames per second to sample.
        limits: Limits of the video.

    Returns:
        The video's own frame rate, and the sampled frames, decoded lazily. Frames at a damaged end are left out.

    Raises:
        MediaError: If it is not a video, has no image in it, or exceeds a limit.
    """
    size_bytes = len(source) if isinstance(source, bytes) else source.stat().st_size
    check_bytes(size_bytes, limits.max_video_bytes, "video")
    index = read_index(source, limits)
    wanted = sample_indices(index.num_frames, index.fps, sample_fps)
    if len(wanted) > limits.max_sampled_frames:
        text = f"the video gives {len(wanted)} frames at {sample_fps:g} a second, at most {limits.max_sampled_frames}"
        raise MediaError(f"{text} are taken: send a shorter one", code="media_too_large")
    return index.fps, decode_frames(source, index, wanted, limits.max_pixels)


def read_index(source: bytes | Path, limits: MediaLimits) -> VideoIndex:
    """Scan a file without decoding.

    Raises:
        MediaError: If it is not a video, has no frames, or exceeds a limit.
    """
    with _open(source) as container:
        stream = _video_stream(container)
        check_pixels(stream.codec_context.width, stream.codec_context.height, limits)
        packets = list(_walk(container, stream, limits.max_source_frames))
        _check_work(stream.codec_context.width, stream.codec_context.height, len(packets), limits)
        fps = float(stream.average_rate or stream.guessed_rate or 0)
        keeps_times = container.format.name != "avi"  # AVI stores only the decoding order
    if not packets:
        raise MediaError("the video has no frames", code="invalid_media")
    if fps <= 0:
        raise MediaError("the video has no frame rate", code="invalid_media")
    times = sorted(time for time, _ in packets if time is not None)
    if not keeps_times or len(set(times)) != len(packets):  # no times, or duplicates: frames are found by counting
        return VideoIndex(fps=fps, times=(), key_times=(), num_frames=len(packets))
    key_times = sorted(time for time, is_key in packets if is_key and time is not None)
    return VideoIndex(fps=fps, times=tuple(times), key_times=tuple(key_times), num_frames=len(packets))


def _check_work(width: int, height: int, num_frames: int, limits: MediaLimits) -> None:
    """Check that a video does not take too long to decode.

    Raises:
        MediaError: If all frames together have too many pixels.
    """
    if width * height * num_frames > limits.max_video_pixels:
        text = (
            f"the video has {num_frames} frames of {width} x {height} pixels, at most {limits.max_video_pixels} pixels"
        )
        raise MediaError(f"{text} are decoded: send a shorter or a smaller one", code="media_too_large")


def _walk(container: "InputContainer", stream: "VideoStream", limit: int) -> Iterator[tuple[int | None, bool]]:
    """Yield (time, True for a key frame) of each frame, in stored order."""
    count = 0
    for packet in _packets(container, stream):
        if not packet.size or packet.is_discard:
            continue
        count += 1
        if count > limit:
            text = f"the video has more than the {limit} frames that are accepted"
            raise MediaError(f"{text}: send a shorter one", code="media_too_large")
        yield packet.pts, packet.is_keyframe


def decode_frames(
    source: bytes | Path, index: VideoIndex, wanted: tuple[int, ...], max_pixels: int
) -> Iterator[SampledFrame]:
    """Decode the wanted frames, one at a time.

    Raises:
        MediaError: If none of them can be decoded.
    """
    count = 0
    with _open(source) as container:
        stream = _video_stream(container)
        stream.thread_type = "AUTO"
        # a header may understate the size of frames; twice, since decoders round sizes up
        stream.codec_context.options = {"max_pixels": str(2 * max_pixels)}
        reader = _by_time(container, stream, index, wanted) if index.times else _by_count(container, stream, wanted)
        for number, frame in reader:
            count += 1
            yield SampledFrame(index=number, image=frame.to_image())
    if not count:
        raise MediaError("no frame of the video can be decoded", code="invalid_media")


def _by_count(
    container: "InputContainer", stream: "VideoStream", wanted: tuple[int, ...]
) -> "Iterator[tuple[int, VideoFrame]]":
    """Yield wanted frames of a file without times: decode all, and count."""
    left = list(reversed(wanted))
    for number, frame in enumerate(_decode(container, stream)):
        while left and left[-1] <= number:
            yield left.pop(), frame
        if not left:
            return


def _by_time(
    container: "InputContainer", stream: "VideoStream", index: VideoIndex, wanted: tuple[int, ...]
) -> Iterator[tuple[int, Any]]:
    """Yield wanted frames by their times. One that cannot be decoded is replaced by the next one that can."""
    frames, frame = _timed(container, stream), None
    for number in wanted:
        time = index.times[number]
        key_time = index.key_times[bisect_right(index.key_times, time) - 1] if index.key_times else time
        if index.num_frames_between(frame.pts if frame else index.times[0], key_time) >= SEEK_FRAMES:
            frames, frame = _seek(container, stream, key_time)
            if frame is None or frame.pts > time:  # the file cannot be decoded from there
                frames, frame = _seek(container, stream, index.times[0])
        while frame is None or frame.pts < time:
            frame = next(frames, None)
            if frame is None:
                return
        yield number, frame


def _seek(container: "InputContainer", stream: "VideoStream", time: int) -> tuple[Iterator[Any], Any]:
    """Seek to the key frame at or before a time; return the frames from there on, and the first of them."""
    container.seek(time, stream=stream, backward=True)
    frames = _timed(container, stream)
    return frames, next(frames, None)


def _timed(container: "InputContainer", stream: "VideoStream") -> Iterator[Any]:
    """Yield frames with a time."""
    return (frame for frame in _decode(container, stream) if frame.pts is not None)


def _decode(container: "InputContainer", stream: "VideoStream") -> "Iterator[VideoFrame]":
    """Yield frames in display order, except undecodable ones."""
    av = require("av")
    for packet in _packets(container, stream):
        try:
            yield from packet.decode()
        except av.FFmpegError:
            continue


def _packets(container: "InputContainer", stream: "VideoStream") -> "Iterator[Packet[VideoStream]]":
    """Yield packets up to the end of the file or the first damaged one; stops if the work is cancelled."""
    av = require("av")
    try:
        for packet in container.demux(stream):
            check_cancelled()
            yield packet
    except av.FFmpegError:
        return


def _open(source: bytes | Path) -> "InputContainer":
    """Open a container, a context manager."""
    av = require("av")
    try:
        file = BytesIO(source) if isinstance(source, bytes) else str(source)
        container: InputContainer = av.open(file, options=dict(OPEN_OPTIONS))
        return container
    except (av.FFmpegError, ValueError) as error:
        expected = ", ".join(CONTAINERS)
        text = f"the video cannot be opened, it is cut off, damaged or none of {expected}"
        raise MediaError(text, code="invalid_media") from error


def _video_stream(container: "InputContainer") -> "VideoStream":
    """Return the first video stream."""
    if not container.streams.video:
        raise MediaError("the file has no video stream", code="invalid_media")
    stream = container.streams.video[0]
    if stream.codec_context is None:
        raise MediaError("the video has an unsupported codec", code="invalid_media")
    return stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """Processor that decodes, resizes and pads. It is stateless and thread-safe."""

    options: MediaOptions = field(default_factory=MediaOptions)
    limits: MediaLimits = field(default_factory=MediaLimits)

    @property
    def processor_id(self) -> str:
        """Name of the conversion: equal ids convert equal images to equal pixels."""
        options = self.options
        limits = (options.in_patch_limit, options.in_patch_limit_each_frame, options.patch_limit_on_one_side)
        sizes = "-".join(map(str, limits))
        return f"moonvit-{PROCESSOR_VERSION}/{sizes}-{options.sample_fps:g}/pillow-{PILLOW_VERSION}"

    @classmethod
    def load(cls, model_dir: Path, limits: MediaLimits | None = None) -> "Processor":
        """Read `preprocessor_config.json` of a model folder.

        Raises:
            ConfigError: If the file is missing, or requires something that this runtime does not support.
        """
        return cls(options=load_media_options(Path(model_dir)), limits=limits or MediaLimits())

    def fit(self, width: int, height: int, *, is_frame: bool = False) -> ResizedShape:
        """Return the resized and padded sizes of an image (or a video frame) of `width` x `height` px."""
        limit = self.options.in_patch_limit_each_frame if is_frame else self.options.in_patch_limit
        return fit_size(width, height, limit, self.options.patch_limit_on_one_side)

    def count_tokens(self, width: int, height: int, *, is_frame: bool = False) -> int:
        """Return the number of tokens of an image of `width` x `height` px, or of a chunk of any number of such video
        frames.
        """
        return self.fit(width, height, is_frame=is_frame).num_tokens

    def image(self, data: bytes) -> MediaItem:
        """Convert an image file (PNG, JPEG, WebP, GIF, BMP) to an item.

        Raises:
            MediaError: If it is not an image, is broken, or exceeds a limit.
        """
        image = decode_image(data, self.limits)
        return make_item([image], self.fit(*image.size))

    def frames(self, frames: Sequence[NDArray[np.uint8]]) -> MediaItem:
        """Convert a chunk of one to four video frames, (height, width, 3) uint8 RGB each, to an item of the first one's
        size.

        Raises:
            MediaError: If there are no frames, too many, or they are not RGB images.
        """
        for frame in frames:
            if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or not frame.size:
                actual = f"{frame.dtype} of shape {frame.shape}"
                raise MediaError(f"a video frame is {actual}, expected uint8 of (height, width, 3)")
        return self._chunk([Image.fromarray(frame) for frame in frames])

    def video(self, source: bytes | Path) -> tuple[tuple[str, MediaItem], ...]:
        """Convert a video file to chunks, each with the time of its first frame (HH:MM:SS.mmm).

        Raises:
            MediaError: If it is not a video, is broken, or exceeds a limit.
        """
        fps, frames = sample_video(source, self.options.sample_fps, self.limits)
        chunks: list[tuple[str, MediaItem]] = []
        chunk: list[SampledFrame] = []
        for frame in frames:  # decoded images of one chunk at a time
            chunk.append(frame)
            if len(chunk) == CHUNK_FRAMES:
                chunks.append(self._timed(chunk, fps))
                chunk = []
        return (*chunks, *([self._timed(chunk, fps)] if chunk else []))

    def _timed(self, chunk: list[SampledFrame], fps: float) -> tuple[str, MediaItem]:
        return format_timestamp(chunk[0].index, fps), self._chunk([frame.image for frame in chunk])

    def _chunk(self, images: list[Image.Image]) -> MediaItem:
        if not 1 <= len(images) <= CHUNK_FRAMES:
            raise MediaError(f"a chunk has {len(images)} frames, expected 1 to {CHUNK_FRAMES}")
        return make_item(images, self.fit(*images[0].size, is_frame=True))
