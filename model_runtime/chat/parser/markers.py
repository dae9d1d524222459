"""Markers of a reply, as control tokens and as text.

Source: special tokens of the release's tokenizer; the singular spelling of the section markers is not among them, the
model writes it as ordinary text now and then.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto

from model_runtime.tokenizer.special import SpecialTokens


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
