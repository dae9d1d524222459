"""Decode the runs of a video in order, several at a time where that is quicker."""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue

from visual_tools.video.picture import Fit
from visual_tools.video.reader import Decoded, Reader, Run, make_runs
from visual_tools.video.timeline import Timeline

_MAX_THREADS = 8
_MAX_RUN_BYTES = 64 << 20  # pictures of one run that may wait for their turn


def decode_frames(
    path: str | os.PathLike[str], timeline: Timeline, wanted_pts: Sequence[int], fit: Fit
) -> Iterator[Decoded]:
    """The frames shown at `wanted_pts` (ascending, each once), in order, as they are decoded.

    Groups of pictures are independent, so each core decodes another one. Where there are too few of them, or the
    wanted frames of one would not fit in memory while they wait, all cores work on one group.

    Raises:
        VideoError: The file cannot be opened.
    """
    runs = make_runs(timeline, wanted_pts)
    threads = min(_count_cores(), _MAX_THREADS)
    pictures = max((len(run.wanted_pts) for run in runs), default=0)
    is_heavy = pictures * count_picture_bytes(path, timeline, fit) > _MAX_RUN_BYTES
    if threads == 1 or is_heavy or len(runs) < 2 * threads:
        with Reader(path, timeline, fit, threads) as reader:
            for run in runs:
                yield from reader.read(run)
        return
    yield from _decode_side_by_side(path, timeline, runs, fit, threads)


def _count_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_picture_bytes(path: str | os.PathLike[str], timeline: Timeline, fit: Fit) -> int:
    """Bytes of one picture.

    Raises:
        VideoError: Not one frame can be decoded.
    """
    with Reader(path, timeline, fit, 1) as reader:
        shape = reader.read_first()[1]
    width_px, height_px = fit.find_size(shape.width_px, shape.height_px)
    return width_px * height_px * 3


def _decode_side_by_side(
    path: str | os.PathLike[str], timeline: Timeline, runs: Sequence[Run], fit: Fit, threads: int
) -> Iterator[Decoded]:
    with ExitStack() as stack:
        free: SimpleQueue[Reader] = SimpleQueue()
        for _ in range(threads):
            free.put(stack.enter_context(Reader(path, timeline, fit, 1)))

        def decode(run: Run) -> list[Decoded]:
            reader = free.get()
            try:
                return list(reader.read(run))
            finally:
                free.put(reader)

        pool = ThreadPoolExecutor(threads, thread_name_prefix="video")
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        waiting: deque[Future[list[Decoded]]] = deque()
        for run in runs:
            waiting.append(pool.submit(decode, run))
            if len(waiting) > threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
