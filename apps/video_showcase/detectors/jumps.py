"""Sudden changes of the whole picture: to another scene that stays, or to a colour that disappears again."""

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.video_showcase.events import VideoEvent
from apps.video_showcase.samples import Sample
from visual_tools.colors.words import color_name
from visual_tools.errors import require

# Heuristics without another source; measured together in benchmarks/video.md, "The whole set".
_LOOK_PX = (32, 18)
_STEP = 0.07
"""Minimum distance of two frames, 0 to 1, for another scene, if most of the picture has changed."""
_MOST = 0.5
_CHANGED = 10.0
_RISE = 0.05
_PEAK = 0.12
_RETURNED = 0.45
"""Maximum share of its peak distance at which a flash is over."""
_MAX_FLASH_S = 1.7
_STANDS_OUT = 2.5
_STAYS_S = 2.0
_SOFT_S = 1.0
_MIN_APART_S = 2.0
_REST, _TURN = 7, 6
"""Samples for which both slides are still (a clock is not), and at most between them."""
_STILL, _STILL_SHARE = 8, 0.7
_TURNED = 20
"""Minimum change of a pixel from one slide to the next, in levels of 255: more than what is still may drift."""
_MIN_SLIDE_SHARE = 0.01
_MIN_EXTENT = (0.25, 0.2)
"""Minimum height and width of what changes, of the picture: more than a banner or a scoreboard."""
_FLAT_SHARE = 0.8
_LIT = 110.0


@dataclass(frozen=True, slots=True)
class _Jump:
    first: int
    end: int
    score: float


