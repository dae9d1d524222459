"""A writer that is killed at any moment leaves a record that can be read and gone on with."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cua.errors import TrajectoryError
from cua.trajectory import TrajectoryWriter, load_run, resume_steps
from cua.trajectory.disk import is_locked
from tests.cua.trajectory import samples

ROOT = Path(__file__).parents[3]

WRITER = """
import sys, os
from pathlib import Path
from cua.trajectory import TrajectoryWriter
from tests.cua.trajectory import samples
from dataclasses import replace
writer = TrajectoryWriter.create(Path(sys.argv[1]), samples.HEADER, is_durable=sys.argv[2] == "durable")
print(writer.run_dir, flush=True)
for number in range(1, 1_000_000):
    observation = samples.make_observation(0, screenshot=os.urandom(150_000))
    step = samples.make_step(number, observation=observation)
    step = replace(step, turn=replace(step.turn, thought="long " * 20_000))
    writer.observed(number, step.observation)
    writer.replied(number, step.reply)
    writer.acting(number, step.turn, step.actions)
    print("did", number, flush=True)
    writer.acted(step)
"""


def start_writer(runs_dir: Path, mode: str) -> tuple["subprocess.Popen[str]", Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(runs_dir), mode], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    run_dir = process.stdout.readline().strip()
    assert run_dir, "the writer did not start"
    return process, Path(run_dir)


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(12))
def test_kill_9_at_a_random_moment(tmp_path: Path, round_: int) -> None:
    process, run_dir = start_writer(tmp_path, "durable" if round_ % 2 else "flushed")
    try:
        time.sleep(random.Random(round_).uniform(0.0, 0.3))
    finally:
        process.kill()
        output, _ = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGKILL
    record = load_run(run_dir)
    done = [int(line.split()[1]) for line in output.splitlines() if line.startswith("did ")]
    known = [step.index for step in record.steps]
    assert known == list(range(1, len(known) + 1))
    for index in record.images:
        assert len(record.image(index)) == 150_000
    steps, _ = resume_steps(record)
    assert {step.index for step in steps} >= set(done), "an action that was carried out is not in the record"
    assert not is_locked(run_dir)
    with TrajectoryWriter.reopen(run_dir) as writer:
        samples.write_step(writer, samples.make_step(len(steps) + 1))
    after = load_run(run_dir, images=0)
    assert [step.index for step in after.steps] == [*(step.index for step in steps), len(steps) + 1]
    assert not [path for path in (run_dir / "images").iterdir() if path.suffix == ".png" and path.name.startswith(".")]


@pytest.mark.slow
def test_another_process_is_refused_and_reads_on(tmp_path: Path) -> None:
    process, run_dir = start_writer(tmp_path, "flushed")
    try:
        assert is_locked(run_dir)
        with pytest.raises(TrajectoryError, match=rf"written by another process \(pid {process.pid}\)"):
            TrajectoryWriter.reopen(run_dir)
        seen = [len(load_run(run_dir, images=0).steps) for _ in range(20)]
        assert seen == sorted(seen)
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate(timeout=20)
    TrajectoryWriter.reopen(run_dir).close()
