"""Text that appears, changes or disappears: static edges are read by OCR once and then only tracked.

OCR is slow and tracking is fast. Only new edges that have been static for a moment are read. A running clock is never
static long enough, and neither are moving objects; a background is read once per scene.
"""

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from apps.video_showcase.events import VideoEvent, digits_of, normalize_text, parse_clock, text_similarity
from apps.video_showcase.samples import Sample
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.ocr import TextLine

_EDGE = 40
"""Difference of neighbours in grey levels, of 255, that is an edge."""
# Heuristics without another source; measured together in benchmarks/video.md, "The whole set".
_STILL_S = 1.3
_MIN_PIXELS = 18
_MIN_HEIGHT_PX, _MIN_WIDTH_PX = 6, 10
_PAUSE_S = 0.5
_MIN_GONE = 6
_MAX_AGE = 250
_PRESENT = 0.55
_LOST_S = 0.45
_HIDDEN_S = 2.6
"""Maximum time for which a text may be hidden, by a flash or a passing object, and remain the same text."""
_SAME = 0.86
_MIN_CONFIDENCE, _SURE = 0.6, 0.9
_UNSURE = 0.3
_BRIEF_FRAMES = (2, 4)
"""Samples before a change of score in which a brief score is looked for: the date can be a sample late."""
_MARGIN_PX = 5
_MAX_BOXES = 6
_READS_A_MINUTE = 30.0
_BURST = 40.0
_TEXT_HEIGHT_PX = 26.0
_OPENING_S = 1.0
_CLOCK_TOKEN = re.compile(r"\b\d{1,3}:[0-5]\d(?::[0-5]\d)?(?:[.,]\d+)?\b")
_SCORE = re.compile(r"(?<!\d)(\d{1,3})\s*[-–—:]\s*(\d{1,3})(?!\d)")
_O_FOR_ZERO = re.compile(r"[oO](?=\s*[-–—:]\s*[\doO])|(?<=[-–—:])\s*[oO](?=\W|$)|(?<=[\doO][-–—:] )[oO](?=\W|$)")

Read = Callable[[NDArray[np.uint8]], Sequence[TextLine]]
FrameAt = Callable[[float], NDArray[np.uint8]]
Mask = NDArray[np.bool_]


@dataclass(slots=True)
class _Track:
    """Block of text on the screen.

    Attributes:
        text: Text content.
        box: Position on the frame.
        start_s: Time when it appeared.
        edges: Rows and columns of its edges.
        seen_s: Time when it was last seen.
        previous: Block at its position that changed into it.
        end_s: Time when it disappeared; None while it is visible.
        is_first: True if it was visible at the start.
        shown_s: Time when it was last read.
        changed_s: Time when some of its edges disappeared while the others stayed; None while all are present.
        is_board: True if it has changed into another score.
        evidence_s: Time of a frame that was read again and shows it.
    """

    text: str
    box: Box
    start_s: float
    edges: tuple[NDArray[np.intp], NDArray[np.intp]]
    seen_s: float
    confidence: float
    previous: "_Track | None" = None
    end_s: float | None = None
    is_first: bool = False
    shown_s: float = 0.0
    changed_s: float | None = None
    is_board: bool = False
    evidence_s: float | None = None

    @property
    def before(self) -> str:
        """Text of the block that changed into it."""
        return self.previous.text if self.previous is not None else ""

    @property
    def is_score(self) -> bool:
        """True if it is another score than the block before it."""
        return _is_score_change(self.before, self.text)

    @property
    def is_told(self) -> bool:
        """True if it has words, or is another score that is more than a clock."""
        is_pair = self.is_score and _SCORE.search(_CLOCK_TOKEN.sub("", self.text)) is not None
        return is_pair or _has_words(self.text, self.confidence)


@dataclass(slots=True)
class _Screen:
    """Pixel state: how long each pixel has been an edge, and which edges were read."""

    still: NDArray[np.uint8]
    known: Mask
    absent: NDArray[np.uint8] = field(repr=False)


