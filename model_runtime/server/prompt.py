"""Conversion of a request to engine input: prompt, tools, and sampling parameters."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from model_runtime.cancellation import run_in_thread
from model_runtime.chat.messages import ChatMessage, ImagePart, Part, TextPart, ToolCall, ToolSpec
from model_runtime.chat.template import encode_chat, render_chat
from model_runtime.chat.tool_ids import IdMap, find_written_ids, rewrite_history
from model_runtime.engine.contract import MAX_KEPT_IDS, GrammarSpec, SamplingParams
from model_runtime.engine.grammar import make_tools_grammar
from model_runtime.errors import InvalidRequestError
from model_runtime.json_types import Json
from model_runtime.media import MediaItem, Prompt, place_media
from model_runtime.server.media import Loaded, MediaReader
from model_runtime.server.schemas import (
    ChatRequest,
    ImageIn,
    MediaIn,
    MessageIn,
    ObjectFormat,
    RefusalIn,
    SamplingFields,
    SchemaFormat,
    TextIn,
    TextRequest,
    ToolCallIn,
    ToolChoice,
    VideoIn,
)
from model_runtime.tokenizer import TokenBudget, Tokenizer
from model_runtime.tokenizer.special import SpecialTokens

MAX_INLINE_CHARS = 2000
"""Maximum characters that are rendered and tokenized on the event loop: for these, a thread would cost more time."""
MAX_INLINE_MESSAGES = 20  # longer requests are tokenized in a thread, so that the event loop is not blocked


async def load_media(messages: Sequence[MessageIn], reader: MediaReader) -> dict[str, Loaded]:
    """Load the media of a conversation by their paths in the request.

    Raises:
        RequestError: If there are too many images and videos.
        MediaError: If an image or video cannot be loaded.
    """
    items = list(_media(messages))
    loaded = await reader.read(items) if items else []
    return {path: part for (path, _), part in zip(items, loaded, strict=True)}


def make_messages(messages: Sequence[MessageIn], loaded: Mapping[str, Loaded]) -> list[ChatMessage]:
    """Return the conversation with its media."""
    return [_message(index, message, loaded) for index, message in enumerate(messages)]


async def read_token_prompt(
    token_ids: Sequence[int],
    media: Sequence[MediaIn],
    reader: MediaReader,
    special: SpecialTokens,
    *,
    param: str,
    most_tokens: int,
) -> Prompt:
    """Return the prompt of given token ids and media; `param` is the field of the ids.

    Raises:
        RequestError: If there are too many ids or media, or placeholders and media differ.
        MediaError: If an image or video cannot be loaded.
    """
    TokenBudget(most_tokens).spend(len(token_ids))
    loaded = await reader.read([(f"media.{number}", part) for number, part in enumerate(media)])
    placed: list[tuple[int | None, MediaItem]] = []
    for part, read in zip(media, loaded, strict=True):
        items = [read.item] if isinstance(read, ImagePart) else [item for _, item in read.chunks]
        placed += ((part.offset if number == 0 else None, item) for number, item in enumerate(items))
    return await run_in_thread(place_media, tuple(token_ids), placed, special.media_pad, param)


def is_small(messages: Sequence[MessageIn]) -> bool:
    """Return True if a conversation can be processed without a thread: a few messages of little text, and no calls."""
    return len(messages) <= MAX_INLINE_MESSAGES and sum(map(_num_chars, messages)) <= MAX_INLINE_CHARS


def _num_chars(message: MessageIn) -> int:
    """Return the number of characters of a message, or more than the limit if it has parts that are not counted."""
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


_TEMPLATE_FLAGS = ("thinking", "preserve_thinking")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPrompt:
    """A conversation as engine input; `thinking`: the prompt ends inside an open reasoning block."""

    prompt: Prompt
    thinking: bool
    call_ids: IdMap


def read_flags(body: ChatRequest) -> dict[str, bool]:
    """Return the template's flags; there are three ways to set `thinking`.

    Raises:
        RequestError: If a flag is not a boolean, or is set to different values.
    """
    flags: Json = {}
    for name, value in (body.chat_template_kwargs or {}).items():
        path = f"chat_template_kwargs.{name[:64]}"
        if name not in _TEMPLATE_FLAGS:
            known = " and ".join(_TEMPLATE_FLAGS)
            raise InvalidRequestError(f"{path}: the template has no such flag; it has {known}", param=path)
        if not isinstance(value, bool):
            raise InvalidRequestError(f"{path}: found {value!r:.40}; expected true or false", param=path)
        flags[name] = value
    thinking_type = body.thinking.type if body.thinking is not None else None
    if thinking_type is not None and flags.setdefault("thinking", thinking_type == "enabled") != (
        thinking_type == "enabled"
    ):
        text = (
            f"thinking.type is {thinking_type}, and chat_template_kwargs.thinking says otherwise; leave one of them out"
        )
        raise InvalidRequestError(text, param="thinking")
    if body.reasoning_effort == "none":
        flags.setdefault("thinking", False)
    return {"thinking": True} | flags


async def read_prompt(
    body: ChatRequest,
    flags: dict[str, bool],
    tools: Sequence[ToolSpec],
    media: MediaReader,
    tokenizer: Tokenizer,
    *,
    most_tokens: int,
) -> ChatPrompt:
    """Return the prompt of a chat request; one of more than `most_tokens` is rejected before it is fully tokenized.

    Raises:
        RequestError: If there is neither a message nor an id, a result answers no call, an image cannot be loaded,
            placeholders and media differ, or the prompt is too long.
    """
    sent = body.messages or []
    _check_conversation(body)
    head = None
    if body.prompt_token_ids is not None:
        ids, parts, special = body.prompt_token_ids, body.media or (), tokenizer.special
        head = await read_token_prompt(ids, parts, media, special, param="prompt_token_ids", most_tokens=most_tokens)
    loaded = await load_media(sent, media)

    def make() -> ChatPrompt:
        messages = make_messages(sent, loaded)
        if head is not None:
            return _continue_prompt(head, messages, flags, tokenizer, TokenBudget(most_tokens))
        rewritten, call_ids = rewrite_history(messages)
        prompt = encode_chat(render_chat(rewritten, tools, **flags), tokenizer, TokenBudget(most_tokens))
        return ChatPrompt(prompt=prompt, thinking=flags["thinking"], call_ids=call_ids)

    return make() if not tools and head is None and is_small(sent) else await run_in_thread(make)


def _check_conversation(body: ChatRequest) -> None:
    if body.prompt_token_ids is None and not body.messages:
        code = "missing_required_parameter" if body.messages is None else "invalid_value"
        text = "messages: expected one message or more, or prompt_token_ids"
        raise InvalidRequestError(text, param="messages", code=code)
    if body.media and body.prompt_token_ids is None:
        text = "media are set; expected prompt_token_ids with their placeholders, or images as parts of messages"
        raise InvalidRequestError(text, param="media")


def _continue_prompt(
    head: Prompt, messages: Sequence[ChatMessage], flags: dict[str, bool], tokenizer: Tokenizer, budget: TokenBudget
) -> ChatPrompt:
    """Append messages to a prompt; its ids stay as they are, closed by the end of a message if that is missing."""
    special = tokenizer.special
    rewritten, call_ids = rewrite_history(messages, find_written_ids(head.token_ids, tokenizer))
    if not messages:
        return ChatPrompt(prompt=head, thinking=special.is_in_reasoning(head.token_ids), call_ids=call_ids)
    if head.token_ids[-1] != special.im_end:
        head += Prompt(token_ids=(special.im_end,))
    budget.spend(len(head.token_ids))
    tail = encode_chat(render_chat(rewritten, (), **flags), tokenizer, budget)
    return ChatPrompt(prompt=head + tail, thinking=flags["thinking"], call_ids=call_ids)


NO_CALLS = GrammarSpec(kind="regex", text=r"(?s:.*)")
"""Any text without control tokens: for requests that declare tools and forbid calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """Tools of a request.

    Attributes:
        declared: Tools for the template; also declared if calls are forbidden, so that the prompt of a running
            conversation keeps its prefix in the cache.
        with_calls: True to pass calls on.
        max_calls: Maximum number of calls; None for any number.
        grammar: Constraint on the answer, including the response format.
    """

    declared: tuple[ToolSpec, ...] = ()
    with_calls: bool = True
    max_calls: int | None = None
    grammar: GrammarSpec | None = None


