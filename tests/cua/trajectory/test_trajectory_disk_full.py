"""A disk without room is told, and what stands on it stays readable."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cua.errors import TrajectoryError
from cua.trajectory import TrajectoryWriter, load_run
from tests.cua.trajectory import samples

ROOT = Path(__file__).parents[3]

LIMITED = """
import resource, signal, sys
from dataclasses import replace
from pathlib import Path
from cua.errors import TrajectoryError
from cua.trajectory import TrajectoryWriter
from tests.cua.trajectory import samples
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = TrajectoryWriter.create(Path(sys.argv[1]), samples.HEADER)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    for number in range(1, 1000):
        samples.write_step(writer, samples.make_step(number))
except TrajectoryError as error:
    print(number, error)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    writer.note("info", "x" * 30_000)
except TrajectoryError as error:
    print(error)
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    where = tmp_path / "disk"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(where)], capture_output=True, timeout=10
    )
    if mounted.returncode:
        pytest.skip("mounting a small tmpfs needs root and the capability to mount")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True, timeout=10)


def test_no_room_left(small_disk: Path) -> None:
    with TrajectoryWriter.create(small_disk, samples.HEADER) as writer:
        written = 0
        with pytest.raises(TrajectoryError, match=r"No space left on device\. Free some space") as told:
            for number in range(1, 1000):
                observation = samples.make_observation(0, screenshot=os.urandom(20_000))
                samples.write_step(writer, samples.make_step(number, observation=observation))
                written = number
        assert str(writer.run_dir) in str(told.value)
        assert written > 3
        record = load_run(writer.run_dir, images=None)
        assert len(record.steps) == written
        assert all(len(record.image(index)) == 20_000 for index in record.images)
        assert not list((writer.run_dir / "images").glob(".*"))


def test_a_line_that_did_not_fit_is_cut_off_and_the_run_goes_on_when_there_is_room(small_disk: Path) -> None:
    with TrajectoryWriter.create(small_disk, samples.HEADER) as writer:
        filler = small_disk / "filler"
        with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        with pytest.raises(TrajectoryError, match="No space left"):
            writer.note("info", "x" * 8000)
        assert load_run(writer.run_dir).notes == ()
        filler.unlink()
        samples.write_step(writer, samples.make_step(1))
        writer.ended(samples.ENDED)
    assert load_run(writer.run_dir).steps == (samples.make_step(1),)


def test_a_run_that_could_not_begin_leaves_nothing(small_disk: Path) -> None:
    header = replace(samples.HEADER, settings={"long": "x" * 400_000})
    with pytest.raises(TrajectoryError, match="No space left"):
        TrajectoryWriter.create(small_disk, header)
    assert list(small_disk.iterdir()) == []


def test_a_limit_on_file_sizes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    number, text = first.split(" ", 1)
    assert "File too large. Raise the limit on file sizes" in text and "File too large" in second
    (run_dir,) = tmp_path.iterdir()
    record = load_run(run_dir)
    assert len(record.steps) == int(number) - 1
    assert record.notes == ()


def test_a_read_only_disk(small_disk: Path) -> None:
    with TrajectoryWriter.create(small_disk, samples.HEADER) as writer:
        pass
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True, timeout=10)
    with pytest.raises(TrajectoryError, match=r"Read-only file system\. Set K25_RUNS_DIR"):
        TrajectoryWriter.reopen(writer.run_dir)
    assert load_run(writer.run_dir).header == samples.HEADER
