"""Whatever the instruction: steps or refusals, in bounded time."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.literal.grammar import parse_instruction
from tests.fuzz.settings import bounded_time, fuzzed

VERBS = st.sampled_from(
    ["", "click ", "enter ", "type ", "set ", "select ", "tick ", "drag ", "scroll ", "wait until ", "check that ",
     "please ", "press ", "open ", "tell me ", "find ", "fill in the form with ", "log in with ",
     "go through the tabs to find "]
)  # fmt: skip
PARTS = st.sampled_from(
    ['user "a"', "x", "the list", '"a"', "“", "'b", "„", "«c»", "the second row", "File > Save", "3", "a.b", "1.",
     "- ", "(", "[(", ")", "Total: 4", "starts with", "in upper case", "twice", "next to", "at the bottom",
     "\ue0000\ue001",
     "日本", "\0"]
)  # fmt: skip
JOINTS = st.sampled_from(
    [
        " and ",
        ", ",
        " then ",
        ". ",
        "; ",
        "\n",
        " ",
        "",
        " in ",
        " into ",
        " to ",
        " as ",
        " of ",
        " with ",
        " is ",
        ": ",
        " -> ",
    ]
)


def attempt(instruction: str) -> None:
    with bounded_time():
        for step in parse_instruction(instruction):
            assert str(step)


@fuzzed
@given(st.lists(VERBS | PARTS | JOINTS | st.text(max_size=6), max_size=40).map("".join))
def test_any_words(instruction):
    attempt(instruction)


@fuzzed
@given(
    st.lists(st.tuples(VERBS, PARTS, JOINTS).map("".join), min_size=1, max_size=3).map("".join),
    VERBS,
    st.integers(0, 20_000),
)
@example('enter user "a" and ', "", 20_000)
@example("click x then ", "", 20_000)
@example('user "a" and ', "enter ", 20_000)
@example("[(", "click ", 20_000)
@pytest.mark.long
def test_one_clause_over_and_over(clause, start, count):
    attempt((start + clause * count)[:20_000])
