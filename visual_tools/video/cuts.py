"""Detect the scenes of a video.

The thumbnail of each frame is compared with the frame before, with one a moment earlier, and with one about a second
earlier. A cut is a step to different content that stays: a flash returns, and motion changes all frames alike. A
dissolve is a change between two periods of rest. A fade goes through black or white.
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
from visual_tools.video.frames import FrameScaling
from visual_tools.video.reader import decode_frames
from visual_tools.video.timeline import Timeline, read_timeline
from visual_tools.video.types import Progress, format_time

_THUMBNAIL = (48, 27)  # cuts are found on frames of this size: decoding dominates the time
_STEP = 0.16  # distance of two frames at a cut, from 0 to 1
_REST = 2.5  # minimum ratio of a cut to its surroundings
_AROUND = 10  # frames on each side that a step is compared with
_FLASH_S = 0.2  # content that returns within this time is a flash
_DISSOLVE_S = 0.5  # half of the longest dissolve
_FLAT = 6.0  # standard deviation of the brightness of an empty frame, of 255
_BLACK, _WHITE = 32, 235
_BINS = 16  # per channel: lighting changes stay within bins


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Part of a video between two cuts.

    Attributes:
        start_s: Time of its first frame, in seconds from the first of the video.
        end_s: Start of the next scene, or end of the video.
        start_frame: Number of its first frame.
        end_frame: Number of the frame after its last.
        transition: Start of the scene: "start" of the video, "cut", "dissolve" or "fade".
        score: Difference from the content before, 0 to 1; 1 at the start of the video.
    """

    start_s: float
    end_s: float
    start_frame: int
    end_frame: int
    transition: str
    score: float

    @property
    def middle_s(self) -> float:
        """Time in the middle of the scene."""
        return (self.start_s + self.end_s) / 2


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Scenes(ResultSequence[Scene]):
    """Scenes of a video in order. Indexing and iterating give each `Scene`.

    Attributes:
        path: Video file.
        scenes: Scenes, without gaps.
        warnings: Unusual properties of the file.
    """

    _items = "scenes"
    path: Path
    scenes: tuple[Scene, ...]
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        parts = [f"{format_time(scene.start_s)} {scene.transition} {scene.score:.2f}" for scene in self.scenes]
        return f"Scenes({self.path.name}: {len(self)}; {'; '.join(parts[:12])}{'; ...' if len(parts) > 12 else ''})"


def scenes(
    path: str | os.PathLike[str],
    *,
    sensitivity: float = 1.0,
    min_length_s: float = 0.5,
    progress: Progress | None = None,
) -> Scenes:
    """Detect the scenes of a video by hard cuts, dissolves and fades; flashes and motion are ignored.

    Every frame is decoded, which takes about as long as reading the whole video.

    Args:
        path: Video file.
        sensitivity: Values above 1 also detect fainter cuts, below 1 only stronger ones.
        min_length_s: Minimum scene length; of two cuts that are closer, the stronger one is kept.
        progress: Called with the number of frames read so far and in total.

    Raises:
        VideoError: If the file cannot be read.

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
    """Distance of each frame from earlier ones, (N,) float64 from 0 to 1 each; 0 if there is no earlier frame.

    Attributes:
        step: Distance from the frame before.
        moment: Distance from `flash` frames before.
        second: Distance from twice `rest` frames before.
        is_empty: True for frames that are all black or all white.
        flash: Maximum number of frames of a flash.
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
    for done, frame in enumerate(
        decode_frames(path, timeline, wanted, FrameScaling(find_size=lambda *_: _THUMBNAIL)), 1
    ):
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
    """Compute a thumbnail and the smoothed histogram of each of its colour channels."""
    bins = image.reshape(-1, 3) // (256 // _BINS) + np.arange(3, dtype=np.uint8) * _BINS
    counts = np.bincount(bins.ravel(), minlength=3 * _BINS).reshape(3, _BINS) / (image.size / 3)
    padded = np.pad(counts, ((0, 0), (1, 1)), mode="edge")
    smooth = (padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]) / 4
    return image.astype(np.float32), smooth.astype(np.float32)


def _is_empty(thumbnail: NDArray[np.float32]) -> bool:
    brightness = thumbnail.mean(axis=2)
    return bool(brightness.std() < _FLAT and not _BLACK < brightness.mean() < _WHITE)


def _find_distance(
    first: tuple[NDArray[np.float32], NDArray[np.float32]], second: tuple[NDArray[np.float32], NDArray[np.float32]]
) -> float:
    """Return the distance of two frames, 0 (equal) to 1: pixel by pixel and by histogram."""
    in_place = min(float(np.abs(first[0] - second[0]).mean()) / 128, 1.0)
    anywhere = float(np.abs(first[1] - second[1]).sum()) / 6
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
    """Return the typical step of the surroundings, without outliers."""
    return float(np.percentile(steps, 75)) if len(steps) else 0.0


def _find_empty_runs(changes: _Changes, hard: set[int]) -> list[tuple[int, int]]:
    """Return first and next frame of the empty runs of fades.

    Runs at the very beginning or end, or with hard cuts on both sides, are excluded.
    """
    edges = np.flatnonzero(np.diff(np.concatenate(([0], changes.is_empty.astype(np.int8), [0]))))
    pairs = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    inside = [pair for pair in pairs if pair[0] > 0 and pair[1] < len(changes.is_empty)]
    return [(begin, end) for begin, end in inside if end - begin > changes.flash and not {begin, end} <= hard]


def _find_dissolves(changes: _Changes, threshold: float) -> list[_Cut]:
    """Find frames around which much changes, with little change before and after."""
    second, rest = changes.second, changes.rest
    dissolves = []
    for frame in range(3 * rest, len(second) - 3 * rest):
        across, before, after = (
            second[frame + rest],
            second[frame - rest],
            second[min(frame + 3 * rest, len(second) - 1)],
        )
        is_peak = across >= second[frame : frame + 2 * rest + 1].max()
        if across >= 1.25 * threshold and is_peak and across >= _REST * max(before, after):
            dissolves.append(_Cut(frame, float(across), "dissolve"))
    return dissolves


def _keep_strongest(cuts: list[_Cut], times_s: NDArray[np.float64], min_length_s: float) -> list[_Cut]:
    kept: list[_Cut] = []
    for cut in sorted(cuts, key=lambda cut: -cut.score):
        if all(abs(times_s[cut.frame] - times_s[other.frame]) >= min_length_s - 1e-6 for other in kept):
            kept.append(cut)
    return sorted(kept, key=lambda cut: cut.frame)


def _make_scenes(cuts: list[_Cut], timeline: Timeline) -> Iterator[Scene]:
    times_s, count = timeline.times_s, len(timeline.pts)
    begins = [_Cut(0, 1.0, "start"), *(cut for cut in cuts if 0 < cut.frame < count)]
    for cut, end in zip(begins, [*(cut.frame for cut in begins[1:]), count], strict=True):
        yield Scene(
            start_s=float(times_s[cut.frame]),
            end_s=float(times_s[end]) if end < count else timeline.duration_s,
            start_frame=cut.frame,
            end_frame=end,
            transition=cut.transition,
            score=round(cut.score, 3),
        )
