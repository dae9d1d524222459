"""How many tokens the texts of a request may become, found out before all of them are."""

from model_runtime.errors import RequestError


class TokenBudget:
    """What is left for one prompt.

    A text has at least as many tokens as it has bytes over the length of the longest token, so that one which is far
    too long is refused without a look at it, and another as soon as its tokens are too many.

    Args:
        most: Tokens of the whole prompt.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most

    def foresee(self, num_bytes: int, max_token_bytes: int) -> None:
        """Refuse a text that has too many tokens, however they fall.

        Raises:
            RequestError: It has.
        """
        if num_bytes > self._left * max_token_bytes:
            raise self._error()

    def spend(self, num_tokens: int) -> None:
        """Take tokens.

        Raises:
            RequestError: There are not so many left.
        """
        self._left -= num_tokens
        if self._left < 0:
            raise self._error()

    def _error(self) -> RequestError:
        text = f"the prompt has more than {self._most} tokens, which is all that is taken"
        return RequestError(
            f"{text}. Send less history or fewer images", param="messages", code="context_length_exceeded"
        )
