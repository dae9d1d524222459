"""Chat answers, whole or as chunks."""

from typing import Any

from model_runtime.engine.contract import EngineOutput
from model_runtime.server.errors import dump
from model_runtime.server.exchange import Exchange
from model_runtime.server.replies.chat_choice import ChatChoice, ChatWishes
from model_runtime.server.replies.reply import DONE, ReplyHead, event
from model_runtime.server.replies.usage import Usage

Json = dict[str, Any]


class ChatReply:
    """The answer to a chat request.

    Args:
        head: Of the answer.
        choices: Its sequences.
        wishes: What is shown.
        exchange: Told the counts at the end.
    """

    def __init__(self, head: ReplyHead, choices: list[ChatChoice], wishes: ChatWishes, exchange: Exchange) -> None:
        self._head = head
        self._choices = choices
        self._wishes = wishes
        self._exchange = exchange
        self._usage = exchange.usage = Usage(len(choices))

    def take(self, index: int, output: EngineOutput) -> bytes:
        """Add a step of one choice. See `Reply.take`."""
        choice = self._choices[index]
        self._usage.take(index, output)
        events = choice.take(output)
        if choice.finish_reason is not None:
            self._exchange.finish_reasons.append(choice.finish_reason)
            self._exchange.problems += choice.problems
        if not self._wishes.stream.is_stream:
            choice.keep(events)
            return b""
        return b"".join(self._head.to_event(chunk, self._beside(chunk)) for chunk in choice.chunks(events))

    def end(self) -> bytes:
        """The answer, or the end of the stream."""
        if not self._wishes.stream.is_stream:
            body = self._head.to_json([choice.whole() for choice in self._choices]) | {"usage": self._count()}
            ids = {"prompt_token_ids": self._wishes.prompt_ids} if self._wishes.with_token_ids else {}
            return dump(body | ids)
        last = self._head.to_json([]) | {"usage": self._count()}
        return (event(last) if self._wishes.stream.usage_at_end else b"") + DONE

    def _count(self) -> Json:
        self._usage.num_reasoning = sum(choice.num_reasoning for choice in self._choices)
        return self._usage.to_json()

    def _beside(self, choice: Json) -> Json:
        """What stands beside the choice of a chunk."""
        beside: Json = {}
        if self._wishes.with_token_ids and "role" in choice["delta"]:
            beside["prompt_token_ids"] = self._wishes.prompt_ids
        if self._wishes.stream.usage_at_end:
            beside["usage"] = self._count() if self._wishes.stream.usage_always else None
        return beside
