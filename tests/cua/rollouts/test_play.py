"""The players of batches run as rollouts: with their states, limits and retries, and the scores of a batch."""

import json
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cua.batch import AgentPlayer, BatchOptions, Episode, EpisodeLog, make_env_provider, make_episodes, run_batch
from cua.messages import ReplyTokens, TokenMedia, Usage
from cua.models.scripted import ScriptedModel
from cua.rollouts.journal import FILE, RolloutJournal
from cua.rollouts.play import make_episode_spec, make_outcome
from cua.rollouts.prompts import AnswerConstraint, RolloutPrompt
from cua.rollouts.rollout import RolloutEnd, RolloutLimits
from cua.rollouts.samples import PolicySpan, SampledRollout, SampleError, SampleWriter
from cua.rollouts.scheduler import RolloutOptions, RolloutScheduler
from cua.rollouts.turns import TurnLog
from cua.run.budget import Caps
from cua.run.end import End, RunResult
from cua.run.events import Watch
from cua.run.scope import RunScope
from envs import Env, EnvSpec
from envs.fake import FakeEnv, FakeOptions
from envs.pool import EnvPool
from envs.remote import ProcessChannel, RemoteEnv, RemoteTask, SuiteRef
from tests.cua.batch import chores
from tests.cua.batch.chores import ENV, make_suite

CLICK = "## Action:\nClick\n## Code:\n```python\npyautogui.click(0.25, 0.5)\n```"
DONE = "## Action:\nDone\n## Code:\n```python\ncomputer.terminate(status='success')\n```"


def episodes_of(model: Sequence[str], take_env: Any) -> tuple[Episode, ...]:
    suite = make_suite()
    return make_episodes(
        [("click/left", seed, 0) for seed in (1, 2)],
        make_task=suite.make_task,
        take_env=take_env,
        make_model=lambda: ScriptedModel(model),
    )


async def roll(
    folder: Path, model: Sequence[str], options: FakeOptions | None = None, **more: Any
) -> tuple[list[RolloutEnd | None], list[FakeEnv]]:
    made: list[FakeEnv] = []
    first = options or FakeOptions()

    def make(spec: EnvSpec) -> Env:
        made.append(FakeEnv(first if not made else FakeOptions(slow_s=first.slow_s)))
        return made[-1]

    scope = RunScope(caps=Caps(max_steps=None))
    player = AgentPlayer(folder / "runs", approve="yolo")
    async with (
        EnvPool(make, max_leased=2) as pool,
        RolloutScheduler(
            RolloutJournal(folder), take_env=pool.take, options=RolloutOptions(backoff_s=0.001, close_s=1.0)
        ) as scheduler,
    ):
        groups = [
            scheduler.submit(make_episode_spec(episode, player, scope=scope, env=ENV, **more))
            for episode in episodes_of(model, pool.take)
        ]
        async for _ in scheduler.finished():
            pass
    return [group.ends[0] for group in groups], made


def states(folder: Path, id: str) -> list[str]:
    found = [json.loads(line) for line in (folder / FILE).read_bytes().splitlines()]
    return [line.get("state") or line["kind"] for line in found if line.get("id") == id]


async def test_an_agent_scores_as_in_a_batch_and_passes_through_all_states(tmp_path: Path) -> None:
    ends, _ = await roll(tmp_path, [CLICK, DONE])
    async with EnvPool(lambda spec: FakeEnv()) as pool:
        with EpisodeLog(tmp_path / "batch") as log:
            batch = await run_batch(
                episodes_of([CLICK, DONE], pool.take),
                AgentPlayer(tmp_path / "batch", approve="yolo"),
                log=log,
                options=BatchOptions(num_parallel=2),
            )
    assert [result.score for result in batch.results] == [1.0, 0.5]
    assert [end and (end.kind, end.score) for end in ends] == [("scored", 1.0), ("scored", 0.5)]
    assert states(tmp_path, "click/left@1.0/0") == [
        "queued",
        "acquiring",
        "resetting",
        "running",
        "evaluating",
        "scored",
    ]


async def test_an_environment_that_dies_is_replaced(tmp_path: Path) -> None:
    ends, made = await roll(tmp_path, [CLICK, DONE], FakeOptions(die_at_step=1))
    assert [end and (end.kind, end.score) for end in ends] == [("scored", 1.0), ("scored", 0.5)]
    assert sorted(end.num_attempts for end in ends if end) == [1, 2]
    assert made[0].is_closed


