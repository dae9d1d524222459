"""From an agent of others to the samples of a trainer: scheduler, gateway, the real server with a fake engine, file."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")  # of the server

from cua.batch import AgentPlayer, make_episodes
from cua.messages import Sampling
from cua.models.endpoint import Endpoint
from cua.models.scripted import ScriptedModel
from cua.rollouts.export import export_rows, read_rollouts
from cua.rollouts.gateway import Gateway
from cua.rollouts.gateway_app import HttpEngine
from cua.rollouts.gateway_models import GatewayModels
from cua.rollouts.journal import RolloutJournal, read_journal
from cua.rollouts.play import make_episode_spec
from cua.rollouts.rollout import Rollout, RolloutOutcome, RolloutSpec
from cua.rollouts.samples import SampleReader, SampleWriter
from cua.rollouts.scheduler import RolloutOptions, RolloutScheduler
from cua.run.budget import Caps
from cua.run.scope import RunScope
from envs.fake import FakeEnv, FakeOptions
from model_runtime.engine.contract import EngineRequest
from tests.cua.batch.chores import make_suite
from tests.cua.models.clients import png
from tests.cua.rollouts.test_gateway import REPLIES, gateway_to, hold, official
from tests.cua.rollouts.test_play import CLICK, DONE
from tests.model_runtime.fakes import TOKENIZER, FakeEngine, Script
from tests.model_runtime.server.serving import Serving
from tests.model_runtime.server.test_recorded_tokens import TornEngine, say_in_turn

MEDIA_PAD = TOKENIZER.special.media_pad
COLOURS = ("#000", "#000", "#001", "#002", "#003")


async def test_conversations_with_images_become_samples(tmp_path: Path) -> None:
    writer = SampleWriter(tmp_path, media_token_id=MEDIA_PAD)
    turns: dict[str, Any] = {}
    with Serving(TornEngine(say_in_turn(*REPLIES))) as serving:
        async with gateway_to(serving) as (gateway, http):
            engine = HttpEngine(Endpoint(base_url=serving.base_url, api_key="none"))
            assert await engine.find_num_waiting() == 0
            await engine.close()

            async def play(rollout: Rollout) -> RolloutOutcome:
                gateway.open_session(rollout.id)
                await hold(official(http, "http://gateway/v1", rollout.id))
                session = gateway.close_session(rollout.id)
                turns[rollout.id] = session.log.turns
                for data in session.read_media():
                    writer.put_media(data)
                return RolloutOutcome(score=0.5, branches=session.log.branches())

            async with RolloutScheduler(RolloutJournal(tmp_path, writer)) as scheduler:
                group = scheduler.submit(RolloutSpec(task_id="suite/task", play=play))
                async for _ in scheduler.finished():
                    pass
    writer.close()
    assert [end and (end.kind, end.reason) for end in group.ends] == [("scored", "")]
    (rollout,) = read_rollouts(tmp_path)
    (sample,) = rollout.branches
    last = turns[rollout.rollout][-1]
    assert sample.ids.tolist() == [*last.prompt_ids, *last.output_ids]
    assert int(sample.mask.sum()) == sum(sum(turn.sampled) for turn in turns[rollout.rollout])
    assert (sample.num_turns, sample.prompt_length) == (4, len(turns[rollout.rollout][0].prompt_ids))
    with SampleReader(tmp_path) as reader:
        assert [reader.read_media(item.sha256) for item in sample.media] == [png(colour=c) for c in COLOURS[:4]]
    (row,) = export_rows(tmp_path, "verl")
    assert len(row["prompt_ids"]) + len(row["response_ids"]) == len(sample.ids)
    assert row["reward_score"] == 0.5


def act(request: EngineRequest) -> Script:
    """Click once, then end; the second request has two screenshots."""
    num_images = request.prompt.token_ids.count(MEDIA_PAD) // request.prompt.media[0].item.num_tokens
    return Script(pieces=("</think>", CLICK if num_images == 1 else DONE))


async def test_an_agent_that_failed_has_a_record(tmp_path: Path) -> None:
    suite = make_suite()
    (episode,) = make_episodes(
        [("click/left", 1, 0)],
        make_task=suite.make_task,
        take_env=lambda spec: FakeEnv(FakeOptions(die_at_step=1)),
        make_model=lambda: ScriptedModel([CLICK, DONE]),
    )
    player, scope = AgentPlayer(tmp_path / "runs", approve="yolo"), RunScope(caps=Caps(max_steps=None))
    options = RolloutOptions(max_attempts=2, backoff_s=0.001)
    async with RolloutScheduler(RolloutJournal(tmp_path), options=options) as scheduler:
        scheduler.submit(make_episode_spec(episode, player, scope=scope))
        async for _ in scheduler.finished():
            raise AssertionError("a group without a score is not handed out")
    (end,) = read_journal(tmp_path).ends.values()
    assert (end.kind, end.num_attempts) == ("error", 2)
    assert (tmp_path / str(end.run_dir) / "trajectory.jsonl").is_file()


async def test_agents_play_with_a_session_of_their_own(tmp_path: Path) -> None:
    suite = make_suite()
    (episode,) = make_episodes(
        [("click/left", 1, 0)], make_task=suite.make_task, take_env=lambda spec: FakeEnv(), make_model=ScriptedModel
    )
    writer = SampleWriter(tmp_path, media_token_id=MEDIA_PAD)
    with Serving(FakeEngine(act, max_model_len=32_768)) as serving:
        engine = HttpEngine(Endpoint(base_url=serving.base_url, api_key="none"))
        gateway = Gateway(engine)
        models = GatewayModels(gateway, writer, name="k", sampling=Sampling(temperature=0.7, top_p=1.0))
        player = AgentPlayer(tmp_path / "runs", approve="yolo")
        async with RolloutScheduler(RolloutJournal(tmp_path, writer)) as scheduler:
            spec = make_episode_spec(
                episode, player, scope=RunScope(caps=Caps(max_steps=None)), open_session=models.open
            )
            group = scheduler.submit(spec, 3)
            async for _ in scheduler.finished():
                pass
        await engine.close()
    writer.close()
    assert [end and (end.kind, end.score, end.reason) for end in group.ends] == [
        ("scored", 1.0, "the task's own check passed")
    ] * 3
    assert gateway.sessions == {}
    rollouts = list(read_rollouts(tmp_path))
    assert len({rollout.rollout for rollout in rollouts}) == 3
    for rollout in rollouts:
        first, second = rollout.branches  # the agent rewrites its history
        assert (len(first.media), len(second.media)) == (1, 2)
        assert {(span.version, span.temperature) for span in (*first.spans, *second.spans)} == {(0, 0.7)}
    ends = read_journal(tmp_path).ends
    assert len({end.run_dir for end in ends.values()}) == 3
    assert all((tmp_path / str(end.run_dir) / "trajectory.jsonl").is_file() for end in ends.values())
