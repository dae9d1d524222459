"""Work of several steps: what is asked, what is seen on the way, and what the agent would send and read."""

import random
import re
from collections import Counter
from itertools import pairwise

import pytest

from apps.train.episodes import MAX_PARTS, draw_step_requests, join_parts, make_episode, make_variants
from apps.train.labels import find_images, find_within
from apps.train.lessons import MAX_IMAGES, LessonMaker
from apps.train.screens.screen import TRAINED_FAMILIES, ScreenOptions, make_screen
from apps.train.screens.words import DrawnTexts, is_held_out
from apps.train.skills import ask_for
from model_runtime.tokenizer import Tokenizer
from model_runtime.training.batch import make_batch
from model_runtime.training.lessons import make_targets

OPTIONS = ScreenOptions(families=TRAINED_FAMILIES, sizes_px=((280, 224), (400, 300)))


@pytest.fixture(scope="module")
def maker(tokenizer: Tokenizer) -> LessonMaker:
    return LessonMaker(tokenizer)


def test_each_part_is_done_once_in_its_order_and_then_it_ends() -> None:
    rng, lengths = random.Random(0), set()
    for _ in range(80):
        episode = make_episode(rng, OPTIONS)
        *work, end = episode
        lengths.add(len(work))
        instruction = end.question.instruction
        assert {step.question.instruction for step in episode} == {instruction}
        assert end.question.code == 'computer.terminate(status="success")'
        places = []
        for step in work:
            target = step.question.target
            assert target is not None and target in step.screen.targets and not target.is_on
            name = target.name if target.kind == "icon" else f'"{target.name}"'
            places.append(instruction.index(name, places[-1] + 1 if places else 0))
            assert step.question.typed in instruction
        assert places == sorted(places)
        assert len({step.question.target for step in work}) == len(work)
    assert lengths == set(range(1, MAX_PARTS + 1))


def test_a_later_screen_shows_what_was_done_before() -> None:
    rng, num_typed = random.Random(1), 0
    for _ in range(60):
        episode = make_episode(rng, ScreenOptions(families=("form",), sizes_px=((400, 300),)))
        for step, after in pairwise(episode[:-1]):
            target = step.question.target
            assert target is not None
            [now] = [one for one in after.screen.targets if (one.kind, one.name) == (target.kind, target.name)]
            if target.kind == "field":
                num_typed += 1
                assert step.question.typed.startswith(now.value)
            elif target.kind in ("checkbox", "radio"):
                assert now.is_on
    assert num_typed > 10


def test_held_out_work_has_held_out_names() -> None:
    episode = make_episode(
        random.Random(2), ScreenOptions(families=("form",), sizes_px=((280, 224),), held_out_names=True)
    )
    names = [step.question.target.name for step in episode if step.question.target]
    assert names and all(is_held_out(name) for name in names)


def test_sentences_are_joined_as_people_do() -> None:
    rng = random.Random(3)
    screen = make_screen(rng, ScreenOptions(families=("grid",), sizes_px=((280, 224),)))
    parts = [ask_for(rng, target) for target in screen.targets[:2]]
    forms = {re.sub(r'"[^"]*"', "_", join_parts(rng, parts)) for _ in range(60)}
    assert any(form.startswith("1. ") for form in forms) and any(", then " in form for form in forms)
    assert all(form.count("_") == 2 and form.endswith(".") for form in forms)
    assert join_parts(rng, parts[:1]) == parts[0].instruction


