"""Lessons drawn in another process are those of the stream, in its order, also from the middle on."""

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from apps.train.course import CourseStage, LessonStream
from apps.train.lessons import LessonMaker
from apps.train.loader import LessonLoader
from apps.train.nano import make_config, make_model
from apps.train.screens.screen import ScreenOptions
from apps.train.vocabulary import make_vocabulary
from model_runtime.tokenizer.tokenizer import load_tokenizer
from model_runtime.training.lessons import Lesson

OPTIONS = ScreenOptions(families=("scatter", "form"), sizes_px=((160, 210),), max_elements=4)
FIRST = CourseStage(name="point", steps=1, options=OPTIONS, batch=2, questions=2, is_short=True)
SECOND = CourseStage(name="speak", steps=9, options=OPTIONS, batch=2, questions=2, episodes=0.5)


def as_bytes(batches: Sequence[list[Lesson]]) -> list[bytes]:
    return [pickle.dumps([(lesson.example, lesson.numbers, lesson.words) for lesson in batch]) for batch in batches]


@pytest.mark.long
def test_the_same_lessons_in_their_order_by_one_process_or_two(tmp_path: Path) -> None:
    make_model(tmp_path, make_config(make_vocabulary()), seed=0)

    def stage_at(step: int) -> CourseStage:
        return FIRST if step < 1 else SECOND

    stream = LessonStream(LessonMaker(load_tokenizer(tmp_path)), 5)
    expected = [stream.draw(stage_at(step), step) for step in range(4)]
    with LessonLoader(tmp_path, 5, stage_at=stage_at) as loader:
        found = [loader.draw(), loader.draw()]
    with LessonLoader(tmp_path, 5, stage_at=stage_at, first_step=2, processes=2) as loader:
        found += [loader.draw(), loader.draw()]
    assert [len(batch) for batch in found] == [2] * 4
    assert as_bytes(found) == as_bytes(expected)


def test_parts_of_a_batch_are_the_batch(tmp_path: Path) -> None:
    make_model(tmp_path, make_config(make_vocabulary()), seed=0)
    stream = LessonStream(LessonMaker(load_tokenizer(tmp_path)), 5)
    whole = stream.draw(FIRST, 3)
    parts = [stream.draw(FIRST, 3, slice(rank, None, 2)) for rank in range(2)]
    assert as_bytes([whole]) == as_bytes([[parts[0][0], parts[1][0]]])
    assert as_bytes([whole]) != as_bytes([stream.draw(FIRST, 4)])


@pytest.mark.slow
def test_killed_it_leaves_no_process_behind(tmp_path: Path) -> None:
    make_model(tmp_path, make_config(make_vocabulary()), seed=0)
    code = f"""
from pathlib import Path
from apps.train.loader import LessonLoader
from tests.apps.train.test_loader import FIRST
if __name__ == "__main__":
    loader = LessonLoader(Path({str(tmp_path)!r}), 5, stage_at=lambda step: FIRST)
    loader.draw()
    print("ready", flush=True)
    import time; time.sleep(600)
"""
    script = tmp_path / "script.py"
    script.write_text(code)
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(root)}, text=True
    ) as trains:
        assert trains.stdout is not None
        assert trains.stdout.readline() == "ready\n"
        drawing = psutil.Process(trains.pid).children(recursive=True)
        assert drawing
        trains.kill()
    assert psutil.wait_procs(drawing, timeout=20)[1] == []
