"""From what each sub-agent noted to one list: borders closed, doubles joined, in the order of files and times."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from apps.video_showcase.events import Event, alike
from apps.video_showcase.sources import Source
from apps.video_showcase.spans import Span

_SAME_TEXT = 0.8
_NEAR_S = 2.0
_MIN_IOU = 0.5
_STANDING_S = 20.0
"""Text that a file begins with and that stays so long is no event but a part of the picture: a logo, a board."""


def merge(found: Mapping[int, Sequence[Event]], spans: Sequence[Span]) -> list[Event]:
    """The events of all spans as one list.

    An event belongs to the span in which it begins; what a later span saw of it tells only when it ended. The same
    thing noted twice at a border, or by a detector and a model, is one event.

    Args:
        found: Events by the number of the span, times in seconds of the file.
        spans: All spans.
    """
    events: list[Event] = []
    for source in dict.fromkeys(span.source for span in spans):
        own = [span for span in spans if span.source == source]
        events += _merge_file(found, own, source)
    return events


def _merge_file(found: Mapping[int, Sequence[Event]], spans: Sequence[Span], source: Source) -> list[Event]:
    kept: list[tuple[int, Event]] = []
    for span in spans:
        for event in sorted(found.get(span.number, ()), key=lambda one: one.start_s):
            if event.began_before and not span.is_first:
                _continue(kept, event)
            elif not _is_standing(event, source):
                _add(kept, span.number, event)
    events = sorted((event for _, event in kept), key=lambda one: (one.start_s, one.kind, one.text))
    return [_bounded(event, source) for event in _end_scenes(events, source)]


def _continue(kept: list[tuple[int, Event]], event: Event) -> None:
    """Give an event that was open at the end of its span the end that the next span saw."""
    for position in range(len(kept) - 1, -1, -1):
        number, earlier = kept[position]
        if earlier.is_open and _is_same_thing(earlier, event) and event.start_s <= earlier.end_s + _NEAR_S:
            end_s = max(earlier.end_s, event.end_s)
            kept[position] = number, replace(earlier, end_s=end_s, is_open=event.is_open)
            return


def _add(kept: list[tuple[int, Event]], number: int, event: Event) -> None:
    for position, (other_number, other) in enumerate(kept):
        is_elsewhere = other_number != number or other.source != event.source
        if is_elsewhere and _is_same_thing(other, event) and _is_same_time(other, event):
            kept[position] = other_number, _joined(other, event)
            return
    kept.append((number, event))


def _is_same_thing(one: Event, other: Event) -> bool:
    return one.kind == other.kind and (not (one.text and other.text) or alike(one.text, other.text) >= _SAME_TEXT)


def _is_same_time(one: Event, other: Event) -> bool:
    shared_s = min(one.end_s, other.end_s) - max(one.start_s, other.start_s)
    whole_s = max(one.end_s, other.end_s) - min(one.start_s, other.start_s)
    return abs(one.start_s - other.start_s) <= _NEAR_S or (shared_s > 0 and shared_s >= _MIN_IOU * whole_s)


def _joined(one: Event, other: Event) -> Event:
    """The surer one, over the time of both."""
    best = max(one, other, key=lambda event: event.confidence)
    return replace(
        best,
        start_s=min(one.start_s, other.start_s),
        end_s=max(one.end_s, other.end_s),
        evidence_s=tuple(sorted({*one.evidence_s, *other.evidence_s})),
        is_open=one.is_open and other.is_open,
    )


def _is_standing(event: Event, source: Source) -> bool:
    is_text = event.kind == "text" and event.source == "text" and event.began_before
    return is_text and (event.duration_s > _STANDING_S or event.duration_s > 0.9 * source.duration_s)


def _end_scenes(events: Sequence[Event], source: Source) -> list[Event]:
    """A scene that code found lasts until the next one, wherever that was found."""
    starts = [event.start_s for event in events if event.source == "scene"]
    ends = dict(zip(starts, [*starts[1:], source.duration_s], strict=False))
    return [replace(one, end_s=ends[one.start_s]) if one.source == "scene" else one for one in events]


def _bounded(event: Event, source: Source) -> Event:
    """Within its file."""
    end_s = min(event.end_s, source.duration_s)
    return replace(event, start_s=min(event.start_s, end_s), end_s=end_s)
