"""Endpoints `POST /v1/chat/completions`, where engine deltas are parsed to messages, and `/v1/completions`, `/tokenize`
and `/detokenize`, which use text and token ids without a template.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from starlette.requests import Request
from starlette.responses import Response

from model_runtime.cancellation import run_in_thread
from model_runtime.chat.parser.events import (
    ContentText,
    Event,
    Problem,
    ReasoningText,
    ReplySummary,
    ToolCallArguments,
    ToolCallStart,
    collect_reply,
)
from model_runtime.chat.parser.parser import ParserOptions, ReplyParser
from model_runtime.chat.tool_ids import next_call_id
from model_runtime.engine.contract import EngineOutput, EngineRequest, TokenLogprob
from model_runtime.errors import InvalidRequestError
from model_runtime.json_types import Json
from model_runtime.media import Prompt
from model_runtime.server.answer_parts import (
    DONE,
    ReplyHead,
    UsageCounter,
    add_version,
    chat_logprobs,
    check_stream_options,
    format_event,
    kept_json,
    prompt_json,
    prompt_logprobs_json,
    text_logprobs,
)
from model_runtime.server.body import dump, read_body
from model_runtime.server.media import MediaReader
from model_runtime.server.metrics import AccessLogRecord
from model_runtime.server.prompt import (
    ChatPrompt,
    ToolUse,
    chat_params,
    load_tools,
    read_flags,
    read_prompt,
    read_token_prompt,
    text_params,
)
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
from model_runtime.server.schemas import MAX_CHOICES, ChatRequest, DetokenizeRequest, TextRequest, TokenizeRequest
from model_runtime.server.state import ServerState
from model_runtime.tokenizer import TokenBudget, Tokenizer

MOST_CONTEXTS = 4
"""Limit of tokenization in multiples of the model's context, to report by how much a prompt is too long."""