class OnScreenTextDetector:
    """Detector of text and scores.

    Args:
        rate: Samples per second.
        read: Function that reads the text of an image.
        frame_at: Function that returns the frame at a time again, of the same size; None to check nothing.
    """

    def __init__(self, rate: float, read: Read, frame_at: FrameAt | None = None) -> None:
        self._rate, self._read, self._frame_at = rate, read, frame_at
        self._needed = max(round(_STILL_S * rate), 3)
        self._tracks: list[_Track] = []
        self._done: list[_Track] = []
        self._screen: _Screen | None = None
        self._first_s = self._time_s = 0.0
        self._times_s: deque[float] = deque(maxlen=_MAX_AGE + 1)
        self._credit, self._next_look_s = _BURST, 0.0
        self.num_read = self.num_passed_over = 0

    def feed(self, sample: Sample) -> None:
        """Process the next frame."""
        edges = _find_edges(sample.image)
        if self._screen is None or self._screen.known.shape != edges.shape:
            self._screen = _Screen(
                still=np.zeros(edges.shape, np.uint8),
                known=np.zeros(edges.shape, bool),
                absent=np.zeros(edges.shape, np.uint8),
            )
            self._first_s = sample.time_s
        self._credit = min(self._credit + _READS_A_MINUTE / 60 * (sample.time_s - self._time_s), _BURST)
        self._time_s = sample.time_s
        self._times_s.append(sample.time_s)
        screen = self._screen
        on = edges.view(np.uint8)
        screen.still = (np.minimum(screen.still, _MAX_AGE) + on) * on
        screen.absent = (np.minimum(screen.absent, _MAX_AGE) + 1) * (1 - on)
        screen.known &= screen.absent <= self._rate * _HIDDEN_S
        self._watch(edges)
        fresh = (screen.still >= self._needed) & ~screen.known
        if sample.time_s >= self._next_look_s and int(np.count_nonzero(fresh)) >= _MIN_PIXELS:
            self._inspect(sample, screen, fresh)

    def _watch(self, edges: Mask) -> None:
        """Update which blocks are still visible."""
        for track in list(self._tracks):
            if float(edges[track.edges].mean()) >= _PRESENT:
                track.seen_s, track.end_s = self._time_s, None
                self._look_for_change(track)
            elif track.end_s is None and self._time_s - track.seen_s >= _LOST_S:
                track.end_s = track.seen_s + 1 / self._rate
            if self._time_s - track.seen_s > _HIDDEN_S:
                self._tracks.remove(track)
                self._done.append(track)

    def _look_for_change(self, track: _Track) -> None:
        """Mark a block to be read again when some of its edges have disappeared: a digit may have changed."""
        assert self._screen is not None
        absent = self._screen.absent[track.edges]
        gone = absent >= self._needed
        if int(np.count_nonzero(gone)) < _MIN_GONE:
            return
        track.changed_s = self._since(absent[gone])
        track.edges = track.edges[0][~gone], track.edges[1][~gone]
        self._screen.known[track.box.slices] = False

    def _inspect(self, sample: Sample, screen: _Screen, fresh: Mask) -> None:
        static = screen.still >= self._needed
        boxes = _find_boxes(static, fresh)
        if not boxes:  # specks that are not text: checked again, but not on each frame
            self._next_look_s = sample.time_s + _PAUSE_S
        for box in boxes:
            part = box.slices
            screen.known[part] |= _grown(static[part])
            if self._credit < 1:
                self.num_passed_over += 1
                continue
            self._credit -= 1
            self.num_read += 1
            for lines in _blocks(_read_box(sample.image, box, self._read)):
                self._take(lines, static, fresh, screen.still)

    def _take(self, lines: list[TextLine], static: Mask, fresh: Mask, still: NDArray[np.uint8]) -> None:
        """Record a block that was read as a new, a known or a changed one."""
        text = " ".join(line.text for line in lines).strip()
        box = _around(lines, static.shape)
        inside = box.slices
        edges = np.nonzero(static[inside])
        if len(edges[0]) < _MIN_PIXELS:
            return
        edges = (edges[0] + box.top, edges[1] + box.left)
        is_fresh = fresh[inside]
        ages = still[inside][is_fresh] if is_fresh.any() else still[edges]
        start_s = self._since(ages)
        there = self._at(box)
        if there is not None and _is_same(there.text, text, self._time_s - there.shown_s):
            there.edges, there.seen_s, there.end_s = edges, self._time_s, None
            there.text, there.shown_s = text if _CLOCK_TOKEN.search(text) else there.text, self._time_s
            there.changed_s = None
            return
        confidence = float(min(line.confidence for line in lines))
        if there is not None:
            changed_s = self._changed_s(there, start_s if int(np.count_nonzero(is_fresh)) >= _MIN_PIXELS else None)
            if changed_s is None:  # another reading of the same picture
                if confidence > there.confidence:
                    there.text, there.confidence = text, confidence
                there.edges, there.seen_s, there.end_s, there.shown_s = edges, self._time_s, None, self._time_s
                return
            start_s = changed_s
        is_first = start_s <= self._first_s + _OPENING_S
        track = _Track(text, box, start_s, edges, self._time_s, confidence, is_first=is_first, shown_s=self._time_s)
        if there is not None:
            track.previous = there
            there.end_s, there.is_board = start_s, _is_score_change(there.text, text)
            self._tracks.remove(there)
            self._done.append(there)
        self._tracks.append(track)

    def _since(self, ages: NDArray[np.uint8]) -> float:
        """Return the time of the sample since which pixels have been as they are: of their median age."""
        return self._times_s[-min(max(int(np.median(ages)), 1), len(self._times_s))]

    def _changed_s(self, track: _Track, fresh_s: float | None) -> float | None:
        """Return when a block became another text, not before it was last read; None if its pixels are the same.

        Args:
            track: Block.
            fresh_s: When new edges appeared in it; None if there are none.
        """
        assert self._screen is not None
        absent = self._screen.absent[track.edges]
        gone = absent[absent > 0]
        if track.changed_s is not None:
            fresh_s = track.changed_s
        elif len(gone) >= _MIN_GONE:
            fresh_s = self._since(gone)
        return None if fresh_s is None else max(fresh_s, track.shown_s)

    def _at(self, box: Box) -> _Track | None:
        """Return the block that overlaps a box; None if there is none."""
        share = {id(track): _overlap(track.box, box) for track in self._tracks}
        nearest = max(self._tracks, key=lambda track: share[id(track)], default=None)
        return nearest if nearest is not None and share[id(nearest)] >= 0.4 else None

    def finish(self, file: str) -> list[VideoEvent]:
        """Return the events of all frames; what a frame read again does not show is corrected, or unsure."""
        blocks = sorted([*self._done, *self._tracks], key=lambda block: block.start_s)
        for track in blocks if self._frame_at is not None else ():
            if track.is_told and (track.is_score or not track.is_first):
                self._check(track)
                blocks = [*blocks, *self._find_brief_scores(track)]
        blocks.sort(key=lambda block: block.start_s)
        events = [self._event(file, track) for track in blocks if track.is_told]
        return [event for event in events if event is not None]

    def _check(self, track: _Track) -> None:
        """Read the frame that is cited as evidence again, others if it does not show the text; date changes."""
        middle_s, last_s = self._middle_s(track), max(track.shown_s, track.start_s)
        times_s = (middle_s, last_s, (middle_s + last_s) / 2)
        seen_s = next((time_s for time_s in times_s if self._is_shown(track, time_s)), None)
        if seen_s is None:
            self._correct(track, middle_s, last_s)
            return
        track.evidence_s = seen_s
        if track.previous is None:
            return
        step_s, old_s = 1 / self._rate, track.previous.shown_s
        for time_s in (middle_s, track.start_s + step_s, track.start_s - step_s):
            if not old_s < time_s < seen_s:
                continue
            if not self._is_shown(track, time_s):
                old_s = time_s
                break
            seen_s = time_s
        if old_s < seen_s - 2.5 * step_s or not old_s < track.start_s <= seen_s:
            track.start_s = track.evidence_s = self._find_change(track, old_s, seen_s)

    def _find_brief_scores(self, track: _Track) -> list[_Track]:
        """Return the scores between a score and the one before it that were shown too briefly to be read, latest first.

        Two frames must show one, so that a digit that turns is not taken for another score.
        """
        previous = track.previous
        late_s, early_s = (track.start_s - frames / self._rate for frames in _BRIEF_FRAMES)
        if previous is None or not track.is_score or early_s <= previous.shown_s:
            return []
        for text in self._read_again(track, late_s):
            brief = replace(track, text=text, shown_s=late_s, end_s=track.start_s, evidence_s=early_s)
            is_other = _is_score_change(text, track.text) and brief.is_score
            if is_other and self._is_shown(brief, early_s):
                brief.start_s = self._find_change(brief, previous.shown_s, early_s)
                track.previous = brief
                return [brief, *self._find_brief_scores(brief)]
        return []

    def _correct(self, track: _Track, *times_s: float) -> None:
        """Take what frames show instead of a text that none of them shows, if they agree, or mark it as unsure."""
        first, last = (self._read_again(track, time_s) for time_s in times_s)
        agreed = [text for text in first if _is_any_same(last, text, abs(times_s[0] - times_s[1]))]
        if agreed:
            track.text, track.evidence_s = max(agreed, key=lambda text: text_similarity(text, track.text)), times_s[0]
        else:
            track.confidence = min(track.confidence, _UNSURE)

    def _find_change(self, track: _Track, old_s: float, seen_s: float) -> float:
        """Return the first time at which a text is read, between one at which it is not and one at which it is."""
        while seen_s - old_s > 0.5 / self._rate:
            middle_s = (old_s + seen_s) / 2
            if self._is_shown(track, middle_s):
                seen_s = middle_s
            else:
                old_s = middle_s
        return seen_s

    def _is_shown(self, track: _Track, time_s: float) -> bool:
        return _is_any_same(self._read_again(track, time_s), track.text, abs(time_s - track.shown_s))

    def _read_again(self, track: _Track, time_s: float) -> list[str]:
        """Return the texts at the position of a block at a time: of all lines, and of each group of them."""
        assert self._frame_at is not None
        image = self._frame_at(time_s)
        box = track.box.padded(_MARGIN_PX).clipped(image.shape[1], image.shape[0])
        lines = _read_box(image, box, self._read)
        return [" ".join(line.text for line in group).strip() for group in (lines, *_blocks(lines)) if group]

    @staticmethod
    def _middle_s(track: _Track) -> float:
        end_s = track.end_s if track.end_s is not None else track.seen_s
        return (track.start_s + min(max(end_s, track.start_s), track.start_s + (3 if track.is_score else 4))) / 2

    def _event(self, file: str, track: _Track) -> VideoEvent | None:
        end_s = track.end_s if track.end_s is not None else self._time_s
        is_score = track.is_score
        if track.is_board and track.is_first and not is_score:
            return None  # a board that was visible from the beginning
        is_reread = (
            digits_of(track.before) == digits_of(track.text) and text_similarity(track.before, track.text) >= 0.75
        )
        if track.before and not is_score and is_reread:
            return None  # a slightly different reading of the same text
        if is_score:
            end_s = min(end_s, track.start_s + 3.0)
        return VideoEvent(
            file=file,
            start_s=track.start_s,
            end_s=max(end_s, track.start_s),
            kind="score" if is_score else "text",
            text=track.text,
            confidence=round(track.confidence, 3),
            evidence_s=(self._middle_s(track) if track.evidence_s is None else track.evidence_s,),
            is_open=track.end_s is None and not is_score,
            began_before=track.is_first,
            source="text",
        )


