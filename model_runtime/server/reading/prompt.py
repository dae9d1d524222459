"""A chat request to a prompt: media, ids of calls, the template, the tokenizer, and the thread they run in."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from model_runtime.chat import ChatMessage, ToolSpec, encode_chat, render_chat
from model_runtime.chat.tool_ids import IdMap, rewrite_history
from model_runtime.errors import RequestError
from model_runtime.media import Prompt
from model_runtime.server.reading.media import MediaReader
from model_runtime.server.reading.messages import num_chars, read_messages
from model_runtime.server.schemas.chat import ChatRequest
from model_runtime.tokenizer import Tokenizer

_INLINE_CHARS = 2000
"""Up to so much text, template and tokenizer take less time than the way into a thread and back."""

_TEMPLATE_FLAGS = ("thinking", "preserve_thinking")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPrompt:
    """A conversation as the engine takes it.

    Attributes:
        prompt: Token ids and media.
        thinking: Whether the prompt ends inside an open reasoning block.
        call_ids: Ids of its calls.
    """

    prompt: Prompt
    thinking: bool
    call_ids: IdMap


def read_flags(asked: ChatRequest) -> dict[str, bool]:
    """The template's flags; `thinking` can be said in three ways.

    Raises:
        RequestError: A flag is not true or false, or is said twice and differently.
    """
    flags: dict[str, Any] = {}
    for name, value in (asked.chat_template_kwargs or {}).items():
        path = f"chat_template_kwargs.{name[:64]}"
        if name not in _TEMPLATE_FLAGS:
            known = " and ".join(_TEMPLATE_FLAGS)
            raise RequestError(f"{path}: the template has no such flag; it has {known}", param=path)
        if not isinstance(value, bool):
            raise RequestError(f"{path}: found {value!r:.40}; expected true or false", param=path)
        flags[name] = value
    said = asked.thinking.type if asked.thinking is not None else None
    if said is not None and flags.setdefault("thinking", said == "enabled") != (said == "enabled"):
        text = f"thinking.type is {said}, and chat_template_kwargs.thinking says otherwise; leave one of them out"
        raise RequestError(text, param="thinking")
    if asked.reasoning_effort == "none":
        flags.setdefault("thinking", False)
    return {"thinking": True} | flags


async def read_prompt(
    asked: ChatRequest, flags: dict[str, bool], tools: Sequence[ToolSpec], media: MediaReader, tokenizer: Tokenizer
) -> ChatPrompt:
    """The prompt of a chat request.

    Raises:
        RequestError: A result answers no call, or a picture cannot be loaded.
    """
    messages = await read_messages(asked.messages, media)

    def make() -> ChatPrompt:
        return _make_prompt(messages, flags, tools, tokenizer)

    if not tools and len(messages) <= 20 and num_chars(asked.messages) <= _INLINE_CHARS:
        return make()
    return await asyncio.to_thread(make)


def _make_prompt(
    messages: Sequence[ChatMessage], flags: dict[str, bool], tools: Sequence[ToolSpec], tokenizer: Tokenizer
) -> ChatPrompt:
    rewritten, call_ids = rewrite_history(messages)
    pieces = render_chat(rewritten, tools, **flags)
    return ChatPrompt(prompt=encode_chat(pieces, tokenizer), thinking=flags["thinking"], call_ids=call_ids)
