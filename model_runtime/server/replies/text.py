"""Plain completions, whole or as chunks."""

from dataclasses import dataclass, field, replace
from typing import Any

from model_runtime.engine.contract import EngineOutput, TokenLogprob
from model_runtime.server.errors import dump
from model_runtime.server.exchange import Exchange
from model_runtime.server.replies.logprobs import prompt_logprobs_json, text_logprobs
from model_runtime.server.replies.reply import DONE, ReplyHead, StreamWishes, event
from model_runtime.server.replies.usage import Usage
from model_runtime.tokenizer import Tokenizer

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextWishes:
    """What a completion shows.

    Attributes:
        stream: How it is streamed.
        has_echo: The prompt stands before the answer.
        is_echo_only: Nothing of the answer is shown (`max_tokens` 0).
        with_logprobs: Log-probabilities of the tokens.
        with_prompt_logprobs: Those of the prompt, in a list of their own.
        with_token_ids: Ids of prompt and answer.
        with_control_tokens: Control tokens show by their names.
    """

    stream: StreamWishes
    has_echo: bool = False
    is_echo_only: bool = False
    with_logprobs: bool = False
    with_prompt_logprobs: bool = False
    with_token_ids: bool = False
    with_control_tokens: bool = False


@dataclass(slots=True)
class _Piece:
    """What a choice has to show and has not shown yet."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob | None] = field(default_factory=list)
    logprob_ids: list[int] = field(default_factory=list)


class TextChoice:
    """One sequence of a completion.

    Args:
        index: Of the choice.
        prompt_ids: Its prompt.
        wishes: What is shown.
        tokenizer: The model's.
    """

    def __init__(self, index: int, prompt_ids: tuple[int, ...], wishes: TextWishes, tokenizer: Tokenizer) -> None:
        self._index = index
        self._prompt_ids = prompt_ids
        self._wishes = wishes
        self._tokenizer = tokenizer
        self._piece = _Piece()
        self._offset = 0
        self._has_begun = False
        self._first_extras: Json = {}
        self.finish_reason: str | None = None
        self._stop_reason: str | int | None = None

    def take(self, output: EngineOutput) -> None:
        """Add a step."""
        if not self._has_begun:
            self._begin(output)
        if not self._wishes.is_echo_only:
            self._piece.text += "".join(map(self._shown, output.deltas))
            self._piece.token_ids += output.token_ids
            self._piece.logprobs += output.logprobs
            self._piece.logprob_ids += output.token_ids
        if output.finish_reason is not None:
            self.finish_reason = "length" if self._wishes.is_echo_only else output.finish_reason
            self._stop_reason = output.stop_reason

    def pop(self) -> Json | None:
        """The choice with what is new, or None where that is nothing."""
        piece = self._piece
        if not (piece.text or self._first_extras or self.finish_reason):
            return None
        choice: Json = {
            "index": self._index,
            "text": piece.text,
            "logprobs": None,
            "finish_reason": self.finish_reason,
            "stop_reason": self._stop_reason,
        }
        if self._wishes.with_logprobs:
            choice["logprobs"] = text_logprobs(piece.logprobs, piece.logprob_ids, self._tokenizer, self._offset)
            self._offset += sum(map(len, choice["logprobs"]["tokens"]))
        if self._wishes.with_token_ids:
            choice["token_ids"] = piece.token_ids
        choice |= self._first_extras
        self._piece, self._first_extras = _Piece(), {}
        return choice

    def _begin(self, output: EngineOutput) -> None:
        self._has_begun = True
        if self._wishes.has_echo:
            self._piece.text = self._tokenizer.decode(self._prompt_ids)
            if self._wishes.with_logprobs:
                self._piece.logprobs += output.prompt_logprobs or ()
                self._piece.logprob_ids += self._prompt_ids
        if self._wishes.with_token_ids:
            self._first_extras["prompt_token_ids"] = self._prompt_ids
        if self._wishes.with_prompt_logprobs:
            shown = prompt_logprobs_json(output.prompt_logprobs or (), self._tokenizer)
            self._first_extras["prompt_logprobs"] = shown

    def _shown(self, delta: str | int) -> str:
        if isinstance(delta, str):
            return delta
        return self._tokenizer.special.text_of(delta) if self._wishes.with_control_tokens else ""


class TextReply:
    """The answer to a completion request.

    Args:
        head: Of the answer.
        choices: Its sequences, all of the first prompt before those of the second.
        num_choices: For each prompt.
        wishes: What is shown.
        exchange: Told the counts at the end.
    """

    def __init__(
        self, head: ReplyHead, choices: list[TextChoice], num_choices: int, wishes: TextWishes, exchange: Exchange
    ) -> None:
        self._head = head
        self._choices = choices
        self._wishes = wishes
        self._exchange = exchange
        self._usage = exchange.usage = Usage(num_choices)

    def take(self, index: int, output: EngineOutput) -> bytes:
        """Add a step of one choice. See `Reply.take`."""
        choice = self._choices[index]
        if self._wishes.is_echo_only:
            output = replace(output, token_ids=())
        self._usage.take(index, output)
        choice.take(output)
        if choice.finish_reason is not None:
            self._exchange.finish_reasons.append(choice.finish_reason)
        if not self._wishes.stream.is_stream:
            return b""
        shown = choice.pop()
        return b"" if shown is None else self._head.to_event(shown, self._beside())

    def end(self) -> bytes:
        """The answer, or the end of the stream."""
        if not self._wishes.stream.is_stream:
            shown = [choice for choice in map(TextChoice.pop, self._choices) if choice is not None]
            return dump(self._head.to_json(shown) | {"usage": self._usage.to_json()})
        last = self._head.to_json([]) | {"usage": self._usage.to_json()}
        return (event(last) if self._wishes.stream.usage_at_end else b"") + DONE

    def _beside(self) -> Json:
        """What stands beside the choice of a chunk."""
        if not self._wishes.stream.usage_at_end:
            return {}
        return {"usage": self._usage.to_json() if self._wishes.stream.usage_always else None}
