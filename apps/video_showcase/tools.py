"""Tools of the agents that watch videos, and the merging of their notes.

Each sub-agent has one span; its times are seconds from the beginning of that span.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from apps.video_showcase.detectors.sound import WINDOW_S, read_loudness
from apps.video_showcase.events import (
    MAX_TEXT_CHARS,
    VideoEvent,
    count_kinds,
    digits_of,
    event_from_json,
    format_clock,
    text_similarity,
)
from apps.video_showcase.frame_store import FrameStore, encode_webp
from apps.video_showcase.jobs import WatchError, Watchers
from apps.video_showcase.request import DETECTORS, VideoRequest
from apps.video_showcase.sources import VideoInputError, VideoSource
from apps.video_showcase.spans import NEAR_S, VideoSpan
from cua.errors import name_choices
from cua.messages import ImagePart, TextPart, ToolResult
from cua.model import Tool
from cua.tool_agent.inputs import encode_for_model
from cua.tool_agent.profile import ToolContext, ToolMaker
from cua.tools.toolset import Arguments, failed, schema_of
from cua.trajectory.images import write_atomically
from cua.trajectory.run_record import MAIN
from visual_tools.errors import VisualError
from visual_tools.video.sample import contact_sheet

_SAME_TEXT = 0.8
_SAME_S = 0.5
_MIN_IOU = 0.5
_PART_OF_FRAME_S = 20.0
"""Minimum duration of text present from the start of a file to count as part of the frame: a logo, a board."""

MERGED = "events.json"
DETECT, NOTE, MERGE = "detect_events", "note_events", "merge_events"
"""Names of tools."""

NO_EVENTS = "0 events"

MAX_SHOWN = 24
MAX_NOTED = 2000
_SHEET_FRAMES = 24
_TILE_PX = 224
_QUALITY = 90
_MAX_LISTED = 400


def merge(events_by_span: Mapping[int, Sequence[VideoEvent]], spans: Sequence[VideoSpan]) -> list[VideoEvent]:
    """Merge the events of all spans into one list.

    An event that had begun before a span only gets its end from it. The same event noted by both spans at a
    border, or by a detector and a model, is one event; two events of one finder stay two.

    Args:
        events_by_span: Events by the number of the span, times in seconds of the file.
        spans: All spans.
    """
    events: list[VideoEvent] = []
    for source in dict.fromkeys(span.source for span in spans):
        own = [span for span in spans if span.source == source]
        events += _merge_file(events_by_span, own, source)
    return events


@dataclass(slots=True)
class _Kept:
    """Merged event, and who noted it: numbers of spans and sources."""

    event: VideoEvent
    finders: set[tuple[int, str]]


def _merge_file(
    events_by_span: Mapping[int, Sequence[VideoEvent]], spans: Sequence[VideoSpan], source: VideoSource
) -> list[VideoEvent]:
    kept: list[_Kept] = []
    for span in spans:
        for event in sorted(events_by_span.get(span.number, ()), key=lambda event: event.start_s):
            if event.began_before and not span.is_first:
                _continue(kept, event)
            elif not _is_part_of_frame(event, source):
                _add(kept, (span.number, event.source), event)
    events = sorted((one.event for one in kept), key=lambda event: (event.start_s, event.kind, event.text))
    return [_bounded(event, source) for event in _end_scenes(events, source)]


def _continue(kept: list[_Kept], event: VideoEvent) -> None:
    """Extend an event that was open at the end of its span to the end seen by the next span."""
    for one in reversed(kept):
        earlier = one.event
        if earlier.is_open and _is_alike(earlier, event) and event.start_s <= earlier.end_s + NEAR_S:
            one.event = replace(earlier, end_s=max(earlier.end_s, event.end_s), is_open=event.is_open)
            return


def _add(kept: list[_Kept], finder: tuple[int, str], event: VideoEvent) -> None:
    """Add an event, or join it with the nearest one that another finder noted of the same thing."""
    same = [
        one
        for one in kept
        if finder not in one.finders and _is_same_thing(one.event, event) and _is_same_time(one.event, event)
    ]
    nearest = min(same, key=lambda one: abs(one.event.start_s - event.start_s), default=None)
    if nearest is None:
        kept.append(_Kept(event, {finder}))
        return
    nearest.event = _joined(nearest.event, event)
    nearest.finders.add(finder)


def _is_alike(event: VideoEvent, other: VideoEvent) -> bool:
    return event.kind == other.kind and (
        not (event.text and other.text) or text_similarity(event.text, other.text) >= _SAME_TEXT
    )


def _is_same_thing(event: VideoEvent, other: VideoEvent) -> bool:
    """Return whether two events may be one: of two scores a second apart, only the numbers differ."""
    is_one_change = event.source != other.source or abs(event.start_s - other.start_s) <= _SAME_S
    return _is_alike(event, other) and (is_one_change or digits_of(event.text) == digits_of(other.text))


def _is_same_time(event: VideoEvent, other: VideoEvent) -> bool:
    """Return whether two events begin together; of a model's, the greater part in common is enough."""
    if abs(event.start_s - other.start_s) <= NEAR_S:
        return True
    shared_s = min(event.end_s, other.end_s) - max(event.start_s, other.start_s)
    whole_s = max(event.end_s, other.end_s) - min(event.start_s, other.start_s)
    return "model" in (event.source, other.source) and shared_s > 0 and shared_s >= _MIN_IOU * whole_s


