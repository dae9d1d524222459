"""Sentences with words that nobody foresaw: quoted text is typed as it stands or not at all, and no word is dropped."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apps.literal.grammar import parse_instruction
from apps.literal.model import explain_unreadable
from apps.literal.steps import DoNotSubmit, PickSuggestion, PlainStep, PressKeys, SetValue, TypeInto, Unreadable

SENTENCES = (
    "type {a} into Name",
    "enter {a} in the {b} field",
    "type the text {a} into the second text box",
    "enter the username {a} and the password {b}",
    "enter the username {a} and the password {b} into the text fields and press login",
    "type {a} as the first name and {b} as the last name",
    "log in with username {a} and password {b}",
    "set {b} to {a}",
    "fill Name with {a} and City with {b}",
    "append {a} to Notes",
    "search for {a}",
    "type {a}",
    "type {a} in upper case into Name",
    "enter an item that starts with {a} and ends with {b}",
    "use the search box to enter {a}, then press Enter",
    "click {a} and then click {b}",
    "click {a}, {b} and Save",
    "click the {a} button in the row of {b}",
    "select {a} in {b}",
    "select {a} and {b} and click Submit",
    "tick {a}, then untick {b}",
    "drag {a} to {b}",
)
STRANGE = ("banana", "zebra", "not", "never", "except", "quickly", "blue", "seven", "twice", "unless", "without")
FIRST, SECOND = "Qx7 v", "Wk-3"


@st.composite
def sentences(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A sentence that is understood, with strange words put in at any place outside its quotes."""
    words = draw(st.sampled_from(SENTENCES)).split(" ")
    strange = draw(st.lists(st.sampled_from(STRANGE), max_size=3))
    for word in strange:
        words.insert(draw(st.integers(0, len(words))), word)
    return " ".join(words).format(a=f'"{FIRST}"', b=f'"{SECOND}"'), strange


def typed_texts(step: PlainStep | Unreadable) -> list[str]:
    match step:
        case TypeInto(text=text) | SetValue(value=text):
            return [text]
        case PickSuggestion(start=start, end=end, part=part):
            return [text for text in (start, end, part) if text]
        case _:
            return []


@settings(max_examples=400)
@given(sentences())
@example((f'banana banana click "{FIRST}", "{SECOND}" and never Save', ["banana", "banana", "never"]))
@pytest.mark.long
def test_only_quoted_text_is_typed_and_no_word_is_dropped_or_left_unnamed(
    made: tuple[str, list[str]],
) -> None:
    sentence, strange = made

    steps = parse_instruction(sentence)

    typed = [text for step in steps for text in typed_texts(step)]
    assert set(typed) <= {FIRST, SECOND, FIRST.upper(), SECOND.upper()}, steps
    kept = " ".join(repr(step) for step in steps)
    is_repeated = len(set(map(repr, steps))) < len(steps)
    is_twice = is_repeated or any(isinstance(step, PressKeys) and step.times == 2 for step in steps)
    understood = {"twice": is_twice, "never": any(isinstance(step, DoNotSubmit) for step in steps)}
    assert [word for word in strange if word not in kept and not understood.get(word)] == [], steps
    unread = [step for step in steps if isinstance(step, Unreadable)]
    explanation = explain_unreadable(unread)
    assert all((step.words or step.text) in explanation for step in unread)


def test_every_sentence_is_understood_without_the_strange_words() -> None:
    made = [sentence.format(a=f'"{FIRST}"', b=f'"{SECOND}"') for sentence in SENTENCES]

    assert [text for text in made if any(isinstance(step, Unreadable) for step in parse_instruction(text))] == []
