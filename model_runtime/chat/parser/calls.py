"""One tool call while it is being written, and which tool its id means, also where that is not `functions.NAME:NUMBER`.

A model that saw other ids in its history imitates them: separators missing (`functionsexec5`), replaced
(`functions_exec_5`), or an id that names no tool at all (`call00003`, `3`).
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from model_runtime.chat.messages import ToolSpec
from model_runtime.chat.parser.events import Event, ToolCallArguments, ToolCallEnd, ToolCallStart

MAX_ID_CHARS = 256
"""What is longer is no id and is dropped from there on; OpenAI's API takes names of up to 64."""

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
    """The keys of a tool's arguments."""

    known: frozenset[str]
    required: frozenset[str]
    is_open: bool


class ToolNames:
    """Names of the declared tools, to be found by what a call looks like."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        """`tools`: as the request has them; what is not a function with a name is passed over."""
        self._keys = dict(filter(None, map(_read_tool, tools)))
        self._by_compact: dict[str, list[str]] = defaultdict(list)
        for name in self._keys:
            self._by_compact[_compact(name) or name].append(name)

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, raw_id: str) -> str | None:
        """The name in an id, declared or not; None where the id names nothing."""
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
        """The declared name that a text spells when only letters and digits count.

        Where a number may follow, the longest name that leaves one goes first: `sha2565` is call 5 of `sha256`.
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
        """The only tool that takes these arguments, or None."""
        if len(self._keys) == 1:
            return next(iter(self._keys))
        given = _keys_of(arguments)
        if given is None:
            return None
        taking = [name for name, keys in self._keys.items() if _takes(keys, given)]
        exact = [name for name in taking if self._keys[name].known == given]
        return next((names[0] for names in (taking, exact) if len(names) == 1), None)


def is_canonical_id(raw_id: str) -> bool:
    """Whether an id is as the convention has it."""
    return _CANONICAL.fullmatch(raw_id) is not None


def _compact(text: str) -> str:
    return _NOT_ALNUM.sub("", text)


def _takes(keys: ToolKeys, given: Collection[str]) -> bool:
    return keys.required.issubset(given) and (keys.is_open or keys.known.issuperset(given))


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
    schema: Mapping[str, Any] = parameters if isinstance(parameters, Mapping) else {}
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
    """The text before a call's arguments: its id, with room for spaces around it."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, text: str) -> None:
        """More text; blanks before the id and what is longer than any id are dropped."""
        if len(self._text) < MAX_ID_CHARS:
            self._text = (self._text + text).lstrip()[:MAX_ID_CHARS]

    @property
    def raw_id(self) -> str:
        """The id without blanks around it."""
        return self._text.rstrip()


class OpenCall:
    """A call from its id to its end.

    Its start is told at once where the id names a tool, else when the arguments are there, which then decide.
    """

    def __init__(self, index: int, raw_id: str, names: ToolNames) -> None:
        """`index`: among the reply's calls; `names`: the declared tools."""
        self.index = index
        self.raw_id = raw_id
        self.name = names.find(raw_id)
        self.strings = StringTracker()
        self._names = names
        self._arguments: list[str] = []
        self._num_told = 0
        self._is_blank = True

    def begin(self) -> list[Event]:
        """Events at the end of the id."""
        return [ToolCallStart(self.index, self.raw_id, self.name)] if self.name is not None else []

    def add(self, text: str) -> list[Event]:
        """Events of more arguments; blanks wait, as they may be all there is."""
        self._arguments.append(text)
        self._is_blank = self._is_blank and (not text or text.isspace())
        return [] if self._is_blank or self.name is None else self._tell()

    def _tell(self) -> list[Event]:
        untold = "".join(self._arguments[self._num_told :])
        self._num_told = len(self._arguments)
        return [ToolCallArguments(self.index, untold)] if untold else []

    def end(self, *, is_cut: bool = False) -> list[Event]:
        """The last events. `is_cut`: the reply ended here, so empty arguments are not known to be none."""
        if self._is_blank:
            self._arguments, self._num_told = ([] if is_cut else ["{}"]), 0
        events: list[Event] = []
        if self.name is None:
            self.name = self._names.find_by_arguments("".join(self._arguments)) or self.raw_id
            events.append(ToolCallStart(self.index, self.raw_id, self.name))
        return [*events, *self._tell(), ToolCallEnd(self.index)]

    @property
    def is_complete(self) -> bool:
        """Whether the arguments so far are JSON."""
        try:
            json.loads("".join(self._arguments))
        except (ValueError, RecursionError):
            return False
        return True


class StringTracker:
    """Tracks whether streamed JSON text is inside a string."""

    def __init__(self) -> None:
        self.in_string = False
        self._is_escaped = False
        self._is_json: bool | None = None

    @property
    def is_in_value(self) -> bool:
        """Whether any further text is part of a value: inside an open string, or after invalid JSON."""
        return self.in_string or self._is_json is False

    def feed(self, text: str) -> None:
        """Go on by some text. What does not begin as JSON has no strings."""
        if self._is_json is None:
            start = text.lstrip()[:1]
            self._is_json = start in '{["' if start else None
        if not self._is_json:
            return
        position = 1 if self._is_escaped and text else 0
        self._is_escaped = self._is_escaped and not text
        while True:
            found = (_IN_STRING if self.in_string else _OUT_OF_STRING).search(text, position)
            if found is None:
                return
            if found[0] == '"':
                self.in_string = not self.in_string
                position = found.end()
            else:
                position = found.end() + 1
                self._is_escaped = position > len(text)
