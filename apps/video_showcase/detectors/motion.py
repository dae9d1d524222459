"""Things that move across the picture; what only flickers, ticks or turns at its place does not count."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.video_showcase.events import Event
from apps.video_showcase.samples import GRID_PX, Sample
from visual_tools.errors import require

_LAG = 2
_CHANGED = 14
"""Grey levels, of 255, by which a cell of the thumbnail has changed."""
_MIN_CELLS = 6
_REACH_CELLS = 12.0
"""How far a thing may move between two frames and still be the same."""
_MIN_TRAVEL_CELLS = 0.12 * GRID_PX[0]
_STRAIGHT = 0.4
"""Of the way that a thing has gone, how much it got further; what seems to hop about are several things."""
_MIN_LIFE_S = 1.0
_LOST_S = 0.9
_WHOLE_SHARE = 0.4
_JOIN_S = 1.5
_MAX_TRACKS = 24


@dataclass(slots=True)
class _Track:
    start_s: float
    last_s: float
    x: float
    y: float
    low: tuple[float, float]
    high: tuple[float, float]
    way_cells: float = 0.0

    def follow(self, time_s: float, x: float, y: float) -> None:
        self.way_cells += float(np.hypot(x - self.x, y - self.y))
        self.last_s, self.x, self.y = time_s, x, y
        self.low = min(self.low[0], x), min(self.low[1], y)
        self.high = max(self.high[0], x), max(self.high[1], y)

    @property
    def travel_cells(self) -> float:
        return float(np.hypot(self.high[0] - self.low[0], self.high[1] - self.low[1]))


class MotionDetector:
    """Motion by what has changed since two frames ago.

    Args:
        rate: Samples a second.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._recent: list[NDArray[np.int16]] = []
        self._tracks: list[_Track] = []
        self._found: list[_Track] = []
        self._first_s = self._last_s = 0.0
        self._whole: list[float] = []

    def feed(self, sample: Sample) -> None:
        """Take the next frame."""
        if not self._recent:
            self._first_s = sample.time_s
        self._last_s = sample.time_s
        gray = sample.thumbnail.astype(np.int16).mean(axis=2).astype(np.int16)
        if len(self._recent) == _LAG:
            self._look(sample.time_s, np.abs(gray - self._recent.pop(0)) > _CHANGED)
        self._recent.append(gray)

    def _look(self, time_s: float, changed: NDArray[np.bool_]) -> None:
        self._end_tracks(time_s)
        share = float(changed.mean())
        if share >= _WHOLE_SHARE:
            self._whole.append(time_s)
            return
        if share == 0:
            return
        cv2 = require("cv2", "visual")
        near = cv2.dilate(changed.astype(np.uint8), np.ones((3, 3), np.uint8))
        count, labels, boxes, centers = cv2.connectedComponentsWithStats(near, connectivity=8)
        cells = np.bincount(labels[changed], minlength=count)
        order = sorted(range(1, count), key=lambda one: -int(cells[one]))[:_MAX_TRACKS]
        for label in order:
            if cells[label] >= _MIN_CELLS and boxes[label][4] > 0:
                self._follow(time_s, float(centers[label][0]), float(centers[label][1]))

    def _follow(self, time_s: float, x: float, y: float) -> None:
        free = [track for track in self._tracks if track.last_s < time_s]
        nearest = min(free, key=lambda track: np.hypot(track.x - x, track.y - y), default=None)
        if nearest is not None and np.hypot(nearest.x - x, nearest.y - y) <= _REACH_CELLS:
            nearest.follow(time_s, x, y)
        elif len(self._tracks) < _MAX_TRACKS:
            self._tracks.append(_Track(time_s, time_s, x, y, (x, y), (x, y)))

    def _end_tracks(self, time_s: float) -> None:
        for track in [one for one in self._tracks if time_s - one.last_s > _LOST_S]:
            self._tracks.remove(track)
            self._keep(track)

    def _keep(self, track: _Track) -> None:
        is_long = track.last_s - track.start_s >= _MIN_LIFE_S
        is_straight = track.travel_cells >= _STRAIGHT * track.way_cells
        if is_long and is_straight and track.travel_cells >= _MIN_TRAVEL_CELLS:
            self._found.append(track)

    def finish(self, file: str) -> list[Event]:
        """The events of all frames: times of motion, joined where they meet."""
        for track in self._tracks:
            self._keep(track)
        self._tracks.clear()
        lag_s = _LAG / self._rate
        spans = [(track.start_s - lag_s / 2, track.last_s - lag_s / 2, False) for track in self._found]
        spans += [(start_s, end_s, True) for start_s, end_s in self._whole_spans()]
        events: list[Event] = []
        for start_s, end_s, is_whole in sorted(spans):
            if events and start_s <= events[-1].end_s + _JOIN_S:
                start_s, end_s = events[-1].start_s, max(events[-1].end_s, end_s)
                events.pop()
            events.append(self._event(file, max(start_s, 0.0), end_s, is_whole=is_whole))
        return events

    def _whole_spans(self) -> list[tuple[float, float]]:
        """Times in which most of the picture keeps changing: the camera moves, or everything does."""
        spans: list[tuple[float, float]] = []
        for time_s in self._whole:
            if spans and time_s - spans[-1][1] <= _LOST_S:
                spans[-1] = (spans[-1][0], time_s)
            else:
                spans.append((time_s, time_s))
        return [span for span in spans if span[1] - span[0] >= 2 * _MIN_LIFE_S]

    def _event(self, file: str, start_s: float, end_s: float, *, is_whole: bool) -> Event:
        edge_s = 2 * _LAG / self._rate
        return Event(
            file=file,
            start_s=start_s,
            end_s=end_s,
            kind="motion",
            text="the whole picture moves" if is_whole else "something moves across",
            confidence=0.9,
            evidence_s=((start_s + end_s) / 2,),
            is_open=end_s >= self._last_s - edge_s,
            began_before=start_s <= self._first_s + edge_s,
            source="motion",
        )
