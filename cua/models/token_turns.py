"""Turns of conversations as token ids, so that a request continues from the ids that the server returned.

Text that is tokenized again may give other ids than the model wrote, and training on them would be training on tokens
that were never sampled. A server that takes `prompt_token_ids` gets the ids of prompt and reply of an earlier turn, the
hashes of its media, and only the messages after it.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from cua.json_text import Json
from cua.messages import Message, Part, Reply, ThinkPart, TokenMedia

TOKEN_FIELDS = {
    "return_token_ids": True,
    "return_kept_token_ids": True,
    "logprobs": True,
    "logprobs_mode": "processed_logprobs",
}
"""Fields of a request for all that `ReplyTokens` holds."""
MAX_IDS = 8 * 2**20
"""Limit on remembered ids, of four bytes each: 80 conversations of 100,000 tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTurn:
    """A turn in which the server returned ids.

    Attributes:
        reply: The reply, without its tokens.
        ids: Ids of prompt and reply.
        media: Media in the ids, in order.
        num_messages: Number of messages in the ids, the reply included.
    """

    reply: Reply
    ids: "array[int]" = field(repr=False)
    media: tuple[TokenMedia, ...]
    num_messages: int

    def fields(self, parts: Sequence[Json] | None = None) -> Json:
        """Return the fields of a request: ids with media, by hashes or as given parts of messages."""
        known = [{"type": "media_hash", "media_hash": item.media_hash, "offset": item.offset} for item in self.media]
        return {"prompt_token_ids": self.ids.tolist(), "media": known if parts is None else list(parts)}

    def is_start_of(self, prompt_ids: Sequence[int]) -> bool:
        """Return True if a prompt begins with these ids."""
        return array("I", prompt_ids[: len(self.ids)]) == self.ids


class TokenTurns:
    """The most recent turns by the messages that they answered."""

    def __init__(self, max_ids: int = MAX_IDS) -> None:
        self._max_ids = max_ids
        self._num_ids = 0
        self._turns: OrderedDict[tuple[Message, ...], TokenTurn] = OrderedDict()

    def add(self, messages: Sequence[Message], reply: Reply) -> None:
        """Remember a reply to these messages, if its server can continue from ids."""
        tokens = reply.tokens
        if tokens is None or not tokens.prompt_ids or not tokens.processor:
            return
        self._drop(tuple(messages))
        self._turns[tuple(messages)] = TokenTurn(
            reply=Reply(content=reply.content, reasoning=reply.reasoning, tool_calls=reply.tool_calls),
            ids=array("I", (*tokens.prompt_ids, *tokens.ids)),
            media=tokens.media,
            num_messages=len(messages) + 1,
        )
        self._num_ids += len(tokens.prompt_ids) + len(tokens.ids)
        while self._num_ids > self._max_ids:
            self._drop(next(iter(self._turns)))

    def find(self, messages: Sequence[Message]) -> TokenTurn | None:
        """Return the turn that ends with the last assistant message, if that is the reply as it was given."""
        last = next((i for i in range(len(messages) - 2, 0, -1) if messages[i].role == "assistant"), 0)
        turn = self._turns.get(tuple(messages[:last]))
        if turn is None or not is_same_reply(messages[last], turn.reply):
            return None
        self._turns.move_to_end(tuple(messages[:last]))
        return turn

    def _drop(self, messages: tuple[Message, ...]) -> None:
        turn = self._turns.pop(messages, None)
        self._num_ids -= 0 if turn is None else len(turn.ids)


def is_same_reply(message: Message, reply: Reply) -> bool:
    """Return True if a message repeats a reply; ids of calls and a text for an empty reply do not count."""
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    return (
        calls == [(call.name, call.arguments) for call in reply.tool_calls]
        and (message.text == reply.content or not reply.content)
        and _reasoning(message.parts) in (reply.reasoning, "")
    )


def _reasoning(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, ThinkPart))
