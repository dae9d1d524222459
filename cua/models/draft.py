"""A reply while it grows: pieces of text, reasoning and tool calls are put together."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cua.messages import FinishReason, ToolCall
from cua.models.wire_types import CompletionIn, MessageIn, ToolCallIn, UsageIn

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


class Draft:
    """The reply so far.

    Attributes:
        refusal: What the server says instead of an answer.
        reasoning_field: The name under which the server sends it.
        finish_reason: The server's word, None until it came.
        usage: Token counts, None where the server sends none.
        model: The server's name of the model.
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
        self.model = ""
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
        self.usage = answer.usage or self.usage
        for choice in (answer.choices or [])[:1]:
            self.has_choices = True
            self.usage = choice.usage or self.usage
            self.finish_reason = choice.finish_reason or self.finish_reason
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