def test_a_request_holds_the_last_images_and_all_thoughts(maker: LessonMaker) -> None:
    rng = random.Random(4)
    episode = next(one for one in iter(lambda: make_episode(rng, OPTIONS), None) if len(one) == MAX_IMAGES + 1)
    special = maker.tokenizer.special
    for count in range(1, len(episode) + 1):
        steps = episode[:count]
        prompt = maker.make_prompt(steps)
        assert len(prompt.media) == min(count, MAX_IMAGES)
        for span, step in zip(prompt.media, steps[-MAX_IMAGES:], strict=True):
            assert prompt.token_ids[span.offset] == special.media_pad
            assert prompt.token_ids[span.offset - 1] != special.media_pad
            height, width = step.screen.pixels.shape[:2]
            assert (span.item.frames[0, :height, :width] == step.screen.pixels).all()
        text = maker.tokenizer.decode([token for token in prompt.token_ids if not special.is_special(token)])
        assert [f"# Step {number}:" in text for number in range(1, 5)] == [number < count for number in range(1, 5)]
        assert text.count("\u25c1think\u25b7") == count - 1
        lesson = maker.make_steps(rng, [steps])
        whole = (*maker.prefix, *lesson.example.trunk, *lesson.example.branches[0])
        assert whole[: len(prompt.token_ids)] == prompt.token_ids
        assert lesson.first_predicted[0] == len(prompt.token_ids) - len(maker.prefix) - len(lesson.example.trunk)


@pytest.mark.long
def test_ways_begin_alike_and_each_goes_on_as_its_instruction_says(maker: LessonMaker) -> None:
    rng, ends = random.Random(8), 0
    for _ in range(60):
        variants = make_variants(rng, OPTIONS, 4)
        assert len({len(episode) for episode in variants}) == 1
        for episode in variants:
            for own, first in zip(episode, variants[0], strict=True):
                assert own.screen is first.screen
            for own, first in zip(episode[:-1], variants[0][:-1], strict=True):
                assert own.question == first.question
            last = episode[-1].question
            if last.target is None:
                assert last.code == 'computer.terminate(status="success")'
                assert episode[:-1], "work begins with something to be done"
                ends += 1
            else:
                assert last.target in episode[-1].screen.targets and not last.target.is_on
                assert last.typed in last.instruction
                assert not last.is_named or last.target.name in last.instruction
        lesson = maker.make_steps(rng, variants)
        assert len(lesson.example.branches) == 4
        for episode in variants:  # what the agent would send begins with the very trunk that they share
            sent = maker.make_prompt(episode).token_ids
            assert sent[len(maker.prefix) :][: len(lesson.example.trunk)] == lesson.example.trunk
    assert 40 < ends < 160


@pytest.mark.long
def test_ways_are_of_each_length_up_to_all_parts_and_the_end() -> None:
    rng = random.Random(8)
    lengths = {len(make_variants(rng, OPTIONS, 1)[0]) for _ in range(500)}  # one in forty is of the longest
    assert lengths == set(range(1, MAX_PARTS + 2))


@pytest.mark.long
def test_short_work_can_be_passed_over() -> None:
    rng = random.Random(8)
    count = [
        sum(len(make_variants(rng, OPTIONS, 1, share)[0]) > MAX_PARTS for _ in range(200)) for share in (0.0, 0.99)
    ]
    assert count[0] < 20 < 30 < count[1], "a quarter of what has all parts is at its end"


@pytest.mark.parametrize("share", [1.0, 1.5, -0.1])
def test_work_that_is_always_passed_over_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="less than 1"):
        make_variants(random.Random(0), OPTIONS, 1, share)


def test_lessons_of_later_steps_point_at_the_last_image(maker: LessonMaker) -> None:
    rng, num_looks = random.Random(6), 0
    for _ in range(30):
        steps = make_episode(rng, OPTIONS)[:2]
        lesson = maker.make_steps(rng, [steps])
        trunk, images = lesson.example.trunk, lesson.example.images
        places = find_images(trunk, maker.tokenizer.special.media_pad, images)
        for number in lesson.numbers[0]:
            assert number.look_at is not None and places[-1] <= number.look_at < places[-1] + images[-1].num_tokens
            num_looks += 1
        batch = make_batch([lesson.example], maker.tokenizer.special.media_pad, maker.prefix)
        targets = make_targets([lesson], batch)
        assert len(targets.letters.classes) == sum(image.num_patches for image in images)
        assert (batch.token_ids[targets.word_rows] == maker.tokenizer.special.media_pad).all()
    assert num_looks > 4


