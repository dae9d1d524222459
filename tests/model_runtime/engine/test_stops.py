"""Stop texts against a naive search on the whole text, however it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.engine.stops import StopChecker
from model_runtime.errors import RequestError
from tests.fuzz.settings import fuzzed


def naive(text: str, stop: list[str]) -> tuple[str, str | None]:
    for end in range(len(text) + 1):
        if found := [one for one in stop if text[:end].endswith(one)]:
            longest = max(found, key=len)
            return text[: end - len(longest)], longest
    return text, None


def feed_all(checker: StopChecker, pieces: list[str]) -> tuple[str, str | None]:
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
    assert feed_all(StopChecker(stop), pieces) == expected
    assert feed_all(StopChecker(stop), list(whole)) == expected
    assert feed_all(StopChecker(stop), [whole]) == expected


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
    assert feed_all(StopChecker(stop), list(text)) == expected
    assert feed_all(StopChecker(stop), [text]) == expected


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
    with pytest.raises(RequestError, match="empty"):
        StopChecker(["a", ""])


def test_a_text_that_almost_matches_all_the_way_is_linear() -> None:
    checker = StopChecker(["a" * 5_000 + "b"])
    shown, matched = feed_all(checker, ["a" * 100] * 600)
    assert (len(shown), matched) == (60_000, None)
