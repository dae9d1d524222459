"""Showcase: a folder with a page, clips and thumbnails that opens from disk without any network request.

Text from models, videos and file names is untrusted: the template engine escapes all of it, and the page's content
security policy forbids any request except for its own clips and images, and any script except its own.
"""

import asyncio
import json
import math
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from apps.video_showcase.clips import choose_clips, clip_span, write_clip
from apps.video_showcase.events import VideoEvent, count_kinds, find_citations, format_clock
from apps.video_showcase.frame_store import FrameStore, encode_webp
from apps.video_showcase.sources import VideoInputError, VideoSource
from cua.errors import ConfigError
from cua.trajectory.describe import printable
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.images import write_atomically
from cua.trajectory.report.shell import PageTemplate
from visual_tools.errors import VideoError

WIDTH = 1000.0
_MIN_MARK = 2.5
_NUM_COLORS = 8
MAX_CHAPTERS = 12
_CHAPTER_S = 600.0
_MAX_BARS = 48
BARS_HEIGHT = 110.0
_PAGE = PageTemplate(
    package="apps.video_showcase", template="showcase.html", script="showcase.js", style="showcase.css", has_files=True
)
PAGE, EVENTS = "index.html", "events.json"
MARK = ".cua-video"
"""Marker file of a generated folder, which may be replaced."""

MAX_SIZE_BYTES = 200 * 2**20
MAX_CLIPS = 120
MAX_THUMBNAILS = 600
MAX_CARDS = 1500
_THUMBNAIL_PX, _QUALITY = 320, 72
_PAGE_BYTES = 4 * 2**20
_BATCH = 12
_REPORT_EVERY = 20
OnLine = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMark:
    """Event on the timeline, in its units."""

    number: int
    x: float
    width: float
    lane: int
    color: int
    kind: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """Timeline row of one file."""

    name: str
    width: float
    length: str
    marks: tuple[TimeMark, ...]
    ticks: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindBar:
    """Number of events of one kind."""

    kind: str
    count: int
    color: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBar:
    """Time bin over all files: stacked pieces of one kind each, from the bottom up."""

    x: float
    width: float
    label: str
    pieces: tuple[tuple[float, float, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoChapter:
    """Chapter of a file."""

    file: str
    start_s: float
    end_s: float
    title: str
    first: int | None

    @property
    def time(self) -> str:
        """Start time as text."""
        return format_clock(self.start_s)


def make_rows(events: Sequence[VideoEvent], sources: Sequence[VideoSource], kinds: Sequence[str]) -> list[TimelineRow]:
    """Return the timeline: a row for each file, all to the same scale."""
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
            TimelineRow(
                name=source.name,
                width=WIDTH * source.duration_s / longest_s,
                length=format_clock(source.duration_s),
                marks=tuple(sorted(marks, key=lambda mark: -mark.width)),
                ticks=tuple(WIDTH * step_s * at / longest_s for at in range(1, math.ceil(longest_s / step_s))),
            )
        )
    return rows


def _mark(position: int, event: VideoEvent, longest_s: float, kinds: Sequence[str]) -> TimeMark:
    is_long = event.kind == "scene" or event.duration_s > 0.08 * longest_s  # drawn below the events in it
    return TimeMark(
        number=position + 1,
        x=WIDTH * event.start_s / longest_s,
        width=max(WIDTH * event.duration_s / longest_s, _MIN_MARK),
        lane=1 if is_long else 0,
        color=kinds.index(event.kind) % _NUM_COLORS,
        kind=event.kind,
        label=f"{format_clock(event.start_s)} {event.kind}: {event.text}",
    )


def _nice_step(longest_s: float) -> float:
    """Return the seconds between two lines of the timeline, at most twelve lines."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)
    return float(next((step for step in steps if longest_s / step <= 12), 28800))


def bar_rows(events: Sequence[VideoEvent], kinds: Sequence[str]) -> list[KindBar]:
    """Return the number of events of each kind, most frequent first."""
    counts = count_kinds(events)
    most = max(counts.values(), default=1)
    return [
        KindBar(kind=kind, count=count, color=kinds.index(kind) % _NUM_COLORS, share=count / most)
        for kind, count in counts.items()
    ]


def time_bars(events: Sequence[VideoEvent], sources: Sequence[VideoSource], kinds: Sequence[str]) -> list[TimeBar]:
    """Return a histogram of events over the time of all files, one after another."""
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
    label = f"{format_clock(at * step_s)} to {format_clock((at + 1) * step_s)}: {sum(row)}"
    return TimeBar(x=at * width, width=max(width - 1.5, 1.0), label=label, pieces=tuple(pieces))


def make_chapters(events: Sequence[VideoEvent], sources: Sequence[VideoSource]) -> list[VideoChapter]:
    """Split each file into chapters: from scene to scene if there are scenes, else of ten minutes."""
    chapters = []
    for source in sources:
        own = [(position, event) for position, event in enumerate(events) if event.file == source.name]
        borders = _borders(own, source)
        for start_s, end_s in zip(borders, [*borders[1:], source.duration_s], strict=True):
            inside = [(position, event) for position, event in own if start_s <= event.start_s < end_s]
            chapters.append(
                VideoChapter(
                    file=source.name,
                    start_s=start_s,
                    end_s=end_s,
                    title=_title([event for _, event in inside]),
                    first=inside[0][0] + 1 if inside else None,
                )
            )
    return chapters


def _borders(own: Sequence[tuple[int, VideoEvent]], source: VideoSource) -> list[float]:
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


def _title(events: Sequence[VideoEvent]) -> str:
    """Return the title of a chapter: its text with the highest confidence, and its other contents."""
    spoken = [
        event for event in events if event.kind not in ("scene", "motion", "flash", "beep", "sound") and event.text
    ]
    counts = count_kinds(event for event in events if event.kind != "scene")
    counted = ", ".join(f"{count} {kind}" for kind, count in list(counts.items())[:4])
    if not spoken:
        return counted or "no events"
    return f"{max(spoken, key=lambda event: event.confidence).text} ({counted})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Event on the page."""

    number: int
    event: VideoEvent
    time: str
    end: str
    length: str
    color: int
    thumbnail: str
    clip: str


@dataclass(slots=True)
class _Media:
    """Files written next to the page, by the event's position, and their total size."""

    thumbnails: dict[int, str] = field(default_factory=dict)
    clips: dict[int, str] = field(default_factory=dict)
    num_bytes: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Showcase:
    """Contents of a showcase.

    Attributes:
        question: Question of the user.
        answer: The answer.
        events: Events of the files.
        sources: The files.
        remarks: Remarks, such as spans that could not be watched.
        model: Model that answered.
        facts: Names and values for the head of the page.
        max_bytes: Size limit of the whole folder.
        max_clips: Maximum number of clips.
    """

    question: str
    answer: str
    events: tuple[VideoEvent, ...]
    sources: tuple[VideoSource, ...]
    remarks: tuple[str, ...] = ()
    model: str = "literal"
    facts: tuple[tuple[str, str], ...] = ()
    max_bytes: int = MAX_SIZE_BYTES
    max_clips: int = MAX_CLIPS


def check_target(folder: Path) -> None:
    """Check that a showcase may be written into a folder, before any work is done.

    Raises:
        ConfigError: If the folder contains something else.
    """
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / MARK).is_file())):
        raise ConfigError(f"{folder} already exists and is not a showcase; name another folder with -o")


