"""What the page draws, as plain values: rows of the timeline, bars of the charts, chapters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from apps.video_showcase.events import Event, clock, count_kinds
from apps.video_showcase.sources import Source

WIDTH = 1000.0
ROW_HEIGHT = 22.0
_MIN_MARK = 2.5
_NUM_COLORS = 8
MAX_CHAPTERS = 12
_CHAPTER_S = 600.0
_MAX_BARS = 48
BARS_HEIGHT = 110.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMark:
    """An event on the timeline, in its units."""

    number: int
    x: float
    width: float
    lane: int
    color: int
    kind: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A file on the timeline."""

    name: str
    width: float
    length: str
    marks: tuple[TimeMark, ...]
    ticks: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindBar:
    """How many events of one kind."""

    kind: str
    count: int
    color: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBar:
    """A stretch of all files together: pieces of one kind each, from the bottom up."""

    x: float
    width: float
    label: str
    pieces: tuple[tuple[float, float, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """A stretch of a file."""

    file: str
    start_s: float
    end_s: float
    title: str
    first: int | None

    @property
    def time(self) -> str:
        """When it begins."""
        return clock(self.start_s)


def make_rows(events: Sequence[Event], sources: Sequence[Source], kinds: Sequence[str]) -> list[Row]:
    """The timeline: a row for each file, all to one scale."""
    longest_s = max((source.duration_s for source in sources), default=1.0) or 1.0
    step_s = _nice_step(longest_s)
    rows = []
    for source in sources:
        marks = [
            _mark(position, event, longest_s, kinds)
            for position, event in enumerate(events)
            if event.file == source.name
        ]
        rows.append(
            Row(
                name=source.name,
                width=WIDTH * source.duration_s / longest_s,
                length=clock(source.duration_s),
                marks=tuple(sorted(marks, key=lambda mark: -mark.width)),
                ticks=tuple(WIDTH * step_s * at / longest_s for at in range(1, math.ceil(longest_s / step_s))),
            )
        )
    return rows


def _mark(position: int, event: Event, longest_s: float, kinds: Sequence[str]) -> TimeMark:
    is_long = event.kind == "scene" or event.duration_s > 0.08 * longest_s  # it lies under what happens in it
    return TimeMark(
        number=position + 1,
        x=WIDTH * event.start_s / longest_s,
        width=max(WIDTH * event.duration_s / longest_s, _MIN_MARK),
        lane=1 if is_long else 0,
        color=kinds.index(event.kind) % _NUM_COLORS,
        kind=event.kind,
        label=f"{clock(event.start_s)} {event.kind}: {event.text}",
    )


def _nice_step(longest_s: float) -> float:
    """Seconds between two lines of the timeline: at most twelve of them."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)
    return float(next((step for step in steps if longest_s / step <= 12), 28800))


def bar_rows(events: Sequence[Event], kinds: Sequence[str]) -> list[KindBar]:
    """How many events of each kind, the most first."""
    counts = count_kinds(events)
    most = max(counts.values(), default=1)
    return [
        KindBar(kind=kind, count=count, color=kinds.index(kind) % _NUM_COLORS, share=count / most)
        for kind, count in counts.items()
    ]


def time_bars(events: Sequence[Event], sources: Sequence[Source], kinds: Sequence[str]) -> list[TimeBar]:
    """Events over the time of all files, one after another."""
    begins: dict[str, float] = {}
    whole_s = 0.0
    for source in sources:
        begins[source.name] = whole_s
        whole_s += source.duration_s
    if not events or whole_s <= 0:
        return []
    step_s = max(_nice_step(whole_s) / 4, whole_s / _MAX_BARS)
    num_bars = max(math.ceil(whole_s / step_s), 1)
    counts = [[0] * len(kinds) for _ in range(num_bars)]
    for event in events:
        at = min(int((begins[event.file] + event.start_s) / step_s), num_bars - 1)
        counts[at][kinds.index(event.kind)] += 1
    most = max(max(map(sum, counts)), 1)
    return [_time_bar(at, row, most, step_s, num_bars) for at, row in enumerate(counts)]


def _time_bar(at: int, row: Sequence[int], most: int, step_s: float, num_bars: int) -> TimeBar:
    width, top, pieces = WIDTH / num_bars, BARS_HEIGHT, []
    for kind, count in enumerate(row):
        height = BARS_HEIGHT * count / most
        if count:
            top -= height
            pieces.append((top, height, kind % _NUM_COLORS))
    label = f"{clock(at * step_s)} to {clock((at + 1) * step_s)}: {sum(row)}"
    return TimeBar(x=at * width, width=max(width - 1.5, 1.0), label=label, pieces=tuple(pieces))


def make_chapters(events: Sequence[Event], sources: Sequence[Source]) -> list[Chapter]:
    """Stretches of each file: from scene to scene where there are some, else of ten minutes."""
    chapters = []
    for source in sources:
        own = [(position, event) for position, event in enumerate(events) if event.file == source.name]
        borders = _borders(own, source)
        for start_s, end_s in zip(borders, [*borders[1:], source.duration_s], strict=True):
            inside = [(position, event) for position, event in own if start_s <= event.start_s < end_s]
            chapters.append(
                Chapter(
                    file=source.name,
                    start_s=start_s,
                    end_s=end_s,
                    title=_title([event for _, event in inside]),
                    first=inside[0][0] + 1 if inside else None,
                )
            )
    return chapters


def _borders(own: Sequence[tuple[int, Event]], source: Source) -> list[float]:
    least_s = max(source.duration_s / MAX_CHAPTERS, 10.0)
    borders = [0.0]
    for _, event in own:
        is_far = event.start_s - borders[-1] >= least_s and source.duration_s - event.start_s >= least_s / 2
        if event.kind == "scene" and is_far and len(borders) < MAX_CHAPTERS:
            borders.append(event.start_s)
    if len(borders) == 1:
        count = min(max(round(source.duration_s / _CHAPTER_S), 1), MAX_CHAPTERS)
        borders = [source.duration_s * at / count for at in range(count)]
    return borders


def _title(events: Sequence[Event]) -> str:
    """What a chapter is called: its surest words, and what else is in it."""
    spoken = [
        event for event in events if event.kind not in ("scene", "motion", "flash", "beep", "sound") and event.text
    ]
    counts = count_kinds(event for event in events if event.kind != "scene")
    counted = ", ".join(f"{count} {kind}" for kind, count in list(counts.items())[:4])
    if not spoken:
        return counted or "nothing noted"
    return f"{max(spoken, key=lambda event: event.confidence).text} ({counted})"