class ChatChoice:
    """One sequence of a chat answer."""

    def __init__(self, index: int, body: ChatRequest, tools: ToolUse, chat: ChatPrompt, tokenizer: Tokenizer) -> None:
        reading = ParserOptions(starts_in_reasoning=chat.thinking, tools=tools.declared, special=tokenizer.special)
        self._index = index
        self._parser = ReplyParser(reading)
        self._asked = body
        self._tools = tools
        self._call_ids = chat.call_ids
        self._tokenizer = tokenizer
        self._in_reasoning = chat.thinking
        self._reasoning_ends = frozenset(tokenizer.special.reasoning_ends)
        self.num_reasoning = 0
        self.finish_reason: str | None = None
        self.problems: tuple[Problem, ...] = ()
        self._stop_reason: str | int | None = None
        self._num_calls = 0
        self._has_begun = False
        self._events: list[Event] = []
        self._logprobs: list[TokenLogprob] = []
        self._token_ids: list[int] = []
        self._versions: list[Json] = []

    def take(self, output: EngineOutput) -> list[Event]:
        """Add an output, and return its events without calls that must not be passed on."""
        self._count_reasoning(output.token_ids)
        self._logprobs += output.logprobs
        self._token_ids += output.token_ids
        add_version(self._versions, output)
        events = [event for delta in output.deltas for event in self._parser.feed(delta)]
        if output.finish_reason is not None:
            last, summary = self._parser.finish()
            events += last
            self.problems = summary.problems
        events = [event for event in events if self._is_shown(event)]
        self._num_calls += sum(isinstance(event, ToolCallStart) for event in events)
        if output.finish_reason is not None:
            has_stopped = output.finish_reason == "stop"
            self.finish_reason = "tool_calls" if has_stopped and self._num_calls else output.finish_reason
            self._stop_reason = output.stop_reason
        return events

    def keep(self, events: Iterable[Event]) -> None:
        """Store events for the whole message."""
        self._events += events

    def chunks(self, events: Iterable[Event]) -> list[Json]:
        """Return the stream choices for these events, in order."""
        deltas = [delta for event in join_texts(events) if (delta := self._delta(event))]
        choices = [self._chunk(delta) for delta in deltas]
        if not self._has_begun:
            self._has_begun = True
            choices.insert(0, self._chunk({"role": "assistant", "content": ""}))
        if self.finish_reason is not None:
            choices.append(self._chunk({}) | self._end())
        if choices and (self._asked.logprobs or self._asked.return_token_ids):
            next((choice for choice in choices if "role" not in choice["delta"]), choices[0]).update(self._extras())
        return choices

    def _chunk(self, delta: Json) -> Json:
        return {"index": self._index, "delta": delta, "finish_reason": None, "logprobs": None}

    def whole(self) -> Json:
        """Return the choice of an answer that is not streamed."""
        reply = collect_reply(self._events, ReplySummary())
        message: Json = {"role": "assistant", "content": reply.content, "refusal": None}
        if reply.reasoning is not None:
            message["reasoning_content"] = reply.reasoning
        if reply.tool_calls:
            message["tool_calls"] = [
                {
                    "id": next_call_id(self._call_ids, call.name, index),
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for index, call in enumerate(reply.tool_calls)
            ]
        return {"index": self._index, "message": message, "logprobs": None, **self._end(), **self._extras()}

    def _end(self) -> Json:
        return {"finish_reason": self.finish_reason, "stop_reason": self._stop_reason}

    def _extras(self) -> Json:
        """Return log-probabilities and ids that have not been returned yet."""
        extras: Json = {}
        if self._asked.logprobs:
            content = chat_logprobs(self._logprobs, self._tokenizer, with_sampled=bool(self._asked.return_token_ids))
            extras["logprobs"] = {"content": content, "refusal": None}
        if self._asked.return_token_ids:
            extras |= {"token_ids": self._token_ids, "weight_versions": self._versions}
        if self._asked.return_kept_token_ids:
            extras |= kept_json(self._logprobs)
        self._logprobs, self._token_ids, self._versions = [], [], []
        return extras

    def _is_shown(self, event: Event) -> bool:
        if isinstance(event, ReasoningText | ContentText):
            return True
        most = self._tools.max_calls
        return self._tools.with_calls and (most is None or event.index < most)

    def _delta(self, event: Event) -> Json:
        match event:
            case ReasoningText(text):
                return {"reasoning_content": text}
            case ContentText(text):
                return {"content": text}
            case ToolCallStart(index, _, name):
                call = {"index": index, "id": next_call_id(self._call_ids, name, index), "type": "function"}
                return {"tool_calls": [call | {"function": {"name": name, "arguments": ""}}]}
            case ToolCallArguments(index, text):
                return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
            case _:
                return {}

    def _count_reasoning(self, token_ids: tuple[int, ...]) -> None:
        for token_id in token_ids if self._in_reasoning else ():
            if token_id in self._reasoning_ends:
                self._in_reasoning = False
                return
            self.num_reasoning += 1


def join_texts(events: Iterable[Event]) -> list[Event]:
    """Join adjacent events of the same kind."""
    joined: list[Event] = []
    for event in events:
        last = joined[-1] if joined else None
        match last, event:
            case (ReasoningText(before), ReasoningText(text)):
                joined[-1] = ReasoningText(before + text)
            case (ContentText(before), ContentText(text)):
                joined[-1] = ContentText(before + text)
            case (ToolCallArguments(index, before), ToolCallArguments(same, text)) if index == same:
                joined[-1] = ToolCallArguments(index, before + text)
            case _:
                joined.append(event)
    return joined


class ChatReply:
    """Answer to a chat request."""

    def __init__(
        self,
        head: ReplyHead,
        choices: list[ChatChoice],
        body: ChatRequest,
        prompt: Json,
        record: AccessLogRecord,
    ) -> None:
        self._head = head
        self._choices = choices
        self._asked = body
        self._prompt = prompt
        self._record = record
        self._usage = record.usage = UsageCounter(len(choices))

    def take(self, index: int, output: EngineOutput) -> bytes:
        """Add an output of one choice. See `ReplyBuilder.take`."""
        choice = self._choices[index]
        self._usage.take(index, output)
        self._head.version = output.version
        events = choice.take(output)
        if choice.finish_reason is not None:
            self._record.finish_reasons.append(choice.finish_reason)
            self._record.problems += choice.problems
        if not self._asked.stream:
            choice.keep(events)
            return b""
        return b"".join(self._head.to_event(chunk, self._extra_fields(chunk)) for chunk in choice.chunks(events))

    def end(self) -> bytes:
        """Return the answer, or the end of the stream."""
        if not self._asked.stream:
            body = self._head.to_json([choice.whole() for choice in self._choices]) | {"usage": self._count()}
            return dump(body | self._prompt)
        last = self._head.to_json([]) | {"usage": self._count()}
        return (format_event(last) if self._asked.usage_at_end else b"") + DONE

    def _count(self) -> Json:
        self._usage.num_reasoning = sum(choice.num_reasoning for choice in self._choices)
        return self._usage.to_json()

    def _extra_fields(self, choice: Json) -> Json:
        """Return the fields of a chunk other than its choice."""
        extra: Json = dict(self._prompt) if "role" in choice["delta"] else {}
        if self._asked.usage_at_end:
            extra["usage"] = self._count() if self._asked.usage_always else None
        return extra


async def complete_chat(request: Request) -> StreamingAnswer:
    """Handle a chat request."""
    state = state_of(request)
    body = await read_body(request, ChatRequest, timeout_s=state.options.body_timeout_s)
    return make_answer(state, body, lambda: _prepare(state, body, record_of(request)))


async def _prepare(state: ServerState, body: ChatRequest, record: AccessLogRecord) -> Prepared:
    model = state.check_model(body.model)
    check_stream_options(body)
    flags = read_flags(body)
    tools = await load_tools(body, state.options.max_tools, state.engine.tokenizer.special)
    params = chat_params(body, thinking=flags["thinking"], grammar=tools.grammar)
    tokenizer = state.engine.tokenizer
    most_tokens = state.engine.card.max_prompt_len
    chat = await read_prompt(body, flags, tools.declared, state.media, tokenizer, most_tokens=most_tokens)
    reply_id = make_reply_id("chatcmpl")
    request = EngineRequest(
        request_id=reply_id,
        prompt=chat.prompt,
        params=params,
        starts_in_reasoning=chat.thinking,
        priority=body.priority or 0,
    )
    choices = [ChatChoice(index, body, tools, chat, tokenizer) for index in range(body.n or 1)]
    head = ReplyHead(reply_id, "chat.completion.chunk" if body.stream else "chat.completion", model, params)
    prompt = prompt_json(chat.prompt, state.media.processor_id) if body.return_token_ids else {}
    return make_choices(request, body.n or 1), ChatReply(head, choices, body, prompt, record)


@dataclass(slots=True)
class _UnsentOutput:
    """Output of a choice that has not been returned yet."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob | None] = field(default_factory=list)
    logprob_ids: list[int] = field(default_factory=list)
    versions: list[Json] = field(default_factory=list)


class TextChoice:
    """One sequence of a completion."""

    def __init__(self, index: int, prompt: Prompt, processor_id: str, body: TextRequest, tokenizer: Tokenizer) -> None:
        self._index = index
        self._prompt = prompt
        self._processor_id = processor_id
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
            add_version(self._piece.versions, output)
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
            choice |= {"token_ids": piece.token_ids, "weight_versions": piece.versions}
        if self._asked.return_kept_token_ids:
            choice |= kept_json(piece.logprobs[len(piece.logprobs) - len(piece.token_ids) :])
        choice |= self._first_extras
        self._piece, self._first_extras = _UnsentOutput(), {}
        return choice

    def _begin(self, output: EngineOutput) -> None:
        self._has_begun = True
        if self._asked.echo:
            self._piece.text = self._tokenizer.decode(self._prompt.token_ids)
            if self._asked.logprobs is not None:
                self._piece.logprobs += output.prompt_logprobs or ()
                self._piece.logprob_ids += self._prompt.token_ids
        if self._asked.return_token_ids:
            self._first_extras |= prompt_json(self._prompt, self._processor_id)
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
        self._head.version = output.version
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
    return make_answer(state, body, lambda: _prepare_texts(state, body, record_of(request)))


async def _prepare_texts(state: ServerState, body: TextRequest, record: AccessLogRecord) -> Prepared:
    model = state.check_model(body.model)
    params = text_params(body)
    check_stream_options(body)
    tokenizer = state.engine.tokenizer
    prompts = await read_prompts(body, state.media, tokenizer, state.engine.card.max_prompt_len)
    n, reply_id = body.n or 1, make_reply_id("cmpl")
    requests: list[EngineRequest] = []
    for number, prompt in enumerate(prompts):
        name = f"{reply_id}-{number}"
        request = EngineRequest(request_id=name, prompt=prompt, params=params, priority=body.priority or 0)
        requests += make_choices(request, n)
    processor_id = state.media.processor_id
    choices = [TextChoice(i, request.prompt, processor_id, body, tokenizer) for i, request in enumerate(requests)]
    head = ReplyHead(reply_id, "text_completion", model, params)
    return requests, TextReply(head, choices, body, record)


async def read_prompts(body: TextRequest, media: MediaReader, tokenizer: Tokenizer, most_tokens: int) -> list[Prompt]:
    """Return the prompts; media belong to a single prompt of token ids.

    Raises:
        RequestError: If there are too many, one is empty or too long, or placeholders and media differ.
        MediaError: If an image or video cannot be loaded.
    """
    prompt, special = body.prompt, tokenizer.special
    texts = [prompt] if isinstance(prompt, str) else [item for item in prompt if isinstance(item, str)]
    lists = [item for item in prompt if isinstance(item, list)]
    num_prompts = len(texts) or len(lists) or 1
    if body.media and (texts or num_prompts > 1):
        raise InvalidRequestError("media are set; expected prompt as one list of token ids", param="media")
    if num_prompts * (body.n or 1) > MAX_CHOICES:
        text = f"{num_prompts} prompts with n {body.n or 1} make more than {MAX_CHOICES} choices; send fewer"
        raise InvalidRequestError(text, param="prompt")
    encode = tokenizer.encode_with_special if body.parse_special_tokens else tokenizer.encode
    encoded = await run_in_thread(lambda: [encode(text, TokenBudget(most_tokens)) for text in texts])
    if not texts:
        encoded = lists or [[item for item in prompt if isinstance(item, int)]]
    if not all(encoded):
        raise InvalidRequestError("the prompt is empty; expected one token or more", param="prompt")
    parts = body.media or ()
    return [
        await read_token_prompt(token_ids, parts, media, special, param="prompt", most_tokens=most_tokens)
        for token_ids in encoded
    ]


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
    tools = await load_tools(body.chat, state.options.max_tools, tokenizer.special)
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
