"""Every episode of a batch is accounted for: against faults, stops, limits, and the death of the process."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cua import batch
from cua.batch import BatchOptions, BatchSummary, Episode, EpisodeLog, EpisodeResult, run_batch
from cua.batch.episode import classify_end
from cua.batch.episode_log import FILE
from cua.errors import ConfigError, ModelError, TrajectoryError
from cua.gui_agent.agent import Agent
from cua.messages import Usage
from cua.models.scripted import ScriptedModel
from cua.run.budget import Caps
from cua.run.control import StoppedError
from cua.run.end import End, RunResult
from cua.run.scope import RunScope
from envs import EnvDiedError, EnvSetupError, EnvSpec, InstructionTask, TaskSpec
from envs.fake import FakeEnv
from envs.remote import RemoteTask

QUICK = BatchOptions(num_parallel=4, backoff_s=0.001)


def make_episode(task_id: str, seed: int | None = None, repeat: int = 0) -> Episode:
    return Episode(
        task_id=task_id,
        seed=seed,
        repeat=repeat,
        make_task=lambda: InstructionTask(instruction="Do it"),
        make_env=FakeEnv,
        make_model=lambda: ScriptedModel([]),
    )


def make_episodes(count: int) -> list[Episode]:
    return [make_episode(f"task-{number}", seed=number) for number in range(count)]


def scored(score: float) -> RunResult:
    return ended(End(status="succeeded" if score == 1 else "failed", reason="checked", score=score))


def ended(end: End) -> RunResult:
    return RunResult(end=end, num_steps=2, usage=Usage(input_tokens=10, output_tokens=5), duration_s=0.1)


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Player:
    """Gives what it was told for each task, in the order of the tries; 0.5 otherwise."""

    def __init__(self, **answers: Sequence[object]) -> None:
        self.tries: Counter[str] = Counter()
        self._answers = {name.replace("_", "-"): list(found) for name, found in answers.items()}

    async def __call__(self, episode: Episode, scope: RunScope) -> RunResult:
        self.tries[episode.task_id] += 1
        await asyncio.sleep(0)
        found = self._answers.get(episode.task_id)
        answer = found.pop(0) if found else scored(0.5)
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, RunResult)
        return answer


async def run(
    folder: Path, episodes: Sequence[Episode], player: object, options: BatchOptions = QUICK, **more: object
) -> BatchSummary:
    with EpisodeLog(folder) as log:
        return await run_batch(episodes, player, log=log, options=options, **more)  # type: ignore[arg-type]


async def test_each_kind_of_end_and_what_is_tried_again(tmp_path: Path) -> None:
    player = Player(
        task_0=[scored(1.0)],
        task_1=[scored(0.25)],
        task_2=[EnvDiedError("the browser is gone"), scored(1.0)],
        task_3=[ModelError("overloaded", retryable=True)] * 3,
        task_4=[ModelError("bad key", retryable=False)],
        task_5=[EnvSetupError("no such page")],
        task_6=[ZeroDivisionError("in evaluate")],
        task_7=[ended(End(status="unverified", reason="no verdict"))],
        task_8=[ended(End(status="capped", cap="time", reason="60 of 60 s used"))],
        task_9=[ended(End(status="capped", cap="steps", reason="100 steps", score=0.5))],
        task_10=[ended(End(status="error", source="env", reason="gone", retryable=True)), scored(0.0)],
        task_11=[ended(End(status="failed", reason="score of two", score=2.0))],
        task_12=[SystemExit(0)],
        task_13=[asyncio.CancelledError("of its own")],
        task_14=[KeyboardInterrupt()],
        task_15=[GeneratorExit()],
        task_16=[UnreadableError()],
        task_17=[BaseExceptionGroup("two", [SystemExit(0), ValueError("x")])],
        task_18=[StoppedError("nobody stopped it")],
    )
    told: list[EpisodeResult] = []
    summary = await run(tmp_path, make_episodes(19), player, listener=told.append)
    assert (summary.num_unfinished, summary.why_stopped) == (0, "")
    assert [(result.kind, result.score, result.num_tries) for result in summary.results] == [
        ("scored", 1.0, 1),
        ("scored", 0.25, 1),
        ("scored", 1.0, 2),
        ("model_error", None, 3),
        ("model_error", None, 1),
        ("env_error", None, 1),
        ("evaluator_error", None, 1),
        ("evaluator_error", None, 1),
        ("timeout", None, 1),
        ("scored", 0.5, 1),
        ("scored", 0.0, 2),
        ("evaluator_error", None, 1),
        *[("evaluator_error", None, 1)] * 7,
    ]
    assert re.fullmatch(r"ZeroDivisionError: in evaluate \(test_batch.py, line \d+\)", summary.results[6].reason)
    assert len(told) == sum(player.tries.values()) == 23


async def test_an_env_that_keeps_what_the_agent_did_is_played_once(tmp_path: Path) -> None:
    died = End(status="error", source="env", reason="no verdict", retryable=True)
    capped = End(status="capped", cap="steps", source="env", reason="no verdict", retryable=True)
    lost = End(status="error", source="model", reason="overloaded", retryable=True)
    unbegun = replace(ended(died), num_steps=0)
    player = Player(
        task_0=[ended(died)], task_1=[ended(capped)], task_2=[ended(lost)], task_3=[unbegun, EnvDiedError("x"), unbegun]
    )
    episodes = [replace(one, no_retry_reason="the guest is not put back") for one in make_episodes(4)]
    summary = await run(tmp_path, episodes, player)
    assert [(result.kind, result.num_tries, result.is_retryable) for result in summary.results] == [
        ("env_error", 1, False),
        ("env_error", 1, False),
        ("model_error", 1, False),
        ("env_error", 3, True),
    ]
    assert {one.reason for one in summary.results[:2]} == {"no verdict; not tried again: the guest is not put back"}


@pytest.mark.parametrize(
    ("name", "options", "is_once"),
    [
        ("osworld", {}, True),
        ("osworld", {"guest": "10.0.0.7"}, True),
        ("osworld", {"provider": "local"}, False),
        ("osworld", {"provider": "docker"}, False),
        ("desktop", {"display": ":0"}, True),
        ("desktop", {}, False),
        ("browser", {}, False),
        ("of-a-suite", {}, False),
    ],
)
def test_which_envs_keep_what_an_episode_did(name: str, options: dict[str, Any], is_once: bool) -> None:
    task = InstructionTask(instruction="x", spec=TaskSpec(env=EnvSpec(name=name, options=options)))
    makers: Any = {"make_task": lambda id, seed: RemoteTask(task), "take_env": None, "make_model": None}
    (episode,) = batch.make_episodes([("a", None, 0)], **makers)
    assert ("not put back" in episode.no_retry_reason) is is_once
    assert bool(episode.exclusive_reason) is is_once


async def test_episodes_that_share_one_machine_are_not_played_at_the_same_time(tmp_path: Path) -> None:
    episodes = [replace(one, exclusive_reason="the guest is not put back") for one in make_episodes(2)]
    with pytest.raises(
        ConfigError, match="2 episodes at a time would share one environment: the guest is not put back"
    ):
        await run(tmp_path, episodes, Player(), replace(QUICK, num_parallel=2))


async def test_a_second_run_takes_up_exactly_what_is_unfinished(tmp_path: Path) -> None:
    scope = RunScope(caps=Caps(max_steps=None))

    async def stop_at_three(episode: Episode, part: RunScope) -> RunResult:
        if episode.task_id == "task-3":
            scope.control.stop("stopped by the user")
            await part.control.checkpoint()
        return scored(1.0)

    one_by_one = BatchOptions(num_parallel=1)
    first = await run(tmp_path, make_episodes(8), stop_at_three, one_by_one, scope=scope)
    assert ([result.task_id for result in first.results], first.num_unfinished) == (["task-0", "task-1", "task-2"], 5)
    assert first.why_stopped == "stopped by the user"
    player = Player()
    second = await run(tmp_path, make_episodes(8), player, one_by_one)
    assert sorted(player.tries) == [f"task-{number}" for number in range(3, 8)]
    assert [result.score for result in second.results] == [1.0] * 3 + [0.5] * 5
    assert second.results[3].num_tries == 2
    third = Player()
    assert (await run(tmp_path, make_episodes(8), third)).results == second.results
    assert not third.tries


async def test_a_limit_of_the_whole_batch_ends_it_and_no_episode_fails_by_it(tmp_path: Path) -> None:
    scope = RunScope(caps=Caps(max_steps=None, max_tokens=100))

    async def spend(episode: Episode, part: RunScope) -> RunResult:
        async with part.budget.model_call() as reservation:
            reservation.usage = Usage(input_tokens=30)
        return scored(1.0)

    summary = await run(tmp_path, make_episodes(10), spend, BatchOptions(num_parallel=3), scope=scope)
    assert len(summary.results) in (4, 5)
    assert summary.why_stopped.endswith("of 100 tokens used")
    assert scope.budget.usage.total_tokens <= 100 + 2 * 30
    assert {result.kind for result in summary.results} == {"scored"}


async def test_an_episode_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    async def hang(episode: Episode, part: RunScope) -> RunResult:
        await asyncio.sleep(3600)
        raise AssertionError

    summary = await run(tmp_path, make_episodes(2), hang, BatchOptions(num_parallel=2, timeout_s=0.05))
    assert [(result.kind, result.reason) for result in summary.results] == [("timeout", "over 0.05 s")] * 2


async def test_an_episode_that_ignores_its_cancellation_is_left_behind(tmp_path: Path) -> None:
    async def ignore(episode: Episode, part: RunScope) -> RunResult:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    options = BatchOptions(timeout_s=0.05, close_s=0.05)
    summary = await run(tmp_path, make_episodes(2), ignore, options)
    assert [(result.kind, result.num_tries) for result in summary.results] == [("timeout", 1)] * 2
    assert len(asyncio.all_tasks()) == 1  # closing the loop does not wait for them


async def test_a_real_cancellation_ends_the_batch_and_leaves_the_rest_unfinished(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def hang(episode: Episode, part: RunScope) -> RunResult:
        begun.set()
        await asyncio.sleep(3600)
        raise AssertionError

    batch = asyncio.create_task(run(tmp_path, make_episodes(3), hang))
    await begun.wait()
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    assert len((await run(tmp_path, make_episodes(3), Player())).results) == 3


async def test_no_more_than_so_many_at_once(tmp_path: Path) -> None:
    open_now, most = 0, 0

    async def count(episode: Episode, part: RunScope) -> RunResult:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await asyncio.sleep(0.001)
        open_now -= 1
        return scored(1.0)

    await run(tmp_path, make_episodes(30), count, BatchOptions(num_parallel=5))
    assert most == 5


async def test_real_agents_share_one_budget(tmp_path: Path) -> None:
    done = "## Action:\nFinish\n## Code:\n```python\ncomputer.terminate(status='failure', answer='no')\n```"
    episode = make_episode("fake")

    async def play(episode: Episode, scope: RunScope) -> RunResult:
        env = FakeEnv()
        try:
            return await Agent(model=ScriptedModel([done]), env=env, scope=scope).run(episode.make_task())
        finally:
            await env.close()

    scope = RunScope(caps=Caps(max_steps=None))
    summary = await run(tmp_path, [episode], play, scope=scope)
    assert [(result.kind, result.score, result.num_steps) for result in summary.results] == [("scored", 0.0, 1)]
    assert scope.budget.num_steps == 1


async def test_two_episodes_of_one_key_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the batch has \('task-1', 1, 0\) twice"):
        await run(tmp_path, [*make_episodes(3), make_episode("task-1", seed=1)], Player())


def test_a_journal_that_is_none_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"event": "run"}\n')
    with pytest.raises(TrajectoryError, match="line 1, is not a line of an episode log"):
        EpisodeLog(tmp_path)
    assert (tmp_path / FILE).read_text() == '{"event": "run"}\n'


async def test_what_another_program_appends_costs_no_line_of_the_journal(tmp_path: Path) -> None:
    results = [EpisodeResult(task_id=id, seed=1, repeat=0, kind="scored", score=1.0, reason="") for id in "abc"]
    with EpisodeLog(tmp_path) as log:
        for number, result in enumerate(results):
            await log.ended(result)
            with (tmp_path / FILE).open("a") as file:
                file.write("junk" if number else "junk\n")
    with EpisodeLog(tmp_path) as log:
        assert [*log.results] == [result.key for result in results]


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with EpisodeLog(tmp_path), pytest.raises(TrajectoryError, match="another process"):
        EpisodeLog(tmp_path)


CHILD = """
import asyncio, sys
from pathlib import Path
from cua.batch import BatchOptions, EpisodeLog, run_batch
from tests.cua.batch.test_batch import make_episodes, scored

