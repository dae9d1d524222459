"""Messages as they are asked, to messages as the template takes them."""

import json
from collections.abc import Iterator, Mapping, Sequence

from model_runtime.chat.messages import ChatMessage, Part, TextPart, ToolCall
from model_runtime.server.reading.media import Loaded, MediaReader
from model_runtime.server.schemas.content import ImageIn, MessageIn, RefusalIn, TextIn, ToolCallIn, VideoIn


async def read_messages(messages: Sequence[MessageIn], reader: MediaReader) -> list[ChatMessage]:
    """The conversation with its media loaded.

    Raises:
        RequestError: There are too many pictures and videos.
        MediaError: A picture or video cannot be loaded.
    """
    found = list(_media(messages))
    loaded = await reader.read(found) if found else []
    by_path = {path: part for (path, _), part in zip(found, loaded, strict=True)}
    return [_message(index, message, by_path) for index, message in enumerate(messages)]


def num_chars(messages: Sequence[MessageIn]) -> int:
    """Characters of text, to tell small conversations from large ones."""
    texts = (part.text for message in messages for part in message.content or () if isinstance(part, TextIn))
    return sum(map(len, texts)) + sum(len(message.reasoning_content or "") for message in messages)


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
