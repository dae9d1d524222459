import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cua.errors import TrajectoryError
from cua.messages import Reply, Usage
from cua.trajectory import ActionsOutcome, RunHeader, TrajectoryWriter, default_runs_dir, load_run
from cua.trajectory.run_files import slug
from tests.cua.trajectory import samples


def test_a_whole_run(tmp_path: Path) -> None:
    step = samples.make_step(1)
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        writer.note("info", "before the first step")
        samples.write_step(writer, step, until="acting")
        writer.note("guard", "approved", rule="low risk")
        writer.acted(step, 0.5, {"timings": {"settle": 0.2}})
        writer.ended(samples.ENDED)
    record = load_run(writer.run_dir)
    assert record.header == samples.HEADER
    assert record.steps == (step,)
    assert record.outcomes == (
        ActionsOutcome(reward=0.5, info={"timings": {"settle": 0.2}}, finished_at=record.outcomes[0].finished_at),
    )
    assert [(note.kind, note.text, note.index, note.data) for note in record.notes] == [
        ("info", "before the first step", 0, {}),
        ("guard", "approved", 1, {"rule": "low risk"}),
    ]
    assert record.result == samples.ENDED and record.end == samples.ENDED.end
    assert record.pending is None
    assert record.usage == Usage(input_tokens=100, output_tokens=10, cost_usd=0.5)


def test_the_folder_holds_the_lines_the_pictures_and_the_lock(tmp_path: Path) -> None:
    run_dir = samples.write_run(tmp_path)
    names = {f"{hashlib.sha256(samples.png(f'screen {number}')).hexdigest()}.png" for number in (1, 2)}
    assert {path.name for path in run_dir.iterdir()} == {"trajectory.jsonl", "images", "lock"}
    assert {path.name for path in (run_dir / "images").iterdir()} == names
    assert run_dir.name.startswith("20231114-221320-add-two-items-")
    assert run_dir.stat().st_mode & 0o077 == 0


def test_an_equal_picture_is_written_once(tmp_path: Path) -> None:
    observation = samples.make_observation(1)
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        writer.observed(1, observation)
        (path,) = (writer.run_dir / "images").iterdir()
        before = path.stat().st_mtime_ns, path.stat().st_ino
        writer.observed(2, replace(observation, screenshot=bytes(bytearray(observation.screenshot))))
        assert (path.stat().st_mtime_ns, path.stat().st_ino) == before
        assert list((writer.run_dir / "images").iterdir()) == [path]


def test_every_event_is_in_the_file_when_its_method_returns(tmp_path: Path) -> None:
    step = samples.make_step(1)
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        path = writer.run_dir / "trajectory.jsonl"
        for count, event in enumerate(("observed", "replied", "acting", "acted"), start=2):
            samples.write_step(writer, step, until=event) if event == "observed" else {
                "replied": lambda: writer.replied(1, step.reply),
                "acting": lambda: writer.acting(1, step.turn, step.actions),
                "acted": lambda: writer.acted(step),
            }[event]()
            lines = path.read_bytes().splitlines()
            assert len(lines) == count and f'"event":"{event}"'.encode() in lines[-1]


def test_durable_events_wait_for_the_disk_and_the_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(fd), fsync(fd))[1])
    counts = {}
    step = samples.make_step(1)
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        for name, write in {
            "observed": lambda: writer.observed(1, step.observation),
            "replied": lambda: writer.replied(1, step.reply),
            "acting": lambda: writer.acting(1, step.turn, step.actions),
            "acted": lambda: writer.acted(step),
        }.items():
            synced.clear()
            write()
            counts[name] = len(synced)
    assert counts == {"observed": 2, "replied": 0, "acting": 1, "acted": 0}  # the image and the line
    synced.clear()
    with TrajectoryWriter.create(tmp_path, samples.HEADER, is_durable=False) as writer:
        samples.write_step(writer, step)
        writer.ended(samples.ENDED)
    assert synced == []


def test_refused_actions_are_told_from_those_carried_out(tmp_path: Path) -> None:
    refused = samples.make_step(1, error="not allowed: shop.example")
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        writer.observed(1, refused.observation)
        writer.replied(1, refused.reply)
        writer.acted(refused)
        samples.write_step(writer, samples.make_step(2))
    record = load_run(writer.run_dir, images=None)
    assert record.steps == (refused, samples.make_step(2))
    assert [outcome.carried_out for outcome in record.outcomes] == [False, True]


