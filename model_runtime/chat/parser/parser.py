"""From output deltas to pieces of a message, by one machine for reasoning, content and tool calls.

    reasoning </think> content <|tool_calls_section_begin|>
        <|tool_call_begin|> functions.NAME:NUMBER <|tool_call_argument_begin|> JSON <|tool_call_end|> ...
    <|tool_calls_section_end|>

- All text is passed on as it came, line ends and spaces at its edges too: the template adds none between reasoning,
  content and markers, so a message that comes back gives the tokens that the model wrote.
- A tool section, or a call without one, ends reasoning. Reasoning that nothing ends is all there is: content is None.
- Text in a section beside calls is dropped, and so is text after a section that had calls. After one that had none,
  content goes on.
- Calls are told whether or not tools were declared, so that markers never turn up as text; a caller that must not
  pass them on (`tool_choice` `none`) leaves their events out.
- Control tokens are authoritative: where they come as ids, text that spells a marker stays text. Only the singular
  section marker, which has no token, counts as text, and only right before a call. A think marker means nothing inside
  a value of arguments, where it is kept as the text that it spells.
- In a stream that has markers as text, a marker inside an open JSON string of arguments is text, and so is a think
  marker after the first content.

Source: format in section "Tool calling" of the Kimi K2 model card; malformed replies as reported to servers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from model_runtime.chat.messages import ToolSpec
from model_runtime.chat.parser.calls import CallHead, OpenCall, ToolNames, is_canonical_id
from model_runtime.chat.parser.events import (
    MARKER_OF_TOKEN,
    TEXT_BESIDE_TOKENS,
    TEXT_MARKERS,
    ContentText,
    Event,
    Marker,
    MarkerScanner,
    ParsedReply,
    Problem,
    ReasoningText,
    Summary,
    collect_reply,
    markers_by_id,
)
from model_runtime.tokenizer.special import SpecialTokens

if TYPE_CHECKING:
    from model_runtime.engine.contract import Delta

MAX_BLANKS = 64
"""How long a singular section marker waits for its call over blanks."""


class _State(Enum):
    REASONING = auto()
    CONTENT = auto()
    SECTION = auto()
    HEAD = auto()
    ARGUMENTS = auto()
    AFTER = auto()


_SPOKEN = (_State.REASONING, _State.CONTENT)
_THINK = (Marker.THINK_BEGIN, Marker.THINK_END)
_TEXT_OF = {marker: text for text, marker in MARKER_OF_TOKEN.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserOptions:
    """What a reply is read with.

    Attributes:
        starts_in_reasoning: The prompt ends inside an open reasoning block (`starts_in_reasoning` of its ids).
        tools: Declared tools; their names and argument keys help with malformed ids.
        text_markers: Markers come as text: the stream of a server that does not tell control tokens apart.
        special: Ids of the control tokens.
    """

    starts_in_reasoning: bool = True
    tools: Sequence[ToolSpec] = ()
    text_markers: bool = False
    special: SpecialTokens = field(default_factory=SpecialTokens)


class ReplyParser:
    """Reads one reply, delta by delta. Takes any input, and time linear in its length.

    The events of a reply, texts of the same kind joined, are the same however its text is cut into deltas.
    """

    def __init__(self, options: ParserOptions) -> None:
        """`options`: of this reply; a parser reads one."""
        self._state = _State.REASONING if options.starts_in_reasoning else _State.CONTENT
        self._names = ToolNames(options.tools)
        self._scanner = MarkerScanner(TEXT_MARKERS if options.text_markers else TEXT_BESIDE_TOKENS)
        self._marker_of = markers_by_id(options.special)
        self._head = CallHead()
        self._call: OpenCall | None = None
        self._num_calls = 0
        self._has_spoken = False
        self._singular = ""
        self._events: list[Event] = []
        self._problems: dict[Problem, None] = {}

    def feed(self, delta: "Delta") -> list[Event]:
        """Events that are certain after one more delta."""
        if isinstance(delta, str):
            for text, marker in self._scanner.feed(delta):
                self._take(text, marker)
        else:
            self._take(self._scanner.flush(), None)
            marker = self._marker_of.get(delta)
            if marker is None:
                self._note(Problem.STRAY_MARKER)
            else:
                self._mark(marker)
        return self._pop_events()

    def finish(self) -> tuple[list[Event], Summary]:
        """The last events and how the reply ended; the parser takes nothing after that."""
        self._take(self._scanner.flush(), None)
        if self._singular:
            self._note(Problem.SINGULAR_SECTION)
        is_truncated = self._state in (_State.REASONING, _State.HEAD)
        if self._call is not None:
            is_truncated = not self._call.is_complete
            self._note(Problem.MISSING_CALL_END)
            self._finish_call(self._call, is_cut=True)
        if self._state in (_State.SECTION, _State.HEAD, _State.ARGUMENTS):
            self._note(Problem.MISSING_SECTION_END)
        return self._pop_events(), Summary(is_truncated=is_truncated, problems=tuple(self._problems))

    def _pop_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _note(self, problem: Problem) -> None:
        self._problems[problem] = None

    def _take(self, text: str, marker: Marker | None) -> None:
        """A piece of text, or a marker that came as text."""
        if marker is None:
            self._say(text)
        elif marker is Marker.SINGULAR_SECTION_BEGIN:
            self._say_singular(text)
        elif self._is_literal(marker):
            self._say(text)
        else:
            self._mark(marker)

    def _is_literal(self, marker: Marker) -> bool:
        """Whether a marker that came as text is no more than text."""
        if self._call is not None:
            return marker in _THINK or self._call.strings.in_string
        if marker is Marker.THINK_END:
            return self._state is _State.CONTENT and self._has_spoken
        return marker is Marker.THINK_BEGIN and self._state in _SPOKEN and self._has_spoken

    def _say(self, text: str) -> None:
        if self._singular:
            if len(self._singular) + len(text) <= MAX_BLANKS and not text.strip():
                self._singular += text
                return
            text, self._singular = self._singular + text, ""
        if not text:
            return
        match self._state:
            case _State.REASONING | _State.CONTENT:
                self._has_spoken = self._has_spoken or not text.isspace()
                kind = ReasoningText if self._state is _State.REASONING else ContentText
                self._events.append(kind(text))
            case _State.SECTION:
                self._head.add(text)
            case _State.HEAD:
                self._say_in_head(text)
            case _State.ARGUMENTS:
                self._say_in_arguments(text)
            case _State.AFTER:
                if not text.isspace():
                    self._note(Problem.TEXT_AFTER_CALLS)

    def _say_singular(self, text: str) -> None:
        if self._state not in _SPOKEN:
            self._say(text)
            return
        self._release_singular()
        self._singular = text

    def _release_singular(self) -> None:
        text, self._singular = self._singular, ""
        self._say(text)

    def _say_in_head(self, text: str) -> None:
        """Part of an id. No id has a brace: one there means that the marker before the arguments is missing."""
        head, brace, arguments = text.partition("{")
        self._head.add(head)
        if brace:
            self._note(Problem.MISSING_ARGUMENT_BEGIN)
            self._open_call()
            self._say_in_arguments(brace + arguments)

    def _say_in_arguments(self, text: str) -> None:
        if self._call is not None:
            self._call.strings.feed(text)
            self._events += self._call.add(text)

    def _mark(self, marker: Marker) -> None:
        if self._singular:
            if marker in (Marker.CALL_BEGIN, Marker.SECTION_BEGIN):
                self._singular = ""
                self._note(Problem.SINGULAR_SECTION)
                self._enter_section()
            else:
                self._release_singular()
        match marker:
            case Marker.THINK_BEGIN | Marker.THINK_END:
                self._think(marker)
            case Marker.SECTION_BEGIN:
                self._enter_section()
            case Marker.CALL_BEGIN:
                if self._state in (*_SPOKEN, _State.AFTER):
                    self._note(Problem.MISSING_SECTION_BEGIN)
                self._enter_section()
                self._state = _State.HEAD
            case Marker.ARGUMENT_BEGIN:
                self._begin_arguments()
            case Marker.CALL_END:
                self._end_call()
            case Marker.SECTION_END:
                self._end_section()
            case _:
                self._note(Problem.STRAY_MARKER)

    def _think(self, marker: Marker) -> None:
        if self._call is not None and self._call.strings.is_in_value:
            self._say_in_arguments(_TEXT_OF[marker])
            return
        begins = marker is Marker.THINK_BEGIN
        if self._state not in _SPOKEN or begins is (self._state is _State.REASONING):
            self._note(Problem.STRAY_MARKER)
            return
        self._state = _State.REASONING if begins else _State.CONTENT
        self._has_spoken = False

    def _enter_section(self) -> None:
        """Be between calls, with nothing open."""
        if self._state is _State.REASONING:
            self._note(Problem.UNENDED_REASONING)
        self._close()
        self._state = _State.SECTION

    def _close(self) -> None:
        """End what is open without its own end."""
        if self._call is not None:
            self._note(Problem.MISSING_CALL_END)
            self._finish_call(self._call)
        elif self._state is _State.HEAD and self._head.raw_id:
            self._note(Problem.ABANDONED_CALL)
        elif self._state is _State.SECTION and self._head.raw_id:
            self._note(Problem.TEXT_BETWEEN_CALLS)
        self._head = CallHead()

    def _begin_arguments(self) -> None:
        if self._state is _State.SECTION and self._head.raw_id:
            self._note(Problem.MISSING_CALL_BEGIN)
        elif self._state is not _State.HEAD:
            self._note(Problem.STRAY_MARKER)
            return
        self._open_call()

    def _open_call(self) -> None:
        call = OpenCall(self._num_calls, self._head.raw_id, self._names)
        if not is_canonical_id(call.raw_id):
            self._note(Problem.MALFORMED_ID)
        self._num_calls += 1
        self._call, self._head = call, CallHead()
        self._state = _State.ARGUMENTS
        self._events += call.begin()

    def _end_call(self) -> None:
        if self._state is _State.HEAD and self._head.raw_id:
            self._note(Problem.MISSING_ARGUMENT_BEGIN)
            self._open_call()
        if self._call is None:
            self._note(Problem.STRAY_MARKER)
        else:
            self._finish_call(self._call)
        if self._state in (_State.HEAD, _State.ARGUMENTS):
            self._state = _State.SECTION

    def _finish_call(self, call: OpenCall, *, is_cut: bool = False) -> None:
        self._events += call.end(is_cut=is_cut)
        self._call = None
        if self._names and call.name not in self._names:
            self._note(Problem.UNKNOWN_TOOL)

    def _end_section(self) -> None:
        if self._state in (*_SPOKEN, _State.AFTER):
            self._note(Problem.STRAY_MARKER)
            return
        self._close()
        self._state = _State.AFTER if self._num_calls else _State.CONTENT


def parse_reply(deltas: "Iterable[Delta]", options: ParserOptions) -> ParsedReply:
    """The whole message of deltas that are all there."""
    parser = ReplyParser(options)
    events = [event for delta in deltas for event in parser.feed(delta)]
    last, summary = parser.finish()
    return collect_reply([*events, *last], summary)
