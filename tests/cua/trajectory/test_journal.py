"""The record off the event loop: in order, with its errors, and on disk when it says so."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from cua.errors import TrajectoryError
from cua.trajectory import TrajectoryWriter, load_run
from cua.trajectory.journal import Journal
from tests.cua.trajectory import samples


async def write_step(journal: Journal, number: int) -> None:
    step = samples.make_step(number)
    await journal.observed(number, step.observation)
    await journal.replied(number, step.reply)
    await journal.acting(number, step.turn, step.actions)
    await journal.acted(step, 0.0, {})


async def test_events_stand_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        journal = Journal(writer)
        journal.note("info", "before")
        await write_step(journal, 1)
        journal.note("info", "between")
        await write_step(journal, 2)
        await journal.ended(samples.ENDED)
        await journal.close()
    record = load_run(writer.run_dir)
    assert record.steps == (samples.make_step(1), samples.make_step(2))
    assert [(note.text, note.index) for note in record.notes] == [("before", 0), ("between", 1)]
    assert (record.result, record.chain.status) == (samples.ENDED, "whole")


async def test_its_thread_ends_with_it_and_the_writer_goes_on(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        journal = Journal(writer)
        await write_step(journal, 1)
        (started,) = (
            thread for thread in threading.enumerate() if thread.name == "k25-journal" and thread not in before
        )
        await journal.close()
        await journal.close()
        assert not started.is_alive()
        writer.sealed({}, is_whole=True)
        await write_step(journal, 2)  # starts it again
        await journal.close()
    assert [step.index for step in load_run(writer.run_dir).steps] == [1, 2]


async def test_closing_while_others_write_comes_to_an_end(tmp_path: Path) -> None:
    """As when a run ends before its children do."""
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        journal = Journal(writer)
        for number in range(200):
            writing = [journal.noted("info", f"{number} {letter}") for letter in "ab"]
            await asyncio.wait_for(asyncio.gather(writing[0], journal.close(), writing[1]), 30)
        await journal.close()
    assert len(load_run(writer.run_dir).notes) == 400


async def test_what_cannot_be_written_is_raised_where_it_was_asked_for(tmp_path: Path) -> None:
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        journal = Journal(writer)
        await write_step(journal, 1)
        writer.run_dir.rename(tmp_path / "elsewhere")
        with pytest.raises(TrajectoryError, match="The folder is gone"):
            await journal.observed(2, replace(samples.make_step(2).observation, screenshot=b"another"))
        (tmp_path / "elsewhere" / "trajectory.jsonl").unlink()
        journal.note("info", "lost")
        await asyncio.sleep(0.1)
        with pytest.raises(TrajectoryError, match="was deleted while the run was going on"):
            await journal.ended(samples.ENDED)
        await journal.close()


async def test_one_who_is_cancelled_while_it_is_written_harms_nobody(tmp_path: Path) -> None:
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        journal = Journal(writer)
        for number in range(1, 20):
            task = asyncio.create_task(write_step(journal.for_agent(f"agent-{number}"), 1))
            await asyncio.sleep(0)
            task.cancel()
        await write_step(journal, 1)
        await journal.close()
    record = load_run(writer.run_dir)
    assert [step.index for step in record.steps] == [1]
    assert len(record.agents) == 19  # what they had asked for is written


async def test_nothing_is_kept_without_a_writer() -> None:
    journal = Journal(None)
    await write_step(journal.for_agent("child"), 1)
    journal.note("info", "x")
    await journal.close()
    assert (journal.shown_dir, journal.ids.run_id) == (None, "")


KILLED = """
import asyncio, os, signal, sys
from cua.trajectory import TrajectoryWriter
from cua.trajectory.journal import Journal
from tests.cua.trajectory import samples

async def main() -> None:
    writer = TrajectoryWriter.create(sys.argv[1], samples.HEADER)
    journal = Journal(writer)
    step = samples.make_step(1)
    await asyncio.gather(*(one(journal.for_agent(f"agent-{number}"), step) for number in range(50)))

async def one(journal, step) -> None:
    await journal.observed(1, step.observation)
    await journal.replied(1, step.reply)
    await journal.acting(1, step.turn, step.actions)
    os.kill(os.getpid(), signal.SIGKILL)  # the first one that may act

asyncio.run(main())
"""


def test_what_may_be_done_is_on_disk_when_the_process_is_killed(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    (run_dir,) = tmp_path.iterdir()
    record = load_run(run_dir)
    assert record.chain.status == "whole"
    may_have_acted = [
        agent.pending for agent in record.agents.values() if agent.pending and agent.pending.may_have_acted
    ]
    assert may_have_acted
    assert may_have_acted[0].actions == samples.make_step(1).actions
