"""The tokenizer beside tiktoken as the release builds it, and limits on what a text may become."""

import random

import pytest
import regex
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.checkpoint.tiny import tiny_ranks
from model_runtime.errors import ConfigError, InvalidRequestError
from model_runtime.tokenizer import SpecialTokens, TokenBudget, Tokenizer, load_tokenizer
from model_runtime.tokenizer.special import SLOT_OF
from model_runtime.tokenizer.tokenizer import MAX_CHARS, PATTERN
from tests.fuzz.settings import bounded_time, fuzzed

names = st.sampled_from([*SLOT_OF, "<|reserved_token_1029|>", "<|", "|>", "think>", "<"])
texts = st.lists(names | st.text(max_size=5), max_size=8).map("".join)


@pytest.fixture(scope="module")
def peer(tokenizer):
    """tiktoken as the release's own code builds it: control tokens beside the ranks."""
    ranks = {token: rank for rank, token in enumerate(tokenizer.tokens[:1024])}
    return tiktoken.Encoding("peer", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=tokenizer.special.ids)


@pytest.mark.parametrize(
    "cuts",
    [
        ["你好世界", "Hello", "你", "a", "好"],
        ["Hello", " world", ",", " it's", " we'll", " I'D", " o", "'clock"],
        ["camel", "Case", "HTTPServer", " XMLHttp", "Request", "ABC"],
        ["don't", " he's", " '", "x"],
        ["123", "456", "78", " ", "1", "x", "2"],
        ["!!!", " ...\n", "#a"],
        ["a", "!!\r\n\n", "b"],
        ["x", " \n \n", "  ", " y"],
        ["x", "   "],
        ["a", "\n\n", " b", "\t", "\tc"],
        ["éà", " Ünder", "Straße"],
        ["かな", "漢字", "カナ"],
        ["한국어", " 한국"],
        ["_x", "(foo", ")-", "bar", " ==="],
        ["½³Ⅷ"],
        ["नमस्ते", " ไทย"],
        ["👍🏽", " 👍"],
    ],
)
def test_what_text_is_cut_into(cuts):
    assert [match.group() for match in regex.finditer(PATTERN, "".join(cuts), flags=regex.V1)] == cuts


def test_the_engine_cuts_there(tokenizer):
    text = "Hello world, it's 12345 o'CLOCK\r\n\n  你好camelCase한국어 ½ !?\n x  "
    cuts = [match.group() for match in regex.finditer(PATTERN, text, flags=regex.V1)]
    assert tokenizer.encode(text) == [token_id for cut in cuts for token_id in _piece(tokenizer, cut)]


def _piece(tokenizer, text):
    return tokenizer.encoding._encode_single_piece(text)


