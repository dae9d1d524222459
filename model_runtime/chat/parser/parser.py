"""State machine from output deltas to reasoning, content and tool calls.

    reasoning </think> content <|tool_calls_section_begin|>
        <|tool_call_begin|> functions.NAME:NUMBER <|tool_call_argument_begin|> JSON <|tool_call_end|> ...
    <|tool_calls_section_end|>

- All text is passed on unmodified, including line ends and spaces at its edges: the template adds none between
  reasoning, content and markers, so a returned message has the same tokens that the model wrote.
- A tool section, or a call without one, ends reasoning. Without an end of reasoning, content is None.
- Text of a section outside its calls is dropped, and so is text after a section with calls. After a section without
  calls, content continues.
- Calls are reported whether or not tools were declared, so that markers never appear as text; a caller that must not
  pass them on (`tool_choice` `none`) drops their events.
- Control tokens are authoritative: if they arrive as ids, text that spells a marker remains text. Only the singular
  section marker, which has no token, counts as text, and only right before a call. Inside a value of arguments, a think
  marker is kept as text.
- In a stream with markers as text, a marker inside an open JSON string of arguments is text, and so is a think
  marker after the first content.

A call's id should be `functions.NAME:NUMBER`. A model imitates other ids in its history: separators missing
(`functionsexec5`), replaced (`functions_exec_5`), or an id without a tool name (`call00003`, `3`).

Source: format in section "Tool calling" of the Kimi K2 model card; malformed replies as reported to servers.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from model_runtime.chat.messages import ToolSpec
from model_runtime.chat.parser.events import (
    MARKER_OF_TOKEN,
    TEXT_BESIDE_TOKENS,
    TEXT_MARKERS,
    ContentText,
    Event,
    MarkerKind,
    MarkerScanner,
    ParsedReply,
    Problem,
    ReasoningText,
    ReplySummary,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    collect_reply,
    markers_by_id,
)
from model_runtime.tokenizer.special import SpecialTokens

if TYPE_CHECKING:
    from model_runtime.engine.contract import Delta

MAX_ID_CHARS = 256
"""Maximum length of an id; the rest is dropped. OpenAI's API allows names of up to 64."""

_CONVENTION = re.compile(r"(?:functions\.)?(.+):[0-9]+", re.DOTALL)
_PREFIXED = re.compile(r"functions[^A-Za-z0-9]*(.*?)[^A-Za-z0-9]*[0-9]*", re.DOTALL)
_NAMELESS = re.compile(
    r"(?:functions?|tools?|tool_calls?|calls?)?[^A-Za-z0-9]*[0-9]*"
    r"|(?:call|toolu|fc|tool_call|chatcmpl-tool)[_-]?[A-Za-z0-9_-]*"
    r"|[0-9a-fA-F-]{16,}"
)
_CANONICAL = re.compile(r"functions\..+:[0-9]+", re.DOTALL)
_NOT_ALNUM = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolKeys:
    """Keys of a tool's arguments."""

    known: frozenset[str]
    required: frozenset[str]
    is_open: bool