async def test_a_limit_of_steps_truncates_and_what_was_reached_is_scored(tmp_path: Path) -> None:
    ends, _ = await roll(tmp_path, [CLICK] * 5, caps=Caps(max_steps=1))
    assert [end and (end.kind, end.score, end.is_truncated) for end in ends] == [
        ("scored", 1.0, True),
        ("scored", 0.5, True),
    ]


async def test_the_time_to_run_truncates_and_what_was_reached_is_scored(tmp_path: Path) -> None:
    ends, _ = await roll(tmp_path, [CLICK] * 50, FakeOptions(slow_s=0.2), limits=RolloutLimits(run_s=1.0))
    assert [end and (end.kind, end.is_truncated) for end in ends] == [("scored", True)] * 2
    assert all(end is not None and end.score for end in ends)


async def test_tasks_in_processes_of_their_own_run_as_rollouts(tmp_path: Path) -> None:
    provider = make_env_provider("process", SuiteRef(name=chores.__file__))
    keys = [("click/left", 2, 0), ("click/broken", 1, 0)]
    episodes = make_episodes(
        keys,
        make_task=provider.make_task,
        take_env=provider.take_env,
        make_model=lambda: ScriptedModel([CLICK, DONE]),
    )
    player, scope = AgentPlayer(tmp_path / "runs", approve="yolo"), RunScope(caps=Caps(max_steps=None))
    async with RolloutScheduler(RolloutJournal(tmp_path), take_env=provider.take_env) as scheduler:
        groups = [scheduler.submit(make_episode_spec(episode, player, scope=scope, env=ENV)) for episode in episodes]
        async for _ in scheduler.finished():
            pass
    await provider.close()
    ends = [group.ends[0] for group in groups]
    assert [end and (end.kind, end.score) for end in ends] == [("scored", 0.5), ("excluded", None)]
    assert "ZeroDivisionError: in the task's own code" in str(ends[1])
    assert states(tmp_path, "click/broken@1.0/0")[-2:] == ["evaluating", "excluded"]


async def test_a_killed_process_of_an_environment_is_replaced(tmp_path: Path) -> None:
    ref, channels = SuiteRef(name=chores.__file__), list[ProcessChannel]()

    async def open_channel(spec: EnvSpec, suite: SuiteRef) -> ProcessChannel:
        channels.append(await ProcessChannel.open(spec, suite))
        return channels[-1]

    def listen(event: object) -> None:
        if type(event).__name__ == "StepDone" and len(channels) == 1:
            os.kill(channels[0].pid, signal.SIGKILL)

    suite = make_suite()
    (episode,) = make_episodes(
        [("click/left", 1, 0)],
        make_task=lambda task_id, seed: RemoteTask(suite.make_task(task_id, seed)),
        take_env=lambda spec: RemoteEnv(spec, ref, open_channel),
        make_model=lambda: ScriptedModel([CLICK, DONE]),
    )
    player = AgentPlayer(tmp_path / "runs", approve="yolo", watch=Watch(listener=listen))
    scope = RunScope(caps=Caps(max_steps=None))
    async with RolloutScheduler(RolloutJournal(tmp_path), options=RolloutOptions(backoff_s=0.001)) as scheduler:
        group = scheduler.submit(make_episode_spec(episode, player, scope=scope))
        async for _ in scheduler.finished():
            pass
    (end,) = group.ends
    assert end is not None
    assert (end.kind, end.score, end.num_attempts, len(channels)) == ("scored", 1.0, 2, 2)


async def test_what_was_drawn_for_a_group_is_recorded_said_and_scored(tmp_path: Path) -> None:
    prompt = RolloutPrompt(constraints=(AnswerConstraint("first_word", "Done"),), constraint_weight=0.2)
    model = ScriptedModel([CLICK, DONE])
    suite = make_suite()
    (episode,) = make_episodes(
        [("click/left", 1, 0)], make_task=suite.make_task, take_env=lambda spec: FakeEnv(), make_model=lambda: model
    )
    player, scope = AgentPlayer(tmp_path / "runs", approve="yolo"), RunScope(caps=Caps(max_steps=None))
    async with RolloutScheduler(RolloutJournal(tmp_path)) as scheduler:
        group = scheduler.submit(make_episode_spec(episode, player, scope=scope, prompt=prompt))
        async for _ in scheduler.finished():
            pass
    assert group.scores == [0.8]  # solved, without an answer
    asked = "".join(message.text for message in model.received[0])
    assert 'Click 1 times\nBegin your final answer with the word "Done".' in asked
    lines = [json.loads(line) for line in (tmp_path / FILE).read_bytes().splitlines()]
    (line,) = [line for line in lines if line.get("event") == "group"]
    assert line["draws"]["constraints"] == [["first_word", "Done"]]


