import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from cua.errors import TrajectoryError
from cua.trajectory import PendingStep, RunRecord, TrajectoryWriter, load_run
from tests.cua.trajectory import samples


def blind(record: RunRecord) -> RunRecord:
    """The record without its images and without the times of the clock."""
    return replace(record, last_at=0.0, images={})


def test_the_latest_pictures_are_loaded_and_the_rest_can_be_read(tmp_path: Path) -> None:
    run_dir = samples.write_run(tmp_path, num_steps=5)

    def loaded(**options: int | None) -> list[bool]:
        return [bool(step.observation.screenshot) for step in load_run(run_dir, **options).steps]

    assert loaded() == [False, False, True, True, True]
    assert loaded(images=0) == [False] * 5
    assert loaded(images=1) == [False] * 4 + [True]
    assert loaded(images=99) == loaded(images=None) == [True] * 5
    assert load_run(run_dir, images=0).image(1) == samples.png("screen 1")
    assert load_run(run_dir, images=0).image(77) == b""


def test_a_torn_last_line_is_left_out_wherever_it_is_torn(tmp_path: Path) -> None:
    run_dir = samples.write_run(tmp_path, num_steps=1, result=None)
    path = run_dir / "trajectory.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    expected = {}
    for count in range(1, len(lines) + 1):
        path.write_bytes(b"".join(lines[:count]))
        expected[count] = blind(load_run(run_dir, images=0))
    for size in range(len(lines[0]), len(whole), 7):
        path.write_bytes(whole[:size])
        count = whole[:size].count(b"\n")
        assert blind(load_run(run_dir, images=0)) == expected[count], f"torn at byte {size}"


def test_zeros_after_a_power_cut_are_left_out(tmp_path: Path) -> None:
    run_dir = samples.write_run(tmp_path)
    before = load_run(run_dir)
    with (run_dir / "trajectory.jsonl").open("ab") as file:
        file.write(b"\0" * 4096)
    assert load_run(run_dir) == before


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[1]", b'{"event":"acted","at":1}'])
def test_damage_before_the_end_is_refused_by_line_number(tmp_path: Path, damage: bytes) -> None:
    run_dir = samples.write_run(tmp_path)
    path = run_dir / "trajectory.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[3] = damage
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(TrajectoryError, match=r"trajectory\.jsonl, line 4, is damaged"):
        load_run(run_dir)


@pytest.mark.parametrize("missing", [1, 2, 3, 4])
def test_a_missing_line_is_refused_by_the_next_one(tmp_path: Path, missing: int) -> None:
    run_dir = samples.write_run(tmp_path)
    path = run_dir / "trajectory.jsonl"
    lines = path.read_bytes().split(b"\n")
    del lines[missing - 1]
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(TrajectoryError, match=r", line \d, is damaged"):
        load_run(run_dir)


def test_a_step_that_comes_twice_is_refused(tmp_path: Path) -> None:
    run_dir = samples.write_run(tmp_path, num_steps=1, result=None)
    path = run_dir / "trajectory.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines + lines[1:]))
    with pytest.raises(TrajectoryError, match=r"line 6.* step 1 is observed after step 1 was finished"):
        load_run(run_dir)


def test_a_later_format_says_what_to_do(tmp_path: Path) -> None:
    run_dir = samples.write_run(tmp_path)
    path = run_dir / "trajectory.jsonl"
    first, rest = path.read_bytes().split(b"\n", 1)
    data = json.loads(first)
    data["header"]["schema_version"] = 99
    path.write_bytes(json.dumps(data).encode() + b"\n" + rest)
    with pytest.raises(TrajectoryError, match="written in format 99, this version reads up to 3: upgrade cua-k25"):
        load_run(run_dir)


def test_no_run_at_all(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryError, match="cannot read the record"):
        load_run(tmp_path)
    (tmp_path / "trajectory.jsonl").write_bytes(b'{"event":"ru')
    with pytest.raises(TrajectoryError, match="no complete line"):
        load_run(tmp_path)


def test_a_lost_or_damaged_picture_is_told(tmp_path: Path) -> None:
    run_dir = samples.write_run(tmp_path, num_steps=1)
    (path,) = (run_dir / "images").iterdir()
    path.write_bytes(b"\0" * 100)
    with pytest.raises(TrajectoryError, match="is damaged: its content does not match its name"):
        load_run(run_dir)
    path.unlink()
    with pytest.raises(TrajectoryError, match=r"the record needs the image .* No such file"):
        load_run(run_dir)
    assert len(load_run(run_dir, images=0).steps) == 1


@pytest.mark.parametrize(
    ("until", "has_reply", "may_have_acted"),
    [("observed", False, False), ("replied", True, False), ("acting", True, True)],
)
def test_what_was_going_on_is_pending(tmp_path: Path, until: str, has_reply: bool, may_have_acted: bool) -> None:
    step = samples.make_step(2)
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        samples.write_step(writer, samples.make_step(1))
        samples.write_step(writer, step, until=until)
    pending = load_run(writer.run_dir).pending
    assert pending == PendingStep(
        index=2,
        observation=step.observation,
        reply=step.reply if has_reply else None,
        turn=step.turn if may_have_acted else None,
        actions=step.actions if may_have_acted else (),
        started_at=pending.started_at if pending else 0,
    )
    assert pending.may_have_acted is may_have_acted


def test_the_instruction_is_the_latest_one(tmp_path: Path) -> None:
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        assert load_run(writer.run_dir).instruction == "Add two items"
        writer.note("redirect", "Add three items")
    assert load_run(writer.run_dir).instruction == "Add three items"


@pytest.mark.slow
def test_a_long_run_is_read_without_its_pictures(tmp_path: Path) -> None:
    base = samples.make_step(1)
    big = os.urandom(20_000)
    with TrajectoryWriter.create(tmp_path, samples.HEADER, is_durable=False) as writer:
        for number in range(1, 2001):
            observation = samples.make_observation(0, screenshot=number.to_bytes(4, "big") + big)
            samples.write_step(writer, replace(base, index=number, observation=observation))
    record = load_run(writer.run_dir)
    assert len(record.steps) == 2000
    assert sum(len(step.observation.screenshot) for step in record.steps) == 3 * 20_004
