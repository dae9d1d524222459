"""Endpoints `POST /v1/completions`, `/tokenize` and `/detokenize`: text and token ids without a template."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from starlette.requests import Request
from starlette.responses import Response

from model_runtime.cancellation import run_in_thread
from model_runtime.engine.contract import EngineOutput, EngineRequest, TokenLogprob
from model_runtime.errors import InvalidRequestError
from model_runtime.media import Prompt
from model_runtime.server.answer_parts import (
    DONE,
    ReplyHead,
    UsageCounter,
    check_stream_options,
    format_event,
    prompt_logprobs_json,
    text_logprobs,
)
from model_runtime.server.body import Json, dump, read_body
from model_runtime.server.metrics import AccessLogRecord
from model_runtime.server.prompt import load_tools, read_flags, read_prompt, text_params
from model_runtime.server.responses import (
    Prepared,
    RequestDeadline,
    StreamingAnswer,
    make_answer,
    make_choices,
    make_reply_id,
    record_of,
    state_of,
)
from model_runtime.server.schemas import MAX_CHOICES, DetokenizeRequest, TextRequest, TokenizeRequest
from model_runtime.server.state import ServerState
from model_runtime.tokenizer import TokenBudget, Tokenizer


@dataclass(slots=True)
class _UnsentOutput:
    """Output of a choice that has not been returned yet."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob | None] = field(default_factory=list)
    logprob_ids: list[int] = field(default_factory=list)


class TextChoice:
    """One sequence of a completion."""

    def __init__(self, index: int, prompt_ids: tuple[int, ...], body: TextRequest, tokenizer: Tokenizer) -> None:
        self._index = index
        self._prompt_ids = prompt_ids
        self._asked = body
        self._tokenizer = tokenizer
        self._piece = _UnsentOutput()
        self._offset = 0
        self._has_begun = False
        self._first_extras: Json = {}
        self.finish_reason: str | None = None
        self._stop_reason: str | int | None = None

    def take(self, output: EngineOutput) -> None:
        """Add an output."""
        if not self._has_begun:
            self._begin(output)
        if self._asked.max_tokens != 0:
            self._piece.text += "".join(map(self._shown, output.deltas))
            self._piece.token_ids += output.token_ids
            self._piece.logprobs += output.logprobs
            self._piece.logprob_ids += output.token_ids
        if output.finish_reason is not None:
            self.finish_reason = "length" if self._asked.max_tokens == 0 else output.finish_reason
            self._stop_reason = output.stop_reason

    def pop(self) -> Json | None:
        """Return the choice with its new output, or None if there is nothing new."""
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
        if self._asked.logprobs is not None:
            choice["logprobs"] = text_logprobs(
                piece.logprobs,
                piece.logprob_ids,
                self._tokenizer,
                self._offset,
                with_sampled=bool(self._asked.return_token_ids),
            )
            self._offset += sum(map(len, choice["logprobs"]["tokens"]))
        if self._asked.return_token_ids:
            choice["token_ids"] = piece.token_ids
        choice |= self._first_extras
        self._piece, self._first_extras = _UnsentOutput(), {}
        return choice

    def _begin(self, output: EngineOutput) -> None:
        self._has_begun = True
        if self._asked.echo:
            self._piece.text = self._tokenizer.decode(self._prompt_ids)
            if self._asked.logprobs is not None:
                self._piece.logprobs += output.prompt_logprobs or ()
                self._piece.logprob_ids += self._prompt_ids
        if self._asked.return_token_ids:
            self._first_extras["prompt_token_ids"] = self._prompt_ids
        if self._asked.prompt_logprobs is not None:
            shown = prompt_logprobs_json(output.prompt_logprobs or (), self._tokenizer)
            self._first_extras["prompt_logprobs"] = shown

    def _shown(self, delta: str | int) -> str:
        if isinstance(delta, str):
            return delta
        return self._tokenizer.special.text_of(delta) if self._asked.skip_special_tokens is False else ""


class TextReply:
    """Answer to a completion request."""

    def __init__(self, head: ReplyHead, choices: list[TextChoice], body: TextRequest, record: AccessLogRecord) -> None:
        self._head = head
        self._choices = choices
        self._asked = body
        self._record = record
        self._usage = record.usage = UsageCounter(body.n or 1)

    def take(self, index: int, output: EngineOutput) -> bytes:
        """Add an output of one choice. See `ReplyBuilder.take`."""
        choice = self._choices[index]
        if self._asked.max_tokens == 0:
            output = replace(output, token_ids=())
        self._usage.take(index, output)
        choice.take(output)
        if choice.finish_reason is not None:
            self._record.finish_reasons.append(choice.finish_reason)
        if not self._asked.stream:
            return b""
        shown = choice.pop()
        return b"" if shown is None else self._head.to_event(shown, self._extra_fields())

    def end(self) -> bytes:
        """Return the answer, or the end of the stream."""
        if not self._asked.stream:
            shown = [choice for choice in map(TextChoice.pop, self._choices) if choice is not None]
            return dump(self._head.to_json(shown) | {"usage": self._usage.to_json()})
        last = self._head.to_json([]) | {"usage": self._usage.to_json()}
        return (format_event(last) if self._asked.usage_at_end else b"") + DONE

    def _extra_fields(self) -> Json:
        """Return the fields of a chunk other than its choice."""
        if not self._asked.usage_at_end:
            return {}
        return {"usage": self._usage.to_json() if self._asked.usage_always else None}


