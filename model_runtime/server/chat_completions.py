"""Endpoint `POST /v1/chat/completions`: engine deltas are parsed to messages, whole or streamed."""

from collections.abc import Iterable
from typing import Any

from starlette.requests import Request

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
from model_runtime.server.answer_parts import (
    DONE,
    ReplyHead,
    UsageCounter,
    chat_logprobs,
    check_stream_options,
    format_event,
)
from model_runtime.server.body import dump, read_body
from model_runtime.server.metrics import AccessLogRecord
from model_runtime.server.prompt import ChatPrompt, ToolUse, chat_params, load_tools, read_flags, read_prompt
from model_runtime.server.responses import (
    Prepared,
    StreamingAnswer,
    make_answer,
    make_choices,
    make_reply_id,
    record_of,
    state_of,
)
from model_runtime.server.schemas import ChatRequest
from model_runtime.server.state import ServerState
from model_runtime.tokenizer import Tokenizer

Json = dict[str, Any]


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

    def take(self, output: EngineOutput) -> list[Event]:
        """Add an output, and return its events without calls that must not be passed on."""
        self._count_reasoning(output.token_ids)
        self._logprobs += output.logprobs
        self._token_ids += output.token_ids
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
            extras["token_ids"] = self._token_ids
        self._logprobs, self._token_ids = [], []
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
        prompt_ids: tuple[int, ...],
        record: AccessLogRecord,
    ) -> None:
        self._head = head
        self._choices = choices
        self._asked = body
        self._prompt_ids = prompt_ids
        self._record = record
        self._usage = record.usage = UsageCounter(len(choices))

    def take(self, index: int, output: EngineOutput) -> bytes:
        """Add an output of one choice. See `ReplyBuilder.take`."""
        choice = self._choices[index]
        self._usage.take(index, output)
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
            ids = {"prompt_token_ids": self._prompt_ids} if self._asked.return_token_ids else {}
            return dump(body | ids)
        last = self._head.to_json([]) | {"usage": self._count()}
        return (format_event(last) if self._asked.usage_at_end else b"") + DONE

    def _count(self) -> Json:
        self._usage.num_reasoning = sum(choice.num_reasoning for choice in self._choices)
        return self._usage.to_json()

    def _extra_fields(self, choice: Json) -> Json:
        """Return the fields of a chunk other than its choice."""
        extra: Json = {}
        if self._asked.return_token_ids and "role" in choice["delta"]:
            extra["prompt_token_ids"] = self._prompt_ids
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
    tools = await load_tools(body, state.options.max_tools)
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
    head = ReplyHead(reply_id, "chat.completion.chunk" if body.stream else "chat.completion", model)
    return make_choices(request, body.n or 1), ChatReply(head, choices, body, chat.prompt.token_ids, record)
