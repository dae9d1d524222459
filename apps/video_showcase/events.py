"""Events of videos as data: a span of one file with its kind, its text, and the frames that show it."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

MAX_TEXT_CHARS = 400
MIN_SURE = 0.5
_SLACK_S = 2.0
_CLOCK = r"(\d{1,3}):([0-5]\d):([0-5]\d)(?:\.\d+)?"
_SHORT_CLOCK = r"(\d{1,3}):([0-5]\d)(?![\d:])"


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoEvent:
    """Event in one file.

    Attributes:
        file: Name of the file in the inventory.
        start_s: Start, in seconds from the file's first frame.
        end_s: End, in seconds from the file's first frame.
        kind: One of the detectors' kinds, or a word chosen by the model.
        text: Description in words.
        confidence: 0 to 1.
        evidence_s: Times of frames that show it.
        is_open: True if it had not ended where its finder stopped.
        began_before: True if it had already begun where its finder started.
        source: Origin: the detector's name, or `model`.
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
        """Duration in seconds."""
        return self.end_s - self.start_s

    @property
    def is_unsure(self) -> bool:
        """True if it probably did not happen as described, or if its evidence does not show it."""
        return self.confidence < MIN_SURE

    @property
    def citation(self) -> str:
        """Citation in an answer: `FILE@HH:MM:SS`."""
        return f"{self.file}@{format_clock(self.start_s)}"

    def moved(self, shift_s: float) -> "VideoEvent":
        """Return the event shifted by some seconds: from times of a span to times of its file."""
        return replace(
            self,
            start_s=self.start_s + shift_s,
            end_s=self.end_s + shift_s,
            evidence_s=tuple(time_s + shift_s for time_s in self.evidence_s),
        )

    def to_json(self) -> dict[str, Any]:
        """Return JSON values, with times rounded to the millisecond."""
        times = {"start_s": round(self.start_s, 3), "end_s": round(self.end_s, 3)}
        return {**asdict(self), **times, "evidence_s": [round(time_s, 3) for time_s in self.evidence_s]}


def event_from_json(data: Mapping[str, Any]) -> VideoEvent:
    """Return an event from its JSON values.

    Raises:
        ValueError: If the values do not describe an event.
    """
    try:
        given = {name: data[name] for name in VideoEvent.__dataclass_fields__ if name in data}
        given["evidence_s"] = tuple(float(time_s) for time_s in data.get("evidence_s", ()))
        event = VideoEvent(**given)
        times = (float(event.start_s), float(event.end_s), float(event.confidence), *event.evidence_s)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"invalid event: {error}") from error
    if not all(map(math.isfinite, times)) or event.end_s < event.start_s or event.start_s < 0:
        raise ValueError(f"invalid event: its times are {event.start_s} to {event.end_s} s")
    return replace(event, text=str(event.text)[:MAX_TEXT_CHARS], kind=str(event.kind)[:40])


def format_clock(time_s: float) -> str:
    """Format a time as HH:MM:SS, rounded down to whole seconds."""
    seconds = int(time_s + 1e-6)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def parse_clock(text: str) -> float:
    """Parse a time written as HH:MM:SS, MM:SS or a number, into seconds.

    Raises:
        ValueError: If it has another form.
    """
    stripped = text.strip()
    if match := re.fullmatch(_CLOCK, stripped):
        return float(int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3]))
    if match := re.fullmatch(_SHORT_CLOCK, stripped):
        return float(int(match[1]) * 60 + int(match[2]))
    return float(stripped)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCitation:
    """Citation of a moment in a text.

    Attributes:
        start: Start in the text, in characters.
        end: End in the text, in characters.
        file: Name of the cited file.
        time_s: Cited time.
        event: Position of the cited event; None if there is none.
    """

    start: int
    end: int
    file: str
    time_s: float
    event: int | None


def find_citations(text: str, names: Sequence[str], events: Sequence[VideoEvent]) -> list[EventCitation]:
    """Return the citations in a text, each with the nearest event at that time (tolerance 2 s around its start)."""
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    matches = re.finditer(rf"({known})@(?:{_CLOCK}|{_SHORT_CLOCK})", text) if known else ()
    citations = []
    for match in matches:
        time_s = parse_clock(match[0][len(match[1]) + 1 :])
        event = _nearest(match[1], time_s, events)
        citations.append(EventCitation(start=match.start(), end=match.end(), file=match[1], time_s=time_s, event=event))
    return citations


def _nearest(file: str, time_s: float, events: Sequence[VideoEvent]) -> int | None:
    def distance(position: int) -> float:
        return abs(events[position].start_s - time_s)

    near = [
        position
        for position, event in enumerate(events)
        if event.file == file and event.start_s - _SLACK_S <= time_s <= max(event.end_s, event.start_s + _SLACK_S)
    ]
    return min(near, key=distance, default=None)


def normalize_text(text: str) -> str:
    """Normalize a text for comparison: only letters and digits, lower case, with O and l next to digits as digits."""
    folded = "".join(char for char in unicodedata.normalize("NFKC", text).casefold() if char.isalnum())
    folded = re.sub(r"(?<=\d)o|o(?=\d)", "0", folded)
    return re.sub(r"(?<=\d)[il]|[il](?=\d)", "1", folded)


def digits_of(text: str) -> str:
    """Return the digits of a text, after normalization."""
    return "".join(re.findall(r"\d", normalize_text(text)))


def text_similarity(text: str, other: str) -> float:
    """Return the similarity of two texts, 0 to 1, after normalization."""
    from difflib import SequenceMatcher

    left, right = normalize_text(text), normalize_text(other)
    if left == right:
        return 1.0
    return SequenceMatcher(None, left, right, autojunk=False).ratio() if left and right else 0.0


def count_kinds(events: Iterable[VideoEvent]) -> dict[str, int]:
    """Count the events of each kind, most frequent first."""
    counts = Counter(event.kind for event in events)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
