"""Where envs live: kept in a pool, in a process of their own, or on a Ray cluster that loses a node."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cua.batch import (
    AgentPlayer,
    BatchOptions,
    BatchSummary,
    EnvProvider,
    EpisodeLog,
    executor,
    make_env_provider,
    make_episodes,
    run_batch,
)
from cua.batch.executor import ExecutorKind
from cua.models.scripted import ScriptedModel
from cua.run.events import Watch
from cua.trajectory import load_run
from envs import EnvDiedError, EnvError, EnvSetupError, EnvSpec, InstructionTask, Wait
from envs.check_env import check_env
from envs.fake import FakeEnv, FakeOptions
from envs.pool import EnvPool
from envs.registry import EnvSecrets, load_suite
from envs.remote import ProcessChannel, RemoteEnv, RemoteTask, SuiteRef
from envs.secret_texts import HttpLogin
from tests.cua.batch import chores
from tests.ray_cluster import lose_node, ray_cluster

SUITE = SuiteRef(name=chores.__file__)
CLICK = "## Action:\nClick\n## Code:\n```python\npyautogui.click(0.25, 0.5)\n```"
DONE = "## Action:\nFinish\n## Code:\n```python\ncomputer.terminate(status='success')\n```"
QUICK = BatchOptions(num_parallel=2, backoff_s=0.01)


async def play(
    folder: Path,
    executor: EnvProvider,
    keys: list[tuple[str, int | None, int]],
    replies: list[str],
    watch: Watch | None = None,
    **settings: object,
) -> BatchSummary:
    episodes = make_episodes(
        keys, make_task=executor.make_task, take_env=executor.take_env, make_model=lambda: ScriptedModel(list(replies))
    )
    player = AgentPlayer(folder / "runs", watch=watch, **{"approve": "yolo", **settings})
    try:
        with EpisodeLog(folder) as log:
            return await run_batch(episodes, player, log=log, options=QUICK)
    finally:
        await executor.close()


@pytest.mark.parametrize("kind", ["local", "process"])
async def test_agents_play_with_records_of_their_own(tmp_path: Path, kind: ExecutorKind) -> None:
    keys: list[tuple[str, int | None, int]] = [("click/left", 1, 0), ("click/left", 2, 0), ("click/broken", 1, 0)]
    summary = await play(tmp_path, make_env_provider(kind, SUITE), keys, [CLICK, DONE])
    assert [(result.kind, result.score) for result in summary.results] == [
        ("scored", 1.0),
        ("scored", 0.5),
        ("evaluator_error", None),
    ]
    assert [result.other_scores for result in summary.results] == [{"half": 0.5}, {"half": 0.25}, {}]
    with EpisodeLog(tmp_path) as log:
        assert log.results == {result.key: result for result in summary.results}
    assert "ZeroDivisionError: in the task's own code" in summary.results[2].reason
    broken = load_run(tmp_path / str(summary.results[2].run_dir))
    assert broken.result is not None
    assert (broken.result.end.status, broken.result.end.source) == ("error", "task")
    run_dir = summary.results[1].run_dir
    assert run_dir is not None
    assert run_dir.startswith("runs/")
    record = load_run(tmp_path / run_dir)
    assert record.header.task == {"id": "click/left", "seed": 2, "metadata": {"family": "click"}}
    assert len(record.steps) == 2
    for one in (record, broken):
        assert [note.text for note in one.notes if note.kind == "task"] == ["set up", "judged"]


@pytest.mark.parametrize("kind", ["local", "process"])
async def test_the_guard_is_asked_here_wherever_the_env_is(tmp_path: Path, kind: ExecutorKind) -> None:
    both = "## Action:\nClick\n## Code:\n```python\npyautogui.click(0.25, 0.5)\npyautogui.click(0.75, 0.5)\n```"
    summary = await play(
        tmp_path, make_env_provider(kind, SUITE), [("click/left", 2, 0)], [both, DONE], approve="auto", max_steps=2
    )
    assert summary.results[0].score == 0.5  # nobody lets the second click pass


async def test_envs_get_the_secrets_and_their_spec_does_not_show_them() -> None:
    login = HttpLogin(origin="http://a.test", username="ann", password="tr0ub4dor-3")
    secrets = EnvSecrets(masked_texts=("hush-hush",), http_logins=(login,))
    executor = make_env_provider("local", SuiteRef(name="webarena-lite"), secrets=secrets)
    spec = EnvSpec(name="browser")
    try:
        env: Any = await executor.take_env(spec)
        assert (env.options.masked_texts, env.options.http_logins) == (("hush-hush",), (login,))
        await env.close()
    finally:
        await executor.close()
    assert not any(text in repr((spec, secrets)) for text in ("hush", "tr0ub4dor"))


async def test_a_process_keeps_the_contract_of_an_env() -> None:
    class Remote(RemoteEnv):
        async def reset(self, task: object) -> object:  # type: ignore[override]
            own = load_suite(SUITE.name).make_task("click/left", 1)
            observation = await super().reset(RemoteTask(own))
            await task.setup(self)  # type: ignore[attr-defined]
            return observation

    await check_env(lambda: Remote(chores.ENV, SUITE, ProcessChannel.open))  # type: ignore[arg-type,return-value]


async def test_a_killed_process_gives_its_task_back(tmp_path: Path) -> None:
    channels: list[ProcessChannel] = []

    async def open_channel(spec: EnvSpec, ref: SuiteRef) -> ProcessChannel:
        channels.append(await ProcessChannel.open(spec, ref))
        return channels[-1]

    suite = load_suite(SUITE.name)

    def make_task(task_id: str, seed: int | None) -> RemoteTask:
        task = suite.make_task(task_id, seed)
        return RemoteTask(task)

    def listen(event: object) -> None:
        if type(event).__name__ == "StepDone" and len(channels) == 1:
            os.kill(channels[0].pid, signal.SIGKILL)

    executor = EnvProvider(make_task, lambda spec: RemoteEnv(spec, SUITE, open_channel))
    summary = await play(tmp_path, executor, [("click/left", 1, 0)], [CLICK, DONE], Watch(listener=listen))
    assert [(result.kind, result.score, result.num_tries) for result in summary.results] == [("scored", 1.0, 2)]
    assert len(channels) == 2
    tried = [line for line in (tmp_path / "episodes.jsonl").read_text().splitlines() if '"tried"' in line]
    assert len(tried) == 1
    assert "exit code -9" in tried[0]


async def test_an_env_whose_process_died_in_an_evaluation_is_lent_with_a_new_one() -> None:
    executor = make_env_provider("process", SUITE)
    for task_id in ("click/dying", "click/left"):
        env, task = await executor.take_env(chores.ENV), executor.make_task(task_id, 1)
        await env.reset(task)
        if task_id == "click/dying":
            with pytest.raises(EnvDiedError):
                await task.evaluate(env)
        else:
            assert (await task.evaluate(env)).score == 0.0
        await env.close()
    await executor.close()


async def test_an_env_that_cannot_be_made_there_says_so_here(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("1 / 0")
    with pytest.raises(EnvSetupError, match="cannot be loaded: ZeroDivisionError"):
        await ProcessChannel.open(chores.ENV, SuiteRef(name=str(file)))


PARENT = """
import asyncio, sys
from tests.cua.batch.test_executor import SUITE, chores
from envs.remote import ProcessChannel

