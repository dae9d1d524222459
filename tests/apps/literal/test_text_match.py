"""How texts on the screen are compared with wanted ones."""

import pytest

from apps.literal.text_match import CONTAINED, WHOLE, fit_texts, similarity


def best(wanted: str, seen: str) -> float:
    fits = fit_texts(wanted, seen)
    return fits[0].score if fits else 0.0


def test_better_kinds_of_fit_score_higher() -> None:
    ranked = ["Save", "save", "SAVE:", "Save file now", "Saxe file"]
    scores = [best("Save", seen) for seen in ranked]

    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1.0 and scores[4] == 0.0


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        ("Total", "Total:"),
        ("Name", "Name *"),
        ("Save as", "Save as…"),
        ("Log in", "Login"),
        ("Bill", "BiIl"),
        ("Room 101", "Room 1O1"),
        ("E-mail", "E–mail"),
        ("Don't ask", "Don’t ask"),
        ("Größe", "Grösse"),
        ("Prénom", "Prenom"),
        ("-", "—"),
        ("=", "二"),
    ],
)
def test_whole_line_fits_in_spite_of_the_reader(wanted: str, seen: str) -> None:
    assert best(wanted, seen) >= WHOLE


@pytest.mark.parametrize(
    ("wanted", "seen", "part"),
    [
        ("Delete", "Edit Delete", "Delete"),
        ("Terms of use", "I accept the Terms of use.", "Terms of use"),
        ("log in", "Please Login here", "Login"),
    ],
)
def test_words_within_a_line_are_found_where_they_stand(wanted: str, seen: str, part: str) -> None:
    fit = fit_texts(wanted, seen)[0]

    assert CONTAINED <= fit.score < WHOLE
    assert seen[fit.start : fit.end] == part


@pytest.mark.parametrize(
    ("wanted", "seen"), [("Order 12", "Order 13"), ("7", "1"), ("Save", "Saved"), ("in", "Inbox"), ("No", "Notes")]
)
def test_other_texts_do_not_fit(wanted: str, seen: str) -> None:
    assert best(wanted, seen) == 0.0


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        ("Harbours", "Harbour notes"),
        ("Prices", "Price list"),
        ("Publish", "Unpublish"),
        ("Publish page", "Unpublish page"),
        ("Lock the file", "Unlockthe file"),
        ("Enable two-step login", "Disable two-step login"),
        ("Option A", "Option B"),
        ("Delete the first entry", "Delete the last entry"),
        ("Show hidden files", "Hide hidden files"),
        ("Boats", "Boots"),
    ],
)
def test_another_word_is_not_taken_for_a_misread_one(wanted: str, seen: str) -> None:
    assert best(wanted, seen) == 0.0


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        ("Settings", "Settlngs"),
        ("Save As...", "Save s..."),
        ("Remember me", "Rernember me"),
        ("Reimbursable", "Reimbursabie"),
        ("Account settings", "Accountsettinqs"),
        ("Description", "Descripton"),
        ("Download report", "Dovvnload report"),
    ],
)
def test_a_letter_or_two_may_be_misread(wanted: str, seen: str) -> None:
    assert best(wanted, seen) > 0.0


@pytest.mark.parametrize(
    ("wanted", "seen", "part"),
    [
        ("a75jBs0", "a75iBs0  EV", "a75iBs0"),
        ("8f1ChQH", "8f1ChOH✓2PeSo", "8f1ChOH"),
        ("hh9uD", "hhguD", "hhguD"),
        ("P4", "OP4", "P4"),
    ],
)
def test_signs_of_a_code_may_be_misread_and_a_ring_may_be_read_before_it(wanted: str, seen: str, part: str) -> None:
    fit = fit_texts(wanted, seen)[0]

    assert fit.score < CONTAINED
    assert seen[fit.start : fit.end] == part


@pytest.mark.parametrize(("wanted", "seen"), [("B2", "82"), ("P4", "P9"), ("hh9uD", "hh8uD"), ("Moon", "Noon")])
def test_other_codes_do_not_fit(wanted: str, seen: str) -> None:
    assert best(wanted, seen) == 0.0


def test_several_places_in_one_line_are_all_found() -> None:
    assert [(fit.start, fit.end) for fit in fit_texts("Edit", "Edit and Edit")] == [(0, 4), (9, 13)]


def test_nearness_ranks_likely_texts_first() -> None:
    seen = ["Cancel", "Description", "Save all", "Sale"]

    assert set(sorted(seen, key=lambda text: -similarity("Save", text))[:2]) == {"Save all", "Sale"}
