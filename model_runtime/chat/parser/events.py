"""What a parser says of a reply, and the markers that it finds in deltas.

Source: special tokens of the release's tokenizer; the singular spelling of the section markers is not among them, the
model writes it as ordinary text now and then.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from model_runtime.tokenizer.special import SpecialTokens


@dataclass(frozen=True, slots=True)
class ReasoningText:
    """More reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ContentText:
    """More content."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A call begins.

    Attributes:
        index: Position among the calls of this reply, from 0.
        raw_id: The id as the model wrote it; clients get another (`model_runtime.chat.tool_ids`).
        name: Which tool; as the model wrote it where no tool fits.
    """

    index: int
    raw_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """More of the arguments' JSON text."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallEnd:
    """A call is over, be it that the reply ended inside it."""

    index: int


Event = ReasoningText | ContentText | ToolCallStart | ToolCallArguments | ToolCallEnd


class Problem(StrEnum):
    """How a reply left the format; none of them loses what could be read."""

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
class Summary:
    """How the reply ended.

    Attributes:
        is_truncated: It ended inside reasoning, inside a call's id or inside arguments that are not complete.
        problems: What was not as the format has it, each once, in order of appearance.
    """

    is_truncated: bool = False
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCall:
    """One call: `arguments` is JSON text as the model wrote it, `{}` where it wrote none."""

    raw_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReply:
    """A whole reply; None stands for text of no length."""

    reasoning: str | None = None
    content: str | None = None
    tool_calls: tuple[ParsedCall, ...] = ()
    summary: Summary = Summary()


def collect_reply(events: Iterable[Event], summary: Summary) -> ParsedReply:
    """The message that a stream of events amounts to."""
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


class Marker(Enum):
    """What a marker says."""

    THINK_BEGIN = auto()
    THINK_END = auto()
    SECTION_BEGIN = auto()
    SECTION_END = auto()
    CALL_BEGIN = auto()
    ARGUMENT_BEGIN = auto()
    CALL_END = auto()
    MESSAGE_END = auto()
    SINGULAR_SECTION_BEGIN = auto()


MARKER_OF_TOKEN: Mapping[str, Marker] = {
    "<think>": Marker.THINK_BEGIN,
    "</think>": Marker.THINK_END,
    "<|tool_calls_section_begin|>": Marker.SECTION_BEGIN,
    "<|tool_calls_section_end|>": Marker.SECTION_END,
    "<|tool_call_begin|>": Marker.CALL_BEGIN,
    "<|tool_call_argument_begin|>": Marker.ARGUMENT_BEGIN,
    "<|tool_call_end|>": Marker.CALL_END,
    "<|im_end|>": Marker.MESSAGE_END,
}
SINGULAR = {
    "<|tool_call_section_begin|>": Marker.SINGULAR_SECTION_BEGIN,
    "<|tool_call_section_end|>": Marker.SECTION_END,
}
TEXT_MARKERS: Mapping[str, Marker] = {
    **MARKER_OF_TOKEN,
    **SINGULAR,
    "<|tool_call_section_begin|>": Marker.SECTION_BEGIN,
}
"""What counts in a stream that has no control tokens, only text."""
TEXT_BESIDE_TOKENS: Mapping[str, Marker] = {"<|tool_call_section_begin|>": Marker.SINGULAR_SECTION_BEGIN}
"""What counts as text in a stream that has control tokens: they have a say in all else."""


def markers_by_id(special: SpecialTokens) -> dict[int, Marker]:
    """Markers by the ids of their control tokens."""
    return {special.id_of(text): marker for text, marker in MARKER_OF_TOKEN.items()}


def starts_in_reasoning(token_ids: Sequence[int], special: SpecialTokens) -> bool:
    """Whether a prompt ends inside an open reasoning block: its last think marker says so, earlier turns do not."""
    begin, end = special.think_begin, special.think_end
    return next((token_id == begin for token_id in reversed(token_ids) if token_id in (begin, end)), False)


class MarkerScanner:
    """Finds markers in text that comes in pieces.

    Text is held back only as long as it is the beginning of a marker. No marker has `<` but at its start, so only what
    follows the last `<` can be one.
    """

    def __init__(self, markers: Mapping[str, Marker]) -> None:
        """`markers`: what to find, by its text; each starts with `<` and has no other."""
        self._markers = markers
        self._pattern = re.compile("|".join(map(re.escape, markers)))
        self._beginnings = frozenset(text[:length] for text in markers for length in range(1, len(text)))
        self._max_length = max(map(len, markers))
        self._held = ""

    def feed(self, text: str) -> Iterable[tuple[str, Marker | None]]:
        """Pieces of text and markers (with their text) that are certain now, in order."""
        return self._scan(text) if self._held or "<" in text else ((text, None),)

    def _scan(self, text: str) -> Iterator[tuple[str, Marker | None]]:
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
        """What was held back, when it can become a marker no more."""
        text, self._held = self._held, ""
        return text
