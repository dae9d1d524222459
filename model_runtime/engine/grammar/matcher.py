"""Where one output stands in its grammar."""

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    import llguidance


class Matcher:
    """Follows one output through a grammar.

    Args:
        inner: llguidance's matcher, of its own.
        end_id: The token that ends an output.
    """

    def __init__(self, inner: "llguidance.LLMatcher", end_id: int) -> None:
        self._inner = inner
        self._end_id = end_id
        self.is_done = False

    @property
    def fault(self) -> str | None:
        """Why it cannot go on, in a line, or None."""
        return read_reason(self._inner.get_error()) if self._inner.is_error() else None

    @property
    def is_accepting(self) -> bool:
        """What stands there matches the grammar as it is."""
        return self._inner.is_accepting()

    @property
    def must_end(self) -> bool:
        """Only the end token may come next."""
        return self._inner.is_stopped()

    def fill(self, words: Tensor) -> None:
        """Write a bit for each token that may come next into one row, (W,) int32 on the CPU."""
        self._inner.unsafe_compute_mask_ptr(words.data_ptr(), words.numel() * words.element_size())

    def accept(self, token_id: int) -> bool:
        """Take a token; False, with a `fault`, where the grammar has no place for it."""
        was_accepting = token_id == self._end_id and self.is_accepting
        is_taken = self._inner.consume_token(token_id)
        self.is_done = is_taken and was_accepting
        return is_taken


def read_reason(text: str) -> str:
    """The library's reason in a line, without its dump of stack and state."""
    return " ".join(text.split("<backtrace>")[0].split("<state>")[0].split())[:400]
