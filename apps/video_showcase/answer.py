"""Answer built from the events alone, without a model, with a citation for each statement."""

from collections.abc import Sequence

from apps.video_showcase.events import VideoEvent, count_kinds, format_clock, normalize_text
from apps.video_showcase.request import KINDS, VideoRequest

MAX_LINES = 60


def matching_events(events: Sequence[VideoEvent], request: VideoRequest) -> list[VideoEvent]:
    """Return the events that the question is about."""
    kinds = set(request.kinds or (kind for name in request.detectors for kind in KINDS[name]))
    chosen = [event for event in events if event.kind in kinds or (event.source == "model" and not request.kinds)]
    chosen = [event for event in chosen if event.kind != "flash" or request.color in event.text]
    quoted = normalize_text(request.quoted)
    return [event for event in chosen if quoted in normalize_text(event.text)] if quoted else chosen


def answer(
    events: Sequence[VideoEvent], request: VideoRequest, *, seconds: float, num_files: int, missing: Sequence[str] = ()
) -> str:
    """Answer a question from the events.

    Args:
        events: All events found.
        request: Parsed question.
        seconds: Total duration of all files.
        num_files: Number of files.
        missing: Descriptions of the spans that could not be watched.
    """
    chosen = matching_events(events, request)
    scope = f"in {num_files} file{'s' if num_files != 1 else ''} of {format_clock(seconds)} together"
    lines = [_first_line(chosen, request, scope, num_files), *map(_line, _shown(chosen, request))]
    left = len(chosen) - MAX_LINES if request.ask in ("list", "count") else 0
    if not chosen and events:
        left = len(events) - MAX_LINES
        lines += [f"Something else was found, {_counted(events)}:", *map(_line, events[:MAX_LINES])]
    if left > 0:
        lines.append(f"... and {left} more; events.json has all of them.")
    if missing:
        lines += ["Not watched:", *(f"- {line}" for line in missing)]
    return "\n".join(lines)


def _first_line(chosen: Sequence[VideoEvent], request: VideoRequest, scope: str, num_files: int) -> str:
    condition = f' with "{request.quoted}"' if request.quoted else ""
    if not chosen:
        looked = ", ".join(request.kinds or request.detectors)
        return f"Nothing was found{condition} {scope} (looked for: {looked})."
    counted = _counted(chosen)
    match request.ask:
        case "count":
            return f"{len(chosen)}{condition}, {scope}: {counted}{_number_scenes(chosen, num_files)}."
        case "first" | "last" | "longest":
            return f"The {request.ask} of {len(chosen)}{condition} {scope}:"
        case _:
            return f"{len(chosen)} event{'s' if len(chosen) != 1 else ''}{condition} {scope}: {counted}."


def _counted(events: Sequence[VideoEvent]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in count_kinds(events).items())


def _number_scenes(chosen: Sequence[VideoEvent], num_files: int) -> str:
    """Return the number of scenes or slides if only changes of them are counted: each file begins with one."""
    is_only_scenes = {event.kind for event in chosen} == {"scene"}
    return f", which makes {len(chosen) + num_files} with the first of each file" if is_only_scenes else ""


def _shown(chosen: Sequence[VideoEvent], request: VideoRequest) -> Sequence[VideoEvent]:
    if not chosen:
        return ()
    match request.ask:
        case "first":
            return chosen[:1]
        case "last":
            return chosen[-1:]
        case "longest":
            return [max(chosen, key=lambda event: event.duration_s)]
        case _:
            return chosen[:MAX_LINES]


def _line(event: VideoEvent) -> str:
    length = f" ({event.duration_s:.0f} s)" if event.duration_s >= 1.5 and event.kind != "score" else ""
    doubt = "; unsure: its frame, looked at again, does not show this" if event.is_unsure else ""
    return f"- {event.citation} {event.kind}: {event.text}{length}{doubt}"