async def test_a_model_that_failed_is_an_error(tmp_path: Path) -> None:
    ends, _ = await roll(tmp_path, [])  # the script is over
    assert [end and (end.kind, end.score) for end in ends] == [("error", None)] * 2


def ended(**end: Any) -> RunResult:
    return RunResult(end=End(**end), num_steps=1, usage=Usage(), duration_s=1.0)


@pytest.mark.parametrize(
    ("end", "score", "is_truncated"),
    [
        ({"status": "succeeded", "reason": "", "score": 1.0}, 1.0, False),
        ({"status": "failed", "reason": "gave up"}, 0.0, False),
        ({"status": "unverified", "reason": "no check"}, None, False),
        ({"status": "capped", "cap": "time", "reason": "60 s", "score": 0.5}, 0.5, True),
        ({"status": "capped", "cap": "time", "reason": "60 s"}, None, True),
        ({"status": "stopped", "reason": "by a person"}, None, False),
        ({"status": "error", "source": "task", "reason": "a defect"}, None, False),
    ],
)
def test_ends_of_runs_as_outcomes(end: dict[str, Any], score: float | None, is_truncated: bool) -> None:
    outcome = make_outcome(ended(**end))
    assert (outcome.score, outcome.is_truncated) == (score, is_truncated)


def reply(prompt: tuple[int, ...], ids: tuple[int, ...], version: str, *, media: bool = True) -> ReplyTokens:
    return ReplyTokens(
        prompt_ids=prompt,
        ids=ids,
        logprobs=tuple(-0.5 * number for number in range(1, len(ids) + 1)),
        sampled=(True,) * (len(ids) - 1) + (False,),
        media=(TokenMedia(media_hash="p", offset=1, num_tokens=2),) if media else (),
        versions=((version, len(ids)),),
        processor="moonvit@1",
    )


def test_the_turns_of_a_session_become_samples_that_can_be_written(tmp_path: Path) -> None:
    writer = SampleWriter(tmp_path, media_token_id=99)
    image = writer.put_media(b"image")
    log = TurnLog()
    nucleus = replace(reply((1, 99, 99, 2), (3, 4, 5), "7"), kept_ids=(3, 4), num_kept=(1, 1, 0))
    first = log.add(nucleus, temperature=0.7, top_p=0.9, files=(image,))
    extended = (*first.prompt_ids, *first.output_ids, 6)
    log.add(reply(extended, (7, 8), "8"), temperature=1.0, files=(image,))
    log.add(reply((9, 9), (10, 11), "8", media=False), temperature=1.0)  # a fork
    samples = log.branches()
    writer.append(SampledRollout(rollout="g/0", group="g", reward=1.0, branches=samples))
    writer.close()
    long, fork = samples
    assert long.ids.tolist() == [1, 99, 99, 2, 3, 4, 5, 6, 7, 8]
    assert long.mask.astype(int).tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 1, 0]
    assert long.logprobs.tolist() == [0, 0, 0, 0, -0.5, -1.0, 0, 0, -0.5, 0]
    assert long.spans == (PolicySpan(4, 7, 7, 0.7, 0.9), PolicySpan(8, 10, 8))
    assert [(item.start, item.length, item.processor) for item in long.media] == [(1, 2, "moonvit@1")]
    assert (long.prompt_length, long.num_turns, long.weight) == (4, 2, 0.5)
    assert (fork.prompt_length, fork.num_turns, fork.weight, fork.media) == (2, 1, 0.5, ())


def test_a_session_without_its_images_or_versions_gives_no_samples(tmp_path: Path) -> None:
    log, writer = TurnLog(), SampleWriter(tmp_path, media_token_id=99)
    log.add(reply((1, 99, 99, 2), (3, 4), "latest"), temperature=1.0, files=("5" * 64,))
    with pytest.raises(SampleError, match="no number"):
        log.branches()
    with pytest.raises(SampleError, match="not stored"):
        writer.append(SampledRollout(rollout="g/0", group="g", reward=1.0, branches=log.branches(lambda name: 0)))
    writer.close()
    log.add(reply((1, 99, 99, 2), (3, 4), "7"), temperature=1.0)
    with pytest.raises(SampleError, match="1 media in the ids, 0 in the requests"):
        log.branches(lambda name: 0)
