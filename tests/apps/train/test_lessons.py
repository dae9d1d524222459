import random
from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
import torch

from apps.train.episodes import make_episode
from apps.train.labels import LETTERS, STATEFUL, Coordinates, find_token, label_images, label_name, letter_class
from apps.train.lessons import LessonMaker, make_image
from apps.train.nano import make_config, make_model
from apps.train.screens.screen import TRAINED_FAMILIES, ScreenOptions, make_screen
from apps.train.screens.widgets import fill_field, mark_chosen, tick
from apps.train.skills import ScreenQuestion, ask_for, draw_questions, draw_requests
from apps.train.vocabulary import make_vocabulary
from cua.gui_agent.interpreter.run import run
from cua.gui_agent.protocol.parse import parse
from cua.messages import Reply
from envs import Action, Click, ScreenGeometry, Terminate, TypeText
from model_runtime.processor.processor import Processor
from model_runtime.tokenizer import Tokenizer
from model_runtime.training.batch import make_batch
from model_runtime.training.lessons import IGNORED, make_targets

OPTIONS = ScreenOptions(families=TRAINED_FAMILIES, sizes_px=((280, 224), (400, 300)))


def test_words_of_the_protocol_are_one_token_each_and_names_are_letters(tokenizer: Tokenizer) -> None:
    def cut(text: str) -> list[str]:
        return [tokenizer.token_bytes(token).decode() for token in tokenizer.encode(text)]

    assert cut("Please generate the screenshot") == ["Please", " generate", " the", " screenshot"]
    assert cut("pyautogui.click(x=0.042, y=0.999)") == [
        *("pyautogui", ".click", "(x", "=", "0", ".", "042"),
        *(",", " y", "=", "0", ".", "999", ")"),
    ]
    assert cut('"hjkw"') == ['"', "h", "j", "k", "w", '"']
    assert cut('"stand"') == ['"', *"stand", '"']  # begins and ends as words of the protocol do


def test_every_coordinate_is_one_token(tokenizer: Tokenizer) -> None:
    ids = LessonMaker(tokenizer).number_ids()
    assert len(set(ids.tolist())) == 1000
    assert tokenizer.decode(ids[[0, 42, 999]].tolist()) == "000042999"


def test_answers_are_what_the_agent_reads(tokenizer: Tokenizer) -> None:
    """Through the agent's own parser and interpreter: the click lies in the element that was asked for."""
    maker, rng, kinds = LessonMaker(tokenizer), random.Random(0), set()
    for _ in range(60):
        screen = make_screen(rng, OPTIONS)
        height, width = screen.pixels.shape[:2]
        questions = draw_questions(rng, screen, 4)
        lesson = maker.make(rng, screen, questions)
        for question, branch, first in zip(questions, lesson.example.branches, lesson.first_predicted, strict=True):
            assert tokenizer.special.text_of(branch[first - 1]) == "<think>"
            assert tokenizer.special.text_of(branch[-1]) == "<|im_end|>"
            thought, _, content = decode(tokenizer, branch[first:-1]).partition("</think>")
            turn = parse(Reply(content=content, reasoning=thought))
            assert (turn.thought, turn.action_text) == (question.thought, question.action)
            kinds.add(question.kind)
            actions = run(turn.code, ScreenGeometry(native_px=(width, height), sent_px=(width, height)))
            check_actions(question, actions)
    assert {"button", "link", "field", "type", "absent", "done", "item", "icon"} <= kinds


def check_actions(question: ScreenQuestion, actions: list[Action]) -> None:
    if question.target is None:
        wanted = "success" if question.kind == "done" else "failure"
        assert [action.status for action in actions if isinstance(action, Terminate)] == [wanted]
        return
    click = actions[0]
    assert isinstance(click, Click)
    left, top, right, bottom = question.target.box
    assert left <= click.x_px < right
    assert top <= click.y_px < bottom
    if question.kind == "type":
        typed = actions[1]
        assert isinstance(typed, TypeText)
        assert f'"{typed.text}"' in question.instruction
    else:
        assert len(actions) == 1


def decode(tokenizer: Tokenizer, tokens: tuple[int, ...]) -> str:
    """With control tokens as their texts."""
    special, parts, plain = tokenizer.special, [], []
    for token in (*tokens, None):
        if token is None or special.is_special(token):
            parts += [tokenizer.decode(plain), special.text_of(token) if token is not None else ""]
            plain = []
        else:
            plain.append(token)
    return "".join(parts)


