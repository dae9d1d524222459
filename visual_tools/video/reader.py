"""Decode the requested frames exactly, and as few others as possible.

Between a keyframe and a requested frame, every reference frame must be decoded; the decoder skips non-reference frames
where it can identify them. Groups of pictures (GOPs) without a requested frame are not decoded at all. Runs are decoded
in order, several at a time where that is faster.
"""

import itertools
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import VideoError, require
from visual_tools.video.frames import FrameScaling, FrameShape, Painter, find_shape
from visual_tools.video.timeline import Timeline, open_video

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

_TELLS_DISPOSABLE = {"h264", "mpeg4", "mpeg2video", "mpeg1video"}  # decoders where NONREF keeps other frames bit-exact
_MAX_THREADS = 8
"""Maximum number of threads, to limit memory: each thread of FFmpeg holds its own frames."""
_MAX_RUN_BYTES = 64 << 20  # maximum size of the images of one run that wait for output


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRun:
    """Requested frames, ascending in ticks, that are decoded in one pass starting at a keyframe."""

    key_pts: int
    wanted_pts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DecodedFrame:
    """Requested frame: its presentation time in ticks, and its image."""

    pts: int
    image: NDArray[np.uint8] = field(repr=False)


def make_runs(timeline: Timeline, wanted_pts: Sequence[int]) -> list[DecodeRun]:
    """Make the runs for frames shown at `wanted_pts` (ascending, unique): one for each GOP that contains any."""
    keys = timeline.key_pts
    if not timeline.has_times:
        return [DecodeRun(key_pts=int(timeline.pts[0]), wanted_pts=tuple(wanted_pts))] if wanted_pts else []
    positions = np.maximum(np.searchsorted(keys, wanted_pts, side="right") - 1, 0)
    groups: dict[int, list[int]] = {}
    for position, pts in zip(positions.tolist(), wanted_pts, strict=True):
        groups.setdefault(position, []).append(pts)
    return [DecodeRun(key_pts=int(keys[position]), wanted_pts=tuple(group)) for position, group in groups.items()]


class VideoReader:
    """Open video. Not thread-safe; several readers may read one file."""

    def __init__(self, path: str | os.PathLike[str], timeline: Timeline, fit: FrameScaling, threads: int) -> None:
        self._path, self._timeline, self._fit, self._threads = path, timeline, fit, threads
        self._error = require("av", "visual").FFmpegError
        self._painter = Painter()
        self._shapes: dict[tuple[int, int], FrameShape] = {}
        self._stack = ExitStack()
        self._open()

    def _open(self) -> None:
        self._stack.close()
        self._container, self._stream = self._stack.enter_context(open_video(self._path))
        self._context = self._stream.codec_context
        self._context.thread_count = self._threads
        self._context.thread_type = "SLICE" if self._threads == 1 else "AUTO"
        self._can_skip = self._context.name in _TELLS_DISPOSABLE
        self._is_fresh = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._stack.close()

    def read_first(self) -> "tuple[VideoFrame, FrameShape]":
        """Return the first decodable frame, as the decoder returns it, and its display geometry.

        Must be called before all other methods.

        Raises:
            VideoError: If no frame can be decoded.
        """
        for _, frame in self._decode_all():
            return frame, self._find_shape(frame)
        raise VideoError("not one frame of the video can be decoded: the file is damaged")

    def read(self, run: DecodeRun) -> Iterator[DecodedFrame]:
        """Yield the frames of a run in order; a frame that cannot be decoded is replaced by the last one before it."""
        if not self._timeline.has_times:
            yield from self._pick(self._decode_all(), run.wanted_pts)
            return
        start: int | None = run.key_pts
        while True:
            frames = self._decode_from(start, run.wanted_pts)
            first = next(frames, None)
            if start is None or (first is not None and first[0] <= run.wanted_pts[0]):
                break
            start = self._find_earlier_key(start)
        if first is not None:
            yield from self._pick(itertools.chain([first], frames), run.wanted_pts)

    def _pick(self, frames: "Iterator[tuple[int, VideoFrame]]", wanted_pts: Sequence[int]) -> Iterator[DecodedFrame]:
        left = deque(wanted_pts)
        before: tuple[int, VideoFrame] | None = None  # the last frame that was decoded and not yielded
        for pts, frame in frames:
            if left[0] < pts and before is not None:
                yield self._paint(*before)
                before = None
            while left and left[0] < pts:
                left.popleft()
            if left and left[0] == pts:
                yield self._paint(pts, frame)
                left.popleft()
                before = None
            else:
                before = pts, frame
            if not left:
                return
        if before is not None:
            yield self._paint(*before)

    def _decode_all(self) -> "Iterator[tuple[int, VideoFrame]]":
        """Yield every frame from the first on, with its number."""
        self._rewind()
        packets = itertools.chain(self._demux(), (None,))
        yield from enumerate(frame for packet in packets for frame in self._decode(packet))

    def _decode_from(self, start_pts: int | None, wanted_pts: Sequence[int]) -> "Iterator[tuple[int, VideoFrame]]":
        """Yield frames starting at a keyframe (None: at the beginning) until all requested ones were decoded."""
        if start_pts is None or start_pts <= self._timeline.pts[0]:
            self._rewind()
            start_pts = None
        else:
            self._jump(start_pts)
        waiting, is_started = set(wanted_pts), False
        for packet in self._demux():
            if not is_started:
                pts = packet.pts if packet.is_keyframe else None
                is_started = start_pts is None or (pts is not None and pts >= start_pts)
                if not is_started:
                    continue
            if self._can_skip:
                self._context.skip_frame = "DEFAULT" if packet.pts in waiting else "NONREF"
            waiting.discard(packet.pts)
            yield from self._timed(self._decode(packet))
            if not waiting:
                break
        yield from self._timed(self._decode(None))

    def _jump(self, pts: int) -> None:
        """Seek to the keyframe at or before a time, or to the beginning if the format is not seekable."""
        try:
            self._container.seek(pts, stream=self._stream)
            self._is_fresh = False
        except self._error:
            self._open()
            self._is_fresh = False

    def _timed(self, frames: "list[VideoFrame]") -> "Iterator[tuple[int, VideoFrame]]":
        return ((frame.pts, frame) for frame in frames if frame.pts is not None)

    def _rewind(self) -> None:
        if not self._is_fresh:
            self._open()  # not every format can be rewound
        self._is_fresh = False

    def _demux(self) -> "Iterator[Packet[VideoStream]]":
        """Yield the following packets of the video; damage ends the stream."""
        try:
            yield from (packet for packet in self._container.demux(self._stream) if packet.size)
        except self._error:
            return

    def _decode(self, packet: "Packet[VideoStream] | None") -> "list[VideoFrame]":
        try:
            frames: list[VideoFrame] = self._context.decode(packet)
        except self._error:
            return []
        return frames

    def _find_earlier_key(self, pts: int) -> int | None:
        earlier = self._timeline.key_pts[self._timeline.key_pts < pts]
        return int(earlier[-1]) if len(earlier) else None

    def _paint(self, pts: int, frame: "VideoFrame") -> DecodedFrame:
        return DecodedFrame(pts, self._painter.paint(frame, self._find_shape(frame), self._fit))

    def _find_shape(self, frame: "VideoFrame") -> FrameShape:
        size = frame.width, frame.height  # cached, because the metadata object keeps its frame in memory
        if size not in self._shapes:
            self._shapes[size] = find_shape(frame, self._stream.sample_aspect_ratio)
        return self._shapes[size]


