"""Detector of the times when a given image (an icon, a logo) is visible."""

import numpy as np
from numpy.typing import NDArray

from apps.video_showcase.events import VideoEvent
from apps.video_showcase.samples import Sample
from visual_tools.errors import ImageError, require

_SCORE = 0.75
_COLOR = 38.0
"""Maximum mean difference of colours, of 255, for the same image: shapes alone are not enough."""
_EVERY_S = 0.6
_GONE_S = 1.3
_SCALES = (1.0, 0.8, 1.25, 0.6, 1.6)
_MIN_SIDE_PX = 10


class TemplateDetector:
    """Detector of the sightings of one image.

    Args:
        template: (H, W, 3) uint8 RGB, cut from a frame as wide as `source_width_px`.
        source_width_px: Width of the videos.

    Raises:
        ImageError: If the image has only one colour.
    """

    def __init__(self, template: NDArray[np.uint8], source_width_px: int) -> None:
        if int(np.ptp(template.reshape(-1, 3), axis=0).max()) < 8:
            raise ImageError("the template has one colour only, expected something with a shape")
        self._template, self._width_px = template, source_width_px
        self._scaled: dict[tuple[int, float], NDArray[np.uint8]] = {}
        self._seen: list[tuple[float, float]] = []
        self._next_s = 0.0
        self._first_s: float | None = None
        self._last_s = 0.0

    def feed(self, sample: Sample) -> None:
        """Process the next frame."""
        self._first_s = sample.time_s if self._first_s is None else self._first_s
        self._last_s = sample.time_s
        if sample.time_s + 1e-6 < self._next_s:
            return
        self._next_s = sample.time_s + _EVERY_S
        score = self._find(sample.image)
        if score >= _SCORE:
            self._seen.append((sample.time_s, score))

    def _find(self, image: NDArray[np.uint8]) -> float:
        """Return the best score on a frame; 0 if the colours differ."""
        cv2 = require("cv2", "visual")
        gray = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
        best = 0.0
        for scale in _SCALES:
            wanted = self._at_scale(image.shape[1], scale)
            if (
                min(wanted.shape[:2]) < _MIN_SIDE_PX
                or wanted.shape[0] > gray.shape[0]
                or wanted.shape[1] > gray.shape[1]
            ):
                continue
            scores = cv2.matchTemplate(gray, cv2.cvtColor(wanted, cv2.COLOR_RGB2GRAY), cv2.TM_CCOEFF_NORMED)
            _, score, _, (left, top) = cv2.minMaxLoc(scores)
            if score < max(best, _SCORE):
                continue
            there = image[top : top + wanted.shape[0], left : left + wanted.shape[1]].astype(np.int16)
            if float(np.abs(there - wanted).mean()) <= _COLOR:
                best = float(score)
        return best

    def _at_scale(self, image_width_px: int, scale: float) -> NDArray[np.uint8]:
        key = image_width_px, scale
        if key not in self._scaled:
            cv2 = require("cv2", "visual")
            ratio = image_width_px / self._width_px * scale
            self._scaled[key] = cv2.resize(self._template, None, fx=ratio, fy=ratio, interpolation=cv2.INTER_AREA)
        return self._scaled[key]

    def finish(self, file: str) -> list[VideoEvent]:
        """Return the events of all frames: times in which the image is visible."""
        events: list[VideoEvent] = []
        for time_s, score in self._seen:
            if events and time_s - events[-1].end_s <= _GONE_S:
                start_s, score = events[-1].start_s, max(score, events[-1].confidence)
                events.pop()
            else:
                start_s = time_s
            edge_s = 2 * _EVERY_S
            events.append(
                VideoEvent(
                    file=file,
                    start_s=start_s,
                    end_s=time_s,
                    kind="template",
                    text="the image that was given",
                    confidence=round(score, 3),
                    evidence_s=((start_s + time_s) / 2,),
                    is_open=time_s >= self._last_s - edge_s,
                    began_before=start_s <= (self._first_s or 0.0) + edge_s,
                    source="template",
                )
            )
        return events
