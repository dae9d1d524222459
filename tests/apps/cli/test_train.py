"""`cua train`: a run by its command, what it prints and how it ends."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from apps.cli.main import app
from apps.train import course as course_module
from apps.train.course import SMOKE_LOSSES, Course, CourseStage, make_smoke_course
from apps.train.run import LOG, read_losses
from apps.train.screens.screen import ScreenOptions
from cua.errors import ConfigError
from model_runtime.training.loss_weights import LossWeights

PAGES = ScreenOptions(families=("page",), sizes_px=((160, 210),))
SIGHT = LossWeights(
    token=0.0, number=0.0, pointer=0.0, attention=0.0, name=0.0, name_query_attn=0.0, part_id=0.0, target=0.0
)
SHORT: Course = (CourseStage(name="see", steps=2, options=PAGES, batch=2, questions=0, is_short=True, weights=SIGHT),)


@pytest.mark.long
def test_a_smoke_run_says_what_it_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course_module, "make_smoke_course", lambda: SHORT)
    runner, folder = CliRunner(), tmp_path / "smoke"
    done = runner.invoke(app, ["train", str(folder), "--smoke", "--processes", "1"])
    assert done.exit_code == 1
    assert done.stdout.strip() == str(folder / "model")
    letter = read_losses(folder)["letter"]
    assert f"letter {letter:.3f}, expected at most {SMOKE_LOSSES['letter']}" in done.stderr
    monkeypatch.setattr(course_module, "SMOKE_LOSSES", {"letter": 10.0})
    assert runner.invoke(app, ["train", str(folder), "--smoke", "--processes", "1"]).exit_code == 0


def test_a_folder_without_a_log(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no log\.jsonl"):
        read_losses(tmp_path)


@pytest.mark.slow
def test_in_three_minutes_it_begins_to_read(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["train", str(tmp_path / "smoke"), "--smoke"])
    assert done.exit_code == 0, done.stderr
    first = json.loads((tmp_path / "smoke" / LOG).read_text().splitlines()[0])["losses"]["letter"]
    assert first > 3.2 > SMOKE_LOSSES["letter"] >= read_losses(tmp_path / "smoke")["letter"]
    assert sum(stage.steps * stage.batch for stage in make_smoke_course()) < 2_000  # screens
