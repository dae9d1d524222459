"""Kimi K2.5's chat template, as pieces instead of text, and pieces to token ids, or to text for people.

    <|im_user|>user<|im_middle|>Open the mail.<|im_end|><|im_assistant|>assistant<|im_middle|><think>

Control tokens are markers, never text: nothing that a message, a name or a tool says can become one. Markers, untrusted
text and media are kept apart until they are ids.

Source: `chat_template.jinja` of moonshotai/Kimi-K2.5, and `docs/tool_call_guidance.md` of MoonshotAI/Kimi-K2.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from model_runtime.chat.messages import ChatMessage, ImagePart, Part, TextPart, ToolCall, ToolSpec
from model_runtime.chat.typescript import declare_tools
from model_runtime.media import MediaItem, MediaSpan, Prompt
from model_runtime.tokenizer import TokenBudget, Tokenizer


@dataclass(frozen=True, slots=True)
class Marker:
    """A control token by its text, for example `Marker("<|im_end|>")`. Only the template makes them."""

    text: str


Piece = str | Marker | MediaItem
"""Untrusted text, a control token, or media, which takes `num_tokens` placeholder tokens."""


_MIDDLE, _END = Marker("<|im_middle|>"), Marker("<|im_end|>")
_SYSTEM, _ASSISTANT = Marker("<|im_system|>"), Marker("<|im_assistant|>")
_OPENING = {"user": Marker("<|im_user|>"), "assistant": _ASSISTANT}
_THINK, _THINK_END = Marker("<think>"), Marker("</think>")
_MEDIA, _MEDIA_CONTENT, _MEDIA_END = Marker("<|media_begin|>"), Marker("<|media_content|>"), Marker("<|media_end|>")
_CALLS, _CALLS_END = Marker("<|tool_calls_section_begin|>"), Marker("<|tool_calls_section_end|>")
_CALL, _ARGUMENTS, _CALL_END = (
    Marker("<|tool_call_begin|>"),
    Marker("<|tool_call_argument_begin|>"),
    Marker("<|tool_call_end|>"),
)


def render_chat(
    messages: Sequence[ChatMessage],
    tools: Sequence[ToolSpec] = (),
    *,
    thinking: bool = True,
    preserve_thinking: bool = False,
    add_generation_prompt: bool = True,
) -> list[Piece]:
    """A conversation as the model reads it.

    Reasoning is kept in a running tool loop only: assistant turns up to the last one without tool calls show an
    empty block.

    Args:
        messages: In order. Nothing is added to them: there is no default system prompt.
        tools: What the model may call.
        thinking: Let the model reason before it answers, and show it what it thought in the running tool loop.
        preserve_thinking: Show all earlier reasoning as well (from K2.6 on; K2.5 was trained without).
        add_generation_prompt: End with the opening of an assistant message.
    """
    pieces: list[Piece] = []
    if declaration := declare_tools(tools) if tools else "":
        pieces += (_SYSTEM, "tool_declare", _MIDDLE, declaration, _END)
    first_kept = 0 if preserve_thinking else _find_running_loop(messages)
    for index, message in enumerate(messages):
        pieces += (_OPENING.get(message.role, _SYSTEM), message.name or message.role, _MIDDLE)
        pieces += _body(message, keep_reasoning=thinking and index >= first_kept)
        pieces.append(_END)
    if add_generation_prompt:
        pieces += (_ASSISTANT, "assistant", _MIDDLE, _THINK)
        if not thinking:
            pieces.append(_THINK_END)
    return pieces


def _find_running_loop(messages: Sequence[ChatMessage]) -> int:
    """Index after the last assistant message without tool calls."""
    answers = (n for n in range(len(messages) - 1, -1, -1) if messages[n].role == "assistant")
    return next((n + 1 for n in answers if not messages[n].tool_calls), 0)


def _body(message: ChatMessage, *, keep_reasoning: bool) -> Iterator[Piece]:
    if message.role == "assistant":
        yield _THINK
        yield message.reasoning or "" if keep_reasoning else ""
        yield _THINK_END
    elif message.role == "tool":
        yield f"## Return of {message.tool_call_id or ''}\n"
    for part in message.parts:
        yield from _content(part)
    if message.role == "assistant" and message.tool_calls:
        yield from _calls(message.tool_calls)


def _content(part: Part) -> Iterator[Piece]:
    if isinstance(part, TextPart):
        yield part.text
    elif isinstance(part, ImagePart):
        yield from _media("image", part.item)
        yield "\n"
    else:
        for timestamp, item in part.chunks:
            yield timestamp
            yield from _media("video", item)
        yield "\n"


def _media(kind: str, item: MediaItem) -> Iterator[Piece]:
    yield from (_MEDIA, kind, _MEDIA_CONTENT, item, _MEDIA_END)


def _calls(calls: Iterable[ToolCall]) -> Iterator[Piece]:
    yield _CALLS
    for call in calls:
        yield from (_CALL, call.id, _ARGUMENTS, call.arguments, _CALL_END)
    yield _CALLS_END


def encode_chat(pieces: Iterable[Piece], tokenizer: Tokenizer, budget: TokenBudget | None = None) -> Prompt:
    """Token ids of a rendered conversation, media placeholders repeated.

    Texts that follow each other are joined first, so that the ids are those of the whole text.

    Raises:
        RequestError: The budget has not so many tokens left.
    """
    ids: list[int] = []
    media: list[MediaSpan] = []
    for piece in _join_texts(pieces):
        if isinstance(piece, str):
            ids += tokenizer.encode(piece, budget)
            continue
        if budget is not None:
            budget.spend(1 if isinstance(piece, Marker) else piece.num_tokens)
        if isinstance(piece, Marker):
            ids.append(tokenizer.special.id_of(piece.text))
        else:
            media.append(MediaSpan(offset=len(ids), item=piece))
            ids += [tokenizer.special.media_pad] * piece.num_tokens
    return Prompt(token_ids=tuple(ids), media=tuple(media))


def show_chat(pieces: Iterable[Piece]) -> str:
    """The text of a rendered conversation for people, one `<|media_pad|>` for each media item.

    Markers and text that spells markers look the same in it: never tokenise it.
    """
    return "".join(_show(piece) for piece in pieces)


def _show(piece: Piece) -> str:
    if isinstance(piece, MediaItem):
        return "<|media_pad|>"
    return piece.text if isinstance(piece, Marker) else piece


def _join_texts(pieces: Iterable[Piece]) -> Iterator[Piece]:
    texts: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
            continue
        if texts:
            yield "".join(texts)
            texts.clear()
        yield piece
    if texts:
        yield "".join(texts)
