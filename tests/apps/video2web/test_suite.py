"""The suite of sites to build: its tasks, its players, and that what has no skill wins nothing."""

from pathlib import Path

import pytest

from apps.video2web.rounds import BuildFolder
from apps.video2web.score import PARTS
from apps.video2web.suite import DRAWN_SEEDS, RECORDINGS, SitePlayer, known_pages, make_suite
from cua.batch import Episode
from cua.errors import ConfigError
from cua.run.budget import Caps
from cua.run.end import RunResult
from cua.run.scope import RunScope
from envs import Suite
from envs.suite import FAMILY


async def _play(suite: Suite, task_id: str, model: str, folder: Path, max_steps: int = 1) -> RunResult:
    def nothing() -> object:
        raise AssertionError("sites need no env, and authors make their models")

    episode = Episode(
        task_id=task_id,
        make_task=lambda: suite.make_task(task_id, None),
        make_env=nothing,  # type: ignore[arg-type]
        make_model=nothing,  # type: ignore[arg-type]
    )
    player = SitePlayer(folder, model=model, max_steps=max_steps, max_time=300)
    return await player(episode, RunScope(caps=Caps(max_steps=None)))


def _packages(folder: Path) -> None:
    page = folder / "startbootstrap-resume@7.0.6" / "dist" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(
        "<!doctype html><body style='margin:0;font:20px sans-serif;background:#134;color:#fed'><h1>Ada Berg</h1>"
        "<p style='background:#a52;padding:20px'>Builds bridges.</p>"
    )


def test_tasks_have_names_and_families(tmp_path: Path) -> None:
    _packages(tmp_path)
    suite = make_suite(packages=str(tmp_path))
    assert sum(name.startswith("drawn/") for name in suite.task_ids) == 11 * len(DRAWN_SEEDS) >= 40
    assert "packages/resume" in suite.task_ids
    assert {f"recordings/{name}" for name in RECORDINGS} <= set(suite.task_ids)
    for task_id in suite.task_ids:
        spec = suite.make_task(task_id, None).spec
        assert (spec.id, spec.metadata[FAMILY]) == (task_id, task_id.partition("/")[0])
    assert suite.agents == ("web",)
    assert "npm:startbootstrap-landing-page@6.0.6" in suite.left_out
    assert {page.licence for page in known_pages()} <= {"MIT", "BSD-3-Clause"}


def test_values_that_are_not_taken_are_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="recordings is 'maybe', expected yes or no"):
        make_suite(recordings="maybe")
    with pytest.raises(ValueError, match="is not a folder; create it with"):
        make_suite(packages=str(tmp_path / "none"))
    suite = make_suite(recordings="no")
    for name in ("drawn/landing-x", "drawn/none-100", "packages/none", "recordings/none", "landing", "../../etc"):
        with pytest.raises(ValueError, match="has no task"):
            suite.make_task(name, None)
    with pytest.raises(ConfigError, match="no baseline 'imagine' for sites; expected one of null, image, text"):
        SitePlayer(tmp_path, model="baseline:imagine")


@pytest.mark.long
async def test_what_has_no_skill_wins_nothing(tmp_path: Path) -> None:
    _packages(tmp_path / "packages")
    suite = make_suite(packages=str(tmp_path / "packages"))
    scores = {}
    for model in ("baseline:image", "literal"):
        result = await _play(suite, "packages/resume", model, tmp_path / "runs", max_steps=0)
        assert result.end.score is not None and result.run_dir is not None
        scores[model] = result.end.score
        assert (Path(result.run_dir) / "report.html").is_file()
        assert set(result.end.other_scores) == set(PARTS)
        assert result.num_steps == 0
    assert scores["baseline:image"] < 0.25
    assert scores["literal"] > 0.95


@pytest.mark.slow
async def test_baselines_stand_in_order(tmp_path: Path) -> None:
    suite, scores = make_suite(), []
    for model in ("baseline:null", "baseline:image", "baseline:text", "literal"):
        result = await _play(suite, "drawn/phone-100", model, tmp_path, max_steps=0)
        scores.append(result.end.score or 0.0)
    assert scores == sorted(scores)


@pytest.mark.slow
async def test_a_drawn_page_is_copied_in_rounds(tmp_path: Path) -> None:
    result = await _play(make_suite(), "drawn/phone-100", "literal", tmp_path)
    assert (result.end.score or 0) > 0.95
    assert result.run_dir is not None
    assert len(BuildFolder(Path(result.run_dir)).rounds()) == result.num_steps + 1 == 2


@pytest.mark.slow
async def test_a_recording_is_copied_with_what_it_does(tmp_path: Path) -> None:
    result = await _play(make_suite(), "recordings/dialog", "literal", tmp_path)
    assert (result.end.score or 0) > 0.6
    assert result.end.other_scores["interactions"] > 0.4