async def load_tools(body: ChatRequest, max_tools: int, special: SpecialTokens) -> ToolUse:
    """Return the tools of a request; schemas are checked in a thread.

    Raises:
        RequestError: See `read_tools`.
    """
    if not body.tools and body.response_format is None:
        return read_tools(body, max_tools, special)
    return await asyncio.to_thread(read_tools, body, max_tools, special)


def read_tools(body: ChatRequest, max_tools: int, special: SpecialTokens) -> ToolUse:
    """Return the tools of a request.

    Raises:
        RequestError: If there are too many, two have one name, or the choice is not one of them.
    """
    declared = _declared(body, max_tools)
    choice = body.tool_choice or ("auto" if declared else "none")
    if not declared and choice not in ("none", "auto"):
        text = f"tool_choice is {_shown(choice)}, and there are no tools; declare one, or leave it out"
        raise InvalidRequestError(text, param="tool_choice")
    names = [tool["function"]["name"] for tool in declared]
    if isinstance(choice, ToolChoice) and choice.function.name not in names:
        known = ", ".join(names[:20])
        text = f"tool_choice names {choice.function.name[:64]!r}; the declared tools are {known}"
        raise InvalidRequestError(text, param="tool_choice")
    content = _content_grammar(body)
    if not declared or choice == "none":
        return ToolUse(declared=declared, with_calls=False, grammar=content or (NO_CALLS if declared else None))
    if content is not None and choice == "auto":
        text = "response_format and tools are both set; set tool_choice to none for an answer, or to required for calls"
        raise InvalidRequestError(text, param="response_format", code="unsupported_parameter")
    is_parallel = body.parallel_tool_calls is not False
    may_call = declared
    if isinstance(choice, ToolChoice):
        may_call = tuple(tool for tool in declared if tool["function"]["name"] == choice.function.name)
        is_parallel = False
    grammar = make_tools_grammar(
        may_call,
        tool_choice="auto" if choice == "auto" else "required",
        parallel=is_parallel,
        first_index=_count_calls(body, special),
    )
    return ToolUse(declared=declared, max_calls=None if is_parallel else 1, grammar=grammar)