async def complete_text(request: Request) -> StreamingAnswer:
    """Handle a completion request with text or token ids."""
    state = state_of(request)
    body = await read_body(request, TextRequest, timeout_s=state.options.body_timeout_s)
    return make_answer(state, body, lambda: _prepare(state, body, record_of(request)))


async def _prepare(state: ServerState, body: TextRequest, record: AccessLogRecord) -> Prepared:
    model = state.check_model(body.model)
    params = text_params(body)
    check_stream_options(body)
    tokenizer = state.engine.tokenizer
    prompts = await run_in_thread(read_prompts, body, tokenizer, state.engine.card.max_prompt_len)
    n, reply_id = body.n or 1, make_reply_id("cmpl")
    requests: list[EngineRequest] = []
    for number, token_ids in enumerate(prompts):
        request = EngineRequest(
            request_id=f"{reply_id}-{number}",
            prompt=Prompt(token_ids=tuple(token_ids)),
            params=params,
            priority=body.priority or 0,
        )
        requests += make_choices(request, n)
    choices = [TextChoice(i, sequence.prompt.token_ids, body, tokenizer) for i, sequence in enumerate(requests)]
    head = ReplyHead(reply_id, "text_completion", model)
    return requests, TextReply(head, choices, body, record)


def read_prompts(body: TextRequest, tokenizer: Tokenizer, most_tokens: int) -> list[list[int]]:
    """Return the token ids of each prompt.

    Raises:
        RequestError: If there are too many, one is empty or too long, or one has media placeholders.
    """
    prompt = body.prompt
    texts = [prompt] if isinstance(prompt, str) else [item for item in prompt if isinstance(item, str)]
    lists = [item for item in prompt if isinstance(item, list)]
    num_prompts = len(texts) or len(lists) or 1
    if num_prompts * (body.n or 1) > MAX_CHOICES:
        text = f"{num_prompts} prompts with n {body.n or 1} make more than {MAX_CHOICES} choices; send fewer"
        raise InvalidRequestError(text, param="prompt")
    encode = tokenizer.encode_with_special if body.parse_special_tokens else tokenizer.encode
    prompts = [encode(text, TokenBudget(most_tokens)) for text in texts]
    if not texts and not isinstance(prompt, str):
        prompts = lists or [[item for item in prompt if isinstance(item, int)]]
    for token_ids in prompts:
        TokenBudget(most_tokens).spend(len(token_ids))
        if not token_ids:
            raise InvalidRequestError("the prompt is empty; expected one token or more", param="prompt")
        if tokenizer.special.media_pad in token_ids:
            text = "the prompt holds <|media_pad|>, for which there is no image here; send images to the chat endpoint"
            raise InvalidRequestError(text, param="prompt")
    return prompts


MOST_CONTEXTS = 4
"""Limit of tokenization in multiples of the model's context, to report by how much a prompt is too long."""


async def tokenize(request: Request) -> Response:
    """Return token ids of a text, or of a conversation rendered by the template; up to four times the context."""
    state = state_of(request)
    body = await read_body(request, TokenizeRequest, timeout_s=state.options.body_timeout_s)
    state.check_model(body.model)
    if (body.prompt is None) == (body.chat is None):
        raise InvalidRequestError("expected prompt or messages, one of them", param="prompt")
    async with _attend(request, state):
        ids = await _count(body, state)
        shown = {"count": len(ids), "max_model_len": state.engine.card.max_model_len, "tokens": ids}
        return await _make_answer(lambda: shown)


async def _count(body: TokenizeRequest, state: ServerState) -> list[int]:
    tokenizer, most = state.engine.tokenizer, MOST_CONTEXTS * state.engine.card.max_model_len
    if body.chat is None:
        return await run_in_thread(tokenizer.encode, body.prompt or "", TokenBudget(most))
    tools = await load_tools(body.chat, state.options.max_tools)
    flags = read_flags(body.chat)
    chat = await read_prompt(body.chat, flags, tools.declared, state.media, tokenizer, most_tokens=most)
    return list(chat.prompt.token_ids)


async def detokenize(request: Request) -> Response:
    """Return the text of token ids, with control tokens by their names."""
    state = state_of(request)
    body = await read_body(request, DetokenizeRequest, timeout_s=state.options.body_timeout_s)
    state.check_model(body.model)
    most, vocab_size = MOST_CONTEXTS * state.engine.card.max_model_len, state.engine.card.vocab_size
    if len(body.tokens) > most:
        raise InvalidRequestError(f"there are {len(body.tokens)} tokens; at most {most} are decoded", param="tokens")

    def decode() -> Json:
        wrong = next((token_id for token_id in body.tokens if token_id >= vocab_size), None)
        if wrong is not None:
            text = f"token id {wrong} is outside the vocabulary; expected 0 to {vocab_size - 1}"
            raise InvalidRequestError(text, param="tokens")
        return {"prompt": state.engine.tokenizer.decode(body.tokens)}

    return await _make_answer(decode)


def _attend(request: Request, state: ServerState) -> RequestDeadline:
    return RequestDeadline(request.receive, timeout_s=state.options.request_timeout_s, queue_timeout_s=None)


async def _make_answer(make: Callable[[], Json]) -> Response:
    """Make and serialize JSON in a thread: it can be as long as the request."""
    return Response(await run_in_thread(lambda: dump(make())), media_type="application/json")
