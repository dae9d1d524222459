"""Detection of the regions and times of changes, in one pass over the frames that keeps none of them.

Each frame is compared with the previous one (shifted back where the page scrolled) and with an earlier one, which shows
slow fades. Changed blocks are joined over space and time into changes, in rows of the page, not of the screen.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from apps.video2web.pixels import Levels, Mask, RgbImage
from apps.video2web.recording.frames import FramePlan, RecordingError
from apps.video2web.recording.pointer import PointerTracker
from apps.video2web.recording.scrolling import FixedParts, compare_shifted, find_shift, max_difference
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.video.types import Frame, Progress

# Heuristics without another source; measured together in benchmarks/video2web.md, "Recordings".
BLOCK_PX = 8
_IDLE_LEVELS = 12
_MEAN_LEVELS = 6.0
_STRONG_LEVELS = 24
_STRONG_SHARE = 3 / 64
_SCROLL_MEAN_LEVELS = 16.0
_LAG = 4
_JOIN_S = 0.22
_JOIN_BLOCKS = 1
_SAME_START_S = 0.13
_GROUP_PX, _GROUP_MOVING_PX = 72, 12
_POINTER_PAD_PX = 4
_REST_PX = 10  # a pointer that changes its shape seems to move slightly
_WIDE_SHARE = 0.15
_USUAL_NOISE = 7.0
_RESTLESS_SHARE = 0.55
_RESTLESS_BLOCKS = 0.5
_MAX_CHANGES = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameFacts:
    """Data kept of a frame after it is discarded.

    Attributes:
        time_s: Time at which it is shown.
        pointer_px: Tip of the pointer.
        pointer_box: Box of the pointer.
        scroll_px: Rows by which the page moved up since the first frame.
        shift_px: Rows by which it moved up since the previous frame.
        is_idle: True if equal to the previous frame.
    """

    time_s: float
    pointer_px: tuple[int, int] | None
    pointer_box: Box | None
    scroll_px: int
    shift_px: int
    is_idle: bool


@dataclass(slots=True)
class ChangedRegion:
    """Blocks that changed together.

    Attributes:
        blocks: Row and column of each, in blocks of the page.
        start: Number of the first frame that is different.
        end: Number of the last frame that differs from its predecessor.
        parts: Boxes of the joined pieces, in pixels of the page.
    """

    blocks: set[tuple[int, int]]
    start: int
    end: int
    parts: list[Box] = field(default_factory=list)
    _known: tuple[int, Box] | None = None  # blocks are only ever added: the same number means the same blocks

    @property
    def box(self) -> Box:
        """Bounding box, in pixels of the page."""
        if self._known is None or self._known[0] != len(self.blocks):
            rows, columns = [row for row, _ in self.blocks], [column for _, column in self.blocks]
            left, top = min(columns) * BLOCK_PX, min(rows) * BLOCK_PX
            self._known = (len(self.blocks), Box(left, top, (max(columns) + 1) * BLOCK_PX, (max(rows) + 1) * BLOCK_PX))
        return self._known[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingScan:
    """Result of one pass over a recording.

    Attributes:
        moments: One entry per processed frame.
        changes: Changes in order of their start.
        fixed: Depth of the fixed part on each side while the page scrolls.
        warnings: Problems found while decoding.
    """

    moments: tuple[FrameFacts, ...]
    changes: tuple[ChangedRegion, ...]
    fixed: dict[str, int]
    warnings: tuple[str, ...] = ()

    @property
    def has_pointer(self) -> bool:
        """True if the pointer is seen in any frame."""
        return any(moment.pointer_px is not None for moment in self.moments)

    def resting_position(self, index: int, within_s: float) -> tuple[int, int] | None:
        """Return the position where the pointer comes to rest after a frame; its current position if it does not."""
        here = self.moments[index]
        for number in range(index, len(self.moments) - 2):
            now = self.moments[number]
            if now.time_s - here.time_s > within_s:
                break
            if now.pointer_px is not None and now.pointer_px == self.moments[number + 2].pointer_px:
                return now.pointer_px
        return here.pointer_px

    def index_at(self, time_s: float) -> int:
        """Return the number of the frame shown at a time."""
        times = [moment.time_s for moment in self.moments]
        return max(int(np.searchsorted(times, time_s + 1e-4, side="right")) - 1, 0)

    def moved_before(self, index: int, within_s: float) -> bool:
        """Return whether the pointer moved on a frame or just before it."""
        return self.rest_s(index) < within_s

    def rest_s(self, index: int) -> float:
        """Return the time since the pointer last moved."""
        here = self.moments[index]
        for earlier in range(index - 1, -1, -1):
            other = self.moments[earlier].pointer_px
            if here.pointer_px is None or other is None:
                break
            if abs(other[0] - here.pointer_px[0]) + abs(other[1] - here.pointer_px[1]) > _REST_PX:
                return here.time_s - self.moments[earlier + 1].time_s
        return here.time_s - self.moments[0].time_s + 10.0


class _Scanner:
    """State of a pass: the last few frames, open changes, the pointer, the scroll position."""

    def __init__(self, plan: FramePlan) -> None:
        self._cv2: Any = require("cv2", "visual")
        self._plan = plan
        self._pointer = PointerTracker(plan.scale)
        self._recent: deque[tuple[RgbImage, FrameFacts]] = deque(maxlen=_LAG)
        self._sharp: deque[Levels] = deque(maxlen=_LAG)
        self._grey: Levels | None = None
        self._open: list[ChangedRegion] = []
        self._restless = 0
        self.closed: list[ChangedRegion] = []
        self.moments: list[FrameFacts] = []
        self.fixed = FixedParts()

    def take(self, frame: Frame) -> None:
        """Compare the next frame with the previous ones."""
        image = frame.image
        if self._grey is not None and image is self._recent[-1][0]:  # a repeated frame
            self._take_repeat(frame, self._grey)
            return
        grey = self._cv2.GaussianBlur(self._cv2.cvtColor(image, self._cv2.COLOR_RGB2GRAY), (3, 3), 0)
        sharp = self._cv2.cvtColor(image, self._cv2.COLOR_RGB2GRAY)
        if self._grey is None:
            self._pointer.follow(sharp, None)
            self._sharp.append(sharp)
            self._keep(frame, grey, 0, is_idle=True)
            return
        last = self._recent[-1][0]
        levels = max_difference(last, image)
        is_idle = int(levels.max()) < _IDLE_LEVELS
        shift = 0
        if not is_idle:
            shift = find_shift(self._grey, grey)
            self._pointer.follow(sharp, levels, None if shift else self._sharp[0])
        else:
            self._pointer.rest()
        self._sharp.append(sharp)
        if shift:
            self.fixed.vote(self._grey, grey, shift, self._pointer.box)
            levels = compare_shifted(last, image, shift)
        previous = list(self._recent)
        self._keep(frame, grey, shift, is_idle=is_idle)
        if not (is_idle and all(moment.is_idle for _, moment in previous)):
            self._track(self._find_blocks(image, levels, previous, shift))

    def _take_repeat(self, frame: Frame, grey: Levels) -> None:
        self._pointer.rest()
        self._sharp.append(self._sharp[-1])
        previous = list(self._recent)
        self._keep(frame, grey, 0, is_idle=True)
        if not all(moment.is_idle for _, moment in previous):
            self._track(self._find_blocks(frame.image, np.zeros(grey.shape, np.uint8), previous, 0))

    def _keep(self, frame: Frame, grey: Levels, shift: int, *, is_idle: bool) -> None:
        scroll = (self.moments[-1].scroll_px if self.moments else 0) + shift
        moment = FrameFacts(
            time_s=frame.timestamp_s,
            pointer_px=self._pointer.place,
            pointer_box=self._pointer.box,
            scroll_px=scroll,
            shift_px=shift,
            is_idle=is_idle,
        )
        self.moments.append(moment)
        self._recent.append((frame.image, moment))
        self._grey = grey

    def _find_blocks(
        self, image: RgbImage, levels: Levels, previous: list[tuple[RgbImage, FrameFacts]], shift: int
    ) -> Mask:
        """Return the changed blocks of the screen, (H / 8, W / 8) bool; a moving pointer is ignored."""
        now = self.moments[-1]
        _erase_pointers(levels, [previous[-1][1], now])
        blocks = self._to_blocks(levels, _SCROLL_MEAN_LEVELS if shift else _MEAN_LEVELS, with_strong=not shift)
        is_steady = all(moment.scroll_px == now.scroll_px and moment.shift_px == 0 for _, moment in previous)
        if is_steady and not shift and len(previous) == _LAG:
            slow = max_difference(previous[0][0], image)
            _erase_pointers(slow, [moment for _, moment in previous] + [now])
            blocks |= self._to_blocks(slow, 2 * _MEAN_LEVELS, with_strong=True)
        if blocks.mean() > _RESTLESS_BLOCKS and not shift:
            self._restless += 1
        return blocks

    def _to_blocks(self, levels: Levels, mean_levels: float, *, with_strong: bool) -> Mask:
        """Return the blocks that differ on average, or strongly in some pixels; encoder redraws raise the threshold."""
        height, width = levels.shape
        size = (-(-width // BLOCK_PX), -(-height // BLOCK_PX))
        padded = np.zeros((size[1] * BLOCK_PX, size[0] * BLOCK_PX), np.uint8)
        padded[:height, :width] = levels
        factor = _find_noise_factor(padded)
        area = self._cv2.INTER_AREA
        changed_blocks: Mask = self._cv2.resize(padded, size, interpolation=area) > factor * mean_levels
        if with_strong:
            strong = self._cv2.compare(padded, factor * _STRONG_LEVELS, self._cv2.CMP_GT)
            changed_blocks |= self._cv2.resize(strong, size, interpolation=area) > 255 * _STRONG_SHARE
        return changed_blocks

    def _track(self, blocks: Mask) -> None:
        """Join the current changes to the open ones."""
        number, now = len(self.moments) - 1, self.moments[-1]
        for cells in self._pieces(blocks, now.scroll_px):
            near = _grown(cells)
            touched = [change for change in self._open if not near.isdisjoint(change.blocks)]
            if touched:
                first = touched[0]
                for other in touched[1:]:
                    first.blocks |= other.blocks
                    first.start = min(first.start, other.start)
                    self._open.remove(other)
                first.blocks |= cells
                first.end = number
            else:
                self._open.append(ChangedRegion(blocks=cells, start=number, end=number))
        for change in [
            open_change for open_change in self._open if now.time_s - self.moments[open_change.end].time_s > _JOIN_S
        ]:
            self._open.remove(change)
            self.closed.append(change)

    def _pieces(self, blocks: Mask, scroll_px: int) -> Iterator[set[tuple[int, int]]]:
        if not blocks.any():
            return
        size = 2 * _JOIN_BLOCKS + 1
        joined = self._cv2.dilate(blocks.astype(np.uint8), np.ones((size, size), np.uint8))
        count, labels = self._cv2.connectedComponents(joined, connectivity=8)
        first_row = round(scroll_px / BLOCK_PX)
        rows, columns = np.nonzero(blocks)
        names = labels[rows, columns]
        for name in range(1, count):
            chosen = names == name
            yield set(zip((rows[chosen] + first_row).tolist(), columns[chosen].tolist(), strict=True))

    def finish(self) -> None:
        """Close open changes.

        Raises:
            RecordingError: If the video is not a screen recording.
        """
        self.closed += self._open
        self._open = []
        count = len(self.moments)
        if count >= 10 and self._restless > _RESTLESS_SHARE * count:
            raise RecordingError(
                f"{self._plan.path.name} is not a recording of a website: {100 * self._restless // count} of 100 "
                "frames change nearly everywhere without scrolling, as in camera footage or a film. A screen recording "
                "in which pages come to rest was expected"
            )


def _find_noise_factor(levels: Levels) -> float:
    """Return the noise factor for block differences, 1 to 2: an encoder that restarts redraws all texts slightly.

    Args:
        levels: (H, W) uint8, sides of whole blocks.
    """
    height, width = levels.shape
    strongest = levels.reshape(height // BLOCK_PX, BLOCK_PX, width).max(axis=1)
    touched = strongest[strongest > 4]
    if touched.size < _WIDE_SHARE * strongest.size:
        return 1.0
    return float(np.clip(np.median(touched) / _USUAL_NOISE, 1.0, 2.0))


def _grown(cells: set[tuple[int, int]]) -> set[tuple[int, int]]:
    reach = range(-_JOIN_BLOCKS, _JOIN_BLOCKS + 1)
    return {(row + down, column + right) for row, column in cells for down in reach for right in reach}


def _erase_pointers(levels: Levels, moments: list[FrameFacts]) -> None:
    """Clear the area of the pointer unless the pointer does not move."""
    if len({moment.pointer_px for moment in moments}) < 2:
        return
    for box in {moment.pointer_box for moment in moments if moment.pointer_box is not None}:
        wide = box.padded(_POINTER_PAD_PX).clipped(levels.shape[1], levels.shape[0])
        levels[wide.slices] = 0


def scan_frames(plan: FramePlan, on_progress: Progress | None = None) -> RecordingScan:
    """Scan a recording in one pass.

    Args:
        plan: Frames to scan.
        on_progress: Callback with the number of frames seen so far and in total.

    Raises:
        RecordingError: If it holds no frames, or changes nearly everywhere all the time.
    """
    scanner = _Scanner(plan)
    lost = total = 0

    def count_decoded(done: int, of: int) -> None:
        nonlocal lost, total
        lost, total = of - done, of

    for number, frame in enumerate(plan.frames(count_decoded), 1):
        scanner.take(frame)
        if on_progress is not None:
            on_progress(number, plan.num_frames)
    if not scanner.moments:
        raise RecordingError(f"{plan.path.name} holds no frame that can be decoded; a screen recording was expected")
    if on_progress is not None:
        on_progress(len(scanner.moments), len(scanner.moments))
    scanner.finish()
    scan = RecordingScan(moments=tuple(scanner.moments), changes=(), fixed=scanner.fixed.find_sides())
    changes = sorted(scanner.closed, key=lambda change: (change.start, -len(change.blocks)))
    for change in changes:
        change.parts = [change.box]
    damage = (
        f"{lost} of {total} frames cannot be decoded: the file is damaged; the frames before them are taken instead"
    )
    return replace(scan, changes=tuple(_group(changes, scan))[:_MAX_CHANGES], warnings=(damage,) if lost else ())


def _group(changes: list[ChangedRegion], scan: RecordingScan) -> list[ChangedRegion]:
    """Group changes that start together and are close; while the pointer moves, only touching ones."""
    groups: list[ChangedRegion] = []
    for change in changes:
        reach = _GROUP_MOVING_PX if scan.moved_before(change.start, 0.1) else _GROUP_PX
        home = next((group for group in reversed(groups) if _belongs(group, change, scan, reach)), None)
        if home is None:
            groups.append(change)
        else:
            home.blocks |= change.blocks
            home.end = max(home.end, change.end)
            home.parts += change.parts
    return groups


def _belongs(group: ChangedRegion, change: ChangedRegion, scan: RecordingScan, reach_px: int) -> bool:
    late_s = scan.moments[change.start].time_s - scan.moments[group.start].time_s
    if late_s > _SAME_START_S:
        return False
    if group.box.padded(reach_px).intersection(change.box) > 0:
        return True
    covers = [moment.pointer_box for moment in scan.moments[group.start : change.end + 1]]
    return any(  # the pointer may hide the part that connects them
        cover is not None
        and cover.padded(BLOCK_PX).moved(0, scan.moments[group.start].scroll_px).intersection(box) > 0
        and cover.padded(2 * BLOCK_PX).moved(0, scan.moments[group.start].scroll_px).intersection(other) > 0
        for cover in covers
        for box, other in ((group.box, change.box), (change.box, group.box))
    )