def _count_calls(body: ChatRequest, special: SpecialTokens) -> int:
    """Return the number of calls in the conversation so far."""
    sent = [len(message.tool_calls or ()) for message in body.messages or () if message.role == "assistant"]
    return sum(sent) + (body.prompt_token_ids or []).count(special.id_of("<|tool_call_begin|>"))


def _declared(body: ChatRequest, max_tools: int) -> tuple[Json, ...]:
    tools = body.tools or []
    if len(tools) > max_tools:
        text = f"the request declares {len(tools)} tools; at most {max_tools} are taken"
        raise InvalidRequestError(text, param="tools", code="too_many_tools")
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.function.name in seen:
            path = f"tools.{index}.function.name"
            raise InvalidRequestError(
                f"{path}: a second tool is called {tool.function.name!r}; names must differ", param=path
            )
        seen.add(tool.function.name)
    return tuple(tool.model_dump(exclude_unset=True) for tool in tools)


def _content_grammar(body: ChatRequest) -> GrammarSpec | None:
    wanted = body.response_format
    if isinstance(wanted, ObjectFormat):
        return GrammarSpec(kind="json_object")
    if isinstance(wanted, SchemaFormat):
        schema = wanted.json_schema.schema_
        if schema is None:
            path = "response_format.json_schema.schema"
            raise InvalidRequestError(
                f"{path}: missing; expected a JSON schema", param=path, code="missing_required_parameter"
            )
        return GrammarSpec(kind="json_schema", text=json.dumps(schema, ensure_ascii=False))
    return None


def _shown(choice: object) -> str:
    return choice.function.name[:64] if isinstance(choice, ToolChoice) else str(choice)


TOP_P = 0.95
THINKING_TEMPERATURE, INSTANT_TEMPERATURE = 1.0, 0.6
"""Recommended temperatures. Source: README of moonshotai/Kimi-K2.5, recommended sampling."""


