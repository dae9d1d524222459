"""Where one scene of a video ends and the next begins.

Each frame is compared, as a thumbnail, with the frame before, with one a moment earlier, and with one about a second
earlier. A cut is a step to something else that stays: a flash comes back, motion changes all frames alike. A
dissolve is a change between two times of rest. A fade goes through black or white.
"""

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visual_tools.errors import VideoError
from visual_tools.results import ResultSequence
from visual_tools.video.frames import Fit
from visual_tools.video.reader import decode_frames
from visual_tools.video.timeline import Timeline, read_timeline
from visual_tools.video.types import Progress, format_time

_THUMBNAIL = (48, 27)
_STEP = 0.16  # distance of two frames that is a cut, from 0 to 1
_REST = 2.5  # a cut stands out from its surroundings so many times
_AROUND = 10  # frames on each side that a step is compared with
_FLASH_S = 0.2  # what returns within this time was a flash
_DISSOLVE_S = 0.5  # half of the longest dissolve
_FLAT = 6.0  # standard deviation of the brightness of an empty frame, of 255
_BLACK, _WHITE = 32, 235
_BINS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A stretch between two cuts.

    Attributes:
        start_s: When its first frame is shown, in seconds from the first of the video.
        end_s: When it is over: the next scene's start, or the end of the video.
        start_frame: Number of its first frame.
        end_frame: Number of the frame after its last.
        transition: How it begins: "start" of the video, "cut", "dissolve" or "fade".
        score: How different it is from what was before, 0 to 1; 1 at the start of the video.
    """

    start_s: float
    end_s: float
    start_frame: int
    end_frame: int
    transition: str
    score: float

    @property
    def middle_s(self) -> float:
        """A time that shows the scene."""
        return (self.start_s + self.end_s) / 2


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Scenes(ResultSequence[Scene]):
    """The scenes of a video in order. Indexing and iterating give each `Scene`.

    Attributes:
        path: The file.
        scenes: The scenes, without gaps.
        warnings: What is unusual.
    """

    _items = "scenes"
    path: Path
    scenes: tuple[Scene, ...]
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        told = [f"{format_time(scene.start_s)} {scene.transition} {scene.score:.2f}" for scene in self.scenes]
        return f"Scenes({self.path.name}: {len(self)}; {'; '.join(told[:12])}{'; ...' if len(told) > 12 else ''})"


def scenes(
    path: str | os.PathLike[str],
    *,
    sensitivity: float = 1.0,
    min_length_s: float = 0.5,
    progress: Progress | None = None,
) -> Scenes:
    """The scenes of a video: hard cuts, dissolves and fades found, flashes and motion passed over.

    Every frame is decoded: about as long as reading the whole video takes.

    Args:
        path: The file.
        sensitivity: Above 1 finds fainter cuts, below 1 only stronger ones.
        min_length_s: Of two cuts nearer than this the stronger one counts.
        progress: Called with the frames read so far and the frames in all.

    Raises:
        VideoError: The file cannot be read.

    Example:
        >>> for scene in scenes("talk.mp4"): print(scene.start_s, scene.transition)
    """
    if not sensitivity > 0 or min_length_s < 0:
        raise VideoError(f"sensitivity {sensitivity:g} must be above 0 and min_length_s {min_length_s:g} not below 0")
    timeline = read_timeline(path)
    changes = _measure(path, timeline, progress)
    cuts = _find_cuts(changes, _STEP / sensitivity)
    cuts = _keep_strongest(cuts, timeline.times_s, min_length_s)
    return Scenes(path=Path(path), scenes=tuple(_make_scenes(cuts, timeline)), warnings=timeline.warnings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes:
    """How far each frame is from earlier ones, (N,) float64 from 0 to 1 each; 0 where there is none so early.

    Attributes:
        step: From the frame before.
        moment: From `flash` frames before.
        second: From twice `rest` frames before.
        is_empty: All black or all white.
        flash: Frames that a flash lasts at most.
        rest: Frames of half a dissolve.
    """

    step: NDArray[np.float64]
    moment: NDArray[np.float64]
    second: NDArray[np.float64]
    is_empty: NDArray[np.bool_]
    flash: int
    rest: int


@dataclass(frozen=True, slots=True)
class _Cut:
    frame: int
    score: float
    transition: str


def _measure(path: str | os.PathLike[str], timeline: Timeline, progress: Progress | None) -> _Changes:
    flash, rest = max(round(_FLASH_S * timeline.fps), 2), max(round(_DISSOLVE_S * timeline.fps), 3)
    count = len(timeline.pts)
    step, moment, second = np.zeros((3, count))
    is_empty = np.zeros(count, bool)
    seen: deque[tuple[NDArray[np.float32], NDArray[np.float32]]] = deque(maxlen=2 * rest + 1)
    wanted = timeline.pts.tolist()
    for done, frame in enumerate(decode_frames(path, timeline, wanted, Fit(find_size=lambda *_: _THUMBNAIL)), 1):
        position = int(np.searchsorted(timeline.pts, frame.pts, side="right")) - 1
        look = _find_look(frame.image)
        seen.append(look)
        is_empty[position] = _is_empty(look[0])
        for series, lag in ((step, 1), (moment, flash), (second, 2 * rest)):
            if len(seen) > lag:
                series[position] = _find_distance(look, seen[-1 - lag])
        if progress is not None:
            progress(done, count)
    return _Changes(step=step, moment=moment, second=second, is_empty=is_empty, flash=flash, rest=rest)


def _find_look(image: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A thumbnail and the distribution of each of its colour channels, smoothed."""
    bins = image.reshape(-1, 3) // (256 // _BINS) + np.arange(3, dtype=np.uint8) * _BINS
    counts = np.bincount(bins.ravel(), minlength=3 * _BINS).reshape(3, _BINS) / (image.size / 3)
    padded = np.pad(counts, ((0, 0), (1, 1)), mode="edge")
    smooth = (padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]) / 4
    return image.astype(np.float32), smooth.astype(np.float32)