def decode_frames(
    path: str | os.PathLike[str],
    timeline: Timeline,
    wanted_pts: Sequence[int],
    fit: FrameScaling,
    *,
    threads: int | None = None,
) -> Iterator[DecodedFrame]:
    """Yield the frames shown at `wanted_pts` (ascending, unique), in order, as they are decoded.

    GOPs are independent, so each core decodes a different one. If there are too few, or the requested frames of one GOP
    would not fit in memory while they wait, all cores work on one GOP. `threads` is the number of cores; None for all.

    Raises:
        VideoError: If the file cannot be opened.
    """
    runs = make_runs(timeline, wanted_pts)
    threads = min(threads or _count_cores(), _MAX_THREADS)
    images = max((len(run.wanted_pts) for run in runs), default=0)
    is_heavy = images * count_image_bytes(path, timeline, fit) > _MAX_RUN_BYTES
    if threads == 1 or is_heavy or len(runs) < 2 * threads:
        with VideoReader(path, timeline, fit, threads) as reader:
            for run in runs:
                yield from reader.read(run)
        return
    yield from _decode_side_by_side(path, timeline, runs, fit, threads)


def _count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_image_bytes(path: str | os.PathLike[str], timeline: Timeline, fit: FrameScaling) -> int:
    """Return the size of one image in bytes.

    Raises:
        VideoError: If no frame can be decoded.
    """
    with VideoReader(path, timeline, fit, 1) as reader:
        shape = reader.read_first()[1]
    width_px, height_px = fit.find_size(shape.width_px, shape.height_px)
    return width_px * height_px * 3


def _decode_side_by_side(
    path: str | os.PathLike[str], timeline: Timeline, runs: Sequence[DecodeRun], fit: FrameScaling, threads: int
) -> Iterator[DecodedFrame]:
    with ExitStack() as stack:
        free: SimpleQueue[VideoReader] = SimpleQueue()
        for _ in range(threads):
            free.put(stack.enter_context(VideoReader(path, timeline, fit, 1)))

        def decode(run: DecodeRun) -> list[DecodedFrame]:
            reader = free.get()
            try:
                return list(reader.read(run))
            finally:
                free.put(reader)

        pool = ThreadPoolExecutor(threads, thread_name_prefix="video")
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        waiting: deque[Future[list[DecodedFrame]]] = deque()
        for run in runs:
            waiting.append(pool.submit(decode, run))
            if len(waiting) > threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
