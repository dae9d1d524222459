"""Markers in text that comes in pieces, and what a prompt says of reasoning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.chat.parser.events import (
    MARKER_OF_TOKEN,
    TEXT_MARKERS,
    MarkerKind,
    MarkerScanner,
    markers_by_id,
    starts_in_reasoning,
)
from model_runtime.tokenizer import SpecialTokens
from tests.fuzz.settings import fuzzed
from tests.model_runtime.chat.parser.replies import SPECIAL, WILD, cut

THINK, UNTHINK, OTHER = SPECIAL.think_begin, SPECIAL.think_end, SPECIAL.im_end


@pytest.mark.parametrize(
    ("token_ids", "expected"),
    [
        ([], False),
        ([1, 2], False),
        ([OTHER, THINK], True),
        ([OTHER, THINK, UNTHINK], False),
        ([THINK, UNTHINK, 1, OTHER, THINK], True),
        ([THINK, UNTHINK, 1, OTHER, THINK, 7, 8], True),
        ([THINK, 1, UNTHINK, 2, OTHER, 3], False),
        ((THINK, UNTHINK, THINK, UNTHINK), False),
    ],
)
def test_the_last_think_marker_decides(token_ids, expected):
    assert starts_in_reasoning(token_ids, SPECIAL) is expected


def test_ids_of_the_release():
    assert markers_by_id(SpecialTokens()) == {
        163_586: MarkerKind.MESSAGE_END,
        163_595: MarkerKind.SECTION_BEGIN,
        163_596: MarkerKind.SECTION_END,
        163_597: MarkerKind.CALL_BEGIN,
        163_598: MarkerKind.ARGUMENT_BEGIN,
        163_599: MarkerKind.CALL_END,
        163_606: MarkerKind.THINK_BEGIN,
        163_607: MarkerKind.THINK_END,
    }


def scan(pieces):
    scanner = MarkerScanner(TEXT_MARKERS)
    found = [item for piece in pieces for item in scanner.feed(piece)]
    found.append((scanner.flush(), None))
    result = []
    for text, marker in found:
        if marker is None and result and result[-1][1] is None:
            text = result.pop()[0] + text
        if text:
            result.append((text, marker))
    return result


@pytest.mark.parametrize("text", TEXT_MARKERS)
def test_each_marker_alone_and_broken(text):
    assert scan([text]) == scan(text) == [(text, TEXT_MARKERS[text])]
    assert scan([text[:-1]]) == scan(text[:-1]) == [(text[:-1], None)]
    assert scan(text[:-1] + text) == [(text[:-1], None), (text, TEXT_MARKERS[text])]


@fuzzed
@given(WILD, st.data())
def test_nothing_is_lost_however_it_is_cut(text, data):
    whole = scan([text])
    assert "".join(piece for piece, _ in whole) == text
    assert not [piece for piece, marker in whole if marker is None and any(mark in piece for mark in MARKER_OF_TOKEN)]
    assert scan(text) == whole
    assert scan(cut(text, data.draw(st.lists(st.integers(0, len(text)), max_size=6)))) == whole


def test_only_the_beginning_of_a_marker_waits():
    scanner = MarkerScanner(TEXT_MARKERS)
    waits = [list(scanner.feed(piece)) for piece in ["a<", "b", "<|tool_", "call_x", "</", "</think", ">c"]]
    assert waits == [
        [("a", None)],
        [("<b", None)],
        [],
        [("<|tool_call_x", None)],
        [],
        [("</", None)],
        [("</think>", MarkerKind.THINK_END), ("c", None)],
    ]
