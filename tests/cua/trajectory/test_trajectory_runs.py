import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cua.errors import TrajectoryError
from cua.trajectory import TrajectoryWriter
from cua.trajectory.record_file import reserve_run
from cua.trajectory.run_files import make_run_dir
from cua.trajectory.runs import RunSummary, find_run, list_runs
from tests.cua.trajectory import samples


def run_at(runs_dir: Path, hour: int, instruction: str = "Add two items") -> Path:
    started_at = samples.HEADER.started_at + 3600 * hour
    return samples.write_run(runs_dir, header=replace(samples.HEADER, started_at=started_at, instruction=instruction))


def test_runs_newest_first_with_how_they_ended(tmp_path: Path) -> None:
    ended = run_at(tmp_path, 0)
    broken_off = samples.write_run(tmp_path, 1, header=replace(samples.HEADER, started_at=1_700_010_000), result=None)
    running = TrajectoryWriter.create(tmp_path, replace(samples.HEADER, started_at=1_700_020_000))
    damaged = run_at(tmp_path, 9)
    (damaged / "trajectory.jsonl").write_bytes(b"{\n")
    (tmp_path / "not a run").mkdir()
    (tmp_path / "a file").write_text("")
    runs = list_runs(tmp_path)
    assert [(run.id, run.status, run.num_steps) for run in runs] == [
        (damaged.name, "damaged", 0),
        (running.run_dir.name, "running", 0),
        (broken_off.name, "interrupted", 1),
        (ended.name, "succeeded", 2),
    ]
    running.close()
    assert runs[-1] == RunSummary(
        run_dir=ended,
        started_at=samples.HEADER.started_at,
        instruction="Add two items",
        model="literal",
        env="browser",
        mode="thinking",
        status="succeeded",
        reason="the task's own check passed",
        num_steps=2,
        total_tokens=220,
        cost_usd=1.0,
        duration_s=3.5,
    )
    assert list_runs(tmp_path, limit=1) == runs[:1]
    assert list_runs(tmp_path / "nothing here") == []


def test_a_run_that_was_resumed_after_its_end_is_not_shown_as_ended(tmp_path: Path) -> None:
    run_dir = run_at(tmp_path, 0)
    TrajectoryWriter.reopen(run_dir).close()
    assert [run.status for run in list_runs(tmp_path)] == ["interrupted"]


def test_a_run_is_found_by_any_of_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = run_at(tmp_path, 0), run_at(tmp_path, 5, "Delete the second row")
    for what in (old.name, old.name[:15], old.name[-6:], str(old), str(old / "trajectory.jsonl"), f"{old}/"):
        assert find_run(what, tmp_path) == old, what
    assert find_run("last", tmp_path) == new
    monkeypatch.chdir(tmp_path)
    assert find_run(f"./{old.name}", tmp_path / "elsewhere") == old
    monkeypatch.setenv("K25_RUNS_DIR", str(tmp_path))
    assert find_run("last") == new


def test_runs_of_one_second_are_told_apart_by_when_they_were_made(tmp_path: Path) -> None:
    runs = [run_at(tmp_path, 0) for _ in range(5)]
    for number, run_dir in enumerate(runs):
        path = run_dir / "trajectory.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"at":1700000000.0', b'"at":1700000000.%d' % number, 1))
    assert [run.run_dir for run in list_runs(tmp_path)] == runs[::-1]


def test_what_fits_no_run_or_several_is_told_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryError, match=r"there are no runs in .* yet\. Start one with: cua task"):
        find_run("last", tmp_path)
    old, new = run_at(tmp_path, 0), run_at(tmp_path, 5)
    with pytest.raises(TrajectoryError, match=f"2 runs fit '2023111': {new.name}, {old.name}"):
        find_run("2023111", tmp_path)
    with pytest.raises(TrajectoryError, match=f"there is no run .* Nearest: {old.name}"):
        find_run(old.name.replace("add", "and"), tmp_path)
    with pytest.raises(TrajectoryError, match="there is no run ''"):
        find_run("", tmp_path)


@pytest.mark.parametrize("left", ["nothing", "a lock", "an empty record"])
def test_last_is_not_a_run_before_one_that_was_killed_before_its_first_line(tmp_path: Path, left: str) -> None:
    old = run_at(tmp_path, 0)
    with pytest.raises(KeyboardInterrupt), reserve_run(tmp_path, "gone in order"):
        raise KeyboardInterrupt
    assert find_run("last", tmp_path) == old
    killed = make_run_dir(tmp_path, "Say hello", time.time())
    for name in {"nothing": (), "a lock": ("lock",), "an empty record": ("lock", "trajectory.jsonl")}[left]:
        (killed / name).touch()
    for what in ("last", killed.name):
        with pytest.raises(TrajectoryError, match=f"the run {killed.name} has no record: .* one: {old.name}"):
            find_run(what, tmp_path)
    assert [(run.run_dir, run.status) for run in list_runs(tmp_path)] == [(killed, "damaged"), (old, "succeeded")]


def test_last_is_the_newest_run_of_the_command(tmp_path: Path) -> None:
    task = run_at(tmp_path, 0)
    asked = samples.write_run(tmp_path, header=replace(samples.HEADER, started_at=1_700_090_000, env="tools"))
    damaged = run_at(tmp_path, -9)
    (damaged / "trajectory.jsonl").write_bytes(b"{\n")
    assert find_run("last", tmp_path) == asked
    assert find_run("last", tmp_path, lambda _, header: header.env != "tools") == task
    assert find_run("last", tmp_path, lambda _, header: header.env == "desktop") == damaged  # may be the one
    shutil.rmtree(damaged)
    with pytest.raises(TrajectoryError, match="none of the 2 runs"):
        find_run("last", tmp_path, lambda _, header: header.env == "desktop")


def test_listing_many_ended_runs_reads_little(tmp_path: Path) -> None:
    run_dir = run_at(tmp_path, 0)
    path = run_dir / "trajectory.jsonl"
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b"this line is damaged and never read\n" * 10_000 + rest[-1])
    assert [run.status for run in list_runs(tmp_path)] == ["succeeded"]
    assert path.stat().st_size > 300_000
