"""Tokens of an output to text as it comes.

A token may hold half a character: its bytes wait until the character is whole, three at most.
"""

import codecs
from typing import TYPE_CHECKING

from model_runtime.engine.contract import Delta

if TYPE_CHECKING:
    from model_runtime.tokenizer import Tokenizer


class Detokenizer:
    """Text and control tokens of one output, in order.

    Put together, with control tokens by their names, the deltas are `tokenizer.decode` of all tokens: bytes that are no
    UTF-8 become U+FFFD in the same places.
    """

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token_id: int) -> tuple[Delta, ...]:
        """What one more token makes certain: text, or what was held back and the id of a control token."""
        if self._tokenizer.special.is_special(token_id):
            return (*self.finish(), token_id)
        text = self._decoder.decode(self._tokenizer.token_bytes(token_id))
        return (text,) if text else ()

    def finish(self) -> tuple[Delta, ...]:
        """What was held back, as U+FFFD; afterwards it stands as at the start."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return (text,) if text else ()
