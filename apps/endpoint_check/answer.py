"""Parsing of whole and streamed answers into one form, with a list of problems in their shape.

Source: WHATWG HTML, section 9.2.6, for server-sent events, as far as OpenAI's protocol uses it (only `data` fields
count).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from model_runtime.json_types import Json, JsonMapping


def read_events(blocks: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of each event, including a last event that is cut off: some servers end without a blank line."""
    data: list[str] = []
    for line in _lines(blocks):
        if line == "":
            if data:
                yield "\n".join(data)
            data = []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
    if data:
        yield "\n".join(data)


def _lines(blocks: Iterable[bytes]) -> Iterator[str]:
    left = b""
    for block in blocks:
        *lines, left = re.split(rb"\r\n|\n|\r(?=[^\n])", left + block)  # a last \r may be half of a \r\n
        yield from (line.decode(errors="replace") for line in lines)
    if left:
        yield left.decode(errors="replace").removesuffix("\r")


FINISHES = ("stop", "length", "tool_calls", "content_filter")
REASONING_FIELDS = ("reasoning_content", "reasoning")
MARKERS = (
    *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_section_begin|>"),
    *("<|tool_call_section_end|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
    *("<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>", "[EOS]", "[EOT]"),
    *("<|media_begin|>", "<|media_content|>", "<|media_end|>", "<|media_pad|>", "<think>", "</think>"),
)


def find_marker(text: str) -> str | None:
    """Return the first of the model's control tokens in a text; None if there is none."""
    return next((marker for marker in MARKERS if marker in text), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedCall:
    """A tool call as received."""

    id: str
    type: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Token counts; None where the server does not report them."""

    prompt: int
    completion: int
    total: int
    cached: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedAnswer:
    """A chat completion.

    Attributes:
        content: Text; empty if it was null.
        reasoning: Reasoning text; empty if there was none.
        reasoning_field: Name of the field that held the reasoning.
        calls: Tool calls, in order.
        finish: Finish reason; None if there is none.
        usage: Token counts; None if there are none.
        problems: Deviations from OpenAI's protocol in its shape.
    """

    content: str = ""
    reasoning: str = ""
    reasoning_field: str | None = None
    calls: tuple[ReceivedCall, ...] = ()
    finish: str | None = None
    usage: TokenUsage | None = None
    problems: tuple[str, ...] = ()


def parse_answer(body: object) -> ParsedAnswer:
    """Parse an answer that is not streamed."""
    problems: list[str] = []
    choice, message = _choice(body, "message", problems)
    if isinstance(body, Mapping) and body.get("object") != "chat.completion":
        problems.append(f"object is {body.get('object')!r}, expected 'chat.completion'")
    if message.get("role") != "assistant":
        problems.append(f"the message's role is {message.get('role')!r}, expected 'assistant'")
    calls = tuple(_call(call, problems) for call in message.get("tool_calls") or ())
    return _parsed_answer(message, calls, choice.get("finish_reason"), _mapping(body).get("usage"), problems)


def _choice(body: object, key: str, problems: list[str]) -> tuple[JsonMapping, JsonMapping]:
    choices = _mapping(body).get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        problems.append("the answer has no choices")
        return {}, {}
    message = choices[0].get(key)
    if not isinstance(message, Mapping):
        problems.append(f"the choice has no {key}")
    return choices[0], _mapping(message)


def _mapping(value: object) -> JsonMapping:
    return value if isinstance(value, Mapping) else {}


def _call(value: object, problems: list[str]) -> ReceivedCall:
    function = _mapping(_mapping(value).get("function"))
    call = ReceivedCall(
        id=str(_mapping(value).get("id") or ""),
        type=str(_mapping(value).get("type") or ""),
        name=str(function.get("name") or ""),
        arguments=function["arguments"] if isinstance(function.get("arguments"), str) else "",
    )
    if not isinstance(function.get("arguments"), str):
        problems.append("a tool call's arguments are not text")
    return call


def _parsed_answer(
    message: JsonMapping, calls: tuple[ReceivedCall, ...], finish: object, usage: object, problems: list[str]
) -> ParsedAnswer:
    named = next((name for name in REASONING_FIELDS if message.get(name)), None)
    content = message.get("content")
    if content is not None and not isinstance(content, str):
        problems.append(f"content is {type(content).__name__}, expected text or null")
    if finish not in FINISHES:
        problems.append(f"finish_reason is {finish!r}, expected one of {', '.join(FINISHES)}")
    return ParsedAnswer(
        content=content if isinstance(content, str) else "",
        reasoning=str(message[named]) if named else "",
        reasoning_field=named,
        calls=calls,
        finish=finish if isinstance(finish, str) else None,
        usage=parse_usage(usage),
        problems=tuple(problems),
    )


def parse_usage(value: object) -> TokenUsage | None:
    """Parse the token counts of an answer; None unless all three numbers are present."""
    numbers = [_mapping(value).get(f"{name}_tokens") for name in ("prompt", "completion", "total")]
    if not all(isinstance(number, int) for number in numbers):
        return None
    cached = _mapping(_mapping(value).get("prompt_tokens_details")).get("cached_tokens")
    prompt, completion, total = (int(number or 0) for number in numbers)
    return TokenUsage(
        prompt=prompt, completion=completion, total=total, cached=cached if isinstance(cached, int) else None
    )


@dataclass(slots=True)
class _StreamAccumulator:
    """Accumulator of a streamed answer."""

    message: Json = field(default_factory=dict)
    calls: dict[int, dict[str, str]] = field(default_factory=dict)
    finish: object = None
    usage: object = None
    is_done: bool = False
    problems: list[str] = field(default_factory=list)

    def add(self, data: str) -> None:
        if data.strip() == "[DONE]":
            self.is_done = True
            return
        if self.is_done:
            self.problems.append("something comes after [DONE]")
        try:
            chunk = _mapping(json.loads(data))
        except (ValueError, RecursionError):
            self.problems.append(f"an event is not JSON: {data[:60]!r}")
            return
        if "error" in chunk:
            self.problems.append(f"an error in the stream: {_error_text(chunk['error'])}")
            return
        self.usage = chunk.get("usage") or self.usage
        if chunk.get("choices"):
            self._add_choice(chunk)

    def _add_choice(self, chunk: JsonMapping) -> None:
        choice, delta = _choice(chunk, "delta", self.problems)
        if self.finish is not None and any(delta.get(name) for name in ("content", "tool_calls", *REASONING_FIELDS)):
            self.problems.append("text comes after the finish_reason")
        for name in ("content", *REASONING_FIELDS):
            if delta.get(name):
                self.message[name] = self.message.get(name, "") + str(delta[name])
        for call in delta.get("tool_calls") or ():
            self._add_call(_mapping(call))
        self.finish = choice.get("finish_reason") or self.finish

    def _add_call(self, part: JsonMapping) -> None:
        index = part.get("index")
        if not isinstance(index, int):
            self.problems.append("a piece of a tool call has no index")
            return
        call = self.calls.setdefault(index, {"id": "", "type": "", "name": "", "arguments": ""})
        function = _mapping(part.get("function"))
        if part.get("id") and call["id"] not in ("", part["id"]):
            self.problems.append(f"two tool calls share index {index}")
        for name, value in (("id", part.get("id")), ("type", part.get("type")), ("name", function.get("name"))):
            call[name] = str(value or call[name])
        call["arguments"] += str(function.get("arguments") or "")


def join_stream(events: Iterable[str]) -> ParsedAnswer:
    """Join the events of a stream into an answer."""
    growing = _StreamAccumulator()
    for data in events:
        growing.add(data)
    if not growing.is_done:
        growing.problems.append("the stream ends without [DONE]")
    if sorted(growing.calls) != list(range(len(growing.calls))):
        growing.problems.append(f"indexes of tool calls are {sorted(growing.calls)}, expected 0, 1, 2 and so on")
    calls = tuple(ReceivedCall(**growing.calls[index]) for index in sorted(growing.calls))
    return _parsed_answer(growing.message, calls, growing.finish, growing.usage, growing.problems)


def _error_text(error: object) -> str:
    return str(_mapping(error).get("message") or error)
