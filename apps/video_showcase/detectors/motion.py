"""Objects that move across the picture; flickering, ticking or turning in place is ignored."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.video_showcase.events import VideoEvent
from apps.video_showcase.samples import GRID_PX, Sample
from visual_tools.errors import require

_LAG = 2
_CHANGED = 14
"""Grey levels, of 255, by which a cell of the thumbnail has changed."""
_MIN_CELLS = 12
_REST_CELLS, _MAX_REST_S = 4.0, 1.2
_REACH_CELLS = 12.0
"""Maximum distance between two frames at which an object is still the same."""
_MIN_TRAVEL_CELLS = 0.12 * GRID_PX[0]
_STRAIGHT = 0.4
"""Minimum ratio of net travel to path length; tracks below it are several objects."""
_MIN_LIFE_S = 1.0
_LOST_S = 0.9
_WHOLE_SHARE = 0.4
_JOIN_S = 1.5
_MAX_TRACKS = 24


@dataclass(slots=True)
class _Track:
    """Positions of one object: time, column and row of each, in cells."""

    places: list[tuple[float, float, float]]

    @property
    def last(self) -> tuple[float, float, float]:
        return self.places[-1]

    def distance(self, x: float, y: float) -> float:
        return float(np.hypot(self.last[1] - x, self.last[2] - y))

    def moving(self) -> "_Track":
        """Return the track without long rests before it starts and after it ends."""
        cells = np.array(self.places)[:, 1:]
        first = _left_for_good(cells, cells[0])
        end = len(cells) - _left_for_good(cells[::-1], cells[-1])
        if self.places[first][0] - self.places[0][0] <= _MAX_REST_S:
            first = 0
        if self.last[0] - self.places[end - 1][0] <= _MAX_REST_S:
            end = len(cells)
        return _Track(self.places[first:end])

    def moves(self) -> bool:
        """Return whether the track is long and straight enough."""
        if len(self.places) < 2 or self.last[0] - self.places[0][0] < _MIN_LIFE_S:
            return False
        cells = np.array(self.places)[:, 1:]
        travel_cells = float(np.hypot(*(cells.max(axis=0) - cells.min(axis=0))))
        way_cells = float(np.hypot(*np.diff(cells, axis=0).T).sum())
        return travel_cells >= _MIN_TRAVEL_CELLS and travel_cells >= _STRAIGHT * way_cells


def _left_for_good(cells: NDArray[np.float64], place: NDArray[np.float64]) -> int:
    """Return the index of the last position near a place; 0 if none or all are near."""
    is_near = np.hypot(*(cells - place).T) <= _REST_CELLS
    return int(np.flatnonzero(is_near)[-1]) if is_near.any() and not is_near.all() else 0


class MotionDetector:
    """Detector of motion by changes from two frames ago.

    Args:
        rate: Samples per second.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._recent: list[NDArray[np.int16]] = []
        self._tracks: list[_Track] = []
        self._found: list[_Track] = []
        self._first_s = self._last_s = 0.0
        self._whole: list[float] = []

    def feed(self, sample: Sample) -> None:
        """Process the next frame."""
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
        count, labels, _, centers = cv2.connectedComponentsWithStats(near, connectivity=8)
        cells = np.bincount(labels[changed], minlength=count)
        labels_by_size = sorted(range(1, count), key=lambda component: -int(cells[component]))[:_MAX_TRACKS]
        things = [tuple(centers[label].tolist()) for label in labels_by_size if cells[label] >= _MIN_CELLS]
        self._follow(time_s, things)

    def _follow(self, time_s: float, things: list[tuple[float, float]]) -> None:
        """Assign objects to the nearest tracks, nearest pair first; the other objects begin new tracks."""
        pairs = sorted(
            (track.distance(*thing), number, position)
            for number, track in enumerate(self._tracks)
            for position, thing in enumerate(things)
        )
        followed: set[int] = set()
        given: set[int] = set()
        for distance, number, position in pairs:
            if distance <= _REACH_CELLS and number not in followed and position not in given:
                self._tracks[number].places.append((time_s, *things[position]))
                followed.add(number)
                given.add(position)
        new = [(time_s, *thing) for position, thing in enumerate(things) if position not in given]
        self._tracks += [_Track([place]) for place in new[: _MAX_TRACKS - len(self._tracks)]]

    def _end_tracks(self, time_s: float) -> None:
        for track in [open_track for open_track in self._tracks if time_s - open_track.last[0] > _LOST_S]:
            self._tracks.remove(track)
            self._keep(track)

    def _keep(self, track: _Track) -> None:
        if (moving := track.moving()).moves():
            self._found.append(moving)

    def finish(self, file: str) -> list[VideoEvent]:
        """Return the events of all frames: times of motion, joined where they meet."""
        for track in self._tracks:
            self._keep(track)
        self._tracks.clear()
        lag_s = _LAG / self._rate
        spans = [(track.places[0][0] - lag_s / 2, track.last[0] - lag_s / 2, False) for track in self._found]
        spans += [(start_s, end_s, True) for start_s, end_s in self._whole_spans()]
        events: list[VideoEvent] = []
        for start_s, end_s, is_whole in sorted(spans):
            if events and start_s <= events[-1].end_s + _JOIN_S:
                start_s, end_s = events[-1].start_s, max(events[-1].end_s, end_s)
                events.pop()
            events.append(self._event(file, max(start_s, 0.0), end_s, is_whole=is_whole))
        return events

    def _whole_spans(self) -> list[tuple[float, float]]:
        """Return the times in which most of the picture keeps changing: camera motion, or motion of everything."""
        spans: list[tuple[float, float]] = []
        for time_s in self._whole:
            if spans and time_s - spans[-1][1] <= _LOST_S:
                spans[-1] = (spans[-1][0], time_s)
            else:
                spans.append((time_s, time_s))
        return [span for span in spans if span[1] - span[0] >= 2 * _MIN_LIFE_S]

    def _event(self, file: str, start_s: float, end_s: float, *, is_whole: bool) -> VideoEvent:
        edge_s = 2 * _LAG / self._rate
        return VideoEvent(
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
