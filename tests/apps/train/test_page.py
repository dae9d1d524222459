"""The page of a training run, and what is drawn on its screens."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from apps.train.course import SIGHT, CourseStage
from apps.train.lessons import LessonMaker
from apps.train.predictions import COLUMNS, RIGHT, TARGET, WRONG, mark_predictions
from apps.train.run import INITIAL_MODEL, TrainingRun, read_log, start_trainer, write_page
from apps.train.screens.screen import ScreenOptions
from model_runtime.tokenizer.tokenizer import load_tokenizer
from model_runtime.training.release import release_tensors

OPTIONS = ScreenOptions(families=("scatter",), sizes_px=((160, 210),), max_elements=4)
SEE = CourseStage(name="see", steps=1, options=OPTIONS, batch=2, questions=0, is_short=True, weights=SIGHT)
SPEAK = CourseStage(name="speak", steps=1, options=OPTIONS, batch=2, questions=2)


def has_color(image: Image.Image, color: tuple[int, int, int]) -> bool:
    return bool((np.asarray(image) == color).all(axis=2).any())


@pytest.mark.parametrize("stage", [SEE, SPEAK], ids=["letters", "clicks"])
def test_a_look_judges_what_it_draws_and_changes_nothing(tmp_path: Path, stage: CourseStage) -> None:
    trainer = start_trainer(TrainingRun(folder=tmp_path, course=(stage,)))
    before = {name: weight.clone() for name, weight in release_tensors(trainer.model).items()}
    maker = LessonMaker(load_tokenizer(tmp_path / INITIAL_MODEL))
    seen, again = (mark_predictions(trainer.losses, maker, stage, count=COLUMNS + 1) for _ in range(2))
    assert 0 <= seen.num_right <= seen.count
    assert seen.count == COLUMNS + 1 if stage is SPEAK else seen.count > COLUMNS
    assert has_color(seen.image, WRONG) or seen.num_right == seen.count
    assert has_color(seen.image, RIGHT) == (seen.num_right > 0)
    assert has_color(seen.image, TARGET) is (stage is SPEAK)
    assert np.array_equal(np.asarray(seen.image), np.asarray(again.image))
    assert trainer.model.training
    assert [name for name, weight in release_tensors(trainer.model).items() if (weight != before[name]).any()] == []


def test_the_page_has_curves_and_images_of_each_stage(tmp_path: Path) -> None:
    trainer = start_trainer(TrainingRun(folder=tmp_path, course=(SEE, SPEAK)))
    maker = LessonMaker(load_tokenizer(tmp_path / INITIAL_MODEL))
    rows = [
        {"step": 10, "stage": "see", "seconds": 60.0, "losses": {"letter": 3.0}},
        {"step": 20, "stage": "see", "seconds": 180.0, "losses": {"letter": 2.0}},
        {"step": 20, "stage": "see", "seconds": 30.0, "losses": {"letter": 1.5}},  # made again
        {"step": 30, "stage": "speak", "seconds": 90.0, "losses": {"letter": 1.0, "token": 0.5}},
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = read_log(tmp_path / "log.jsonl")
    assert [row["losses"]["letter"] for row in read] == [3.0, 1.5, 1.0]
    write_page(tmp_path, read[:2], "see", mark_predictions(trainer.losses, maker, SEE, count=2))
    write_page(tmp_path, read, "speak", mark_predictions(trainer.losses, maker, SPEAK, count=2))
    page = (tmp_path / "index.html").read_text()
    assert page.count("<svg") == 2
    assert page.index("look-speak.png") < page.index("look-see.png")
    assert "of 2 right" in page and "http" not in page
    assert all((tmp_path / f"look-{name}.png").is_file() for name in ("see", "speak"))


def test_without_a_log_there_is_nothing_to_show(tmp_path: Path) -> None:
    assert read_log(tmp_path / "log.jsonl") == []
