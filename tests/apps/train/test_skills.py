"""How people may word what they ask for."""

import random
from dataclasses import replace

import pytest

from apps.train.lessons import LessonMaker
from apps.train.screens.screen import ScreenOptions, make_screen
from apps.train.skills import BESIDE_SHARE, SPELLED, ScreenQuestion, add_words, ask_absent, ask_for, draw_questions
from apps.train.vocabulary import PIECE
from model_runtime.tokenizer import Tokenizer

OPTIONS = ScreenOptions(families=("scatter",), sizes_px=((280, 224),), text_px=(12, 22))


def test_words_beside_a_name_leave_what_is_asked_for(tokenizer: Tokenizer) -> None:
    """The name stands there once, in quotation marks, and is what the answer looks for."""
    maker, rng = LessonMaker(tokenizer), random.Random(4)
    screen, changed, count = make_screen(rng, OPTIONS), 0, 400
    for number in range(count):
        target = rng.choice(screen.targets)
        asked = ask_absent(rng, screen, target) if number % 2 else ask_for(rng, target)
        worded = add_words(rng, asked)
        assert replace(worded, instruction=asked.instruction) == asked
        if worded == asked:
            continue
        changed += 1
        assert worded.subject is not None
        name = worded.subject.name
        assert worded.instruction.count(f'"{name}"') == 1
        assert worded.instruction.lower().count(name.lower()) == asked.instruction.lower().count(name.lower())
        assert worded.instruction.split()[0] == asked.instruction.split()[0]
        told = [maker.make(rng, screen, [one], is_short=True).name_words[0] for one in (asked, worded)]
        assert [word.letters for word in told[0]] == [word.letters for word in told[1]]
    assert abs(changed / count - BESIDE_SHARE) < 0.07


@pytest.mark.long
def test_requests_that_end_work_or_fail_have_words_beside_them_as_often() -> None:
    """Else such words would say that what is asked for is there."""
    rng, with_words = random.Random(2), {"absent": [0, 0], "there": [0, 0], "done": [0, 0]}
    options = replace(OPTIONS, families=("form",), max_elements=8)

    def is_worded(question: ScreenQuestion) -> bool:
        assert question.subject is not None
        before, _, after = question.instruction.rpartition(f'"{question.subject.name}"')
        known = ("button", "field", "slider", "link", "checkbox", "box", "option", "on", "into", "of", "the", "middle")
        return any(word not in known for word in f"{before} {after}".strip(" .").split()[1:])

    for _ in range(600):
        screen = make_screen(rng, options)
        for question in draw_questions(rng, screen, 4, is_varied=True):
            if question.subject is None or f'"{question.subject.name}"' not in question.instruction or question.typed:
                continue
            kind = question.kind if question.kind in with_words else "there"
            with_words[kind][0] += is_worded(question)
            with_words[kind][1] += 1
    shares = {kind: worded / asked for kind, (worded, asked) in with_words.items()}
    assert all(abs(share - BESIDE_SHARE) < 0.08 for share in shares.values()), (shares, with_words)


def test_spelled_words_are_in_no_vocabulary(tokenizer: Tokenizer) -> None:
    for forms in SPELLED.values():
        for form in forms:
            assert any(len(tokenizer.encode(piece)) > 1 for piece in PIECE.findall(form)), form