def _is_empty(thumbnail: NDArray[np.float32]) -> bool:
    brightness = thumbnail.mean(axis=2)
    return bool(brightness.std() < _FLAT and not _BLACK < brightness.mean() < _WHITE)


def _find_distance(
    one: tuple[NDArray[np.float32], NDArray[np.float32]], other: tuple[NDArray[np.float32], NDArray[np.float32]]
) -> float:
    """Distance of two frames, 0 (equal) to 1: by pixel at its place, and by histogram wherever it is."""
    in_place = min(float(np.abs(one[0] - other[0]).mean()) / 128, 1.0)
    anywhere = float(np.abs(one[1] - other[1]).sum()) / 6
    return (in_place + anywhere) / 2


def _find_cuts(changes: _Changes, threshold: float) -> list[_Cut]:
    hard = _find_hard_cuts(changes, threshold)
    runs = _find_empty_runs(changes, {cut.frame for cut in hard})
    fades = [_Cut((begin + end) // 2, 1.0, "fade") for begin, end in runs]
    hard = [cut for cut in hard if not any(begin <= cut.frame <= end for begin, end in runs)]
    sharp = [cut.frame for cut in hard + fades]
    soft = [
        cut
        for cut in _find_dissolves(changes, threshold)
        if not any(abs(cut.frame - frame) <= 2 * changes.rest for frame in sharp)
    ]
    return sorted(hard + fades + soft, key=lambda cut: cut.frame)


def _find_hard_cuts(changes: _Changes, threshold: float) -> list[_Cut]:
    step, moment, flash = changes.step, changes.moment, changes.flash
    cuts = []
    for frame in np.flatnonzero(step >= threshold).tolist():
        around = np.delete(step[max(frame - _AROUND, 1) : frame + _AROUND + 1], min(frame - 1, _AROUND))
        stays = moment[min(frame - 1 + flash, len(moment) - 1)]  # from just before to a moment after
        is_new = frame < flash or moment[frame] >= 0.6 * threshold  # from a moment before to now
        if stays >= 0.6 * threshold and is_new and step[frame] >= _REST * _usual(around):
            cuts.append(_Cut(frame, float(step[frame]), "cut"))
    return cuts


def _usual(steps: NDArray[np.float64]) -> float:
    """What the steps of the surroundings come to, a few outliers left out."""
    return float(np.percentile(steps, 75)) if len(steps) else 0.0


def _find_empty_runs(changes: _Changes, hard: set[int]) -> list[tuple[int, int]]:
    """First and next frame of what a fade goes through: not at the very beginning or end, nor cut to and from."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], changes.is_empty.astype(np.int8), [0]))))
    pairs = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    inside = [pair for pair in pairs if pair[0] > 0 and pair[1] < len(changes.is_empty)]
    return [(begin, end) for begin, end in inside if end - begin > changes.flash and not {begin, end} <= hard]


def _find_dissolves(changes: _Changes, threshold: float) -> list[_Cut]:
    """Frames around which much changes, while little does before and after."""
    second, rest = changes.second, changes.rest
    found = []
    for frame in range(3 * rest, len(second) - 3 * rest):
        across, before, after = (
            second[frame + rest],
            second[frame - rest],
            second[min(frame + 3 * rest, len(second) - 1)],
        )
        is_peak = across >= second[frame : frame + 2 * rest + 1].max()
        if across >= 1.25 * threshold and is_peak and across >= _REST * max(before, after):
            found.append(_Cut(frame, float(across), "dissolve"))
    return found


def _keep_strongest(cuts: list[_Cut], times_s: NDArray[np.float64], min_length_s: float) -> list[_Cut]:
    kept: list[_Cut] = []
    for cut in sorted(cuts, key=lambda one: -one.score):
        if all(abs(times_s[cut.frame] - times_s[other.frame]) >= min_length_s - 1e-6 for other in kept):
            kept.append(cut)
    return sorted(kept, key=lambda cut: cut.frame)


def _make_scenes(cuts: list[_Cut], timeline: Timeline) -> Iterator[Scene]:
    times_s, count = timeline.times_s, len(timeline.pts)
    begins = [_Cut(0, 1.0, "start"), *(cut for cut in cuts if 0 < cut.frame < count)]
    for cut, end in zip(begins, [*(one.frame for one in begins[1:]), count], strict=True):
        yield Scene(
            start_s=float(times_s[cut.frame]),
            end_s=float(times_s[end]) if end < count else timeline.duration_s,
            start_frame=cut.frame,
            end_frame=end,
            transition=cut.transition,
            score=round(cut.score, 3),
        )
