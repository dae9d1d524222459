"""Messages and tools as an OpenAI-compatible server wants them: JSON of `/v1/chat/completions`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cua.json_text import well_formed
from cua.messages import ImagePart, Message, Part, TextPart, ThinkPart, VideoPart
from cua.model import Tool
from cua.models.images import ImageEncoder, data_url

Json = dict[str, Any]


async def to_wire(messages: Sequence[Message], encoder: ImageEncoder, *, keep_reasoning: bool = False) -> list[Json]:
    """Write a conversation as request messages.

    Parts keep their order; a lone text part becomes a plain string. Reasoning goes back to the server, as
    `reasoning_content`, only inside the running tool loop (after the last answer without tool calls): K2.5
    insists on it there, and its chat template drops it everywhere else.

    Args:
        messages: The conversation.
        encoder: How images are sent.
        keep_reasoning: Write all reasoning down, for a reader that is no server.

    Returns:
        The value of the request's `messages`.

    Raises:
        ModelError: An image cannot be encoded.
    """
    loop_start = 0 if keep_reasoning else start_of_tool_loop(messages)
    return [await _message(message, encoder, index >= loop_start) for index, message in enumerate(messages)]


def start_of_tool_loop(messages: Sequence[Message]) -> int:
    """Index after the last assistant message without tool calls; 0 when there is none."""
    finals = [i for i, message in enumerate(messages) if message.role == "assistant" and not message.tool_calls]
    return finals[-1] + 1 if finals else 0


def move_tool_images(messages: Sequence[Message]) -> list[Message]:
    """The conversation with the images of tool results in a user message behind the last result of each round.

    Some servers take text only in tool messages. The texts that name the images go with them.
    """
    moved: list[Message] = []
    held: list[Part] = []
    for message in messages:
        if message.role != "tool" and held:
            moved.append(Message(role="user", parts=tuple(held)))
            held = []
        if message.role == "tool" and any(isinstance(part, ImagePart) for part in message.parts):
            text = TextPart(text=message.text + "\n(The images follow in the next message.)")
            held += message.parts
            message = replace(message, parts=(text,))
        moved.append(message)
    return [*moved, Message(role="user", parts=tuple(held))] if held else moved


def tools_to_wire(tools: Sequence[Tool]) -> list[Json]:
    """Declare tools: the value of the request's `tools`."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
        }
        for tool in tools
    ]


async def _message(message: Message, encoder: ImageEncoder, in_tool_loop: bool) -> Json:
    wire: Json = {"role": message.role, "content": await _content(message.parts, encoder)}
    if message.name is not None:
        wire["name"] = message.name
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        wire["content"] = wire["content"] or None
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": well_formed(call.arguments)},
            }
            for call in message.tool_calls
        ]
    reasoning = "".join(part.text for part in message.parts if isinstance(part, ThinkPart))
    if reasoning and in_tool_loop:
        wire["reasoning_content"] = well_formed(reasoning)
    return wire


async def _content(parts: Sequence[Part], encoder: ImageEncoder) -> str | list[Json]:
    said = [part for part in parts if not isinstance(part, ThinkPart)]
    if not said:
        return ""
    if len(said) == 1 and isinstance(said[0], TextPart):
        return well_formed(said[0].text)
    return [await _part(part, encoder) for part in said]


async def _part(part: TextPart | ImagePart | VideoPart, encoder: ImageEncoder) -> Json:
    match part:
        case TextPart():
            return {"type": "text", "text": well_formed(part.text)}
        case ImagePart():
            return {"type": "image_url", "image_url": {"url": await encoder.data_url(part)}}
        case VideoPart():
            return {"type": "video_url", "video_url": {"url": data_url(part.data, part.media_type)}}


class _Foreign(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class FunctionIn(_Foreign):
    """The function of a tool call; in a stream, a piece of it."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class ToolCallIn(_Foreign):
    """A tool call, or a piece of one."""

    index: int | None = None
    id: str | None = None
    function: FunctionIn = FunctionIn()


class ContentPartIn(_Foreign):
    """A part of a content list; only text is read."""

    text: str | None = None


class MessageIn(_Foreign):
    """A message, or the delta of one."""

    content: str | list[ContentPartIn] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallIn] | None = None

    @property
    def said(self) -> str:
        """The visible text."""
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content)
        return self.content or ""


class CachedIn(_Foreign):
    """Details of the input tokens."""

    cached_tokens: int | None = None


class UsageIn(_Foreign):
    """Token counts; Moonshot puts `cached_tokens` on top, OpenAI under the details."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    prompt_tokens_details: CachedIn | None = None

    @property
    def num_cached(self) -> int:
        """Input tokens that came from the server's cache."""
        details = self.prompt_tokens_details
        return (details.cached_tokens if details else None) or self.cached_tokens or 0


class LogprobIn(_Foreign):
    """The log-probability of one token; `sampled` is our own server's."""

    logprob: float | None = None
    sampled: bool | None = None


class LogprobsIn(_Foreign):
    """Log-probabilities of a choice, or of a piece of one."""

    content: list[LogprobIn] | None = None


class ChoiceIn(_Foreign):
    """A choice; only the first one is read. Ids are those of vLLM, SGLang and ours (`return_token_ids`)."""

    message: MessageIn | None = None
    delta: MessageIn | None = None
    finish_reason: str | None = None
    usage: UsageIn | None = None
    logprobs: LogprobsIn | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None


class CompletionIn(_Foreign):
    """A whole answer, or one event of a stream."""

    model: str | None = None
    system_fingerprint: str | None = None
    weight_version: str | None = None
    prompt_token_ids: list[int] | None = None
    choices: list[ChoiceIn] | None = None
    usage: UsageIn | None = None
    error: dict[str, Any] | str | None = Field(default=None)
