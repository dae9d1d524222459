"""Pieces of a rendered conversation to token ids, or to text for people."""

from collections.abc import Iterable, Iterator

from model_runtime.chat.pieces import Marker, Piece
from model_runtime.media import MediaItem, MediaSpan, Prompt
from model_runtime.tokenizer import TokenBudget, Tokenizer


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
