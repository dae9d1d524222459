from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visual_tools.search.texts import TextSpan, find_spans, is_whole_word


@pytest.mark.parametrize(
    ("text", "wanted", "found"),
    [
        ("Save changes", "Save", [("Save", 1.0)]),
        ("Save changes", "CHANGES", [("changes", 1.0)]),
        ("Savechanges now", "save changes", [("Savechanges", 1.0)]),
        ("S a v e", "save", [("S a v e", 1.0)]),
        ("It’s 5–6", "it's 5-6", [("It’s 5–6", 1.0)]),
        ("ﬁle ＡＢＣ", "file abc", [("ﬁle ＡＢＣ", 1.0)]),
        ("no no no", "no", [("no", 1.0)] * 3),
        ("Delele it", "Delete", [("Delele", 5 / 6)]),
        ("De1ete", "Delete", [("De1ete", 1 - 0.34 / 6)]),
        ("Total: 1O0", "100", [("1O0", 1 - 0.34 / 3)]),
        ("Descripton", "Description", [("Descripton", 10 / 11)]),
        ("credit", "Edit", [("edit", 1.0)]),
        ("cat", "dog", []),
        ("", "dog", []),
        ("dog", "  ", []),
    ],
)
def test_spans(text: str, wanted: str, found: list[tuple[str, float]]) -> None:
    spans = find_spans(text, wanted, 0.8)

    assert [(text[span.start : span.end], round(span.similarity, 6)) for span in spans] == [
        (part, round(similarity, 6)) for part, similarity in found
    ]


def test_the_likest_comes_first() -> None:
    spans = find_spans("Amounl Amount Am0unt", "amount", 0.8)

    assert [span.start for span in spans] == [7, 14, 0]


def test_whole_words() -> None:
    assert is_whole_word("an edit here", TextSpan(start=3, end=7, similarity=1))
    assert not is_whole_word("credit", TextSpan(start=2, end=6, similarity=1))
    assert is_whole_word("(edit)", TextSpan(start=1, end=5, similarity=1))
    assert not is_whole_word("12.50", TextSpan(start=3, end=4, similarity=1))


@given(before=st.text(max_size=12), wanted=st.text(min_size=1, max_size=12), after=st.text(max_size=12))
def test_what_is_in_a_text_is_found_in_it(before: str, wanted: str, after: str) -> None:
    text = before + wanted + after
    spans = find_spans(text, wanted, 1.0)

    assert bool(spans) == any(not char.isspace() for char in wanted.casefold())
    assert all(0 <= span.start < span.end <= len(text) and span.similarity == 1.0 for span in spans)


@given(text=st.text("abc ", max_size=15), wanted=st.text("abc", min_size=1, max_size=6), least=st.floats(0.5, 1))
def test_similarity_is_at_least_what_was_asked(text: str, wanted: str, least: float) -> None:
    spans = find_spans(text, wanted, least)

    assert all(span.similarity >= least - 1e-6 for span in spans)
    assert [span.similarity for span in spans] == sorted((span.similarity for span in spans), reverse=True)
    ends = sorted((span.start, span.end) for span in spans)
    assert all(first[1] <= second[0] for first, second in pairwise(ends))
