"""Events of a parser, and the markers that it finds in deltas.

Source: special tokens of the release's tokenizer; the singular spelling of the section markers is not among them, the
model sometimes writes it as ordinary text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from model_runtime.tokenizer.special import SpecialTokens


@dataclass(frozen=True, slots=True)
class ReasoningText:
    """A piece of reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ContentText:
    """A piece of content."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """Start of a call.

    Attributes:
        index: Position among the calls of this reply, from 0.
        raw_id: Id as written by the model; clients get another (`model_runtime.chat.tool_ids`).
        name: Name of the tool; the text of the model if no tool matches.
    """

    index: int
    raw_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """A piece of the arguments' JSON text."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallEnd:
    """End of a call, also if the reply ended inside it."""

    index: int


Event = ReasoningText | ContentText | ToolCallStart | ToolCallArguments | ToolCallEnd


class Problem(StrEnum):
    """Deviations of a reply from the format; none of them loses readable text."""

    UNENDED_REASONING = "tool calls inside reasoning"
    MISSING_SECTION_BEGIN = "a call outside of a tool section"
    MISSING_SECTION_END = "a tool section without end"
    MISSING_CALL_BEGIN = "a call without begin"
    MISSING_CALL_END = "a call without end"
    MISSING_ARGUMENT_BEGIN = "a call without begin of arguments"
    ABANDONED_CALL = "a call that ended inside its id"
    SINGULAR_SECTION = "a tool section begun by its singular marker"
    STRAY_MARKER = "a marker where it means nothing"
    TEXT_BETWEEN_CALLS = "text between calls, dropped"
    TEXT_AFTER_CALLS = "text after the tool section, dropped"
    MALFORMED_ID = "a call's id that is not functions.NAME:NUMBER"
    UNKNOWN_TOOL = "a call of a tool that was not declared"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplySummary:
    """End of the reply.

    Attributes:
        is_truncated: True if it ended inside reasoning, a call's id or incomplete arguments.
        problems: Deviations from the format, each once, in order of appearance.
    """

    is_truncated: bool = False
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCall:
    """One call: `arguments` is JSON text as written by the model, `{}` if it wrote none."""

    raw_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReply:
    """A whole reply; None for empty text."""

    reasoning: str | None = None
    content: str | None = None
    tool_calls: tuple[ParsedCall, ...] = ()
    summary: ReplySummary = ReplySummary()


def collect_reply(events: Iterable[Event], summary: ReplySummary) -> ParsedReply:
    """Return the message of a stream of events."""
    reasoning: list[str] = []
    content: list[str] = []
    starts: list[ToolCallStart] = []
    arguments: list[list[str]] = []
    for event in events:
        match event:
            case ReasoningText(text):
                reasoning.append(text)
            case ContentText(text):
                content.append(text)
            case ToolCallStart():
                starts.append(event)
                arguments.append([])
            case ToolCallArguments(index, text):
                arguments[index].append(text)
            case ToolCallEnd():
                pass
    calls = (
        ParsedCall(raw_id=start.raw_id, name=start.name, arguments="".join(pieces))
        for start, pieces in zip(starts, arguments, strict=True)
    )
    return ParsedReply(
        reasoning="".join(reasoning) or None,
        content="".join(content) or None,
        tool_calls=tuple(calls),
        summary=summary,
    )


class MarkerKind(Enum):
    """Meaning of a marker."""

    THINK_BEGIN = auto()
    THINK_END = auto()
    SECTION_BEGIN = auto()
    SECTION_END = auto()
    CALL_BEGIN = auto()
    ARGUMENT_BEGIN = auto()
    CALL_END = auto()
    MESSAGE_END = auto()
    SINGULAR_SECTION_BEGIN = auto()


MARKER_OF_TOKEN: Mapping[str, MarkerKind] = {
    "<think>": MarkerKind.THINK_BEGIN,
    "</think>": MarkerKind.THINK_END,
    "<|tool_calls_section_begin|>": MarkerKind.SECTION_BEGIN,
    "<|tool_calls_section_end|>": MarkerKind.SECTION_END,
    "<|tool_call_begin|>": MarkerKind.CALL_BEGIN,
    "<|tool_call_argument_begin|>": MarkerKind.ARGUMENT_BEGIN,
    "<|tool_call_end|>": MarkerKind.CALL_END,
    "<|im_end|>": MarkerKind.MESSAGE_END,
}
SINGULAR = {
    "<|tool_call_section_begin|>": MarkerKind.SINGULAR_SECTION_BEGIN,
    "<|tool_call_section_end|>": MarkerKind.SECTION_END,
}
TEXT_MARKERS: Mapping[str, MarkerKind] = {
    **MARKER_OF_TOKEN,
    **SINGULAR,
    "<|tool_call_section_begin|>": MarkerKind.SECTION_BEGIN,
}
"""Markers in a stream that has only text, no control tokens."""
TEXT_BESIDE_TOKENS: Mapping[str, MarkerKind] = {"<|tool_call_section_begin|>": MarkerKind.SINGULAR_SECTION_BEGIN}
"""Text markers in a stream that has control tokens, which take precedence."""


def markers_by_id(special: SpecialTokens) -> dict[int, MarkerKind]:
    """Return markers by the ids of their control tokens."""
    return {special.id_of(text): marker for text, marker in MARKER_OF_TOKEN.items()}


def starts_in_reasoning(token_ids: Sequence[int], special: SpecialTokens) -> bool:
    """Return True if a prompt ends inside an open reasoning block; only its last think marker counts."""
    begin, end = special.think_begin, special.think_end
    return next((token_id == begin for token_id in reversed(token_ids) if token_id in (begin, end)), False)


class MarkerScanner:
    """Scanner for markers in streamed text.

    Text is held back only while it is a prefix of a marker. Markers contain `<` only at their start, so only the text
    after the last `<` can be one.
    """

    def __init__(self, markers: Mapping[str, MarkerKind]) -> None:
        """Create a scanner for `markers`, by their text; each starts with `<` and has no other."""
        self._markers = markers
        self._pattern = re.compile("|".join(map(re.escape, markers)))
        self._beginnings = frozenset(text[:length] for text in markers for length in range(1, len(text)))
        self._max_length = max(map(len, markers))
        self._held = ""

    def feed(self, text: str) -> Iterable[tuple[str, MarkerKind | None]]:
        """Return the text and markers (with their text) that are certain now, in order."""
        return self._scan(text) if self._held or "<" in text else ((text, None),)

    def _scan(self, text: str) -> Iterator[tuple[str, MarkerKind | None]]:
        text, self._held = self._held + text, ""
        done = 0
        for match in self._pattern.finditer(text):
            if match.start() > done:
                yield text[done : match.start()], None
            yield match[0], self._markers[match[0]]
            done = match.end()
        end = self._end_of_certain(text, done)
        self._held = text[end:]
        if end > done:
            yield text[done:end], None

    def _end_of_certain(self, text: str, done: int) -> int:
        begin = text.rfind("<", max(done, len(text) - self._max_length))
        return begin if begin >= 0 and text[begin:] in self._beginnings else len(text)

    def flush(self) -> str:
        """Return held-back text that can no longer become a marker."""
        text, self._held = self._held, ""
        return text