async def play(episode, scope):
    await asyncio.sleep(0.002)
    return scored(1.0)

async def main():
    log = EpisodeLog(Path(sys.argv[1]))
    print("open", flush=True)
    def told(result):
        print(result.task_id, flush=True)
    await run_batch(make_episodes(400), play, log=log, options=BatchOptions(num_parallel=3), listener=told)

asyncio.run(main())
"""


@pytest.mark.long
def test_kill_9_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    for num_lines in (3, 60):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
        )
        assert child.stdout is not None
        told = [child.stdout.readline().strip() for _ in range(num_lines)]
        os.kill(child.pid, signal.SIGKILL)
        told += child.stdout.read().split()
        child.stdout.close()
        child.wait(timeout=20)
        with EpisodeLog(tmp_path) as log:
            assert {name for name in told if name.startswith("task")} <= {key[0] for key in log.results}
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"event": "ended", "task_id": "torn')
    player = Player()
    summary = asyncio.run(run(tmp_path, make_episodes(400), player))
    assert (len(summary.results), summary.num_unfinished) == (400, 0)
    assert set(player.tries.values()) == {1}
    lines = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    over = Counter(line["task_id"] for line in lines if line["event"] == "ended")
    assert (len(over), set(over.values())) == (400, {1})


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (End(status="stopped", reason=""), ("stopped", None)),
        (End(status="error", source="sandbox", reason=""), ("env_error", None)),
        (End(status="error", source="task", reason=""), ("evaluator_error", None)),
        (End(status="failed", reason="context overflow"), ("scored", 0.0)),
        (End(status="capped", cap="steps", reason=""), ("evaluator_error", None)),
        (End(status="capped", cap="steps", source="env", reason=""), ("env_error", None)),
        (End(status="capped", cap="time", source="env", reason=""), ("timeout", None)),
    ],
)
def test_kinds_of_ends(end: End, expected: tuple[str, float | None]) -> None:
    assert classify_end(end) == expected
