"""Stream of the frames of a span: read once for all detectors, in order, with only a few in memory."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from apps.video_showcase.spans import VideoSpan
from visual_tools.errors import require
from visual_tools.video.sample import iter_frames, sample_frames

RATE = 5.0
"""Sampled frames per second: anything that lasts 0.4 s is seen twice."""

SIDE_PX = 640
"""Longest side of the frames, at which text of a screen is still readable."""

GRID_PX = (96, 54)
"""Columns and rows of the thumbnail on which scenes, motion and flashes are detected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Sampled frame.

    Attributes:
        time_s: Time, in seconds from the file's first frame.
        image: (H, W, 3) uint8 RGB.
        thumbnail: (54, 96, 3) uint8 RGB.
    """

    time_s: float
    image: NDArray[np.uint8] = field(repr=False)
    thumbnail: NDArray[np.uint8] = field(repr=False)


def iter_samples(span: VideoSpan, *, side_px: int = SIDE_PX) -> Iterator[Sample]:
    """Yield the frames of a span and its margins at an even rate.

    Args:
        span: Span to sample.
        side_px: Longest side of the frames.

    Raises:
        VideoError: If the file cannot be read.
    """
    cv2 = require("cv2", "visual")
    before: Sample | None = None
    for frame in iter_frames(
        span.source.path, fps=RATE, start_s=span.read_start_s, end_s=span.read_end_s, max_side_px=side_px, threads=1
    ):
        time_s = max(frame.timestamp_s, span.read_start_s)
        yield from _repeated(before, time_s)
        thumbnail = cv2.resize(frame.image, GRID_PX, interpolation=cv2.INTER_AREA)
        before = Sample(time_s=time_s, image=frame.image, thumbnail=thumbnail)
        yield before
    yield from _repeated(before, span.read_end_s)


def _repeated(sample: Sample | None, until_s: float) -> Iterator[Sample]:
    """Yield a frame again while it remains, as screen recorders write none then: detectors count on the rate."""
    if sample is not None:
        for number in range(1, math.ceil((until_s - sample.time_s) * RATE - 0.5)):
            yield replace(sample, time_s=sample.time_s + number / RATE)


def frame_at(span: VideoSpan, time_s: float) -> NDArray[np.uint8]:
    """Return the frame shown at a time of the span's file again, of the size of its samples.

    Raises:
        VideoError: If the file cannot be read.
    """
    last_s = max(span.source.duration_s - 1 / RATE, 0.0)
    return sample_frames(span.source.path, timestamps_s=[min(time_s, last_s)], max_side_px=SIDE_PX, threads=1).images[0]