def _find_edges(image: NDArray[np.uint8]) -> Mask:
    """Return where brightness changes between neighbours, (H, W) bool."""
    cv2 = require("cv2", "visual")
    gray = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    edges: Mask = cv2.morphologyEx(gray, cv2.MORPH_GRADIENT, np.ones((2, 2), np.uint8)) > _EDGE
    return edges


def _grown(mask: Mask) -> Mask:
    cv2 = require("cv2", "visual")
    dilated: Mask = cv2.dilate(mask.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    return dilated


def _find_boxes(static: Mask, fresh: Mask) -> list[Box]:
    """Return the boxes to read: lines of static edges that contain something new."""
    cv2 = require("cv2", "visual")
    height, width = static.shape
    near = (max(width // 22, 9) | 1, max(height // 60, 3) | 1)
    joined = cv2.dilate(static.astype(np.uint8), np.ones((near[1], near[0]), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    new = np.bincount(labels[fresh], minlength=count)
    boxes = []
    for label in np.flatnonzero(new >= _MIN_PIXELS // 2).tolist():
        left, top, wide, high, _ = stats[label].tolist()
        if label and high >= _MIN_HEIGHT_PX and wide >= _MIN_WIDTH_PX:
            boxes.append(
                Box(max(left - 4, 0), max(top - 5, 0), min(left + wide + 4, width), min(top + high + 5, height))
            )
    if len(boxes) > _MAX_BOXES or sum(box.width * box.height for box in boxes) > 0.35 * width * height:
        return [Box(0, 0, width, height)]
    return boxes


def _read_box(image: NDArray[np.uint8], box: Box, read: Read) -> list[TextLine]:
    """Read the lines within a box, in pixels of the image; small ones are enlarged first."""
    cv2 = require("cv2", "visual")
    crop = image[box.slices]
    scale = 2.0 if max(crop.shape[:2]) <= 480 or crop.shape[0] < 2 * _TEXT_HEIGHT_PX else 1.0
    if scale != 1.0:
        crop = cv2.resize(crop, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
    lines = []
    for line in read(np.ascontiguousarray(crop)):
        if line.confidence < _MIN_CONFIDENCE or not normalize_text(line.text):
            continue
        line_box = line.box_px
        moved = Box(
            box.left + round(line_box.left / scale),
            box.top + round(line_box.top / scale),
            box.left + round(line_box.right / scale),
            box.top + round(line_box.bottom / scale),
        )
        lines.append(replace(line, box_px=moved, char_x_px=(), corners_px=()))
    return lines


def _blocks(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    """Group neighbouring lines into blocks, in reading order."""
    blocks: list[list[TextLine]] = []
    for line in sorted(lines, key=lambda text_line: (text_line.box_px.top // 8, text_line.box_px.left)):
        home = next((block for block in blocks if any(_is_near(line.box_px, other.box_px) for other in block)), None)
        if home is None:
            blocks.append([line])
        else:
            home.append(line)
    return blocks


def _is_near(box: Box, other: Box) -> bool:
    height = max(box.height, other.height)
    across = max(box.left, other.left) - min(box.right, other.right)
    down = max(box.top, other.top) - min(box.bottom, other.bottom)
    return (across <= 3 * height and down <= -0.4 * min(box.height, other.height)) or (
        down <= 0.8 * height and across <= -0.3 * min(box.width, other.width)
    )


def _around(lines: Sequence[TextLine], shape: tuple[int, ...]) -> Box:
    boxes = [line.box_px for line in lines]
    return Box(
        max(min(box.left for box in boxes) - 1, 0),
        max(min(box.top for box in boxes) - 1, 0),
        min(max(box.right for box in boxes) + 1, shape[1]),
        min(max(box.bottom for box in boxes) + 1, shape[0]),
    )


def _overlap(box: Box, other: Box) -> float:
    """Return the shared area as a share of the smaller box."""
    wide = min(box.right, other.right) - max(box.left, other.left)
    high = min(box.bottom, other.bottom) - max(box.top, other.top)
    smaller = min(box.width * box.height, other.width * other.height)
    return max(wide, 0) * max(high, 0) / smaller if smaller else 0.0


def _is_same(before: str, now: str, elapsed_s: float) -> bool:
    """Return whether two readings of one position are the same text, even if a clock in it has advanced."""
    times = [_CLOCK_TOKEN.findall(text) for text in (before, now)]
    if len(times[0]) == len(times[1]) == 1:
        gone_s = parse_clock(re.split("[.,]", times[1][0])[0]) - parse_clock(re.split("[.,]", times[0][0])[0])
        is_clock = abs(abs(gone_s) - elapsed_s) <= 2.5 or abs(abs(gone_s) * 60 - elapsed_s) <= 62
        if is_clock:
            before, now = (_CLOCK_TOKEN.sub("", text) for text in (before, now))
    if digits_of(before) != digits_of(now):
        return False
    return text_similarity(before, now) >= _SAME


def _is_any_same(texts: Sequence[str], text: str, elapsed_s: float) -> bool:
    return bool(text) and any(_is_same(text, other, elapsed_s) for other in texts)


def _has_words(text: str, confidence: float) -> bool:
    """Return whether a text has more than clocks; two or three letters require a high confidence."""
    length = len(normalize_text(_CLOCK_TOKEN.sub("", text)))
    return length >= 4 or (length >= 2 and confidence >= _SURE)


def _is_score_change(before: str, now: str) -> bool:
    """Return whether a pair of numbers has changed while the words around it have not."""
    before, now = (_O_FOR_ZERO.sub("0", text) for text in (before, now))
    old, new = _SCORE.search(before), _SCORE.search(now)
    if not old or not new or old.groups() == new.groups():
        return False
    words = [re.sub(r"[\d\W_]+", "", text).casefold() for text in (before, now)]
    return text_similarity(words[0], words[1]) >= 0.7 or not any(words)
