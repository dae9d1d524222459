"""Ids of tool calls: all ids of clients are rewritten to `functions.NAME:NUMBER`, numbered over the conversation from
0.

The template shows ids verbatim and the model imitates what it sees, so one foreign id in a conversation leads to
replies that cannot be parsed. Clients get ids of the same form; ids that they send back, renamed or not, are rewritten
by their position in the conversation, so no state is kept between requests.

messages, ids = rewrite_history(messages)
next_call_id(ids, "exec", 0)               # the id of the first call of the reply, as the client gets it

Source: section "Tool calling" of the Kimi K2 model card and its tool call guidance.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from model_runtime.chat.messages import ChatMessage
from model_runtime.errors import InvalidRequestError
from model_runtime.tokenizer import Tokenizer

_NUMBERED = re.compile(r"functions\.(.*):([0-9]{1,1000})", re.DOTALL)
_NOT_ALNUM = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdMap:
    """Mapping of the ids of a conversation.

    Attributes:
        external: The client's id of each call, in order; a call's position is its number in the prompt.
        next_number: Smallest number above those of the client's ids and of the calls in the prompt.
    """

    external: tuple[str, ...] = ()
    next_number: int = 0


def call_id(name: str, number: int) -> str:
    """Return the id of the call with this number, counted over the conversation from 0."""
    return f"functions.{name}:{number}"


def next_call_id(ids: IdMap, name: str, index: int) -> str:
    """Return the id of a new call, distinct from all ids of the client, even if it has truncated its history."""
    return call_id(name, ids.next_number + index)


WrittenIds = Sequence[Sequence[str]]
"""Ids of calls as a prompt spells them, for each assistant message with calls."""


def find_written_ids(token_ids: Sequence[int], tokenizer: Tokenizer) -> WrittenIds:
    """Return the ids of the calls in a prompt of token ids.

    Raises:
        RequestError: If an id is outside the vocabulary.
    """
    special = tokenizer.special
    opening, section = special.id_of("<|tool_call_begin|>"), special.id_of("<|im_assistant|>")
    written: list[list[str]] = []
    marks = [(place, token_id) for place, token_id in enumerate(token_ids) if special.is_special(token_id)]
    for (place, token_id), (end, _) in pairwise([*marks, (len(token_ids), -1)]):
        if token_id == section:
            written.append([])
        elif token_id == opening:
            written = written or [[]]
            written[-1].append(tokenizer.decode(token_ids[place + 1 : end]).strip())
    return [ids for ids in written if ids]


def rewrite_history(messages: Sequence[ChatMessage], written: WrittenIds = ()) -> tuple[tuple[ChatMessage, ...], IdMap]:
    """Rewrite ids to those of the model, in calls and in the results that answer them.

    A result belongs to the latest message before it that has a call of its id; several results of one id belong to the
    calls of that id in order, the last call taking any extra results. Ids that differ only in characters other than
    letters and digits are equal if that is unambiguous. If none of the results after a message with calls has an id of
    any call, they belong to its calls in order. Calls may have no result.

    Args:
        messages: Messages in order.
        written: Calls in the prompt before `messages`; clients know them as `functions.NAME:NUMBER`, numbered.

    Raises:
        RequestError: If the call of a result cannot be determined; `param` is `messages.N.tool_call_id`.
    """
    rewritten = list(messages)
    external: list[str] = []
    known = _KnownCalls()
    ids: list[str] = []
    for spelled in written:
        ids = list(spelled)
        numbered = [call_id(_name_in(text), number) for number, text in enumerate(ids, len(external))]
        known.add(ids, ids)
        known.add(numbered, ids)
        external += numbered
    for turn in _turns(messages):
        head = messages[turn.start]
        if head.tool_calls:
            ids = [call_id(call.name, number) for number, call in enumerate(head.tool_calls, len(external))]
            calls = zip(head.tool_calls, ids, strict=True)
            rewritten[turn.start] = replace(head, tool_calls=tuple(replace(call, id=new_id) for call, new_id in calls))
            external += [call.id for call in head.tool_calls]
            known.add([call.id for call in head.tool_calls], ids)
        results = {index: messages[index].tool_call_id or "" for index in turn if messages[index].role == "tool"}
        for index, new_id in _match(results, known, ids).items():
            rewritten[index] = replace(rewritten[index], tool_call_id=new_id)
    return tuple(rewritten), IdMap(external=tuple(external), next_number=_next_number(external))


def _turns(messages: Sequence[ChatMessage]) -> Iterator[range]:
    """Return index ranges from each message with calls up to the next one; the first may have no calls."""
    starts = [index for index, message in enumerate(messages) if message.tool_calls or index == 0]
    return (range(start, end) for start, end in pairwise([*starts, len(messages)]))


def _name_in(written: str) -> str:
    """Return the tool's name in an id, or the whole id if it has another form."""
    match = _NUMBERED.fullmatch(written)
    return match[1] if match else written


def _next_number(external: Sequence[str]) -> int:
    numbers = (int(match[2]) for match in map(_NUMBERED.fullmatch, external) if match)
    return max([len(external), *(number + 1 for number in numbers)])


class _KnownCalls:
    """Calls so far by the client's ids; if a later message reuses ids, they refer to its calls."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[str]] = {}
        self._spelled: dict[str, list[str]] = {}

    def add(self, external: Sequence[str], ids: Sequence[str]) -> None:
        """Add the calls of one message: the client's ids and the model's."""
        waiting: dict[str, deque[str]] = {}
        spelled: dict[str, list[str]] = {}
        for old, new in zip(external, ids, strict=True):
            if old not in waiting:
                spelled.setdefault(_compact(old), []).append(old)
            waiting.setdefault(old, deque()).append(new)
        self._waiting.update(waiting)
        self._spelled.update(spelled)

    def find(self, external: str) -> str | None:
        """Return the added id that matches this one, if any."""
        if external in self._waiting:
            return external
        alike = self._spelled.get(_compact(external), [])
        return alike[0] if len(alike) == 1 else None

    def take(self, external: str) -> str:
        """Return the call that the next result with this id answers."""
        waiting = self._waiting[external]
        return waiting.popleft() if len(waiting) > 1 else waiting[0]


def _compact(text: str) -> str:
    return _NOT_ALNUM.sub("", text) or text


def _match(results: Mapping[int, str], known: _KnownCalls, ids: Sequence[str]) -> dict[int, str]:
    """Return the call of each result of a turn, by message index."""
    matches = {index: known.find(external) for index, external in results.items()}
    if ids and all(external is None for external in matches.values()):
        pairs = dict(zip(results, ids, strict=False))
        for index in results:
            if index not in pairs:
                raise _unmatched(index, results[index], f"there are {len(ids)} calls for {len(results)} results")
        return pairs
    for index, external in matches.items():
        if external is None:
            raise _unmatched(index, results[index], "no assistant message before it has a call of that id")
    return {index: known.take(external) for index, external in matches.items() if external is not None}


def _unmatched(index: int, external: str, internal: str) -> InvalidRequestError:
    shown = repr(external[:100]) if external else "missing"
    return InvalidRequestError(
        f"messages.{index} is a tool result, and its tool_call_id is {shown}: {internal}. "
        "Send the id that the call has in tool_calls of the assistant message before it.",
        param=f"messages.{index}.tool_call_id",
    )