def test_replies_that_could_not_be_read_are_kept_and_counted(tmp_path: Path) -> None:
    step = samples.make_step(1)
    bad = Reply(content="Sure!", usage=Usage(input_tokens=7, output_tokens=3, cost_usd=None))
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        writer.observed(1, step.observation)
        writer.replied(1, bad)
        writer.note("parse_error", "no code block")
        writer.replied(1, step.reply)
        writer.acting(1, step.turn, step.actions)
        writer.acted(step)
    record = load_run(writer.run_dir)
    assert record.steps == (step,)
    assert record.discarded == ((1, bad),)
    assert record.usage == Usage(input_tokens=107, output_tokens=13, cost_usd=None)


def test_two_runs_of_the_same_second_do_not_collide(tmp_path: Path) -> None:
    writers = [TrajectoryWriter.create(tmp_path, samples.HEADER, is_durable=False) for _ in range(30)]
    assert len({writer.run_dir for writer in writers}) == 30
    for writer in writers:
        samples.write_step(writer, samples.make_step(1))
        writer.close()
    assert [len(load_run(writer.run_dir).steps) for writer in writers] == [1] * 30


def test_a_second_writer_of_the_same_run_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    first = TrajectoryWriter.create(tmp_path, samples.HEADER)
    with pytest.raises(TrajectoryError, match=rf"being written by another process \(pid {os.getpid()}\)"):
        TrajectoryWriter.reopen(first.run_dir)
    first.close()
    first.close()
    TrajectoryWriter.reopen(first.run_dir).close()


def test_a_refused_second_writer_leaves_the_record_as_it_was(tmp_path: Path) -> None:
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as first:
        before = (first.run_dir / "trajectory.jsonl").read_bytes()
        with pytest.raises(TrajectoryError):
            TrajectoryWriter.reopen(first.run_dir)
        assert (first.run_dir / "trajectory.jsonl").read_bytes() == before
        samples.write_step(first, samples.make_step(1))
    assert load_run(first.run_dir).steps == (samples.make_step(1),)


def test_nothing_can_be_written_after_close(tmp_path: Path) -> None:
    writer = TrajectoryWriter.create(tmp_path, samples.HEADER)
    writer.close()
    with pytest.raises(TrajectoryError, match="closed"):
        writer.note("info", "late")


@pytest.mark.parametrize("event", ["observed", "note"])
def test_a_deleted_folder_is_told(tmp_path: Path, event: str) -> None:
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        shutil.rmtree(writer.run_dir)
        with pytest.raises(TrajectoryError, match=r"deleted|gone"):
            writer.observed(1, samples.make_observation(1)) if event == "observed" else writer.note("info", "x")


def test_a_runs_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(TrajectoryError, match="set K25_RUNS_DIR"):
        TrajectoryWriter.create(tmp_path / "runs", samples.HEADER)


def test_a_folder_that_may_not_be_written_is_told() -> None:
    with pytest.raises(TrajectoryError, match="cannot write the record of the run in /proc/"):
        TrajectoryWriter.create("/proc/self/fdinfo/runs", samples.HEADER)


def test_a_writer_that_was_never_given_a_time_takes_the_present(tmp_path: Path) -> None:
    with TrajectoryWriter.create(tmp_path, RunHeader(instruction="x")) as writer:
        pass
    assert load_run(writer.run_dir).header.started_at > 1_700_000_000


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Add 2 items!", "add-2-items"),
        ("", "run"),
        ("漢字 🙂", "run"),
        ("../../etc/passwd", "etc-passwd"),
        ("a" * 20_000, "a" * 32),
        ("one two three four five six seven eight nine", "one-two-three-four-five-six"),
    ],
)
def test_the_words_of_a_folder_name(title: str, expected: str) -> None:
    assert slug(title) == expected


def test_where_runs_live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("K25_RUNS_DIR", str(tmp_path / "here"))
    assert default_runs_dir() == tmp_path / "here"
    monkeypatch.delenv("K25_RUNS_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert default_runs_dir() == tmp_path / "state" / "k25" / "runs"
