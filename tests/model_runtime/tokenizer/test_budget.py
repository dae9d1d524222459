"""A prompt that is far too long is found out early."""

import pytest

from model_runtime.errors import RequestError
from model_runtime.tokenizer import TokenBudget, Tokenizer
from model_runtime.tokenizer.split import MAX_CHARS


class CountingEncoding:
    """tiktoken's engine that notes how many characters it was given."""

    def __init__(self, inner: object) -> None:
        self._inner = inner
        self.num_chars = 0

    def encode_ordinary(self, text: str) -> list[int]:
        self.num_chars += len(text)
        return self._inner.encode_ordinary(text)  # type: ignore[attr-defined, no-any-return]


@pytest.fixture
def counted(tokenizer: Tokenizer) -> tuple[Tokenizer, CountingEncoding]:
    encoding = CountingEncoding(tokenizer.encoding)
    return Tokenizer(tokenizer.special, tokenizer.tokens, encoding), encoding  # type: ignore[arg-type]


def test_no_token_is_longer_than_the_longest(tokenizer: Tokenizer) -> None:
    lengths = [len(token) for token in tokenizer.tokens[: tokenizer.special.first_id]]
    assert tokenizer.max_token_bytes == max(lengths)


@pytest.mark.parametrize("encode", [Tokenizer.encode, Tokenizer.encode_with_special])
def test_what_cannot_fit_is_refused_unread(counted, encode) -> None:
    tokenizer, encoding = counted
    longest = max(tokenizer.max_token_bytes, *map(len, tokenizer.special.ids))
    with pytest.raises(RequestError, match="more than 1000 tokens") as caught:
        encode(tokenizer, "a" * (1000 * longest + 1), TokenBudget(1000))
    assert caught.value.code == "context_length_exceeded"
    assert encoding.num_chars == 0


@pytest.mark.parametrize("encode", [Tokenizer.encode, Tokenizer.encode_with_special])
def test_the_rest_is_not_read_once_the_tokens_are_too_many(counted, encode) -> None:
    tokenizer, encoding = counted
    most = 20 * MAX_CHARS // tokenizer.max_token_bytes
    with pytest.raises(RequestError, match=f"more than {most} tokens"):
        encode(tokenizer, "1 x!" * (MAX_CHARS * 4), TokenBudget(most))
    assert encoding.num_chars <= 2 * MAX_CHARS


def test_texts_of_one_prompt_share_its_tokens(tokenizer: Tokenizer) -> None:
    num_tokens = len(tokenizer.encode("Hello there"))
    budget = TokenBudget(2 * num_tokens)
    assert tokenizer.encode("Hello there", budget) == tokenizer.encode("Hello there", budget)
    with pytest.raises(RequestError):
        tokenizer.encode("Hello there", budget)  # which it has seen before
    assert len(tokenizer.encode_with_special("<|im_end|>a", TokenBudget(2))) == 2
    with pytest.raises(RequestError):
        tokenizer.encode_with_special("<|im_end|>" * 3, TokenBudget(2))