class ToolNames:
    """Names of the declared tools, with tolerant lookup."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        """Read names from the request's `tools`; entries that are not a function with a name are ignored."""
        self._keys = dict(filter(None, map(_read_tool, tools)))
        self._by_compact: dict[str, list[str]] = defaultdict(list)
        for name in self._keys:
            self._by_compact[_compact(name) or name].append(name)

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, raw_id: str) -> str | None:
        """Return the tool name in an id, declared or not; None if the id has no name."""
        text = raw_id.strip()
        if len(text) >= MAX_ID_CHARS:
            return None
        convention = _CONVENTION.fullmatch(text)
        name = convention[1] if convention else text
        declared = self._find_exact(text, name) or self._find_compact(name, has_number=convention is None)
        if declared is not None:
            return declared
        if _NAMELESS.fullmatch(name):
            return None
        prefixed = None if convention else _PREFIXED.fullmatch(name)
        return prefixed[1] if prefixed and prefixed[1] else name

    def _find_exact(self, text: str, name: str) -> str | None:
        without_number = text.rpartition(":")[0]
        candidates = (name, without_number, text, text.removeprefix("functions."), name.rpartition(".")[2])
        return next((candidate for candidate in candidates if candidate in self._keys), None)

    def _find_compact(self, text: str, *, has_number: bool) -> str | None:
        """Return the declared name that matches a text if only letters and digits count.

        If a number may follow, the longest name that leaves one is preferred: `sha2565` is call 5 of `sha256`.
        """
        compact = _compact(text)
        for body in (compact.removeprefix("functions"), compact):
            shortest = len(body.rstrip("0123456789")) if has_number else len(body)
            for end in (*range(len(body) - 1, shortest - 1, -1), len(body)):
                names = self._by_compact.get(body[:end])
                if names:
                    return next((name for name in names if name in text), names[0])
        return None

    def find_by_arguments(self, arguments: str) -> str | None:
        """Return the only tool that accepts these arguments, or None."""
        if len(self._keys) == 1:
            return next(iter(self._keys))
        argument_names = _keys_of(arguments)
        if argument_names is None:
            return None
        taking = [name for name, keys in self._keys.items() if _takes(keys, argument_names)]
        exact = [name for name in taking if self._keys[name].known == argument_names]
        return next((names[0] for names in (taking, exact) if len(names) == 1), None)


def is_canonical_id(raw_id: str) -> bool:
    """Return True if an id follows the convention."""
    return _CANONICAL.fullmatch(raw_id) is not None


def _compact(text: str) -> str:
    return _NOT_ALNUM.sub("", text)


def _takes(keys: ToolKeys, keys_used: Collection[str]) -> bool:
    return keys.required.issubset(keys_used) and (keys.is_open or keys.known.issuperset(keys_used))


def _keys_of(arguments: str) -> frozenset[str] | None:
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return frozenset(value) if isinstance(value, dict) else None


def _read_tool(tool: ToolSpec) -> tuple[str, ToolKeys] | None:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str) or not name:
        return None
    parameters = function.get("parameters")
    schema: Mapping[str, object] = parameters if isinstance(parameters, Mapping) else {}
    properties, required = schema.get("properties"), schema.get("required")
    keys = ToolKeys(
        known=frozenset(properties if isinstance(properties, Mapping) else ()),
        required=frozenset(filter(_is_text, required if isinstance(required, list) else ())),
        is_open=schema.get("additionalProperties") not in (None, False),
    )
    return name, keys


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_OUT_OF_STRING = re.compile('"')
_IN_STRING = re.compile(r'["\\]')


