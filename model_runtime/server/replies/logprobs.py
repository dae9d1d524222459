"""Log-probabilities in the two forms of OpenAI's API."""

from collections.abc import Iterable, Sequence
from typing import Any

from model_runtime.engine.contract import TokenLogprob
from model_runtime.tokenizer import Tokenizer

Json = dict[str, Any]


def chat_logprobs(logprobs: Iterable[TokenLogprob], tokenizer: Tokenizer) -> list[Json]:
    """Entries of `logprobs.content` of a chat answer."""
    return [
        _entry(one.token_id, one.logprob, tokenizer)
        | {"top_logprobs": [_entry(token_id, logprob, tokenizer) for token_id, logprob in one.top]}
        for one in logprobs
    ]


def text_logprobs(
    logprobs: Sequence[TokenLogprob | None], ids: Sequence[int], tokenizer: Tokenizer, offset: int
) -> Json:
    """`logprobs` of a plain completion: four lists with an entry for each token.

    Args:
        logprobs: None for a token that nothing stands before.
        ids: The tokens.
        tokenizer: The model's.
        offset: Where the first one begins in the text of the choice.
    """
    texts = [token_text(token_id, tokenizer) for token_id in ids]
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    return {
        "tokens": texts,
        "token_logprobs": [None if one is None else finite(one.logprob) for one in logprobs],
        "top_logprobs": [
            {token_text(token_id, tokenizer): finite(logprob) for token_id, logprob in one.top}
            if one and one.top
            else None
            for one in logprobs
        ],
        "text_offset": offsets,
    }


def prompt_logprobs_json(logprobs: Sequence[TokenLogprob | None], tokenizer: Tokenizer) -> list[Json | None]:
    """One entry for each token of a prompt: by id, its own first, then the likeliest; None for the first token."""
    return [
        None
        if one is None
        else {
            str(token_id): {"logprob": finite(logprob), "decoded_token": token_text(token_id, tokenizer)}
            for token_id, logprob in [(one.token_id, one.logprob), *one.top]
        }
        for one in logprobs
    ]


def token_text(token_id: int, tokenizer: Tokenizer) -> str:
    """A token as text; what is no whole character shows as U+FFFD."""
    return tokenizer.token_bytes(token_id).decode("utf-8", "replace")


def finite(logprob: float) -> float:
    """JSON has no infinity: what cannot happen gets the lowest value that OpenAI uses."""
    return max(logprob, -9999.0)


def _entry(token_id: int, logprob: float, tokenizer: Tokenizer) -> Json:
    data = tokenizer.token_bytes(token_id)
    return {"token": data.decode("utf-8", "replace"), "logprob": finite(logprob), "bytes": list(data)}