async def write_showcase(show: Showcase, folder: Path, frames: FrameStore, say: OnLine) -> Path:
    """Write the folder of a showcase and return its page.

    Args:
        show: Contents of the showcase.
        folder: Target folder; an earlier showcase in it is replaced.
        frames: Store that provides the thumbnails.
        say: Callback for each line of progress.

    Raises:
        ConfigError: If the folder contains something else.
        CuaError: If it cannot be written.
    """
    check_target(folder)
    with translate_os_errors("write", folder):
        for name in ("clips", "thumbnails"):
            shutil.rmtree(folder / name, ignore_errors=True)
            (folder / name).mkdir(parents=True)
        write_atomically(folder / MARK, b"")
        media = _Media(num_bytes=_PAGE_BYTES)
        by_name = {source.name: source for source in show.sources}
        say(f"thumbnails of {min(len(show.events), MAX_THUMBNAILS)} events")
        await _write_thumbnails(show, by_name, folder, frames, media)
        say(f"clips of up to {min(len(show.events), show.max_clips)} events")
        await _write_clips(show, by_name, folder, media, say)
        events = [{**event.to_json(), "citation": event.citation} for event in show.events]
        write_atomically(folder / EVENTS, json.dumps(events, ensure_ascii=False, indent=1).encode("utf-8", "replace"))
        write_atomically(folder / PAGE, render_page(show, media.thumbnails, media.clips, media.problems).encode())
    return folder / PAGE


async def _write_thumbnails(
    show: Showcase, by_name: dict[str, VideoSource], folder: Path, frames: FrameStore, media: _Media
) -> None:
    positions = sorted(
        choose_clips(show.events, MAX_THUMBNAILS), key=lambda at: (show.events[at].file, _look_s(show.events[at]))
    )
    positions = [position for position in positions if by_name[show.events[position].file].has_video]
    for begin in range(0, len(positions), _BATCH):
        for file in dict.fromkeys(show.events[position].file for position in positions[begin : begin + _BATCH]):
            batch = [position for position in positions[begin : begin + _BATCH] if show.events[position].file == file]
            times_s = [_look_s(show.events[position]) for position in batch]
            try:
                shown = await frames.get(by_name[file], times_s, side_px=_THUMBNAIL_PX)
            except (VideoError, VideoInputError) as error:
                media.problems.append(f"no thumbnails of {file}: {error}")
                continue
            for position, frame in zip(batch, shown, strict=False):
                name = f"thumbnails/{position + 1:05}.webp"
                data = await asyncio.to_thread(encode_webp, frame.image, _QUALITY)
                write_atomically(folder / name, data)
                media.thumbnails[position] = name
                media.num_bytes += len(data)