class CallHead:
    """Text before a call's arguments: its id, possibly with spaces around it."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, text: str) -> None:
        """Add text; whitespace before the id and text beyond the maximum length are dropped."""
        if len(self._text) < MAX_ID_CHARS:
            self._text = (self._text + text).lstrip()[:MAX_ID_CHARS]

    @property
    def raw_id(self) -> str:
        """Id without surrounding whitespace."""
        return self._text.rstrip()


class OpenCall:
    """A call from its id to its end.

    Its start is emitted at once if the id names a tool, otherwise after the arguments, which then determine the tool.
    """

    def __init__(self, index: int, raw_id: str, names: ToolNames) -> None:
        """Create a call with its `index` among the reply's calls and the `names` of declared tools."""
        self.index = index
        self.raw_id = raw_id
        self.name = names.find(raw_id)
        self.strings = StringTracker()
        self._names = names
        self._arguments: list[str] = []
        self._num_sent = 0
        self._is_blank = True

    def begin(self) -> list[Event]:
        """Return the events at the end of the id."""
        return [ToolCallStart(self.index, self.raw_id, self.name)] if self.name is not None else []

    def add(self, text: str) -> list[Event]:
        """Add arguments and return events; leading whitespace is held back, as there may be nothing else."""
        self._arguments.append(text)
        self._is_blank = self._is_blank and (not text or text.isspace())
        return [] if self._is_blank or self.name is None else self._argument_events()

    def _argument_events(self) -> list[Event]:
        unsent = "".join(self._arguments[self._num_sent :])
        self._num_sent = len(self._arguments)
        return [ToolCallArguments(self.index, unsent)] if unsent else []

    def end(self, *, is_cut: bool = False) -> list[Event]:
        """Return the last events. `is_cut`: the reply ended here, so empty arguments may be incomplete."""
        if self._is_blank:
            self._arguments, self._num_sent = ([] if is_cut else ["{}"]), 0
        events: list[Event] = []
        if self.name is None:
            self.name = self._names.find_by_arguments("".join(self._arguments)) or self.raw_id
            events.append(ToolCallStart(self.index, self.raw_id, self.name))
        return [*events, *self._argument_events(), ToolCallEnd(self.index)]

    @property
    def is_complete(self) -> bool:
        """True if the arguments so far are valid JSON."""
        try:
            json.loads("".join(self._arguments))
        except (ValueError, RecursionError):
            return False
        return True


class StringTracker:
    """Tracker of JSON strings in streamed text."""

    def __init__(self) -> None:
        self.in_string = False
        self._is_escaped = False
        self._is_json: bool | None = None

    @property
    def is_in_value(self) -> bool:
        """True if further text is part of a value: inside an open string, or after invalid JSON."""
        return self.in_string or self._is_json is False

    def feed(self, text: str) -> None:
        """Add text. Text that does not begin as JSON has no strings."""
        if self._is_json is None:
            start = text.lstrip()[:1]
            self._is_json = start in '{["' if start else None
        if not self._is_json:
            return
        position = 1 if self._is_escaped and text else 0
        self._is_escaped = self._is_escaped and not text
        while True:
            match = (_IN_STRING if self.in_string else _OUT_OF_STRING).search(text, position)
            if match is None:
                return
            if match[0] == '"':
                self.in_string = not self.in_string
                position = match.end()
            else:
                position = match.end() + 1
                self._is_escaped = position > len(text)


MAX_BLANKS = 64
"""Maximum number of whitespace characters between a singular section marker and its call."""


class _State(Enum):
    REASONING = auto()
    CONTENT = auto()
    SECTION = auto()
    HEAD = auto()
    ARGUMENTS = auto()
    AFTER = auto()


