"""Messages as they are asked, to messages as the template takes them."""

import json
from collections.abc import Iterator, Mapping, Sequence

from model_runtime.chat.messages import ChatMessage, Part, TextPart, ToolCall
from model_runtime.server.reading.media import Loaded, MediaReader
from model_runtime.server.schemas.content import ImageIn, MessageIn, RefusalIn, TextIn, ToolCallIn, VideoIn

MAX_INLINE_CHARS = 2000
"""Up to so much text, template and tokenizer take less time than the way into a thread and back."""
MAX_INLINE_MESSAGES = 20


async def load_media(messages: Sequence[MessageIn], reader: MediaReader) -> dict[str, Loaded]:
    """The media of a conversation by their paths in the request.

    Raises:
        RequestError: There are too many pictures and videos.
        MediaError: A picture or video cannot be loaded.
    """
    found = list(_media(messages))
    loaded = await reader.read(found) if found else []
    return {path: part for (path, _), part in zip(found, loaded, strict=True)}


def make_messages(messages: Sequence[MessageIn], loaded: Mapping[str, Loaded]) -> list[ChatMessage]:
    """The conversation with its media."""
    return [_message(index, message, loaded) for index, message in enumerate(messages)]


def is_small(messages: Sequence[MessageIn]) -> bool:
    """Whether it takes no thread to read a conversation: a few messages of little text, and no calls."""
    return len(messages) <= MAX_INLINE_MESSAGES and sum(map(_num_chars, messages)) <= MAX_INLINE_CHARS


def _num_chars(message: MessageIn) -> int:
    """Characters of a message, or too many where it has parts that are not counted."""
    if message.tool_calls or len(message.content or ()) > MAX_INLINE_MESSAGES:
        return MAX_INLINE_CHARS + 1
    texts = [message.reasoning_content, message.reasoning, message.name, message.tool_call_id]
    for part in message.content or ():
        match part:
            case TextIn(text=text) | RefusalIn(refusal=text):
                texts.append(text)
    return sum(len(text or "") for text in texts)


def _media(messages: Sequence[MessageIn]) -> Iterator[tuple[str, ImageIn | VideoIn]]:
    for i, message in enumerate(messages):
        for k, part in enumerate(message.content or ()):
            if isinstance(part, ImageIn | VideoIn):
                yield f"messages.{i}.content.{k}", part


def _message(index: int, message: MessageIn, loaded: Mapping[str, Loaded]) -> ChatMessage:
    parts: list[Part] = []
    for k, part in enumerate(message.content or ()):
        match part:
            case TextIn(text=text) | RefusalIn(refusal=text):
                parts.append(TextPart(text))
            case _:
                parts.append(loaded[f"messages.{index}.content.{k}"])
    is_assistant = message.role == "assistant"
    return ChatMessage(
        role="system" if message.role == "developer" else message.role,
        parts=tuple(parts),
        name=message.name,
        reasoning=(message.reasoning_content or message.reasoning) if is_assistant else None,
        tool_calls=tuple(map(_call, message.tool_calls or ())) if is_assistant else (),
        tool_call_id=message.tool_call_id if message.role == "tool" else None,
    )


def _call(call: ToolCallIn) -> ToolCall:
    arguments = call.function.arguments
    text = json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else arguments
    return ToolCall(id=call.id, name=call.function.name, arguments=text or "{}")
