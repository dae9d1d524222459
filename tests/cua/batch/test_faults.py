"""Whatever breaks, every episode of a batch is accounted for."""

import threading
from pathlib import Path

import pytest

from tests.cua.batch.faulty import FAULTS, account, run_faulty

QUICK = [name for name in FAULTS if name != "env hangs"]  # until its time limit


@pytest.mark.long
async def test_every_episode_is_accounted_for_whatever_breaks(tmp_path: Path) -> None:
    before = set(threading.enumerate())  # another test may have left one to the collector
    summary, scope = await run_faulty(tmp_path, len(QUICK), faults=QUICK)
    assert account(tmp_path, summary, scope, len(QUICK)) == []
    left = set(threading.enumerate()) - before  # by runs that broke
    assert not [thread for thread in left if thread.name == "k25-journal"]


@pytest.mark.slow
async def test_the_same_with_envs_in_processes_of_their_own_and_some_that_hang(tmp_path: Path) -> None:
    num_episodes = 2 * len(FAULTS)
    summary, scope = await run_faulty(tmp_path, num_episodes, executor="process")
    assert account(tmp_path, summary, scope, num_episodes) == []
