"""Rollouts with environments elsewhere: machines that are lost, and never a score because of that."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cua.batch import AgentPlayer, EnvProvider, make_env_provider, make_episodes
from cua.models.scripted import ScriptedModel
from cua.rollouts.journal import FILE, RolloutJournal
from cua.rollouts.play import make_episode_spec
from cua.rollouts.rollout import RolloutLimits
from cua.rollouts.scheduler import RolloutGroup, RolloutOptions, RolloutScheduler
from cua.run.budget import Caps
from cua.run.events import Watch
from cua.run.scope import RunScope
from envs.remote import SuiteRef
from tests.cua.batch import chores
from tests.ray_cluster import lose_node, ray_cluster

SUITE = SuiteRef(name=chores.__file__)
CLICK = "## Action:\nClick\n## Code:\n```python\npyautogui.click(0.25, 0.5)\n```"
GROUP_SIZE = 6


def done(status: str) -> str:
    return f"## Action:\nDone\n## Code:\n```python\ncomputer.terminate(status='{status}')\n```"


async def roll(
    folder: Path,
    provider: EnvProvider,
    task_ids: list[str],
    *,
    status: str = "success",
    group_size: int = 1,
    watch: Watch | None = None,
    limits: RolloutLimits | None = None,
) -> list[RolloutGroup]:
    episodes = make_episodes(
        [(task_id, 1, 0) for task_id in task_ids],
        make_task=provider.make_task,
        take_env=provider.take_env,
        make_model=lambda: ScriptedModel([CLICK, done(status)]),
    )
    player, scope = AgentPlayer(folder / "runs", watch=watch, approve="yolo"), RunScope(caps=Caps(max_steps=None))
    options = RolloutOptions(backoff_s=0.01, get_slots=lambda: int(provider.max_leased))
    async with RolloutScheduler(RolloutJournal(folder), take_env=provider.take_env, options=options) as scheduler:
        groups = [
            scheduler.submit(
                make_episode_spec(episode, player, scope=scope, env=chores.ENV, limits=limits),
                group_size,
            )
            for episode in episodes
        ]
        async for _ in scheduler.finished():
            pass
        scheduler.check_accounts()
    await provider.close()
    return groups


def lines(folder: Path, event: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (folder / FILE).read_bytes().splitlines()]
    return [line for line in found if line.get("event") == event]


@pytest.mark.parametrize("status", ["success", "failure"])
async def test_an_environment_that_dies_while_it_is_evaluated_is_an_error(tmp_path: Path, status: str) -> None:
    provider = make_env_provider("process", SUITE, max_leased=2)
    (group,) = await roll(tmp_path, provider, ["click/dying"], status=status)
    (end,) = group.ends
    assert end is not None
    assert (end.kind, end.score, end.num_attempts) == ("error", None, 3)
    assert "exit code -9" in end.reason


@pytest.fixture
def cluster() -> Iterator[Any]:
    with ray_cluster(2, 2) as made:
        yield made


@pytest.mark.slow
async def test_a_node_that_is_lost_loses_and_doubles_no_rollout(tmp_path: Path, cluster: Any) -> None:
    provider = make_env_provider("ray", SUITE, max_idle=8, max_leased=8, ray_address=cluster.address)
    assert provider.max_leased == 4
    num_steps = 0

    def listen(event: object) -> None:
        nonlocal num_steps
        if type(event).__name__ == "StepDone":
            num_steps += 1
            if num_steps == 8:
                lose_node(cluster, cluster.list_all_nodes()[-1])

    groups = await roll(
        tmp_path, provider, ["click/left", "click/right"], group_size=GROUP_SIZE, watch=Watch(listener=listen)
    )
    ends = [end for group in groups for end in group.ends if end is not None]
    assert [(end.kind, end.score) for end in ends] == [("scored", 1.0)] * 2 * GROUP_SIZE
    assert 2 <= max(end.num_attempts for end in ends) <= 3
    ids = [group.member_id(number) for group in groups for number in range(GROUP_SIZE)]
    assert Counter(line["id"] for line in lines(tmp_path, "ended")) == Counter(ids)
    assert provider.max_leased == 2


@pytest.mark.slow
async def test_without_any_node_rollouts_are_errors_and_not_scores_of_0(tmp_path: Path, cluster: Any) -> None:
    provider = make_env_provider("ray", SUITE, max_leased=4, ray_address=cluster.address)
    is_lost = False

    def listen(event: object) -> None:
        nonlocal is_lost
        if type(event).__name__ == "StepDone" and not is_lost:
            is_lost = True
            for node in cluster.list_all_nodes()[1:]:
                lose_node(cluster, node)

    groups = await roll(
        tmp_path,
        provider,
        ["click/left"],
        group_size=GROUP_SIZE,
        watch=Watch(listener=listen),
        limits=RolloutLimits(acquire_s=20.0, reset_s=10.0),
    )
    ends = [end for group in groups for end in group.ends if end is not None]
    assert [(end.kind, end.score) for end in ends] == [("error", None)] * GROUP_SIZE
    assert groups[0].scores == []