class JumpDetector:
    """Detector of scenes and flashes.

    Args:
        rate: Samples per second.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._times_s: list[float] = []
        self._looks: list[NDArray[np.uint8]] = []
        self._recent: deque[NDArray[np.uint8]] = deque(maxlen=2 * _REST + _TURN)
        self._slides: list[_Jump] = []

    def feed(self, sample: Sample) -> None:
        """Process the next frame."""
        cv2 = require("cv2", "visual")
        self._times_s.append(sample.time_s)
        self._looks.append(cv2.resize(sample.thumbnail, _LOOK_PX, interpolation=cv2.INTER_AREA))
        self._recent.append(sample.thumbnail)
        if len(self._recent) == self._recent.maxlen:
            self._look_for_slide(np.stack(self._recent))

    def _look_for_slide(self, recent: NDArray[np.uint8]) -> None:
        """Note a change of what is still before and after it, over much of the picture: slides of one layout."""
        before, after = recent[:_REST], recent[-_REST:]
        is_still = (np.ptp(before, axis=0).max(axis=2) <= _STILL) & (np.ptp(after, axis=0).max(axis=2) <= _STILL)
        changed = is_still & (_difference(before[-1], after[0]) > _TURNED)
        rows, columns = np.nonzero(changed)
        if len(rows) < _MIN_SLIDE_SHARE * changed.size or is_still.mean() < _STILL_SHARE:
            return
        extent = (
            np.ptp(np.percentile(at, (5, 95))) / size for at, size in zip((rows, columns), changed.shape, strict=True)
        )
        if any(share < least for share, least in zip(extent, _MIN_EXTENT, strict=True)):
            return
        away = [int(np.count_nonzero(_difference(image, before[-1])[changed] > _TURNED)) for image in recent[_REST:]]
        turned = int(np.argmax(np.array(away) >= 0.5 * len(rows)))
        at = len(self._looks) - len(recent) + _REST + turned
        if not self._slides or at - self._slides[-1].first > _TURN:
            self._slides.append(_Jump(at, at, len(rows) / changed.size))

    def finish(self, file: str) -> list[VideoEvent]:
        """Return the events of all frames."""
        if len(self._looks) < 3:
            return []
        looks = np.stack(self._looks).astype(np.float32)
        steps = np.concatenate(([0.0], _distances(looks[1:], looks[:-1])))
        flashes = self._find_flashes(looks, steps)
        cuts = self._find_cuts(looks, steps, flashes)
        return [self._flash_event(file, looks, jump) for jump in flashes] + [
            self._scene_event(file, cut, following.first if following else len(looks) - 1)
            for cut, following in zip(cuts, [*cuts[1:], None], strict=False)
        ]

    def _find_flashes(self, looks: NDArray[np.float32], steps: NDArray[np.float64]) -> list[_Jump]:
        flashes: list[_Jump] = []
        after = 0
        for first in np.flatnonzero(steps >= _RISE).tolist():
            flash = self._flash_from(looks, first) if first >= after else None
            if flash is not None:
                flashes.append(flash)
                after = flash.end
        return flashes

    def _flash_from(self, looks: NDArray[np.float32], first: int) -> _Jump | None:
        """Return the flash that begins at a frame: a change to a flat colour and back; None if there is none."""
        last = min(first + round(_MAX_FLASH_S * self._rate) + 1, len(looks))
        before = looks[first - 1]
        away = _distances(looks[first:last], before[None])
        peak = int(np.argmax(away))
        if away[peak] < _PEAK:
            return None
        back = np.flatnonzero(away[peak:] <= min(_RETURNED * away[peak], _PEAK))
        flat = float(looks[first + peak].std(axis=(0, 1)).mean())
        is_flat = flat <= max(_FLAT_SHARE * float(before.std(axis=(0, 1)).mean()), 12.0)
        if len(back) == 0 or not is_flat:
            return None
        return _Jump(first, first + peak + int(back[0]), float(away[peak]))

    def _find_cuts(self, looks: NDArray[np.float32], steps: NDArray[np.float64], flashes: list[_Jump]) -> list[_Jump]:
        stays, soft = round(_STAYS_S * self._rate), max(round(_SOFT_S * self._rate), 2)
        cuts = []
        for at in range(1, len(looks)):
            if steps[at] < _STEP or any(flash.first - 1 <= at <= flash.end + 1 for flash in flashes):
                continue
            around = np.delete(steps[max(at - soft * 2, 1) : at + soft * 2 + 1], min(at - 1, soft * 2))
            later = min(at + stays, len(looks) - 1)
            usual = float(np.percentile(around, 75)) if len(around) else 0.0
            is_whole = _changed_share(looks[at], looks[at - 1]) >= _MOST
            is_lasting = _distance(looks[later], looks[at - 1]) >= 0.7 * _STEP
            if is_whole and is_lasting and steps[at] >= _STANDS_OUT * usual:
                cuts.append(_Jump(at, at, float(steps[at])))
        slides = [
            one for one in self._slides if not any(flash.first - 1 <= one.first <= flash.end + 1 for flash in flashes)
        ]
        return self._apart(cuts + self._find_dissolves(looks, cuts, flashes, soft) + slides)

    def _find_dissolves(
        self, looks: NDArray[np.float32], cuts: list[_Jump], flashes: list[_Jump], soft: int
    ) -> list[_Jump]:
        """Return dissolves: large changes within two seconds with little change before and after."""
        if len(looks) <= 6 * soft:
            return []
        across = np.zeros(len(looks))
        across[soft:-soft] = _distances(looks[2 * soft :], looks[: -2 * soft])
        sharp = [*(cut.first for cut in cuts), *(flash.first for flash in flashes), *(flash.end for flash in flashes)]
        dissolves = []
        for at in np.flatnonzero(across >= 2 * _STEP).tolist():
            if any(abs(at - other) <= 3 * soft for other in sharp):
                continue
            is_peak = across[at] >= across[max(at - soft, 0) : at + soft + 1].max()
            rest = max(across[max(at - 3 * soft, 0)], across[min(at + 3 * soft, len(across) - 1)])
            is_whole = _changed_share(looks[at + soft], looks[at - soft]) >= _MOST
            if is_whole and is_peak and across[at] >= _STANDS_OUT * rest:
                dissolves.append(_Jump(at, at, float(across[at])))
        return dissolves

    def _apart(self, cuts: list[_Jump]) -> list[_Jump]:
        kept: list[_Jump] = []
        for cut in sorted(cuts, key=lambda jump: -jump.score):
            if all(abs(self._times_s[cut.first] - self._times_s[other.first]) >= _MIN_APART_S for other in kept):
                kept.append(cut)
        return sorted(kept, key=lambda cut: cut.first)

    def _flash_event(self, file: str, looks: NDArray[np.float32], jump: _Jump) -> VideoEvent:
        middle = (jump.first + jump.end) // 2
        color = looks[middle].mean(axis=(0, 1))
        if color.max() >= _LIT:  # a light over a darker picture: only its hue matters
            color = color * 255 / color.max()
        name = color_name(color.round().astype(np.int64))
        return VideoEvent(
            file=file,
            start_s=self._times_s[jump.first],
            end_s=self._times_s[min(jump.end, len(looks) - 1)],
            kind="flash",
            text=f"{name} flash",
            confidence=min(0.5 + jump.score, 1.0),
            evidence_s=(self._times_s[middle],),
            source="flash",
        )

    def _scene_event(self, file: str, cut: _Jump, until: int) -> VideoEvent:
        evidence = min(cut.first + 1, len(self._times_s) - 1)
        return VideoEvent(
            file=file,
            start_s=self._times_s[cut.first],
            end_s=max(self._times_s[until], self._times_s[cut.first]),
            kind="scene",
            text="another scene",
            confidence=min(0.5 + cut.score, 1.0),
            evidence_s=(self._times_s[evidence],),
            is_open=until == len(self._times_s) - 1,
            source="scene",
        )


def _distances(ones: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the mean absolute pixel difference of frames, 0 (equal) to 1."""
    distances: NDArray[np.float64] = np.abs(ones - others).mean(axis=(1, 2, 3), dtype=np.float64) / 255
    return distances


def _difference(image: NDArray[np.uint8], other: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the largest difference of the channels of each pixel."""
    difference: NDArray[np.uint8] = (np.maximum(image, other) - np.minimum(image, other)).max(axis=2)
    return difference


def _changed_share(image: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Return the share of the picture that has changed, 0 to 1."""
    return float((np.abs(image - other).max(axis=2) > _CHANGED).mean())


def _distance(image: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    return float(_distances(image[None], other[None])[0])