def _joined(event: VideoEvent, other: VideoEvent) -> VideoEvent:
    """Return the event with the higher confidence, over the time of both."""
    best = max(event, other, key=lambda candidate: candidate.confidence)
    return replace(
        best,
        start_s=min(event.start_s, other.start_s),
        end_s=max(event.end_s, other.end_s),
        evidence_s=tuple(sorted({*event.evidence_s, *other.evidence_s})),
        is_open=event.is_open and other.is_open,
    )


def _is_part_of_frame(event: VideoEvent, source: VideoSource) -> bool:
    is_text = event.kind == "text" and event.source == "text" and event.began_before
    return is_text and (event.duration_s > _PART_OF_FRAME_S or event.duration_s > 0.9 * source.duration_s)


def _end_scenes(events: Sequence[VideoEvent], source: VideoSource) -> list[VideoEvent]:
    """Extend each detected scene to the start of the next one."""
    starts = [event.start_s for event in events if event.source == "scene"]
    ends = dict(zip(starts, [*starts[1:], source.duration_s], strict=False))
    return [replace(event, end_s=ends[event.start_s]) if event.source == "scene" else event for event in events]


def _bounded(event: VideoEvent, source: VideoSource) -> VideoEvent:
    """Clip an event to the duration of its file."""
    end_s = min(event.end_s, source.duration_s)
    return replace(event, start_s=min(event.start_s, end_s), end_s=end_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoContext:
    """Context shared by all agents of a run.

    Attributes:
        spans: All spans.
        request: Parsed question.
        watchers: Processes that run the detectors.
        frames: Store of decoded frames.
    """

    spans: tuple[VideoSpan, ...]
    request: VideoRequest
    watchers: Watchers
    frames: FrameStore

    def span_of(self, place: ToolContext) -> VideoSpan | None:
        """Return the span that an agent watches, from its input file; None for the orchestrator."""
        if place.agent_id == MAIN:
            return None
        return next((span for span in self.spans if (place.kernel.folder / task_name(span)).is_file()), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TimeRange:
    """Part of a file that a call refers to; the agent's times are `zero_s` less than the file's."""

    span: VideoSpan
    zero_s: float
    start_s: float
    end_s: float


class RangeArguments(Arguments):
    """Common arguments of tools that take a part of a file."""

    start_s: float = Field(0.0, ge=0, description="Where it begins, in seconds")
    end_s: float | None = Field(None, ge=0, description="Where it ends; left out: the end of what you watch")
    file: str | None = Field(None, description="The file; left out by who watches a span")


class SheetArguments(RangeArguments):
    """Arguments of `show_sheet`."""

    num_frames: int = Field(_SHEET_FRAMES, ge=1, le=64, description="Frames on the sheet, evenly")


class FramesArguments(Arguments):
    """Arguments of `show_frames`."""

    times_s: list[float] = Field(min_length=1, max_length=MAX_SHOWN, description="Times of the frames, in seconds")
    file: str | None = Field(None, description="The file; left out by who watches a span")


class DetectArguments(Arguments):
    """Arguments of `detect_events`."""

    detectors: list[str] = Field(min_length=1, max_length=len(DETECTORS), description=f"Of {', '.join(DETECTORS)}")


class NotedEvent(Arguments):
    """An event as a model writes it."""

    start_s: float = Field(ge=0, description="When it begins, in seconds")
    end_s: float = Field(ge=0, description="When it is over")
    kind: str = Field(min_length=1, max_length=40, description="One word, such as goal, banner, dialog")
    text: str = Field("", max_length=MAX_TEXT_CHARS, description="What happens")
    confidence: float = Field(0.8, ge=0, le=1)
    evidence_s: list[float] = Field(default_factory=list, max_length=12, description="Times of frames that show it")


class NoteArguments(Arguments):
    """Arguments of `note_events`."""

    events: list[NotedEvent] = Field(default_factory=list, max_length=MAX_NOTED, description="Your own events")
    take_detected: bool = Field(True, description="Also note what detect_events found")


class MergeArguments(Arguments):
    """Arguments of `merge_events`."""

    kind: str | None = Field(None, description="List only events of this kind")
    offset: int = Field(0, ge=0, description="First event to list")


class _VideoTool(Tool):
    """Base of the tools of one agent."""

    name = ""
    description = ""
    arguments: type[Arguments] = Arguments
    is_repeatable = True

    def __init__(self, context: VideoContext, place: ToolContext) -> None:
        self._context, self._workplace, self._folder = context, place, place.kernel.folder
        self.parameters: Mapping[str, Any] = schema_of(self.arguments)

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Run the tool; errors are returned to the model."""
        try:
            return await self._call(self.arguments.model_validate(arguments))
        except (VisualError, WatchError, VideoInputError, _InvalidRangeError) as error:
            return failed(str(error))

    async def _call(self, asked: Any) -> ToolResult:
        raise NotImplementedError

    def _place(self, file: str | None, start_s: float, end_s: float | None) -> _TimeRange:
        own = self._context.span_of(self._workplace)
        if own is None:
            span, zero_s, length_s = self._whole_file(file), 0.0, 0.0
            length_s = span.source.duration_s
        else:
            span, zero_s, length_s = own, own.start_s, own.end_s - own.start_s
        until_s = length_s if end_s is None else min(end_s, length_s)
        if not 0 <= start_s < until_s:
            raise _InvalidRangeError(f"From {start_s:g} to {until_s:g} s is not within 0 to {length_s:.1f} s.")
        return _TimeRange(span=span, zero_s=zero_s, start_s=start_s + zero_s, end_s=until_s + zero_s)

    def _whole_file(self, file: str | None) -> VideoSpan:
        known = {span.source.name: span.source for span in self._context.spans}
        if file not in known:
            raise _InvalidRangeError(f"There is no file {file!r}; name one.{name_choices(file or '', known)}")
        return VideoSpan(number=0, source=known[file], start_s=0.0, end_s=known[file].duration_s)


class _InvalidRangeError(Exception):
    """Error for a call with a file or a time that does not exist; returned to the model."""


class ShowSheetTool(_VideoTool):
    """Shows frames of a time range on one image."""

    name = "show_sheet"
    description = "Frames spread evenly over a stretch of the video on one image, each with its time."
    arguments = SheetArguments

    async def _call(self, asked: SheetArguments) -> ToolResult:
        place = self._place(asked.file, asked.start_s, asked.end_s)
        times_s = np.linspace(place.start_s, max(place.end_s - 0.2, place.start_s), asked.num_frames).tolist()
        frames = await self._context.frames.get(place.span.source, times_s, side_px=_TILE_PX)
        shown = [replace(frame, timestamp_s=max(frame.timestamp_s - place.zero_s, 0.0)) for frame in frames]
        sheet = await asyncio.to_thread(contact_sheet, shown, tile_px=_TILE_PX)
        caption = f"{len(shown)} frames, {shown[0].timestamp_s:.1f} to {shown[-1].timestamp_s:.1f} s:"
        return ToolResult(parts=(TextPart(text=caption), encode_for_model(sheet.image)[0]))


class ShowFramesTool(_VideoTool):
    """Shows single frames, which are also written as files for code."""

    name = "show_frames"
    description = "Frames at certain times. They are also kept as files frame-SECONDS.webp, for code."
    arguments = FramesArguments

    async def _call(self, asked: FramesArguments) -> ToolResult:
        place = self._place(asked.file, 0.0, None)
        wrong = [time_s for time_s in asked.times_s if not 0 <= time_s <= place.end_s - place.zero_s]
        if wrong:
            raise _InvalidRangeError(f"{wrong[0]:g} s is outside 0 to {place.end_s - place.zero_s:.1f} s.")
        frames = await self._context.frames.get(place.span.source, [time_s + place.zero_s for time_s in asked.times_s])
        parts: list[TextPart | ImagePart] = []
        for frame in frames:
            image, time_s = encode_for_model(frame.image)[0], max(frame.timestamp_s - place.zero_s, 0.0)
            name = f"frame-{time_s:09.1f}.webp"
            data = await asyncio.to_thread(encode_webp, frame.image, _QUALITY)
            await asyncio.to_thread(write_atomically, self._folder / name, data)
            parts += [TextPart(text=f"{time_s:.1f} s ({name}):"), image]
        return ToolResult(parts=tuple(parts))


class SoundLevelTool(_VideoTool):
    """Reports the loudness of a time range."""

    name = "sound_level"
    description = "How loud each second of a stretch is, in dB of full scale, and which tone stands out."
    arguments = RangeArguments

    async def _call(self, asked: RangeArguments) -> ToolResult:
        place = self._place(asked.file, asked.start_s, asked.end_s)
        if not place.span.source.has_audio:
            raise _InvalidRangeError(f"{place.span.source.name} has no sound.")
        stretch = replace(place.span, start_s=place.start_s, end_s=place.end_s)
        heard = await asyncio.to_thread(read_loudness, stretch)
        a_second = round(1 / WINDOW_S)
        first = max(round((place.start_s - heard.start_s) / WINDOW_S), 0)
        step = max(round((place.end_s - place.start_s) / _MAX_LISTED), 1) * a_second
        lines = []
        for begin in range(
            first, min(len(heard.level_db), first + round((place.end_s - place.start_s) / WINDOW_S)), step
        ):
            tones = heard.tone_hz[begin : begin + step]
            tone = f" tone {np.median(tones[tones > 0]):.0f} Hz" if (tones > 0).mean() > 0.2 else ""
            time_s = place.start_s - place.zero_s + (begin - first) * WINDOW_S
            lines.append(f"{time_s:.0f} s {heard.level_db[begin : begin + step].max():.0f} dB{tone}")
        return _text_result("\n".join(lines) or "There is no sound there.")


class DetectEventsTool(_VideoTool):
    """Runs detectors in the span of a sub-agent."""

    name = DETECT
    description = (
        "Have code look through all that you watch, five frames a second: scene (cuts), text (text that appears, "
        "scores that change), motion (what moves across), flash, template (the image that was given), sound (beeps, "
        "loud sounds)."
    )
    arguments = DetectArguments

    async def _call(self, asked: DetectArguments) -> ToolResult:
        span = self._context.span_of(self._workplace)
        if span is None:
            raise _InvalidRangeError("Only a sub-agent watches a span; call merge_events for what they have noted.")
        for name in asked.detectors:
            if name not in DETECTORS or (name == "template" and not self._context.request.template):
                raise _InvalidRangeError(f"There is no detector {name!r}.{name_choices(name, DETECTORS)}")
        chosen = tuple(name for name in DETECTORS if name in asked.detectors)
        result = await self._context.watchers.watch(span, chosen, self._context.request.template, self._folder)
        events = [event_from_json(data) for data in result["events"]]
        _save(self._folder / "detected.json", [event.to_json() for event in events])
        lines = [_line(event.moved(-span.start_s)) for event in events[:_MAX_LISTED]]
        if len(events) > len(lines):
            lines.append(f"... and {len(events) - len(lines)} more")
        return _text_result("\n".join([_counted(events), *result["problems"], *lines]))


class NoteEventsTool(_VideoTool):
    """Records the events of a sub-agent."""

    name = NOTE
    description = (
        "Note the events of what you watch, once, at the end; what was noted before is replaced. Times are seconds as "
        "you see them on sheets and frames. An event belongs to you if it begins in what you watch."
    )
    arguments = NoteArguments

    async def _call(self, asked: NoteArguments) -> ToolResult:
        span = self._context.span_of(self._workplace)
        if span is None:
            raise _InvalidRangeError("Only a sub-agent notes events.")
        length_s = span.end_s - span.start_s
        for each in asked.events:
            if not each.start_s <= each.end_s <= length_s + 60 or each.start_s > length_s:
                return failed(f"{each.kind} at {each.start_s:g} to {each.end_s:g} s is not in 0 to {length_s:.1f} s.")
            outside = [time_s for time_s in each.evidence_s if not 0 <= time_s <= length_s + 60]
            if outside:
                return failed(f"The evidence at {outside[0]:g} s of {each.kind} is outside 0 to {length_s:.1f} s.")
        own = [_own_event(each, span) for each in asked.events]
        detected = _load(self._folder / "detected.json") if asked.take_detected else []
        noted = {"span": span.number, "events": [*detected, *(event.to_json() for event in own)]}
        _save(self._folder / noted_name(span), noted)
        return _text_result(f"{len(detected) + len(own)} events are noted.")


class MergeEventsTool(_VideoTool):
    """Merges the notes of all sub-agents into one list."""

    name = MERGE
    description = (
        "Make one list of what all sub-agents have noted, borders closed and doubles joined, and list it: each event "
        "as FILE@HH:MM:SS, which is also how to cite it in your answer."
    )
    arguments = MergeArguments

    async def _call(self, asked: MergeArguments) -> ToolResult:
        if self._context.span_of(self._workplace) is not None:
            raise _InvalidRangeError("Only the orchestrator merges; note your own events with note_events.")
        events, missing = await asyncio.to_thread(merge_noted, self._folder, self._context.spans)
        data = {"events": [event.to_json() for event in events], "missing": [span.number for span in missing]}
        _save(self._folder / MERGED, data)
        chosen = [event for event in events if asked.kind in (None, event.kind)][asked.offset :]
        lines = [
            f"{event.citation} {format_clock(event.end_s)} {event.kind}: {event.text}" for event in chosen[:_MAX_LISTED]
        ]
        if len(chosen) > len(lines):
            lines.append(f"... and {len(chosen) - len(lines)} more, from offset {asked.offset + len(lines)} on")
        lost = [f"Not watched: {span.describe()}." for span in missing]
        return _text_result("\n".join([_counted(events), *lost, *lines]))


def task_name(span: VideoSpan) -> str:
    """Return the name of the file that assigns a span to a sub-agent."""
    return f"{span.name}-task.json"


def noted_name(span: VideoSpan) -> str:
    """Return the name of the file in which the sub-agent of a span stores its events."""
    return f"{span.name}-noted.json"


def merge_noted(folder: Path, spans: Sequence[VideoSpan]) -> tuple[list[VideoEvent], list[VideoSpan]]:
    """Merge all sub-agents' notes in the orchestrator's folder; also return the spans without notes."""
    events_by_span: dict[int, list[VideoEvent]] = {}
    for span in spans:
        for noted in sorted(folder.glob(f"*/{noted_name(span)}")):
            data = json.loads(noted.read_text("utf-8"))
            events_by_span[int(data["span"])] = [event_from_json(each) for each in data["events"]]
    return merge(events_by_span, spans), [span for span in spans if span.number not in events_by_span]


def make_tools(context: VideoContext) -> tuple[ToolMaker, ...]:
    """Return the factories of the tools for each agent of a run."""
    kinds = (ShowSheetTool, ShowFramesTool, SoundLevelTool, DetectEventsTool, NoteEventsTool, MergeEventsTool)
    return tuple(partial(kind, context) for kind in kinds)


def _own_event(noted: NotedEvent, span: VideoSpan) -> VideoEvent:
    event = VideoEvent(
        file=span.source.name,
        start_s=noted.start_s,
        end_s=noted.end_s,
        kind=noted.kind.strip().lower(),
        text=noted.text.strip(),
        confidence=noted.confidence,
        evidence_s=tuple(noted.evidence_s) or ((noted.start_s + noted.end_s) / 2,),
        source="model",
    )
    return event.moved(span.start_s)


def _line(event: VideoEvent) -> str:
    return f"{event.start_s:.1f} to {event.end_s:.1f} s {event.kind}: {event.text}"


def _counted(events: Sequence[VideoEvent]) -> str:
    counted = ", ".join(f"{count} {kind}" for kind, count in count_kinds(events).items())
    return f"{len(events)} events: {counted}" if counted else NO_EVENTS


def _text_result(text: str) -> ToolResult:
    return ToolResult(parts=(TextPart(text=text),))


def _save(path: Path, value: Any) -> None:
    write_atomically(path, json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _load(path: Path) -> list[Any]:
    return list(json.loads(path.read_text("utf-8"))) if path.is_file() else []
