"""Answer built from the events alone, without a model, with a citation for each statement."""

from collections.abc import Sequence

from apps.video_showcase.events import Event, clock, count_kinds, plain
from apps.video_showcase.wish import VideoRequest

MAX_LINES = 60


def wanted_events(events: Sequence[Event], wish: VideoRequest) -> list[Event]:
    """Return the events that the question is about."""
    kinds = set(wish.kinds)
    chosen = [event for event in events if not kinds or event.kind in kinds]
    chosen = [event for event in chosen if event.kind != "flash" or wish.color in event.text]
    quoted = plain(wish.quoted)
    return [event for event in chosen if quoted in plain(event.text)] if quoted else chosen


def answer(
    events: Sequence[Event], wish: VideoRequest, *, seconds: float, num_files: int, missing: Sequence[str] = ()
) -> str:
    """Answer a question from the events.

    Args:
        events: All events found.
        wish: Parsed question.
        seconds: Total duration of all files.
        num_files: Number of files.
        missing: Descriptions of the spans that could not be watched.
    """
    chosen = wanted_events(events, wish)
    where = f"in {num_files} file{'s' if num_files != 1 else ''} of {clock(seconds)} together"
    lines = [_first_line(chosen, wish, where), *map(_line, _shown(chosen, wish))]
    left = len(chosen) - MAX_LINES if wish.ask in ("list", "count") else 0
    if left > 0:
        lines.append(f"... and {left} more; events.json has all of them.")
    if missing:
        lines += ["Not watched, so that what happens there is not known:", *(f"- {line}" for line in missing)]
    return "\n".join(lines)


def _first_line(chosen: Sequence[Event], wish: VideoRequest, where: str) -> str:
    what = f' with "{wish.quoted}"' if wish.quoted else ""
    if not chosen:
        looked = ", ".join(wish.kinds or wish.detectors)
        return f"Nothing was found{what} {where} (looked for: {looked})."
    counted = ", ".join(f"{count} {kind}" for kind, count in count_kinds(chosen).items())
    match wish.ask:
        case "count":
            return f"{len(chosen)}{what}, {where}: {counted}."
        case "first" | "last" | "longest":
            return f"The {wish.ask} of {len(chosen)}{what} {where}:"
        case _:
            return f"{len(chosen)} event{'s' if len(chosen) != 1 else ''}{what} {where}: {counted}."


def _shown(chosen: Sequence[Event], wish: VideoRequest) -> Sequence[Event]:
    if not chosen:
        return ()
    match wish.ask:
        case "first":
            return chosen[:1]
        case "last":
            return chosen[-1:]
        case "longest":
            return [max(chosen, key=lambda event: event.duration_s)]
        case _:
            return chosen[:MAX_LINES]


def _line(event: Event) -> str:
    length = f" ({event.duration_s:.0f} s)" if event.duration_s >= 1.5 else ""
    return f"- {event.citation} {event.kind}: {event.text}{length}"
