import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from apps.train import run as run_module
from apps.train.course import NUMBER_WIDTH, CourseStage, LessonStream, make_course, make_further_course
from apps.train.lessons import LessonMaker
from apps.train.nano import make_config, make_model
from apps.train.run import BF16_MODEL, LOG, TrainingRun, choose_precision, start_trainer, train
from apps.train.screens.screen import ScreenOptions
from apps.train.vocabulary import make_vocabulary
from cua.errors import ConfigError
from model_runtime.checkpoint.reader import Checkpoint, check_tensors
from model_runtime.checkpoint.tiny import write_tiny
from model_runtime.config import load_config
from model_runtime.errors import CheckpointError
from model_runtime.tokenizer.tokenizer import load_tokenizer
from model_runtime.training.lessons import Lesson
from model_runtime.training.loss_weights import LossWeights
from model_runtime.training.trainer import STATE, StepReport, Trainer
from tests.model_runtime.training.two_memories import two_memories

OPTIONS = ScreenOptions(families=("scatter", "form"), sizes_px=((160, 210),), max_elements=4)
PAGES = ScreenOptions(families=("page",), sizes_px=((160, 210),))
SIGHT = LossWeights.only("letter", "word", "place")
COURSE = (
    CourseStage(name="see", steps=1, options=PAGES, batch=2, questions=0, is_short=True, weights=SIGHT),
    CourseStage(name="point", steps=1, options=OPTIONS, batch=3, questions=2, is_short=True, pages=1, image_rate=0.5),
    CourseStage(name="speak", steps=1, options=OPTIONS, batch=2, questions=2, episodes=0.5),
    CourseStage(name="round", steps=1, options=OPTIONS, batch=2, questions=2, rounds_experts=True),
)


def weights_in(folder: Path) -> dict[str, torch.Tensor]:
    return dict(torch.load(folder / STATE, weights_only=True)["model"])


@pytest.mark.long
def test_from_nothing_to_a_folder_of_the_release(tmp_path: Path) -> None:
    said: list[str] = []
    model_dir = train(TrainingRun(folder=tmp_path, course=COURSE, draws_in_other_processes=False), said.append)
    config = load_config(model_dir)
    assert config.quantization is not None
    assert load_config(tmp_path / BF16_MODEL).quantization is None
    check_tensors(Checkpoint.open(model_dir), config)
    rows = [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()]
    assert [(row["step"], row["stage"]) for row in rows] == [(4, "round")]
    assert set(rows[0]["losses"]) == {
        "token",
        "number",
        "choice",
        "copy",
        "letter",
        "word",
        "match",
        "order",
        "click_point",
        "state",
        "read_word_attn",
        "target_attn",
        "state_attn",
        "place",
        "pointer",
        "attention",
        "second_attn",
        "code",
        "name",
        "char_position_attn",
        "name_query_attn",
        "part_id",
        "target",
    }
    assert "round      4 of 4" in said[-1]


@pytest.mark.long
def test_interrupted_it_goes_on_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "SAVE_EVERY_S", 0.0)
    train(TrainingRun(folder=tmp_path / "whole", course=COURSE, draws_in_other_processes=False), lambda _: None)

    def stop(text: str) -> None:
        if not text.startswith("beginning"):
            raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "REPORT_EVERY", 3)
    with pytest.raises(KeyboardInterrupt):
        train(TrainingRun(folder=tmp_path / "cut", course=COURSE, draws_in_other_processes=False), stop)
    said: list[str] = []
    train(TrainingRun(folder=tmp_path / "cut", course=COURSE, draws_in_other_processes=False), said.append)
    assert said[0] == "resuming after step 2 of 4"
    whole, cut = weights_in(tmp_path / "whole"), weights_in(tmp_path / "cut")
    assert [name for name in whole if not torch.equal(whole[name], cut[name])] == []


