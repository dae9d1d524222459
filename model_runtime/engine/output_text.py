"""Detokenization of one output, and detection of stop texts.

A token may hold part of a character: its bytes are held back until the character is complete, three at most. Stop texts
are searched in all text of an output, including its reasoning, but never across a control token. The stop text that is
complete first wins, and of two complete at the same character the longer one, so that the result does not depend on how
the text was split.

Source: Knuth, Morris and Pratt, "Fast pattern matching in strings", SIAM J. Comput. 6 (1977), section 2.
"""

import codecs
from collections.abc import Iterable, Sequence

from model_runtime.engine.contract import Delta
from model_runtime.errors import InvalidRequestError
from model_runtime.tokenizer import Tokenizer


class Detokenizer:
    """Converter of one output's tokens to text and control tokens, in order.

    Concatenated, with control tokens by their names, the deltas equal `tokenizer.decode` of all tokens: bytes that are
    not UTF-8 become U+FFFD in the same positions.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token_id: int) -> tuple[Delta, ...]:
        """Add a token and return what is then certain: text, or the held-back text and the id of a control token."""
        if self._tokenizer.special.is_special(token_id):
            return (*self.finish(), token_id)
        text = self._decoder.decode(self._tokenizer.token_bytes(token_id))
        return (text,) if text else ()

    def finish(self) -> tuple[Delta, ...]:
        """Return held-back bytes as U+FFFD, and reset the state."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return (text,) if text else ()


class StopChecker:
    """Filter that holds text back while it may still become a stop text.

    Args:
        stop: Stop texts, not empty.

    Raises:
        RequestError: If a stop text is empty.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        if "" in stop:
            raise InvalidRequestError("a stop text is empty; it would end every output before its start", param="stop")
        self._patterns = tuple(_Pattern(text) for text in dict.fromkeys(stop))
        self._held = ""

    def feed(self, text: str) -> tuple[str, str | None]:
        """Add text of the output.

        Returns:
            Text that is safe to show, and the stop text that ends the output, or None. The stop text and the text after
            it are left out.
        """
        if not self._patterns:
            return text, None
        pending = self._held + text
        for place, char in enumerate(text, start=len(self._held)):
            matches = [pattern.text for pattern in self._patterns if pattern.step(char)]
            if matches:
                longest = max(matches, key=len)
                self.flush()
                return pending[: place + 1 - len(longest)], longest
        num_safe = len(pending) - max(pattern.num_matched for pattern in self._patterns)
        self._held = pending[num_safe:]
        return pending[:num_safe], None

    def flush(self) -> str:
        """Return held-back text and reset the state: at the end of the output, and before a control token."""
        held, self._held = self._held, ""
        for pattern in self._patterns:
            pattern.num_matched = 0
        return held


class _Pattern:
    """One stop text, and the length of its prefix that the output ends with."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.num_matched = 0
        self._fallback = [0]  # for each prefix, the longest shorter prefix that it ends with
        for end in range(1, len(text)):
            self._fallback.append(self._advance(self._fallback[-1], text[end]))

    def step(self, char: str) -> bool:
        """Add a character; return True if the stop text is complete."""
        self.num_matched = self._advance(self.num_matched, char)
        return self.num_matched == len(self.text)

    def _advance(self, num_matched: int, char: str) -> int:
        while num_matched and self.text[num_matched] != char:
            num_matched = self._fallback[num_matched - 1]
        return num_matched + (self.text[num_matched] == char)


class TextOut:
    """Pipeline of detokenizer and stop texts, both of which may hold text back."""

    def __init__(self, tokenizer: Tokenizer, stop: tuple[str, ...]) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._stops = StopChecker(stop)
        self.stopped_by: str | None = None

    def push(self, token_id: int) -> tuple[Delta, ...]:
        """Add a token and return the deltas that are certain."""
        return tuple(self._pass(self._detokenizer.feed(token_id)))

    def finish(self) -> tuple[Delta, ...]:
        """Return held-back text after the last token."""
        deltas = list(self._pass(self._detokenizer.finish()))
        if self.stopped_by is None:
            deltas += filter(None, [self._stops.flush()])
        return tuple(deltas)

    def _pass(self, deltas: Iterable[Delta]) -> Iterable[Delta]:
        for delta in deltas:
            if self.stopped_by is not None:
                return
            if isinstance(delta, int):
                yield from filter(None, [self._stops.flush()])
                yield delta
                continue
            safe, self.stopped_by = self._stops.feed(delta)
            if safe:
                yield safe
