"""Tokens to text, and texts that end an output."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.engine.contract import Delta
from model_runtime.engine.output_text import Detokenizer, StopChecker
from model_runtime.errors import InvalidRequestError
from model_runtime.tokenizer import SpecialTokens, Tokenizer
from tests.fuzz.settings import fuzzed

PIECES = (
    *(bytes([byte]) for byte in range(256)),
    b"ab",
    "é".encode()[:1] + b"x",
    "漢".encode(),
    "漢".encode()[1:],
    b"\xf0\x9f",
)
SPECIAL = SpecialTokens(len(PIECES))
TOKENIZER = Tokenizer(
    SPECIAL,
    (*PIECES, *(text.encode() for text in SPECIAL.ids)),
    None,  # type: ignore[arg-type]
)


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta if isinstance(delta, str) else SPECIAL.text_of(delta) for delta in deltas)


def feed_all(token_ids: list[int]) -> list[Delta]:
    detokenizer = Detokenizer(TOKENIZER)
    deltas = [delta for token_id in token_ids for delta in detokenizer.feed(token_id)]
    return [*deltas, *detokenizer.finish()]


bytes_of_text = st.text(alphabet="aé漢😀\x00\ufffd", max_size=8).map(lambda text: list(text.encode()))
anything = st.lists(st.integers(0, TOKENIZER.vocab_size - 1), max_size=30)


@fuzzed
@given(st.one_of(anything, st.lists(st.one_of(bytes_of_text, anything)).map(lambda parts: [*chain(*parts)])))
def test_deltas_together_are_the_whole_decode(token_ids: list[int]) -> None:
    deltas = feed_all(token_ids)
    assert text_of(deltas) == TOKENIZER.decode(token_ids)
    assert "" not in deltas
    assert [delta for delta in deltas if isinstance(delta, int)] == [i for i in token_ids if SPECIAL.is_special(i)]


@fuzzed
@given(st.text())
def test_valid_text_is_never_torn(text: str) -> None:
    detokenizer = Detokenizer(TOKENIZER)
    shown = ""
    for count, byte in enumerate(text.encode(errors="replace"), start=1):
        shown += "".join(map(str, detokenizer.feed(byte)))
        assert shown == text.encode(errors="replace")[:count].decode(errors="ignore")


def test_an_emoji_waits_until_it_is_whole() -> None:
    detokenizer = Detokenizer(TOKENIZER)
    fed = [detokenizer.feed(byte) for byte in "a😀".encode()]
    assert fed == [("a",), (), (), (), ("😀",)]
    assert detokenizer.finish() == ()


def test_half_a_character_before_a_control_token_is_given_up() -> None:
    detokenizer = Detokenizer(TOKENIZER)
    assert detokenizer.feed(0xE6) == ()
    assert detokenizer.feed(SPECIAL.think_end) == ("\ufffd", SPECIAL.think_end)
    assert detokenizer.feed(ord("x")) == ("x",)


def test_the_name_of_a_control_token_spelled_as_text_is_text() -> None:
    assert feed_all(list(b"</think>")) == list("</think>")


def naive(text: str, stop: list[str]) -> tuple[str, str | None]:
    for end in range(len(text) + 1):
        if found := [one for one in stop if text[:end].endswith(one)]:
            longest = max(found, key=len)
            return text[: end - len(longest)], longest
    return text, None


def feed_pieces(checker: StopChecker, pieces: list[str]) -> tuple[str, str | None]:
    shown = ""
    for piece in pieces:
        safe, matched = checker.feed(piece)
        shown += safe
        if matched is not None:
            return shown, matched
    return shown + checker.flush(), None


few = st.text(alphabet="abé😀", min_size=1, max_size=5)


@fuzzed
@given(st.lists(st.text(alphabet="abé😀", max_size=6), max_size=8), st.lists(few, max_size=5))
def test_any_cut_finds_what_the_naive_search_finds(pieces: list[str], stop: list[str]) -> None:
    whole = "".join(pieces)
    expected = naive(whole, stop)
    assert feed_pieces(StopChecker(stop), pieces) == expected
    assert feed_pieces(StopChecker(stop), list(whole)) == expected
    assert feed_pieces(StopChecker(stop), [whole]) == expected


@fuzzed
@given(st.text(alphabet="ab", max_size=20), st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=4))
def test_no_more_is_held_back_than_may_become_a_stop(text: str, stop: list[str]) -> None:
    checker = StopChecker(stop)
    shown = ""
    for count, char in enumerate(text, start=1):
        safe, matched = checker.feed(char)
        if matched is not None:
            return
        shown += safe
        held = text[len(shown) : count]
        suffixes = [text[start:count] for start in range(count)]
        assert held == next((tail for tail in suffixes if any(one.startswith(tail) for one in stop)), "")


@pytest.mark.parametrize(
    ("stop", "text", "expected"),
    [
        (["abcd", "bc"], "xabcd", ("xa", "bc")),  # complete first
        (["b", "ab"], "xab", ("x", "ab")),  # complete together: the longer
        (["aab"], "aaab", ("a", "aab")),  # overlaps with itself
        (["\n\n", "END"], "a\nEN\n\nEND", ("a\nEN", "\n\n")),
        (["漢字"], "x漢漢字y", ("x漢", "漢字")),
        ([], "anything", ("anything", None)),
        (["x" * 3000], "x" * 2999, ("x" * 2999, None)),
    ],
)
def test_examples(stop: list[str], text: str, expected: tuple[str, str | None]) -> None:
    assert feed_pieces(StopChecker(stop), list(text)) == expected
    assert feed_pieces(StopChecker(stop), [text]) == expected


def test_a_stop_text_does_not_reach_over_a_control_token() -> None:
    checker = StopChecker(["ab"])
    assert checker.feed("xa") == ("x", None)
    assert checker.flush() == "a"
    assert checker.feed("b") == ("b", None)


def test_a_checker_starts_anew_after_a_match() -> None:
    checker = StopChecker(["ab", "abc"])
    assert checker.feed("ab") == ("", "ab")
    assert checker.flush() == ""
    assert checker.feed("c") == ("c", None)


def test_an_empty_stop_text_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="empty"):
        StopChecker(["a", ""])


def test_a_text_that_almost_matches_all_the_way_is_linear() -> None:
    checker = StopChecker(["a" * 5_000 + "b"])
    shown, matched = feed_pieces(checker, ["a" * 100] * 600)
    assert (len(shown), matched) == (60_000, None)
