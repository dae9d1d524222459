"""One tool call while it is being written."""

import json
import re

from model_runtime.chat.parser.events import Event, ToolCallArguments, ToolCallEnd, ToolCallStart
from model_runtime.chat.parser.names import MAX_ID_CHARS, ToolNames

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
    """Knows whether JSON text that comes in pieces stands inside a string."""

    def __init__(self) -> None:
        self.in_string = False
        self._is_escaped = False
        self._is_json: bool | None = None

    @property
    def is_in_value(self) -> bool:
        """Whether more text is part of a value, whatever it is: in an open string, or in what is no JSON."""
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