def _look_s(event: VideoEvent) -> float:
    return event.evidence_s[0] if event.evidence_s else event.start_s


async def _write_clips(
    show: Showcase, by_name: dict[str, VideoSource], folder: Path, media: _Media, say: OnLine
) -> None:
    chosen = choose_clips(show.events, show.max_clips)
    for done, position in enumerate(chosen):
        if done and done % _REPORT_EVERY == 0:
            say(f"{done} of {len(chosen)} clips")
        event = show.events[position]
        source = by_name[event.file]
        if not source.has_video:
            continue
        if media.num_bytes >= show.max_bytes:
            media.problems.append(
                f"{len(chosen) - done} clips were left out: the folder is limited to {show.max_bytes / 1e6:.0f} MB"
            )
            return
        name = f"clips/{position + 1:05}.webm"
        try:
            source.check_unchanged()
            size_bytes = await asyncio.to_thread(write_clip, source, clip_span(event, source), folder / name)
        except (VideoError, VideoInputError) as error:
            media.problems.append(f"no clip of {event.citation}: {error}")
            continue
        if media.num_bytes + size_bytes > show.max_bytes:
            (folder / name).unlink()
        else:
            media.clips[position] = name
        media.num_bytes += size_bytes


def render_page(show: Showcase, thumbnails: dict[int, str], clips: dict[int, str], problems: Sequence[str] = ()) -> str:
    """Render the page as HTML.

    Args:
        show: Contents of the showcase.
        thumbnails: URLs of images by the event's position.
        clips: URLs of clips by the event's position.
        problems: Parts that could not be made.
    """
    kinds = list(count_kinds(show.events))
    cards = [_card(position, event, kinds, thumbnails, clips) for position, event in enumerate(show.events)]
    rows: list[TimelineRow] = make_rows(show.events, show.sources, kinds)
    chapters: list[VideoChapter] = make_chapters(show.events, show.sources)
    whole_s = sum(source.duration_s for source in show.sources)
    return _PAGE.render(
        question=printable(show.question),
        pieces=_answer_pieces(show),
        model=printable(show.model),
        facts=[
            ("files", str(len(show.sources))),
            ("together", format_clock(whole_s)),
            ("events", f"{len(show.events):,}"),
            *show.facts,
        ],
        kinds=bar_rows(show.events, kinds),
        rows=rows,
        bars=time_bars(show.events, show.sources, kinds),
        files=[
            (
                printable(source.name),
                _facts_of(source),
                [chapter for chapter in chapters if chapter.file == source.name],
                own,
            )
            for source in show.sources
            for own in [[card for card in cards[:MAX_CARDS] if card.event.file == source.name]]
        ],
        num_left=max(len(cards) - MAX_CARDS, 0),
        num_clips=len(clips),
        remarks=[printable(remark) for remark in (*show.remarks, *problems)],
        format_clock=format_clock,
    )


def _card(
    position: int, event: VideoEvent, kinds: Sequence[str], thumbnails: dict[int, str], clips: dict[int, str]
) -> Card:
    return Card(
        number=position + 1,
        event=event,
        time=format_clock(event.start_s),
        end=format_clock(event.end_s),
        length=f"{event.duration_s:.1f} s" if event.duration_s < 100 else format_clock(event.duration_s),
        color=kinds.index(event.kind) % 8,
        thumbnail=thumbnails.get(position, ""),
        clip=clips.get(position, ""),
    )


def _answer_pieces(show: Showcase) -> list[tuple[str, int | None, bool]]:
    """Split the answer into pieces: text, number of the cited event, and whether it is a citation."""
    bare = re.sub(r"(?<![ \t])[ \t]*\[\^[\w.]+\^\]", "", show.answer).strip()  # marks of the run's own evidence
    text = "\n".join(printable(line) for line in bare.splitlines())
    names = [printable(source.name) for source in show.sources]
    pieces: list[tuple[str, int | None, bool]] = []
    at = 0
    for citation in find_citations(text, names, show.events):
        pieces.append((text[at : citation.start], None, False))
        number = None if citation.event is None or citation.event >= MAX_CARDS else citation.event + 1
        pieces.append((text[citation.start : citation.end], number, True))
        at = citation.end
    pieces.append((text[at:], None, False))
    return [piece for piece in pieces if piece[0]]


def _facts_of(source: VideoSource) -> str:
    size = f"{source.width_px} x {source.height_px} px, {source.fps:.3g} fps" if source.has_video else "sound only"
    facts = [format_clock(source.duration_s), size, *source.warnings]
    return "; ".join(facts)