@pytest.mark.long
def test_what_a_run_computes_in_is_chosen_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine of another kind it goes on as it began."""
    order = TrainingRun(folder=tmp_path, course=COURSE[:1], draws_in_other_processes=False)
    for is_faster in (True, False):
        monkeypatch.setattr(run_module, "is_bf16_faster", lambda _, answer=is_faster: answer)
        assert choose_precision(order) is is_faster
    said: list[str] = []
    train(order, said.append)
    assert said[0] == "beginning, with matrix products in fp32"
    monkeypatch.setattr(run_module, "is_bf16_faster", lambda _: True)
    assert choose_precision(order) is False
    assert choose_precision(replace(order, in_bf16=True)) is True
    said.clear()
    train(order, said.append)
    assert said == ["resuming after step 1 of 1"]


@pytest.mark.long
def test_packed_weights_are_trained_further(tmp_path: Path) -> None:
    """New heads first, while the model stays as it is; then the model."""
    first = train(TrainingRun(folder=tmp_path / "first", course=COURSE[2:], draws_in_other_processes=False))
    heads = replace(COURSE[1], name="heads", steps=2, rate=1.0, heads_only=True)
    order = TrainingRun(folder=tmp_path / "heads", course=(heads,), start=first, draws_in_other_processes=False)
    new_heads = {name: tensor.clone() for name, tensor in start_trainer(order).losses.heads.state_dict().items()}
    train(order)
    unpacked = Checkpoint.open(tmp_path / "heads" / "init")
    assert load_config(tmp_path / "heads" / "init").quantization is None
    for name, tensor in weights_in(tmp_path / "heads").items():
        assert torch.equal(tensor, unpacked.get(name).float()), name
    trained_heads = torch.load(tmp_path / "heads" / STATE, weights_only=True)["heads"]
    assert not torch.equal(trained_heads["letter.weight"], new_heads["letter.weight"])
    further = replace(order, folder=tmp_path / "further", course=(heads, replace(COURSE[3], rate=0.5)))
    train(further)
    changed = weights_in(tmp_path / "further")
    assert not all(torch.equal(tensor, unpacked.get(name).float()) for name, tensor in changed.items())


def test_only_a_nano_can_be_trained_further(tmp_path: Path) -> None:
    write_tiny(tmp_path / "other")
    for name, said in (("other", "another vocabulary"), ("none", "no tiktoken.model")):
        with pytest.raises(ConfigError, match=said):
            start_trainer(TrainingRun(folder=tmp_path / "run", course=COURSE, start=tmp_path / name))


def test_the_course_of_further_training() -> None:
    course = make_further_course(["settle", "forms"])
    assert [(stage.name, stage.heads_only) for stage in course] == [
        ("heads", True),
        ("settle", False),
        ("forms", False),
    ]
    assert all(stage.rate is not None for stage in course)
    assert TrainingRun(folder=Path(), course=course).decay_share == 0.0
    for names in ([], ["settel"]):
        with pytest.raises(ConfigError, match="there is no stage"):
            make_further_course(names)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="holds other files"):
        train(TrainingRun(folder=tmp_path, course=COURSE, draws_in_other_processes=False))
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.long
def test_another_course_does_not_go_on_from_it(tmp_path: Path) -> None:
    train(TrainingRun(folder=tmp_path, course=COURSE[:1], draws_in_other_processes=False))
    with pytest.raises(CheckpointError, match="other options"):
        train(TrainingRun(folder=tmp_path, course=(replace(COURSE[0], steps=9),), draws_in_other_processes=False))


@pytest.mark.slow
def test_there_are_no_more_processes_than_lessons(tmp_path: Path) -> None:
    stage = CourseStage(name="point", steps=1, options=OPTIONS, batch=2, questions=2, is_short=True)
    train(TrainingRun(folder=tmp_path, course=(stage,), processes=3))
    assert (tmp_path / LOG).is_file()


@pytest.mark.slow
def test_two_processes_train_and_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = CourseStage(name="point", steps=3, options=OPTIONS, batch=2, questions=2, is_short=True)
    order = TrainingRun(folder=tmp_path / "whole", course=(stage,), processes=2, draws_in_other_processes=False)
    train(order)
    monkeypatch.setattr(run_module, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(run_module, "REPORT_EVERY", 2)

    def stop(text: str) -> None:
        if not text.startswith("beginning"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(replace(order, folder=tmp_path / "cut"), stop)
    said: list[str] = []
    train(replace(order, folder=tmp_path / "cut", draws_in_other_processes=True), said.append)
    assert said[0] == "resuming after step 1 of 3"
    whole, cut = weights_in(tmp_path / "whole"), weights_in(tmp_path / "cut")
    assert [name for name in whole if not torch.equal(whole[name], cut[name])] == []


@pytest.mark.long
def test_a_whole_run_keeps_to_its_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """States that are saved and read, pages with pictures and the export included."""
    monkeypatch.setattr(run_module, "SAVE_EVERY_S", 0.0)
    order = TrainingRun(folder=tmp_path / "plain", course=COURSE, draws_in_other_processes=False)
    train(order)
    with two_memories():
        train(replace(order, folder=tmp_path / "two"))
    plain, two = weights_in(tmp_path / "plain"), weights_in(tmp_path / "two")
    assert [name for name in plain if not torch.equal(plain[name], two[name])] == []


@pytest.mark.parametrize(
    ("device", "said"),
    [("tpu", "not a device to train on; expected cpu, cuda or cuda:N"), ("cuda:99", r"finds \d+ GPUs here")],
)
def test_a_device_that_is_not_here(tmp_path: Path, device: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        train(TrainingRun(folder=tmp_path, course=COURSE, device=device))
    assert not any(tmp_path.iterdir())


def test_another_size_needs_another_folder(tmp_path: Path) -> None:
    start_trainer(TrainingRun(folder=tmp_path, course=COURSE))
    with pytest.raises(ConfigError, match="holds a model of another size than large"):
        start_trainer(TrainingRun(folder=tmp_path, course=COURSE, size="large"))


def test_the_course_has_its_stages_in_order() -> None:
    course = make_course()
    names = ["begin", "look", "see", "small", "spell", "parts", "find", "read", "settle", "forms"]
    assert [stage.name for stage in course] == names
    assert [stage.rounds_experts for stage in course] == [False] * 8 + [True] * 2
    assert [stage.rate is None for stage in course] == [True] * 9 + [False]
    assert all(stage.steps == 1 for stage in make_course(0.0))
    assert not any(stage.options.held_out_theme for stage in course)
    order = TrainingRun(folder=Path(), course=course)
    assert order.stage_at(0) is course[0]
    assert order.stage_at(course[0].steps) is course[1]
    assert order.stage_at(order.num_steps - 1) is course[9]


def test_the_large_model_sees_large_screens_too() -> None:
    plain, large = make_course(), make_course(has_large_screens=True)
    read, plain_read = large[7].options.sizes_px, plain[7].options.sizes_px
    assert set(read) - set(plain_read) == {(800, 600), (1024, 768), (1280, 720)}
    assert sum(width * height >= 480_000 for width, height in read) / len(read) == pytest.approx(1 / 8, abs=0.03)
    assert [stage.steps for stage in large] == [stage.steps for stage in plain]


def test_the_tower_s_rate_falls_while_it_learns_alone_and_the_others_behind_it(tmp_path: Path) -> None:
    see = CourseStage(name="see", steps=4, options=PAGES, weights=SIGHT, image_rate=1.0, final_image_rate=0.2)
    speak = CourseStage(name="speak", steps=6, options=OPTIONS, image_rate=0.5)
    order = TrainingRun(folder=tmp_path, course=(see, speak))
    assert [round(order.image_rate_at(step), 3) for step in (0, 2, 3, 4, 9)] == [1.0, 0.6, 0.4, 0.5, 0.5]
    assert order.decay_share == 0.6
    assert [order.stage_at(step).name for step in (3, 4)] == ["see", "speak"]


def test_a_stage_with_a_rate_of_its_own_changes_nothing_before_it(tmp_path: Path) -> None:
    """The schedule of the others ends where it would without that stage, whose rate falls in a line."""
    see = CourseStage(name="see", steps=4, options=PAGES, weights=SIGHT)
    speak = CourseStage(name="speak", steps=6, options=OPTIONS)
    plain = TrainingRun(folder=tmp_path / "plain", course=(see, speak))
    more = TrainingRun(folder=tmp_path / "more", course=(see, speak, replace(speak, name="forms", steps=4, rate=0.2)))
    assert (plain.num_steps, more.num_steps) == (10, 14)
    assert [more.rate_at(step) for step in range(9, 14)] == [None, *(pytest.approx(0.2 * n / 4) for n in (4, 3, 2, 1))]
    assert start_trainer(more).options == start_trainer(plain).options
    with pytest.raises(ValueError, match="stage speak has no rate of its own"):
        TrainingRun(folder=tmp_path, course=(replace(see, rate=0.2), speak))


@pytest.mark.long
def test_some_steps_leave_the_system_prompt_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other one here, as `prefix_every` says; a stage of short requests has none at all.

    And each stage says how near a coordinate has to be.
    """
    with_prefix: list[bool] = []
    widths: list[float] = []
    step = Trainer.step

    def watch(self: Trainer, lessons: Sequence[Lesson], *, has_prefix: bool, **settings: Any) -> StepReport:
        with_prefix.append(has_prefix)
        widths.append(self.losses.numbers.width)
        return step(self, lessons, has_prefix=has_prefix, **settings)

    monkeypatch.setattr(Trainer, "step", watch)
    short = replace(COURSE[0], steps=2, is_short=True)
    whole = replace(short, steps=3, is_short=False, prefix_every=2)
    course = (short, whole, replace(short, is_short=False, prefix_every=0, number_width=5.0))
    train(TrainingRun(folder=tmp_path, course=course, draws_in_other_processes=False))
    assert with_prefix == [False, False, True, False, True, False, False]
    assert widths == [NUMBER_WIDTH] * 5 + [5.0] * 2


def test_some_steps_alone_train_the_tower_and_have_pages(tmp_path: Path) -> None:
    stage = replace(COURSE[1], steps=6, pages=2, vision_every=3, is_short=False, prefix_every=3)
    order = TrainingRun(folder=tmp_path, course=(stage,))
    assert [order.image_rate_at(step) for step in range(6)] == [0.0, 0.5, 0.0, 0.0, 0.5, 0.0]
    assert [stage.has_prefix(step) for step in range(6)] == [True, False, False, True, False, False]
    make_model(tmp_path, make_config(make_vocabulary()), seed=0)
    stream = LessonStream(LessonMaker(load_tokenizer(tmp_path)), 5)
    batches = [stream.draw(stage, step) for step in range(3)]
    assert [[len(lesson.example.branches) for lesson in batch] for batch in batches] == [[2], [0, 0, 2], [2]]
    assert replace(stage, vision_every=1).trains_vision(0) and not replace(stage, image_rate=0.0).trains_vision(1)
    assert (stage.smallest_batch, replace(stage, vision_every=1).smallest_batch) == (1, 3)
