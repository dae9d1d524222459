from pathlib import Path

import pytest

from cua.errors import TrajectoryError
from cua.trajectory import TrajectoryWriter, forget_image, load_run, resume_steps
from cua.trajectory.run_record import INTERRUPTED
from tests.cua.trajectory import samples


def broken_off(runs_dir: Path, until: str) -> Path:
    with TrajectoryWriter.create(runs_dir, samples.HEADER) as writer:
        samples.write_step(writer, samples.make_step(1))
        samples.write_step(writer, samples.make_step(2), until=until)
    return writer.run_dir


def test_actions_that_may_have_happened_are_kept_and_not_repeated(tmp_path: Path) -> None:
    steps, note = resume_steps(load_run(broken_off(tmp_path, "acting")))
    assert steps[0] == samples.make_step(1)
    assert steps[1] == samples.make_step(2, error=INTERRUPTED, timings={}, started_at=steps[1].started_at)
    assert note == "step 2 broke off while its actions (Click) were being carried out; they are not repeated"


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        ("observed", "step 2 broke off before the model answered; it is asked again"),
        ("replied", "step 2 broke off before its actions; the model is asked again"),
        ("acted", None),
    ],
)
def test_what_surely_did_not_happen_is_asked_for_again(tmp_path: Path, until: str, expected: str | None) -> None:
    steps, note = resume_steps(load_run(broken_off(tmp_path, until)))
    assert [step.index for step in steps] == ([1, 2] if until == "acted" else [1])
    assert note == expected


@pytest.mark.parametrize("until", ["observed", "replied", "acting", "acted"])
def test_after_reopening_the_record_says_the_same_as_resume_steps(tmp_path: Path, until: str) -> None:
    run_dir = broken_off(tmp_path, until)
    steps, _ = resume_steps(load_run(run_dir))
    with TrajectoryWriter.reopen(run_dir) as writer:
        record = load_run(run_dir)
        assert record.steps == steps and record.pending is None and len(record.resumed_at) == 1
        samples.write_step(writer, samples.make_step(len(steps) + 1))
        writer.ended(samples.ENDED)
    record = load_run(run_dir, images=None)
    assert [step.index for step in record.steps] == list(range(1, len(steps) + 2))
    assert record.result == samples.ENDED


def test_reopening_drops_a_torn_line_and_an_old_end(tmp_path: Path) -> None:
    run_dir = samples.write_run(tmp_path)
    path = run_dir / "trajectory.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"event":"note","at":1,"kind":"x","te')
    with TrajectoryWriter.reopen(run_dir):
        pass
    assert path.read_bytes().startswith(whole + b'{"event":"resumed"')
    assert path.read_bytes().endswith(b"}\n")
    record = load_run(run_dir)
    assert record.result is None and len(record.steps) == 2


def test_an_ended_run_with_its_last_screen_leaves_nothing_unfinished(tmp_path: Path) -> None:
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        samples.write_step(writer, samples.make_step(1))
        writer.observed(2, samples.make_observation(2))
        writer.ended(samples.ENDED)
    assert resume_steps(load_run(writer.run_dir)) == ((samples.make_step(1),), None)


def test_a_damaged_record_is_not_reopened_and_not_changed(tmp_path: Path) -> None:
    run_dir = samples.write_run(tmp_path)
    path = run_dir / "trajectory.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"event":"replied"', b'"event":"replayed"', 1))
    before = path.read_bytes()
    with pytest.raises(TrajectoryError, match="line 3, is damaged"):
        TrajectoryWriter.reopen(run_dir)
    assert path.read_bytes() == before


def test_a_step_can_forget_its_picture() -> None:
    step = samples.make_step(1)
    blind = forget_image(step)
    assert blind == samples.make_step(1, observation=samples.make_observation(1, screenshot=b""))
    assert forget_image(blind) is blind