def test_numbers_point_at_the_element(tokenizer: Tokenizer) -> None:
    maker, rng = LessonMaker(tokenizer), random.Random(1)
    for _ in range(20):
        screen = make_screen(rng, OPTIONS)
        questions = draw_questions(rng, screen, 4)
        lesson = maker.make(rng, screen, questions)
        trunk = lesson.example.trunk
        first, width = trunk.index(tokenizer.special.media_pad), -(-screen.pixels.shape[1] // 28)
        for question, branch, numbers in zip(questions, lesson.example.branches, lesson.numbers, strict=True):
            if question.target is None:
                assert numbers == ()
                continue
            x, y = question.target.click_point
            assert [number.value for number in numbers] == [
                pytest.approx(1000 * x / screen.pixels.shape[1]),
                pytest.approx(1000 * y / screen.pixels.shape[0]),
            ]
            for number in numbers:
                assert tokenizer.decode([branch[number.token_index]]) == f"{int(number.value):03}"
                assert number.look_at is not None
                row, column = divmod(number.look_at - first, width)
                assert question.subject is not None
                x, y = question.subject.read_at  # where its name is: a field is clicked elsewhere
                assert (column, row) == (int(x // 28), int(y // 28))


@pytest.mark.parametrize("is_short", [False, True])
def test_choices_are_where_answers_part(tokenizer: Tokenizer, is_short: bool) -> None:
    """By what is there, what is not, what is done, what was never heard of, and whether something is typed; and what is
    done follows from what was thought."""
    maker, rng, found = LessonMaker(tokenizer), random.Random(4), {}
    for _ in range(80):
        screen = make_screen(rng, OPTIONS)
        questions = draw_questions(rng, screen, 4, is_varied=True)
        lesson = maker.make(rng, screen, questions, is_short=is_short)
        for question, branch, places in zip(questions, lesson.example.branches, lesson.choices, strict=True):
            kind = question.kind if question.target is None or question.typed else "click"
            found[kind] = [tokenizer.decode([branch[place]]) for place in places]
    if is_short:
        assert found == {
            "click": ["pyautogui"],
            "type": ["pyautogui"],
            "done": ["computer", "success"],
            "absent": ["computer", "failure"],
            "strange": ["computer", "failure"],
        }
    else:
        assert found == {
            "click": ["It", " there", "Click", ".\n"],
            "type": ["It", " there", "Click", " and"],
            "absent": ["It", " not", "Give"],
            "strange": ["That", "Give"],
            "done": ["It", " done", "Finish"],
        }


def test_choices_look_at_what_they_depend_on(tokenizer: Tokenizer) -> None:
    """At the element, ticked ones too; at the end of the image where nothing is to be looked at."""
    maker, rng, kinds = LessonMaker(tokenizer), random.Random(5), set()
    for _ in range(60):
        screen = make_screen(rng, OPTIONS)
        questions = draw_questions(rng, screen, 4, is_varied=True)
        lesson = maker.make(rng, screen, questions)
        trunk = lesson.example.trunk
        first, width = trunk.index(tokenizer.special.media_pad), -(-screen.pixels.shape[1] // 28)
        for question, places, looks in zip(questions, lesson.choices, lesson.attention_targets, strict=True):
            here = [look for look in looks if look.head == 2]
            assert [look.token_index for look in here] == [place for place in places if place <= here[-1].token_index]
            (at,) = {look.target_index for look in here}
            if question.kind in ("absent", "strange"):
                assert tokenizer.special.text_of(trunk[at]) == "<|media_end|>"
            else:
                assert question.subject is not None
                x, y = question.subject.read_at
                assert divmod(at - first, width) == (int(y // 28), int(x // 28))
            kinds.add(question.kind)
    assert {"absent", "strange", "done", "type", "button"} <= kinds


@pytest.mark.long
def test_what_is_typed_is_copied_token_by_token(tokenizer: Tokenizer) -> None:
    """With the quotation mark behind it, from the request that the last message holds."""
    maker, rng, num_typed = LessonMaker(tokenizer), random.Random(6), 0
    for _ in range(60):
        episode = make_episode(rng, OPTIONS, is_varied=True)
        for length in range(1, len(episode) + 1):
            lesson = maker.make_steps(rng, [episode[:length]])
            (branch,), (copies,), (looks,) = lesson.example.branches, lesson.copies, lesson.attention_targets
            typed = episode[length - 1].question.typed
            assert tokenizer.decode([branch[place] for place in copies]) == (f'{typed}")' if typed else "")
            whole = (*lesson.example.trunk, *branch)
            pairs = [(branch[look.token_index], whole[look.target_index]) for look in looks if look.head == 3]
            assert len(pairs) == len(copies)
            assert all(said == shown for said, shown in pairs[:-1])
            assert not pairs or tokenizer.decode([pairs[-1][1]]).startswith('"')
            num_typed += bool(typed)
    assert num_typed > 5


def test_names_are_read_where_the_request_has_said_them(tokenizer: Tokenizer) -> None:
    maker, rng, num_read = LessonMaker(tokenizer), random.Random(7), 0
    for _ in range(40):
        screen = make_screen(rng, OPTIONS)
        questions = draw_questions(rng, screen, 4, is_varied=True)
        lesson = maker.make(rng, screen, questions, is_short=True)
        for question, branch, names in zip(questions, lesson.example.branches, lesson.name_words, strict=True):
            assert bool(names) == (question.subject is not None and question.is_named)
            for name in names:
                said = tokenizer.decode(branch[: name.token_index + 1])
                assert label_name(said[-len(name.letters) :]) == name.letters
                num_read += 1
            if names:
                assert question.subject is not None
                assert names[-1].letters == label_name(question.subject.name)
    assert num_read > 80


@pytest.mark.parametrize("is_short", [False, True])
def test_requests_are_read_without_an_image(tokenizer: Tokenizer, is_short: bool) -> None:
    """Names where they end and where they are looked for; what is typed is copied; no coordinate is asked for."""
    maker, rng = LessonMaker(tokenizer), random.Random(8)
    questions = draw_requests(rng, 40)
    lesson = maker.make_requests([(question,) for question in questions], is_short=is_short)
    assert tokenizer.special.media_pad not in lesson.example.trunk
    assert not any(lesson.numbers) and not any(lesson.choices)
    kinds = set()
    for question, branch, start, words, copies in zip(
        questions, lesson.example.branches, lesson.first_predicted, lesson.query_words, lesson.copies, strict=True
    ):
        said, kind = tokenizer.decode(branch[start:]), "type" if question.typed else "click"
        if is_short:
            assert said == (f'pyautogui.write("{question.typed}")' if question.typed else "pyautogui.click(x=")
            assert words[0].token_index == start - 1
        else:
            typed = f')\npyautogui.write("{question.typed}")\n```<|im_end|>'
            assert said == (
                typed if question.typed else "## Action:\nClick it.\n## Code:\n```python\npyautogui.click(x=0."
            )
            before = tokenizer.decode(branch[: words[0].token_index + 1])
            assert question.instruction in before and "It is there" not in before
        assert [word.token_index for word in words[1:]] == ([] if question.typed else [len(branch) - 1])
        assert bool(copies) is bool(question.typed)
        kinds.add(kind)
    assert kinds == {"type", "click"}
    assert all(names for names in lesson.name_words)
    lessons = [lesson, maker.make_reading(rng, make_screen(rng, OPTIONS))]
    batch = make_batch([one.example for one in lessons], tokenizer.special.media_pad)
    targets = make_targets(lessons, batch)
    assert len(targets.name_rows) > 80 and len(targets.query_word_rows) > 40 and not len(targets.number_rows)


def test_the_image_is_padded_as_the_processor_does(folder: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    from PIL import Image

    rng = random.Random(2)
    processor = Processor.load(folder)
    for size in ((280, 224), (160, 210), (1280, 720)):
        screen = make_screen(rng, ScreenOptions(families=TRAINED_FAMILIES, sizes_px=(size,)))
        lesson = LessonMaker(tokenizer).make(rng, screen, draw_questions(rng, screen, 1))
        path = tmp_path / "screen.png"
        Image.fromarray(screen.pixels).save(path)
        assert (processor.image(path.read_bytes()).frames == lesson.example.images[0].frames).all()


def test_lessons_become_targets(tokenizer: Tokenizer) -> None:
    maker, rng = LessonMaker(tokenizer), random.Random(3)
    lessons = []
    for _ in range(6):
        screen = make_screen(rng, OPTIONS)
        lessons.append(maker.make(rng, screen, draw_questions(rng, screen, 3)))
    batch = make_batch([lesson.example for lesson in lessons], tokenizer.special.media_pad, maker.prefix)
    targets = make_targets(lessons, batch)
    assert (batch.token_ids[targets.number_rows + 1] == maker.number_ids()[targets.numbers.long()]).all()
    assert (batch.token_ids[targets.word_rows] == tokenizer.special.media_pad).all()
    asked = targets.letters.classes[targets.letters.classes != IGNORED]
    assert (targets.letters.orders != IGNORED).sum() == (asked > 0).sum()
    assert 0.3 < (asked > 0).float().mean() < 0.95
    shown = {image.frames.shape[2]: share for image, share in zip(batch.images, targets.shown.tolist(), strict=True)}
    assert shown == {280: [1.0, 1.0], 420: pytest.approx([400 / 420, 300 / 308])}
    assert targets.tokens.tolist() == batch.token_ids[targets.rows + 1].tolist()


def test_letters_of_names_are_brought_to_their_middles(tokenizer: Tokenizer) -> None:
    """Each letter of a name that is read, by its head and to its side; the patches of several images are told apart."""
    maker, rng, num_right, count = LessonMaker(tokenizer), random.Random(9), 0, 0
    for _ in range(20):
        episode = make_episode(rng, OPTIONS, is_varied=True)
        lesson = maker.make_steps(rng, [episode])
        words = {word.token_index: list(word.letters) for word in lesson.words}
        assert lesson.letters is not None
        ends = list(accumulate(image.num_patches for image in lesson.example.images))
        firsts = [place for place, token in enumerate(lesson.example.trunk) if token == tokenizer.special.media_pad]
        for look in lesson.letter_targets:
            number = bisect_right(ends, look.patch_index)
            assert number == bisect_right(ends, look.target_index)
            image, start = lesson.example.images[number], ends[number - 1] if number else 0
            columns = image.grid[2]
            row, column = divmod(look.patch_index - start, columns)
            tokens_before = sum(each.num_tokens for each in lesson.example.images[:number])
            token = firsts[tokens_before + row // 2 * (columns // 2) + column // 2]
            letter = words[token][look.head + 4 * (1 - column % 2)]
            num_right, count = num_right + (letter in lesson.letters.classes[look.target_index].tolist()), count + 1
    assert count > 300 and num_right > 0.95 * count  # of two letters in half a patch, one is its label


def test_labels_of_fields_are_told_where_the_click_goes_and_what_is_on() -> None:
    """From the other row of the token that reads the name to the patch of the click; as many others beside them."""
    rng, num_away, num_at_home, states = random.Random(3), 0, 0, Counter[bool]()
    options = ScreenOptions(families=("form", "list"), sizes_px=((400, 300),))
    for _ in range(60):
        screen = make_screen(rng, options)
        image = make_image(screen)
        labels = label_images(rng, [screen], [image], [7])
        columns = image.grid[2]
        read = {find_token(target.read_at, image.frames.shape[2]): target for target in screen.targets}
        width, words = image.frames.shape[2], {word.token_index - 7: word for word in labels["words"]}
        for token, word in words.items():
            assert word.click_point == (read[token].click_point[0] / 400, read[token].click_point[1] / 300)
            assert word.is_away == (token != find_token(read[token].click_point, width))
        reached = set()
        for reach in labels["click_targets"]:
            row, column = divmod(reach.patch_index, columns)
            token = row // 2 * (columns // 2) + column // 2
            target = read[token]
            assert row == int(target.read_at[1] // 14) ^ 1 and reach.head == 0
            assert reach.target_index == int(target.click_point[1] // 14) * columns + int(target.click_point[0] // 14)
            reached.add(token)
            num_away, num_at_home = num_away + words[token].is_away, num_at_home + (not words[token].is_away)
        assert reached >= {token for token, word in words.items() if word.is_away}
        for word in labels["words"]:
            if word.is_on is not None:
                target = read[word.token_index - 7]
                assert word.is_on == (bool(target.value) if target.kind == "field" else target.is_on)
                states[word.is_on] += 1
    assert num_away > 30 and num_away < num_at_home <= num_away + 60
    assert states[True] > 30 and 0.5 * states[True] < states[False] <= states[True]


def test_icons_and_fields_without_a_label_are_words_too(tokenizer: Tokenizer) -> None:
    """An icon's name is read from its shape and sought; the field has no letters, and says where it is clicked."""
    maker, rng, icons, num_bare = LessonMaker(tokenizer), random.Random(4), set(), 0
    options = replace(OPTIONS, families=("toolbar", "dialog", "prompt"))
    for _ in range(60):
        screen = make_screen(rng, options)
        chosen = [target for target in screen.targets if target.kind == "icon" or not target.name][:1]
        if not chosen:
            continue
        question = ask_for(rng, chosen[0])
        lesson = maker.make(rng, screen, [question])
        first = lesson.example.trunk.index(tokenizer.special.media_pad)
        place = first + find_token(chosen[0].read_at, screen.pixels.shape[1])
        (word,) = [word for word in lesson.words if word.token_index == place] or [None]
        if word is None:  # another name stands on the same token
            continue
        assert word.letters == label_name(chosen[0].name) and word.click_point is not None and not word.is_away
        assert question.is_named is bool(chosen[0].name)
        assert all(sought.letters == word.letters for sought in lesson.query_words[0])
        assert len(lesson.query_words[0]) == (4 if chosen[0].name else 0)
        icons, num_bare = icons | {chosen[0].name}, num_bare + (not chosen[0].name)
    assert len(icons) > 6 and num_bare > 2


def test_classes_of_letters() -> None:
    assert letter_class("a") == letter_class("A") == 1
    assert letter_class("9") == len(LETTERS)
    assert letter_class("ß") == letter_class("-") == len(LETTERS) + 1


def test_coordinates_stay_inside() -> None:
    assert Coordinates(0.0, 1000.0).texts() == ("0.000", "0.999")
    assert Coordinates(42.9, 999.99).texts() == ("0.042", "0.999")


def test_the_model_is_small_and_complete(folder: Path) -> None:
    model = make_model(folder, make_config(make_vocabulary()), seed=0)
    assert sum(weight.numel() for weight in model.parameters()) < 4_000_000
    assert torch.equal(model.embedding.weight, make_model(folder, model.config, seed=0).embedding.weight)


def test_tokens_are_said_by_the_rows_they_are_read_by_when_training_begins(folder: Path, tokenizer: Tokenizer) -> None:
    """And coordinates that are near each other have rows that are alike, but not the same."""
    model = make_model(folder, make_config(make_vocabulary()), seed=0)
    embedding, head = model.embedding.weight.detach(), model.head.weight.detach()
    assert torch.allclose(head / head.norm(), embedding / embedding.norm(), atol=1e-6)
    rows = torch.nn.functional.normalize(embedding[LessonMaker(tokenizer).number_ids()], dim=1)
    likeness = rows @ rows.T
    assert 0.3 < likeness.diagonal(1).mean() < 0.7
    assert abs(likeness.diagonal(500).mean()) < 0.15


def test_questions_of_training_are_sometimes_asked_without_marks_or_names(tokenizer: Tokenizer) -> None:
    """A name is left out only where its kind is enough, and is not asked for then."""
    maker, rng = LessonMaker(tokenizer), random.Random(5)
    options = replace(OPTIONS, families=("form", "scatter"), max_elements=3)
    told = {"quoted": 0, "plain": 0, "unnamed": 0}
    for _ in range(60):
        screen = make_screen(rng, options)
        questions = draw_questions(rng, screen, 3, is_varied=True)
        sought = maker.make(rng, screen, questions, is_short=True).query_words
        for question, words in zip(questions, sought, strict=True):
            target = question.target
            if target is None:
                continue
            assert len(words) == (3 if question.is_named else 0)  # before the choice and both coordinates
            if question.is_named:
                told["quoted" if f'"{target.name}"' in question.instruction else "plain"] += 1
                assert target.name in question.instruction
            else:
                told["unnamed"] += 1
                assert [one.kind for one in screen.targets].count(target.kind) == 1
    assert min(told.values()) > 3, told
    assert all(question.is_named for question in draw_questions(rng, screen, 50))


@pytest.mark.long
def test_a_token_is_told_where_it_shows_that_what_it_names_is_on() -> None:
    """What ticking, choosing or filling draws lies in the patch that its name's token is to look at."""
    rng, seen = random.Random(5), Counter[str]()
    options = ScreenOptions(families=("form", "list", "toolbar"), sizes_px=((400, 300),), text_px=(12, 22))
    for _ in range(60):
        screen = make_screen(rng, options)
        image = make_image(screen)
        columns = image.grid[2]
        marks = {look.patch_index: look for look in label_images(rng, [screen], [image], [0])["state_targets"]}
        for target in screen.targets:
            if target.kind not in STATEFUL or target.is_on or target.value:
                continue
            pen = replace(screen.pen, canvas=screen.pen.canvas.copy())
            if target.kind == "field":
                fill_field(pen, target, "done")
            elif target.kind in ("checkbox", "radio"):
                tick(pen, target)
            else:
                mark_chosen(pen, target)
            x, y = target.read_at
            look = marks.get((int(y // 14) ^ 1) * columns + 2 * int(x // 28))
            changed = {
                (row // 14, column // 14) for row, column in np.argwhere((pen.canvas.pixels != screen.pixels).any(2))
            }
            if look is not None and changed:
                assert look.head == 1
                assert divmod(look.target_index, columns) in changed, (target, changed)
                seen[target.kind] += 1
    assert set(seen) == set(STATEFUL) and min(seen.values()) > 10