_SPOKEN = (_State.REASONING, _State.CONTENT)
_THINK = (MarkerKind.THINK_BEGIN, MarkerKind.THINK_END)
_TEXT_OF = {marker: text for text, marker in MARKER_OF_TOKEN.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserOptions:
    """Options of a parser.

    Attributes:
        starts_in_reasoning: True if the prompt ends inside an open reasoning block (`starts_in_reasoning` of its ids).
        tools: Declared tools; their names and argument keys help with malformed ids.
        text_markers: True if markers arrive as text: the stream of a server that does not distinguish control tokens.
        special: Ids of the control tokens.
    """

    starts_in_reasoning: bool = True
    tools: Sequence[ToolSpec] = ()
    text_markers: bool = False
    special: SpecialTokens = field(default_factory=SpecialTokens)


class ReplyParser:
    """Incremental parser of one reply. Accepts any input, in time linear in its length.

    The events of a reply, with adjacent texts of the same kind joined, do not depend on how its text is split into
    deltas.
    """

    def __init__(self, options: ParserOptions) -> None:
        """Create a parser for one reply."""
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
        """Add a delta and return the events that are certain."""
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

    def finish(self) -> tuple[list[Event], ReplySummary]:
        """Return the last events and a summary; the parser accepts no further input."""
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
        return self._pop_events(), ReplySummary(is_truncated=is_truncated, problems=tuple(self._problems))

    def _pop_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _note(self, problem: Problem) -> None:
        self._problems[problem] = None

    def _take(self, text: str, marker: MarkerKind | None) -> None:
        """Process text, or a marker that arrived as text."""
        if marker is None:
            self._emit(text)
        elif marker is MarkerKind.SINGULAR_SECTION_BEGIN:
            self._emit_singular(text)
        elif self._is_literal(marker):
            self._emit(text)
        else:
            self._mark(marker)

    def _is_literal(self, marker: MarkerKind) -> bool:
        """Return True if a marker that arrived as text is only text."""
        if self._call is not None:
            return marker in _THINK or self._call.strings.in_string
        if marker is MarkerKind.THINK_END:
            return self._state is _State.CONTENT and self._has_spoken
        return marker is MarkerKind.THINK_BEGIN and self._state in _SPOKEN and self._has_spoken

    def _emit(self, text: str) -> None:
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
                self._emit_in_head(text)
            case _State.ARGUMENTS:
                self._emit_in_arguments(text)
            case _State.AFTER:
                if not text.isspace():
                    self._note(Problem.TEXT_AFTER_CALLS)

    def _emit_singular(self, text: str) -> None:
        if self._state not in _SPOKEN:
            self._emit(text)
            return
        self._release_singular()
        self._singular = text

    def _release_singular(self) -> None:
        text, self._singular = self._singular, ""
        self._emit(text)

    def _emit_in_head(self, text: str) -> None:
        """Add a part of an id. Ids have no brace: one means that the marker before the arguments is missing."""
        head, brace, arguments = text.partition("{")
        self._head.add(head)
        if brace:
            self._note(Problem.MISSING_ARGUMENT_BEGIN)
            self._open_call()
            self._emit_in_arguments(brace + arguments)

    def _emit_in_arguments(self, text: str) -> None:
        if self._call is not None:
            self._call.strings.feed(text)
            self._events += self._call.add(text)

    def _mark(self, marker: MarkerKind) -> None:
        if self._singular:
            if marker in (MarkerKind.CALL_BEGIN, MarkerKind.SECTION_BEGIN):
                self._singular = ""
                self._note(Problem.SINGULAR_SECTION)
                self._enter_section()
            else:
                self._release_singular()
        match marker:
            case MarkerKind.THINK_BEGIN | MarkerKind.THINK_END:
                self._think(marker)
            case MarkerKind.SECTION_BEGIN:
                self._enter_section()
            case MarkerKind.CALL_BEGIN:
                if self._state in (*_SPOKEN, _State.AFTER):
                    self._note(Problem.MISSING_SECTION_BEGIN)
                self._enter_section()
                self._state = _State.HEAD
            case MarkerKind.ARGUMENT_BEGIN:
                self._begin_arguments()
            case MarkerKind.CALL_END:
                self._end_call()
            case MarkerKind.SECTION_END:
                self._end_section()
            case _:
                self._note(Problem.STRAY_MARKER)

    def _think(self, marker: MarkerKind) -> None:
        if self._call is not None and self._call.strings.is_in_value:
            self._emit_in_arguments(_TEXT_OF[marker])
            return
        begins = marker is MarkerKind.THINK_BEGIN
        if self._state not in _SPOKEN or begins is (self._state is _State.REASONING):
            self._note(Problem.STRAY_MARKER)
            return
        self._state = _State.REASONING if begins else _State.CONTENT
        self._has_spoken = False

    def _enter_section(self) -> None:
        """Enter the state between calls, with nothing open."""
        if self._state is _State.REASONING:
            self._note(Problem.UNENDED_REASONING)
        self._close()
        self._state = _State.SECTION

    def _close(self) -> None:
        """Close an open call or id without its end marker."""
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
    """Parse a complete list of deltas."""
    parser = ReplyParser(options)
    events = [event for delta in deltas for event in parser.feed(delta)]
    last, summary = parser.finish()
    return collect_reply([*events, *last], summary)
