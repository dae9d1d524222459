"""Splitting by file and by time: each span is watched by one sub-agent."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from apps.video_showcase.events import format_clock
from apps.video_showcase.sources import VideoSource, source_from_json

BEFORE_S, AFTER_S = 10.0, 15.0
"""Margins before and after a span that are also watched, to see earlier contents and the end of its events."""

NEAR_S = 2.0
"""Largest difference between the times that two finders give for the same event."""

MIN_SPAN_S, MAX_SPAN_S = 60.0, 900.0
MAX_SPANS, MAX_REQUESTED_SPANS = 96, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoSpan:
    """Part of one file.

    Attributes:
        number: Number of the span over all files, from 1.
        source: The file.
        start_s: Start, in seconds from the file's first frame.
        end_s: End (exclusive), in seconds from the file's first frame.
    """

    number: int
    source: VideoSource
    start_s: float
    end_s: float

    @property
    def name(self) -> str:
        """Name used for the files of the span."""
        return f"span-{self.number:03}"

    @property
    def read_start_s(self) -> float:
        """Time at which watching starts."""
        return max(self.start_s - BEFORE_S, 0.0)

    @property
    def read_end_s(self) -> float:
        """Time at which watching ends."""
        return min(self.end_s + AFTER_S, self.source.duration_s)

    @property
    def is_first(self) -> bool:
        """True if it is the first span of the file."""
        return self.start_s == 0

    @property
    def is_last(self) -> bool:
        """True if it is the last span of the file."""
        return self.end_s >= self.source.duration_s

    def describe(self) -> str:
        """Return a description of the span for the user and for a model."""
        return f"{self.source.name}, {format_clock(self.start_s)} to {format_clock(self.end_s)}"


def span_from_json(data: dict[str, Any]) -> VideoSpan:
    """Return a span from its JSON values."""
    return VideoSpan(**{**data, "source": source_from_json(data["source"])})


def split(sources: Sequence[VideoSource], *, num_workers: int, span_s: float | None = None) -> tuple[VideoSpan, ...]:
    """Split all files into spans, in order.

    Files are cut into equal pieces. Without `span_s` the pieces are short enough to keep all workers busy and a loss
    small, and long enough that there are at most `MAX_SPANS` of them, and at least one per file.

    Args:
        sources: The files.
        num_workers: Number of spans watched at the same time.
        span_s: Maximum length if the user sets it; the limit is then `MAX_REQUESTED_SPANS` spans.
    """
    whole_s = sum(source.duration_s for source in sources)
    target_s = span_s or min(max(whole_s / (6 * num_workers), MIN_SPAN_S), MAX_SPAN_S)
    most = max(MAX_REQUESTED_SPANS if span_s else MAX_SPANS, len(sources))
    while sum(_num_pieces(source, target_s) for source in sources) > most:
        target_s *= 1.05
    spans: list[VideoSpan] = []
    for source in sources:
        count = _num_pieces(source, target_s)
        borders = [source.duration_s * position / count for position in range(count)] + [source.duration_s]
        for start_s, end_s in pairwise(borders):
            spans.append(VideoSpan(number=len(spans) + 1, source=source, start_s=start_s, end_s=end_s))
    return tuple(spans)


def _num_pieces(source: VideoSource, span_s: float) -> int:
    return max(math.ceil(source.duration_s / span_s - 1e-9), 1)