def test_names_and_texts_are_told_to_be_of_their_part_of_the_instruction(maker: LessonMaker) -> None:
    """And the tokens that act for a part, which look for its name where the instruction has it."""
    rng, num_parts, num_seeks = random.Random(9), Counter[int](), 0
    for _ in range(40):
        variants = make_variants(rng, OPTIONS, 4)
        lesson = maker.make_steps(rng, variants)
        length = len(lesson.example.trunk)
        for episode, branch, parts, seeks, start in zip(
            variants,
            lesson.example.branches,
            lesson.request_parts,
            lesson.query_targets,
            lesson.first_predicted,
            strict=True,
        ):
            last, done = episode[-1].question, [step.question for step in episode[:-1]]
            work = [*done, *([last] if last.target else []), *last.ahead]
            assert bool(parts) is (len(work) > 1)
            for part in parts:
                num_parts[part.number] += 1
                if part.token_index >= start - 1:
                    assert part.number == len(done) and last.target
                else:
                    said = (
                        maker.tokenizer.decode([branch[part.token_index]]).strip(" \ufffd").lower()
                    )  # parts of letters, too
                    own = work[part.number]
                    assert own.subject and (said in own.subject.name.lower() or said in own.typed.lower())
            for look in seeks:
                num_seeks += 1
                assert last.subject and look.token_index >= start
                before = maker.tokenizer.decode(branch[: look.target_index - length + 1])
                assert before.endswith(last.subject.name)
    assert min(num_parts[number] for number in range(MAX_PARTS)) > 40 and num_seeks > 80


def test_requests_of_several_parts_have_their_steps_before_them(maker: LessonMaker) -> None:
    rng, lengths = random.Random(2), set()
    requests = draw_step_requests(rng, 60)
    lesson = maker.make_requests(requests)
    assert maker.tokenizer.special.media_pad not in (*lesson.example.trunk, *sum(lesson.example.branches, ()))
    for questions, branch, parts in zip(requests, lesson.example.branches, lesson.request_parts, strict=True):
        text = maker.tokenizer.decode(branch)
        assert [f"# Step {number}:" in text for number in (1, 2, 3)] == [
            number < len(questions) for number in (1, 2, 3)
        ]
        assert questions[-1].instruction in text
        lengths.add((len(questions), len(questions[-1].ahead)))
        numbers = {part.number for part in parts}
        assert numbers == (
            set(range(len(questions) + len(questions[-1].ahead)))
            if len(questions) + len(questions[-1].ahead) > 1
            else set()
        )
    assert {len(questions) for questions in requests} == {1, 2, 3} and (1, 2) in lengths


def test_a_reading_asks_nothing(maker: LessonMaker) -> None:
    rng = random.Random(7)
    lesson = maker.make_reading(rng, make_screen(rng, ScreenOptions(families=("page",), sizes_px=((280, 224),))))
    assert lesson.example.branches == () and len(lesson.words) > 5
    assert lesson.letters is not None and (lesson.letters.classes > 0).sum() > 40


def test_texts_to_be_typed_have_all_cases_and_stand_in_the_request_as_in_the_code(maker: LessonMaker) -> None:
    rng, cases = random.Random(2), Counter[str]()
    for _ in range(300):
        text = DrawnTexts(rng, held_out=False, near_share=0.0).text()
        cases["upper"] += text.isupper()
        cases["lower"] += text.islower()
        cases["both"] += text not in (text.upper(), text.lower())
        cases["sign"] += not text.replace(" ", "").isalnum()
        assert not set(text) & {'"', "\\", "\n"}
        tokens = maker.tokenizer.encode(text)
        for whole in (f'pyautogui.write("{text}")\n```', f'\nType "{text}" into the field "x".\n'):
            assert find_within(maker.tokenizer.encode(whole), tokens) is not None
    assert min(cases.values()) > 20, cases
