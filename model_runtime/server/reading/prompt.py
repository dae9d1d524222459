"""A chat request to a prompt: media, ids of calls, the template, the tokenizer, and the thread they run in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from model_runtime.cancellation import run_in_thread
from model_runtime.chat import ChatMessage, ToolSpec, encode_chat, render_chat
from model_runtime.chat.tool_ids import IdMap, rewrite_history
from model_runtime.errors import RequestError
from model_runtime.media import Prompt
from model_runtime.server.reading.media import MediaReader
from model_runtime.server.reading.messages import is_small, load_media, make_messages
from model_runtime.server.schemas.chat import ChatRequest
from model_runtime.tokenizer import TokenBudget, Tokenizer

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
    asked: ChatRequest,
    flags: dict[str, bool],
    tools: Sequence[ToolSpec],
    media: MediaReader,
    tokenizer: Tokenizer,
    *,
    most_tokens: int,
) -> ChatPrompt:
    """The prompt of a chat request.

    Args:
        asked: The request.
        flags: See `read_flags`.
        tools: As the template takes them.
        media: Loads pictures and videos.
        tokenizer: The model's.
        most_tokens: A longer prompt is refused before all of it is tokens.

    Raises:
        RequestError: A result answers no call, a picture cannot be loaded, or the prompt is too long.
    """
    loaded = await load_media(asked.messages, media)

    def make() -> ChatPrompt:
        messages = make_messages(asked.messages, loaded)
        return _make_prompt(messages, flags, tools, tokenizer, TokenBudget(most_tokens))

    return make() if not tools and is_small(asked.messages) else await run_in_thread(make)


def _make_prompt(
    messages: Sequence[ChatMessage],
    flags: dict[str, bool],
    tools: Sequence[ToolSpec],
    tokenizer: Tokenizer,
    budget: TokenBudget,
) -> ChatPrompt:
    rewritten, call_ids = rewrite_history(messages)
    pieces = render_chat(rewritten, tools, **flags)
    return ChatPrompt(prompt=encode_chat(pieces, tokenizer, budget), thinking=flags["thinking"], call_ids=call_ids)
