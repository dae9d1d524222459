import random
from dataclasses import replace
from pathlib import Path

import pytest

from apps.train.exam import ExamResult, examine, grade_answer, make_sheet
from apps.train.labels import Coordinates
from apps.train.lessons import answer_text
from apps.train.nano import make_config, make_model
from apps.train.screens.screen import TRAINED_FAMILIES, DrawnScreen, ScreenOptions, make_screen
from apps.train.skills import ScreenQuestion, ask_finish, ask_strange, draw_questions
from apps.train.vocabulary import make_vocabulary

OPTIONS = ScreenOptions(families=TRAINED_FAMILIES, sizes_px=((280, 224), (400, 300)), held_out_names=True)


def oracle(question: ScreenQuestion, screen: DrawnScreen) -> str:
    """The answer that lessons teach."""
    code = question.code
    if question.target is not None:
        x, y = Coordinates.of_target(question.target, screen).texts()
        code = code.format(x=x, y=y)
    return f"{question.thought}</think>{answer_text(question.action, code)}"


def draw(seed: int) -> list[tuple[DrawnScreen, ScreenQuestion]]:
    rng = random.Random(seed)
    screens = [make_screen(rng, OPTIONS) for _ in range(60)]
    return [(screen, question) for screen in screens for question in draw_questions(rng, screen, 3, held_out=True)]


def test_right_answers_are_right_and_others_are_called_what_they_are() -> None:
    seen = set()
    for screen, question in draw(0):
        right = oracle(question, screen)
        assert grade_answer(right, question, screen) == "right"
        give_up = (
            f"No.</think>{answer_text('Give up.', 'computer.terminate(status=' + chr(34) + 'failure' + chr(34) + ')')}"
        )
        done = give_up.replace("failure", "success")
        assert grade_answer(give_up, question, screen) == ("right" if question.kind == "absent" else "gave up")
        assert grade_answer(done, question, screen) == ("right" if question.kind == "done" else "claimed done")
        corner = f"Yes.</think>{answer_text('Click it.', 'pyautogui.click(x=0.999, y=0.999)')}"
        assert grade_answer(corner, question, screen) == "wrong click"
        assert grade_answer("gibberish", question, screen) == "unreadable"
        assert grade_answer(right.replace("```python", "```python\nimport os"), question, screen) == "unreadable"
        if question.typed:
            assert (
                grade_answer(right.replace(f'write("{question.typed}', f'write("x{question.typed}'), question, screen)
                == "wrong text"
            )
            without = replace(question, typed="")
            assert grade_answer(right, without, screen) == "wrong text"
        seen.add(question.kind)
    assert {"absent", "done", "type", "button"} <= seen


def test_what_was_never_learnt_is_given_up() -> None:
    screen, question = draw(2)[0]
    assert question.target is not None
    asked = ask_strange(random.Random(0), question.target, ('Knit "{}".',))
    assert asked.instruction == f'Knit "{question.target.name}".'
    assert grade_answer(oracle(asked, screen), asked, screen) == "right"
    assert grade_answer(oracle(question, screen), asked, screen) == "wrong click"
    assert grade_answer(oracle(ask_finish(asked.instruction), screen), asked, screen) == "claimed done"


def test_a_sheet_is_its_seed() -> None:
    first, second, other = (make_sheet("buttons", OPTIONS, count=5, seed=seed) for seed in (1, 1, 2))
    assert [questions for _, questions in first.items] == [questions for _, questions in second.items]
    assert [questions for _, questions in first.items] != [questions for _, questions in other.items]


def test_shares_have_intervals() -> None:
    marks = ExamResult("buttons")
    marks.of_kind["button"] += ["right"] * 9 + ["wrong click"]
    marks.of_kind["absent"] += ["wrong click"] * 2
    everything, buttons, nothing = marks.share(), marks.share(kind="button"), marks.share(kind="link")
    assert everything is not None
    assert buttons is not None
    assert everything.low < 0.75 < everything.high
    assert buttons.low < 0.9 < buttons.high
    assert nothing is None
    assert marks.count() == 12


@pytest.mark.long
def test_a_model_is_examined_through_the_engine_that_serves(tmp_path: Path) -> None:
    """An untrained one: nothing that it says is an answer, and all questions are counted."""
    make_model(tmp_path, make_config(make_vocabulary()), seed=0)
    sheets = [make_sheet("any", replace(OPTIONS, sizes_px=((160, 210),)), count=2, seed=1)]
    (marks,) = examine(tmp_path, sheets)
    assert marks.count() == 4
    assert marks.share("unreadable") is not None
    assert {verdict for verdicts in marks.of_kind.values() for verdict in verdicts} == {"unreadable"}


@pytest.mark.parametrize(("status", "verdict"), [("success", "claimed done"), ("failure", "gave up")])
def test_an_end_behind_a_click_does_not_count_as_the_click(status: str, verdict: str) -> None:
    screen, question = next(pair for pair in draw(1) if pair[1].kind == "button")
    answer = oracle(question, screen).replace("\n```", f'\ncomputer.terminate(status="{status}")\n```')
    assert grade_answer(answer, question, screen) == verdict
