"""The answer of a server, whole or streamed, put together from its bytes.

Push bytes in with `ResponseReader.feed`, take the result with `finish`. The first character decides, whatever the
content type says: `{` is a whole JSON answer, `<` a web page, anything else an event stream.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from cua.errors import ModelError
from cua.messages import FinishReason, ReplyTokens, ToolCall
from cua.models.failures import stream_failure
from cua.models.wire import ChoiceIn, CompletionIn, LogprobIn, MessageIn, ToolCallIn, UsageIn

_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of a growing reply, for live display.

    Attributes:
        kind: `restart` says that what was shown so far is void, because the call is made again.
        text: The piece.
    """

    kind: Literal["reasoning", "content", "tool_call", "restart"]
    text: str = ""


class _GrowingCall:
    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments = ""


class StreamAccumulator:
    """The reply so far.

    Not the OpenAI SDK's stream helpers (3.54 was tried): of other servers' streams they join two calls numbered 0 into
    one, double names and ids that come with each piece, refuse calls without a number, and keep the first piece's token
    ids only.

    Attributes:
        refusal: What the server says instead of an answer.
        reasoning_field: The name under which the server sends it.
        finish_reason: The server's word, None until it came.
        usage: Token counts, None where the server sends none.
        model: The server's name of the model.
        model_version: What it says of the weights.
        num_events: JSON objects that were read.
        has_choices: Whether any of them had a choice.
    """

    def __init__(self, on_delta: Callable[[Delta], None] | None = None) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self.refusal = ""
        self.reasoning_field: str | None = None
        self.finish_reason: str | None = None
        self.usage: UsageIn | None = None
        self.model = self.model_version = ""
        self._prompt_ids: list[int] = []
        self._ids: list[int] = []
        self._logprobs: list[LogprobIn] = []
        self.num_events = 0
        self.has_choices = False
        self._calls: list[_GrowingCall] = []
        self._on_delta = on_delta

    @property
    def content(self) -> str:
        """Visible text."""
        return "".join(self._content)

    @property
    def reasoning(self) -> str:
        """Thinking."""
        return "".join(self._reasoning)

    @property
    def num_chars(self) -> int:
        """Characters of text and reasoning."""
        return len(self.content) + len(self.reasoning)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said, thought or called."""
        return not (self._content or self._reasoning or self.refusal or self._calls)

    @property
    def known_finish_reason(self) -> FinishReason:
        """The reason it ended, in our words."""
        return _FINISH_REASONS.get(self.finish_reason or "", "unknown")

    def take(self, answer: CompletionIn, field: Literal["message", "delta"]) -> None:
        """Add a whole answer, or one event of a stream."""
        self.num_events += 1
        self.model = answer.model or self.model
        self.model_version = answer.weight_version or answer.system_fingerprint or self.model_version
        self._prompt_ids = self._prompt_ids or answer.prompt_token_ids or []
        self.usage = answer.usage or self.usage
        for choice in (answer.choices or [])[:1]:
            self.has_choices = True
            self.usage = choice.usage or self.usage
            self.finish_reason = choice.finish_reason or self.finish_reason
            self._take_tokens(choice)
            message = choice.delta if field == "delta" else choice.message
            # Some servers stream "message" or answer whole with "delta".
            self._take_message(message or choice.message or choice.delta or MessageIn(), field == "message")

    def tool_calls(self, num_earlier: int) -> tuple[ToolCall, ...]:
        """The calls; one without an id gets K2.5's form of it.

        Args:
            num_earlier: Tool calls in the conversation before this reply.
        """
        return tuple(
            ToolCall(
                id=call.id or f"functions.{call.name}:{num_earlier + position}",
                name=call.name,
                arguments=call.arguments or "{}",
            )
            for position, call in enumerate(self._calls)
        )

    def tokens(self) -> ReplyTokens | None:
        """Ids and log-probabilities; None when the server gave no ids.

        Raises:
            ModelError: There are not as many log-probabilities as ids: training on them would go wrong unnoticed.
        """
        if not self._ids:
            return None
        logprobs = tuple(one.logprob for one in self._logprobs if one.logprob is not None)
        sampled = tuple(one.sampled for one in self._logprobs if one.sampled is not None)
        if any(found and len(found) != len(self._ids) for found in (logprobs, sampled)):
            raise ModelError(
                f"the server gave {len(self._ids)} token ids and {len(logprobs)} log-probabilities", retryable=False
            )
        return ReplyTokens(prompt_ids=tuple(self._prompt_ids), ids=tuple(self._ids), logprobs=logprobs, sampled=sampled)

    def _take_tokens(self, choice: ChoiceIn) -> None:
        self._prompt_ids = self._prompt_ids or choice.prompt_token_ids or []
        self._ids += choice.token_ids or []
        self._logprobs += (choice.logprobs.content if choice.logprobs else None) or []

    def _take_message(self, message: MessageIn, is_whole: bool) -> None:
        for name in ("reasoning_content", "reasoning"):
            text = getattr(message, name)
            if text:
                self.reasoning_field = name
                self._reasoning.append(text)
                self._tell("reasoning", text)
                break
        if message.said:
            self._content.append(message.said)
            self._tell("content", message.said)
        self.refusal += message.refusal or ""
        for piece in message.tool_calls or []:
            self._take_call(piece, is_whole)

    def _take_call(self, piece: ToolCallIn, is_whole: bool) -> None:
        call = self._new_call(piece) if is_whole else self._call_of(piece)
        name = piece.function.name or ""
        call.id = call.id or (piece.id or "")
        # Some servers repeat the whole name in every piece.
        call.name += "" if name == call.name else name
        arguments = piece.function.arguments or ""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        call.arguments += text
        self._tell("tool_call", name + text)

    def _call_of(self, piece: ToolCallIn) -> _GrowingCall:
        """The call that a piece belongs to: by index, or by id where a server numbers them all 0 or not at all."""
        for call in reversed(self._calls):
            same_index = piece.index is None or piece.index == call.index
            if same_index and (not piece.id or not call.id or piece.id == call.id):
                return call
        return self._new_call(piece)

    def _new_call(self, piece: ToolCallIn) -> _GrowingCall:
        self._calls.append(_GrowingCall(len(self._calls) if piece.index is None else piece.index))
        return self._calls[-1]

    def _tell(self, kind: Literal["reasoning", "content", "tool_call"], text: str) -> None:
        if self._on_delta is not None and text:
            self._on_delta(Delta(kind=kind, text=text))


MAX_BODY_BYTES = 128 * 2**20
"""A stream spends up to 300 bytes on a token, so that this is some 400,000 tokens."""

MAX_PIECE_BYTES = 16 * 2**20
"""Limit on one event, and on a whole answer."""

_SHOWN_CHARS = 160
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ResponseReader:
    """One answer in the making.

    Args:
        on_delta: Told each piece of text as it arrives.
    """

    def __init__(self, on_delta: Callable[[Delta], None] | None = None) -> None:
        self.draft = StreamAccumulator(on_delta)
        self._kind: Literal["unknown", "json", "page", "events"] = "unknown"
        self._buffer = bytearray()
        self._event: list[str] = []
        self._start = b""
        self.num_bytes = 0
        self._has_done_mark = False

    @property
    def is_complete(self) -> bool:
        """Whether the reply is all there, even if the connection broke now."""
        return self._has_done_mark or (self._kind == "events" and self.draft.finish_reason is not None)

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes.

        Raises:
            ModelError: An event is unreadable or carries an error, or the body is absurdly long.
        """
        self.num_bytes += len(chunk)
        if self.num_bytes > MAX_BODY_BYTES:
            raise ModelError(
                f"the reply is longer than {MAX_BODY_BYTES // 2**20} MiB: this is no chat model", retryable=False
            )
        if len(self._start) < _SHOWN_CHARS:
            self._start += chunk[:_SHOWN_CHARS]
        self._buffer += chunk
        if len(self._buffer) > MAX_PIECE_BYTES:
            raise ModelError(
                f"a single piece of the reply is longer than {MAX_PIECE_BYTES // 2**20} MiB", retryable=False
            )
        if self._kind == "unknown":
            self._buffer = self._buffer.removeprefix(_BYTE_ORDER_MARK)
            self._kind = _kind_of(self._buffer)
        if self._kind == "events" and b"\n" in chunk:
            self._take_lines()

    def finish(self) -> StreamAccumulator:
        """The body is over: check that the reply is whole.

        Returns:
            The finished draft.

        Raises:
            ModelError: Nothing came, not our format, half a stream, no choices, or nothing in them.
        """
        if self._kind == "page":
            raise ModelError(
                f"the server answered with a web page ({self._shown()}): the base URL does not point at an "
                "OpenAI-compatible API; it usually ends in /v1",
                retryable=False,
            )
        if self._kind == "json":
            self._take_json(bytes(self._buffer), "message")
        elif self._kind == "events":
            self._buffer += b"\n\n"
            self._take_lines()
        if self.num_bytes == 0 or not (self._start.strip()):
            raise ModelError("the server closed the connection without sending a reply", retryable=True)
        self._check_whole()
        return self.draft

    def _check_whole(self) -> None:
        if self.draft.num_events == 0 and not self._has_done_mark:
            raise ModelError(f"the reply is neither JSON nor an event stream: {self._shown()}", retryable=True)
        if not self.draft.has_choices:
            raise ModelError("the reply has no choices", retryable=True)
        if self._kind == "events" and not self.is_complete:
            raise ModelError(
                f"the stream ended in the middle of the reply, after {self.draft.num_chars} characters", retryable=True
            )
        if self.draft.is_empty and self.draft.finish_reason not in ("length", "content_filter"):
            raise ModelError("the reply is empty: no text, no reasoning, no tool call", retryable=True)

    def _take_lines(self) -> None:
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            self._take_line(bytes(line).removesuffix(b"\r"))

    def _take_line(self, line: bytes) -> None:
        if not line:
            data, self._event = "\n".join(self._event), []
            if data.strip() == "[DONE]":
                self._has_done_mark = True
            elif data and not self._has_done_mark:
                self._take_json(data.encode(), "delta")
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._event.append(value.removeprefix(b" ").decode("utf-8", "replace"))

    def _take_json(self, data: bytes, field: Literal["message", "delta"]) -> None:
        try:
            answer = CompletionIn.model_validate_json(data)
        except ValidationError as error:
            shown = data[:_SHOWN_CHARS].decode("utf-8", "replace")
            reason = error.errors(include_url=False)[0]["msg"]
            raise ModelError(f"the reply cannot be read ({reason}): {shown!r}", retryable=True) from None
        if answer.error:
            raise stream_failure(answer.error)
        self.draft.take(answer, field)

    def _shown(self) -> str:
        return repr(self._start[:_SHOWN_CHARS].decode("utf-8", "replace").strip())


def _kind_of(start: bytearray) -> Literal["unknown", "json", "page", "events"]:
    first = start.lstrip()[:1]
    if not first:
        return "unknown"
    return "json" if first == b"{" else "page" if first == b"<" else "events"
