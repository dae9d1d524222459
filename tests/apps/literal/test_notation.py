"""The notation that the rules are written in."""

import pytest

from apps.literal.clauses import Quotes
from apps.literal.rules.notation import ParsedClause, compile_phrase, rule
from apps.literal.steps import DoNotSubmit

FITS: list[tuple[str, str, dict[str, str] | None]] = [
    ("(type [in]|enter) <text> into <field>", "Type in a into b into c", {"text": "a into b", "field": "c"}),
    ("(type [in]|enter) <text?> into <field>", "enter a into b into c", {"text": "a", "field": "b into c"}),
    ("(type [in]|enter) <text> into <field>", "typein a into b", None),
    ("log~in [now]", "login now", {}),
    ("log~in [now]", "Log in", {}),
    ("colou?rs", "colors", {}),
    ("colou?rs", "colos", None),
    ("press <key: ctrl|the [left] shift>", "press the shift", {"key": "the shift"}),
    ("press <key: ctrl|the [left] shift>", "press left", None),
    ("wait INT`ms`", "wait 30ms", {}),
    ("show <what: QUOTED> [here]", "show \ue0000\ue001 here", {"what": "\ue0000\ue001"}),
    ("a.b", "axb", None),
]


@pytest.mark.parametrize(("phrase", "text", "parts"), FITS)
def test_what_a_phrase_fits(phrase: str, text: str, parts: dict[str, str] | None) -> None:
    found: list[ParsedClause] = []

    def keep(said: ParsedClause) -> DoNotSubmit:
        found.append(said)
        return DoNotSubmit()

    step = rule(phrase, keep).read(text, Quotes(("x",)))

    assert [said.parts for said in found] == ([] if parts is None else [parts])
    assert step == (None if parts is None else DoNotSubmit())


@pytest.mark.parametrize(
    ("phrase", "starts"),
    [
        ("(type [in]|key in) <text>", {"type", "key"}),
        ("[but] do not send", {"but", "do"}),
        ("un-?tick it", {"untick", "un-tick"}),
        ("log~in", {"log", "login"}),
        ("[please] <what>", None),
        ("`a|b` c", None),
        ("[now]", None),
    ],
)
def test_the_words_that_a_phrase_begins_with(phrase: str, starts: set[str] | None) -> None:
    assert compile_phrase(phrase)[1] == starts