def chat_params(body: ChatRequest, *, thinking: bool, grammar: GrammarSpec | None) -> SamplingParams:
    """Return the parameters of a chat request; temperature and top_p default to the model card's.

    Raises:
        RequestError: If fields contradict each other.
    """
    _refuse_unsupported(body)
    if body.top_logprobs and not body.logprobs:
        raise InvalidRequestError("top_logprobs is set; expected logprobs: true as well", param="top_logprobs")
    max_tokens = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    if max_tokens == 0:
        raise InvalidRequestError("max_tokens is 0; expected 1 or more", param="max_tokens")
    budget = body.thinking_budget
    if budget is None and body.thinking is not None:
        budget = body.thinking.budget_tokens
    temperature = THINKING_TEMPERATURE if thinking else INSTANT_TEMPERATURE
    return replace(
        _common(body, temperature=temperature, top_p=TOP_P),
        max_tokens=max_tokens,
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        thinking_budget=budget if thinking else None,
        grammar=grammar,
    ).check()


def text_params(body: TextRequest) -> SamplingParams:
    """Return the parameters of a plain completion; temperature and top_p default to 1.

    Raises:
        RequestError: If fields contradict each other, or are not supported.
    """
    _refuse_unsupported(body)
    if body.suffix:
        raise InvalidRequestError("suffix is not supported; omit it", param="suffix", code="unsupported_parameter")
    if body.best_of is not None and body.best_of != (body.n or 1):
        text = f"best_of is {body.best_of}; expected it left out, or equal to n"
        raise InvalidRequestError(text, param="best_of", code="unsupported_parameter")
    if body.max_tokens == 0 and not body.echo:
        raise InvalidRequestError("max_tokens is 0; expected 1 or more, or echo as well", param="max_tokens")
    prompt_logprobs = body.prompt_logprobs
    if prompt_logprobs is None and body.echo:
        prompt_logprobs = body.logprobs
    return replace(
        _common(body, temperature=1.0, top_p=1.0),
        max_tokens=max(1, body.max_tokens) if body.max_tokens is not None else None,
        logprobs=body.logprobs,
        prompt_logprobs=prompt_logprobs,
    ).check()


def _common(body: ChatRequest | TextRequest, *, temperature: float, top_p: float) -> SamplingParams:
    stop = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    params = SamplingParams(
        temperature=temperature if body.temperature is None else body.temperature,
        top_p=top_p if body.top_p is None else body.top_p,
        top_k=max(0, body.top_k or 0),
        min_p=body.min_p or 0.0,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        repetition_penalty=1.0 if body.repetition_penalty is None else body.repetition_penalty,
        seed=body.seed,
        logprobs_mode=body.logprobs_mode or "raw_logprobs",
        min_tokens=body.min_tokens or 0,
        stop=stop,
        stop_token_ids=tuple(body.stop_token_ids or ()),
        ignore_eos=bool(body.ignore_eos),
    )
    if not body.return_kept_token_ids:
        return params
    if not body.return_token_ids or body.logprobs is None or body.logprobs is False:
        text = "return_kept_token_ids is set; expected return_token_ids and logprobs as well"
        raise InvalidRequestError(text, param="return_kept_token_ids")
    top_k = min(params.top_k or MAX_KEPT_IDS, MAX_KEPT_IDS) if params.is_filtered else 0
    return replace(params, return_kept_ids=True, top_k=top_k)


def _refuse_unsupported(body: SamplingFields) -> None:
    """Reject unsupported fields that would change the answer; others are ignored.

    Raises:
        RequestError: If such a field is used.
    """
    wrong: dict[str, object] = {"logit_bias": body.logit_bias}
    if isinstance(body, ChatRequest):
        wrong |= {"functions": body.functions, "function_call": body.function_call, "audio": body.audio}
        wrong |= {"web_search_options": body.web_search_options}
        wrong |= {"modalities": None if body.modalities in (None, ["text"]) else body.modalities}
    for name, value in wrong.items():
        if value:
            instead = {"functions": "; use tools", "function_call": "; use tool_choice"}.get(name, "; leave it out")
            raise InvalidRequestError(f"{name} is not supported{instead}", param=name, code="unsupported_parameter")