@fuzzed
@given(text=texts)
def test_there_and_back(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert max(ids, default=0) < tokenizer.special.first_id


@fuzzed
@given(text=texts)
def test_trusted_text_as_tiktoken_encodes_it(tokenizer, peer, text):
    assert tokenizer.encode_with_special(text) == peer.encode(text, allowed_special="all")
    assert tokenizer.encode(text) == peer.encode(text, disallowed_special=())


def test_control_tokens_by_name(tokenizer):
    special = tokenizer.special
    text = "<|im_user|>user<|im_middle|>hi<|im_end|><think></think>"
    ids = [special.id_of("<|im_user|>"), *tokenizer.encode("user"), special.id_of("<|im_middle|>")]
    ids += [*tokenizer.encode("hi"), special.im_end, special.think_begin, special.think_end]
    assert tokenizer.encode_with_special(text) == ids
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode([special.first_id + 5]) == "<|reserved_token_1029|>"


def test_bytes_of_tokens(tokenizer):
    assert tokenizer.vocab_size == len(tokenizer.tokens) == 1280
    assert b"".join(map(tokenizer.token_bytes, tokenizer.encode("né 好"))) == "né 好".encode()
    assert tokenizer.decode([tokenizer.tokens.index("好".encode()[:1])]) == "\ufffd"
    assert list(tokenizer.tokens[:1024]) == [tokenizer.encoding.decode_single_token_bytes(n) for n in range(1024)]


@pytest.mark.parametrize("token_id", [-1, 1280, 163605])
def test_ids_that_are_none(tokenizer, token_id):
    with pytest.raises(InvalidRequestError) as caught:
        tokenizer.decode([1, token_id])
    assert str(caught.value) == f"there is no token {token_id}: ids go from 0 to 1279"


def test_half_a_surrogate_pair_becomes_a_replacement_character(tokenizer):
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffdb"
    assert tokenizer.decode(tokenizer.encode("\ud83d\ude00")) == "😀"


@pytest.mark.slow
@pytest.mark.parametrize("unit", [" ", "a", "A", "好", "1", "'", "\u0301", "ab 好  1!\n", "Aa", " " * 24_999 + "x"])
def test_long_texts_take_bounded_time(tokenizer, unit):
    text = (unit * (500_000 // len(unit) + 1))[:500_000]
    with bounded_time():
        ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text


@pytest.mark.long
def test_long_texts_are_cut_as_the_release_cuts_them(tokenizer, peer):
    text = "a" * 25_000 + "a" * 25_000 + "b"
    parts = ["a" * 25_000, "a" * 25_000, "b"]
    assert tokenizer.encode(text) == [token_id for part in parts for token_id in peer.encode(part)]


def test_texts_that_come_again_give_the_same_ids(tokenizer):
    text = "".join(random.Random(1).choice("abc ") for _ in range(1000))
    first = tokenizer.encode(text)
    first_copy = list(first)
    first.append(-1)
    assert tokenizer.encode(text) == first_copy


@pytest.mark.parametrize("num_ranks", [256, 300, 1024])
def test_any_number_of_ranks(tmp_path, num_ranks):
    (tmp_path / "tiktoken.model").write_bytes(tiny_ranks(num_ranks))
    tokenizer = load_tokenizer(tmp_path)
    assert (tokenizer.special, tokenizer.vocab_size) == (SpecialTokens(num_ranks), num_ranks + 256)
    assert tokenizer.decode(tokenizer.encode("héllo")) == "héllo"


def test_a_folder_without_a_vocabulary(tmp_path):
    with pytest.raises(ConfigError, match=r"tiktoken\.model cannot be read"):
        load_tokenizer(tmp_path)


def test_the_release_folder(tiny_dir, tokenizer):
    assert tokenizer.special == SpecialTokens(1024)
    assert load_tokenizer(tiny_dir).encode("Click the button") == tokenizer.encode("Click the button")


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
    with pytest.raises(InvalidRequestError, match="more than 1000 tokens") as caught:
        encode(tokenizer, "a" * (1000 * longest + 1), TokenBudget(1000))
    assert caught.value.code == "context_length_exceeded"
    assert encoding.num_chars == 0


@pytest.mark.parametrize("encode", [Tokenizer.encode, Tokenizer.encode_with_special])
def test_the_rest_is_not_read_once_the_tokens_are_too_many(counted, encode) -> None:
    tokenizer, encoding = counted
    most = 20 * MAX_CHARS // tokenizer.max_token_bytes
    with pytest.raises(InvalidRequestError, match=f"more than {most} tokens"):
        encode(tokenizer, "1 x!" * (MAX_CHARS * 4), TokenBudget(most))
    assert encoding.num_chars <= 2 * MAX_CHARS


def test_texts_of_one_prompt_share_its_tokens(tokenizer: Tokenizer) -> None:
    num_tokens = len(tokenizer.encode("Hello there"))
    budget = TokenBudget(2 * num_tokens)
    assert tokenizer.encode("Hello there", budget) == tokenizer.encode("Hello there", budget)
    with pytest.raises(InvalidRequestError):
        tokenizer.encode("Hello there", budget)  # which it has seen before
    assert len(tokenizer.encode_with_special("<|im_end|>a", TokenBudget(2))) == 2
    with pytest.raises(InvalidRequestError):
        tokenizer.encode_with_special("<|im_end|>" * 3, TokenBudget(2))
