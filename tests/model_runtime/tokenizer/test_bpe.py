"""The file of ranks, cuts of long texts, and ids of texts seen before."""

import base64
import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.errors import ConfigError
from model_runtime.tokenizer.tokenizer import MAX_CHARS, MAX_RUN_CHARS, TextCache, _size, read_ranks, split_text
from tests.fuzz.settings import fuzzed
from tests.tables import table

BYTES = [bytes([byte]) for byte in range(256)]


def write(path, tokens):
    path.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens)))
    return path


def test_tokens_in_the_order_of_ranks(tmp_path):
    path = tmp_path / "tiktoken.model"
    lines = [base64.b64encode(token) + b" %d" % rank for rank, token in enumerate([*BYTES, b"ab", b"abc"])]
    path.write_bytes(b"\r\n".join(reversed(lines)) + b"\n\n")
    assert list(read_ranks(path).items()) == [(token, rank) for rank, token in enumerate([*BYTES, b"ab", b"abc"])]


def test_a_missing_file(tmp_path):
    with pytest.raises(ConfigError, match=r"tiktoken\.model cannot be read: No such file"):
        read_ranks(tmp_path / "tiktoken.model")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"YWI=", "257: expected a token in base64, a space and its rank, found 'YWI='"),
        (b"YWI= x", "257: expected a token in base64, a space and its rank, found 'YWI= x'"),
        (b"Y!I= 256", "257: expected a token in base64, a space and its rank, found 'Y!I= 256'"),
        (b"YWI 256", "257: expected a token in base64, a space and its rank, found 'YWI 256'"),
        (b"YWI= 256 1", "257: expected a token in base64, a space and its rank, found 'YWI= 256 1'"),
        (b"YWI= 255", "257: b'ab' with rank 255 occurs twice, or its rank does"),
        (b"YQ== 256", "257: b'a' with rank 256 occurs twice, or its rank does"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, told):
    path = write(tmp_path / "tiktoken.model", BYTES)
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(ConfigError) as caught:
        read_ranks(path)
    assert str(caught.value) == f"{path}:{told}"


def test_what_is_missing_is_named(tmp_path):
    path = write(tmp_path / "tiktoken.model", BYTES[:200])
    with pytest.raises(ConfigError, match=r"no token for 56 single bytes, the first is 0xc8"):
        read_ranks(path)
    path = write(tmp_path / "tiktoken.model", BYTES)
    path.write_bytes(path.read_bytes() + b"YWI= 258\n")
    with pytest.raises(ConfigError, match="257 tokens, but ranks go up to 258 and 256 is missing"):
        read_ranks(path)
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match="no token for 256 single bytes"):
        read_ranks(path)


def split_slowly(text):
    """The rule itself, one character after the other."""
    parts = []
    for start in range(0, len(text), MAX_CHARS):
        part, run = "", 0
        for character in text[start : start + MAX_CHARS]:
            is_same = bool(part) and part[-1].isspace() == character.isspace()
            run = run + 1 if is_same else 1
            if run > MAX_RUN_CHARS:
                parts.append(part)
                part, run = "", 1
            part += character
        parts.append(part)
    return parts


@table("length", [0, 1, 24_999, 25_000, 25_001, 50_000, 50_001, 75_003])
@table("character", ["a", " ", "\u3000", "\x1c", "好", "\ud800"])
def test_one_run(length, character):
    text = character * length
    assert [len(part) for part in split_text(text)] == (
        [min(25_000, length - n) for n in range(0, length, 25_000)] or [0]
    )
    assert "".join(split_text(text)) == text


@fuzzed
@given(
    st.lists(
        st.tuples(st.sampled_from("a \n\u2003好"), st.sampled_from([1, 2, 24_999, 25_000, 25_001, 60_000])), max_size=5
    )
)
@pytest.mark.long
def test_as_the_rule_says(runs):
    text = "".join(character * length for character, length in runs)
    assert list(split_text(text)) == (split_slowly(text) or [""])


def test_a_very_long_text():
    chance = random.Random(0)
    text = "".join(chance.choice("ab \n") * chance.choice([1, 5, 30_000]) for _ in range(60))
    assert len(text) > MAX_CHARS
    assert list(split_text(text)) == split_slowly(text)


def test_the_least_used_text_goes_first():
    cache = TextCache(max_bytes=1500)
    for text in "abcd":
        cache.put(text, list(range(50)))
    assert cache.get("a") == list(range(50))
    cache.put("e", list(range(50)))
    assert [cache.get(text) is not None for text in "abcde"] == [True, False, True, True, True]


def test_a_huge_text_pushes_nothing_out():
    cache = TextCache(max_bytes=1200)
    cache.put("a", [1])
    cache.put("b", list(range(5000)))
    assert (cache.get("a"), cache.get("b")) == ([1], None)


def test_what_is_handed_out_is_a_copy():
    cache = TextCache()
    ids = [1, 2]
    cache.put("a", ids)
    ids.append(3)
    found = cache.get("a")
    assert found == [1, 2]
    found.append(4)
    assert cache.get("a") == [1, 2]


def test_many_threads_at_once():
    cache = TextCache(max_bytes=4000)
    wrong = []

    def work(seed):
        for n in range(2000):
            number = (n * seed) % 97
            found = cache.get(str(number))
            if found is None:
                cache.put(str(number), [number] * 20)
            elif found != [number] * 20:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2, 3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert cache._num_bytes == sum(_size(text, ids) for text, ids in cache._ids.items()) <= 4000
