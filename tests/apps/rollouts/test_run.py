"""`cua rollout run` with the bundled model: killed on the way and continued, no episode is lost or doubled."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from cua.rollouts.export import read_rollouts
from cua.rollouts.journal import FILE
from tests.apps.cli.running import cua, start, wait_until

CHOSEN = ("screens", "--tasks", "button", "--tasks", "absent", "--seeds", "2", "--group", "3", "-o", "run")
NUM_ROLLOUTS = 12


def read_lines(folder: Path) -> list[dict[str, Any]]:
    """Whole lines of the journal."""
    path = folder / FILE
    lines = path.read_bytes().splitlines(True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def ended_ids(lines: list[dict[str, Any]]) -> list[str]:
    return [line["id"] for line in lines if line.get("event") == "ended"]


@pytest.mark.slow
def test_a_killed_run_is_continued(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    killed = start(tmp_path, "rollout", "run", *CHOSEN, "-p", "2")
    wait_until(lambda: len(ended_ids(read_lines(folder))) >= 4, timeout_s=300)
    killed.kill()
    killed.communicate()
    before = read_lines(folder)
    assert 4 <= len(ended_ids(before)) < NUM_ROLLOUTS
    refused = cua(tmp_path, "rollout", "run", *CHOSEN)
    assert (refused.code, "--resume" in refused.stderr) == (2, True)
    other = cua(tmp_path, "rollout", "run", *CHOSEN, "--resume", "--temperature", "0.5")
    assert (other.code, "the setting temperature was 1.0, and is now 0.5" in other.stderr) == (2, True)

    resumed = cua(tmp_path, "rollout", "run", *CHOSEN, "--resume", timeout_s=500)
    assert resumed.code == 0, resumed.stderr
    lines = read_lines(folder)
    assert lines[: len(before)] == before
    later = {line["id"] for line in lines[len(before) :] if "id" in line}
    assert later.isdisjoint(ended_ids(before))
    queued = {line["id"] for line in lines if line.get("state") == "queued"}
    assert Counter(ended_ids(lines)) == dict.fromkeys(queued, 1)
    assert (len(queued), f"12 scored of {NUM_ROLLOUTS} rollouts" in resumed.stderr) == (NUM_ROLLOUTS, True)
    rollouts = list(read_rollouts(folder))
    assert sorted(rollout.rollout for rollout in rollouts) == sorted(queued)
    assert all(branch.mask.any() for rollout in rollouts for branch in rollout.branches)
    assert {len(rollout.branches[0].media) for rollout in rollouts} == {1}
    taken = [line["group"] for line in lines if line.get("event") == "taken"]
    assert sorted(taken) == sorted({id.rpartition("/")[0] for id in queued})