async def main():
    channel = await ProcessChannel.open(chores.ENV, SUITE)
    print(channel.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_nothing_is_left_of_a_killed_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait(timeout=20)
    parent.stdout.close()
    wait_until(lambda: not is_alive(pid))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(is_true: Callable[[], bool], limit_s: float = 30.0) -> None:
    end = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.02)


class TestPool:
    """What is kept between episodes, and what is not."""

    async def test_an_env_is_used_again_and_a_broken_one_is_replaced(self) -> None:
        made: list[FakeEnv] = []

        def make_env(spec: EnvSpec) -> FakeEnv:
            made.append(FakeEnv(FakeOptions(die_at_step=1 if not made else None)))
            return made[-1]

        async with EnvPool(make_env) as pool:
            for number in range(4):
                env = await pool.take(EnvSpec(name="canvas"))
                await env.reset(InstructionTask(instruction="Wait"))
                await env.step([Wait(duration_s=0)])
                if number == 1:
                    with pytest.raises(EnvDiedError):
                        await env.step([Wait(duration_s=0)])
                await env.close()
                await env.close()
            assert [env.is_closed for env in made] == [True, False]
            assert [env.num_resets for env in made] == [2, 2]
            with pytest.raises(EnvError, match="was given back"):
                await env.step([])
        assert all(env.is_closed for env in made)

    async def test_different_specs_are_different_envs_and_few_are_kept(self) -> None:
        made: list[FakeEnv] = []

        def make_env(spec: EnvSpec) -> FakeEnv:
            made.append(FakeEnv())
            return made[-1]

        pool = EnvPool(make_env, max_idle=1, max_episodes=2)
        for name in ("one", "two", "one"):
            await (await pool.take(EnvSpec(name=name))).close()
        assert [env.is_closed for env in made] == [True, True, False]
        await (await pool.take(EnvSpec(name="one"))).close()
        assert made[2].is_closed  # after two episodes
        lent = await pool.take(EnvSpec(name="one"))
        await pool.close()
        assert not made[3].is_closed
        await lent.close()
        assert made[3].is_closed

    async def test_a_cancelled_step_leaves_no_env_for_others(self) -> None:
        pool = EnvPool(lambda spec: FakeEnv(FakeOptions(slow_s=600)))
        env = await pool.take(EnvSpec(name="slow"))
        await env.reset(InstructionTask(instruction="Wait"))
        step = asyncio.ensure_future(env.step([]))
        await asyncio.sleep(0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        await env.close()
        other = await pool.take(EnvSpec(name="slow"))
        assert other.num_resets == 0
        await other.close()
        await pool.close()


@pytest.mark.parametrize(("num_lost", "error"), [(2, None), (1000, "gone")])
async def test_actors_are_started_again_until_the_cluster_knows_that_a_node_is_lost(
    monkeypatch: pytest.MonkeyPatch, num_lost: int, error: str | None
) -> None:
    num_tries = 0

    async def open_actor(open_server: object, *values: object) -> str:
        nonlocal num_tries
        num_tries += 1
        if num_tries <= num_lost:
            raise EnvDiedError("gone")
        return "opened"

    monkeypatch.setattr(executor, "open_actor", open_actor)
    monkeypatch.setattr(executor, "_RETRY_S", 0.01)
    monkeypatch.setattr(executor, "_LOST_NODE_S", 0.5)
    opening: Any = executor.open_ray_channel(chores.ENV, SUITE, EnvSecrets())
    if error is None:
        assert (await opening, num_tries) == ("opened", 3)
    else:
        with pytest.raises(EnvDiedError, match=error):
            await opening


@pytest.fixture
def cluster() -> Iterator[Any]:
    with ray_cluster(2) as made:
        yield made


@pytest.mark.slow
async def test_a_ray_cluster_that_loses_a_node_loses_no_episode(tmp_path: Path, cluster: Any) -> None:
    is_killed = False

    def listen(event: object) -> None:
        nonlocal is_killed
        if type(event).__name__ == "StepDone" and not is_killed:
            is_killed = True
            node = cluster.list_all_nodes()[-1]
            cluster.add_node(num_cpus=2)
            lose_node(cluster, node)

    executor = make_env_provider("ray", SUITE, ray_address=cluster.address)
    keys: list[tuple[str, int | None, int]] = [("click/left", 1, number) for number in range(8)]
    summary = await play(tmp_path, executor, keys, [CLICK, DONE], Watch(listener=listen))
    assert is_killed
    assert [(result.kind, result.score) for result in summary.results] == [("scored", 1.0)] * 8
    assert max(result.num_tries for result in summary.results) >= 2  # another try may meet the lost node, too
