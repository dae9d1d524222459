import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.tokenizer.split import MAX_CHARS, MAX_RUN_CHARS, split_text
from tests.fuzz.settings import fuzzed


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


@pytest.mark.parametrize("length", [0, 1, 24_999, 25_000, 25_001, 50_000, 50_001, 75_003])
@pytest.mark.parametrize("character", ["a", " ", "\u3000", "\x1c", "好", "\ud800"])
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
def test_as_the_rule_says(runs):
    text = "".join(character * length for character, length in runs)
    assert list(split_text(text)) == (split_slowly(text) or [""])


def test_a_very_long_text():
    chance = random.Random(0)
    text = "".join(chance.choice("ab \n") * chance.choice([1, 5, 30_000]) for _ in range(60))
    assert len(text) > MAX_CHARS
    assert list(split_text(text)) == split_slowly(text)
