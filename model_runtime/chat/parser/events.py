"""What comes out of the parser: pieces of a message as they become known, and the message as a whole."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


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
