"""What happens in videos, as data: an event is a span of one file with its kind, its words, and what shows it."""

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

MAX_TEXT_CHARS = 400
_SLACK_S = 2.0
_CLOCK = r"(\d{1,3}):([0-5]\d):([0-5]\d)(?:\.\d+)?"
_SHORT_CLOCK = r"(\d{1,3}):([0-5]\d)(?![\d:])"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happens in one file.

    Attributes:
        file: Name of the file, as the inventory has it.
        start_s: When it begins, in seconds from the file's first frame.
        end_s: When it is over.
        kind: Of the detectors' kinds, or a word of the model's own.
        text: What it is, in words.
        confidence: 0 to 1.
        evidence_s: Times of frames that show it.
        is_open: It was still going on where its finder stopped looking.
        began_before: It was going on already where its finder began to look.
        source: Who noted it: the detector's name, or `model`.
    """

    file: str
    start_s: float
    end_s: float
    kind: str
    text: str = ""
    confidence: float = 1.0
    evidence_s: tuple[float, ...] = ()
    is_open: bool = False
    began_before: bool = False
    source: str = ""

    @property
    def duration_s(self) -> float:
        """Seconds from its beginning to its end."""
        return self.end_s - self.start_s

    @property
    def citation(self) -> str:
        """How an answer names it: `FILE@HH:MM:SS`."""
        return f"{self.file}@{clock(self.start_s)}"

    def moved(self, shift_s: float) -> "Event":
        """The same, later by some seconds: from times of a piece to times of its file."""
        return replace(
            self,
            start_s=self.start_s + shift_s,
            end_s=self.end_s + shift_s,
            evidence_s=tuple(time_s + shift_s for time_s in self.evidence_s),
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values, times to the millisecond."""
        times = {"start_s": round(self.start_s, 3), "end_s": round(self.end_s, 3)}
        return {**asdict(self), **times, "evidence_s": [round(time_s, 3) for time_s in self.evidence_s]}


def event_of(data: Mapping[str, Any]) -> Event:
    """An event from its JSON values.

    Raises:
        ValueError: They are none of an event.
    """
    try:
        given = {name: data[name] for name in Event.__dataclass_fields__ if name in data}
        given["evidence_s"] = tuple(float(time_s) for time_s in data.get("evidence_s", ()))
        event = Event(**given)
        times = (float(event.start_s), float(event.end_s), float(event.confidence), *event.evidence_s)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"no event: {error}") from error
    if not all(map(math.isfinite, times)) or event.end_s < event.start_s or event.start_s < 0:
        raise ValueError(f"no event: its times are {event.start_s} to {event.end_s} s")
    return replace(event, text=str(event.text)[:MAX_TEXT_CHARS], kind=str(event.kind)[:40])


def clock(time_s: float) -> str:
    """A time as HH:MM:SS, the second that has begun."""
    seconds = int(time_s + 1e-6)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def parse_clock(text: str) -> float:
    """Seconds of a time that is written HH:MM:SS, MM:SS or as a number.

    Raises:
        ValueError: It is written otherwise.
    """
    stripped = text.strip()
    if found := re.fullmatch(_CLOCK, stripped):
        return float(int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3]))
    if found := re.fullmatch(_SHORT_CLOCK, stripped):
        return float(int(found[1]) * 60 + int(found[2]))
    return float(stripped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A place of a text that names a moment.

    Attributes:
        start: Where it begins in the text, in characters.
        end: Where it ends.
        file: The file that it names.
        time_s: The moment.
        event: Position among the events of the one that it names; None where there is none.
    """

    start: int
    end: int
    file: str
    time_s: float
    event: int | None


def find_citations(text: str, names: Sequence[str], events: Sequence[Event]) -> list[Citation]:
    """Where a text cites moments, and the events that it means: those within 2 s, the nearest first."""
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    found = re.finditer(rf"({known})@(?:{_CLOCK}|{_SHORT_CLOCK})", text) if known else ()
    citations = []
    for match in found:
        time_s = parse_clock(match[0][len(match[1]) + 1 :])
        event = _nearest(match[1], time_s, events)
        citations.append(Citation(start=match.start(), end=match.end(), file=match[1], time_s=time_s, event=event))
    return citations


def _nearest(file: str, time_s: float, events: Sequence[Event]) -> int | None:
    def distance(position: int) -> float:
        return abs(events[position].start_s - time_s)

    near = [
        position
        for position, event in enumerate(events)
        if event.file == file and event.start_s - _SLACK_S <= time_s <= max(event.end_s, event.start_s + _SLACK_S)
    ]
    return min(near, key=distance, default=None)


def plain(text: str) -> str:
    """A text for comparing: letters and digits alone, small; an O or l beside digits is a digit that was misread."""
    folded = "".join(char for char in unicodedata.normalize("NFKC", text).casefold() if char.isalnum())
    folded = re.sub(r"(?<=\d)o|o(?=\d)", "0", folded)
    return re.sub(r"(?<=\d)[il]|[il](?=\d)", "1", folded)


def alike(one: str, other: str) -> float:
    """How alike two texts are for a reader, 0 to 1."""
    from difflib import SequenceMatcher

    left, right = plain(one), plain(other)
    if left == right:
        return 1.0
    return SequenceMatcher(None, left, right, autojunk=False).ratio() if left and right else 0.0


def count_kinds(events: Iterable[Event]) -> dict[str, int]:
    """How many events of each kind, the most first."""
    counts: dict[str, int] = {}
    for event in events:
        counts[event.kind] = counts.get(event.kind, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
