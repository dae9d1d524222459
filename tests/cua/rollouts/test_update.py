"""Partial rollouts: generation that goes on with new weights, each token with its own version and log-probability."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("prometheus_client")  # of the server

from apps.rollouts.scoring import SampleScorer
from cua.batch import AgentPlayer, make_episodes
from cua.errors import TruncatedReplyError
from cua.messages import ImagePart, Message, Reply, Sampling, TextPart
from cua.models.endpoint import Endpoint
from cua.models.scripted import ScriptedModel
from cua.rollouts.gateway import Gateway
from cua.rollouts.gateway_app import HttpEngine
from cua.rollouts.gateway_models import GatewayModels
from cua.rollouts.journal import RolloutJournal
from cua.rollouts.play import ModelSession, make_episode_spec
from cua.rollouts.rollout import Rollout, RolloutLimits, RolloutOutcome, RolloutSpec
from cua.rollouts.samples import RolloutSample, SampleReader, SampleWriter
from cua.rollouts.scheduler import RolloutScheduler
from cua.rollouts.update import policy_update
from cua.run.budget import Caps
from cua.run.scope import RunScope
from envs.fake import FakeEnv
from model_runtime.checkpoint.tiny import write_tiny
from model_runtime.engine.thread import EngineThread
from model_runtime.processor.processor import Processor
from model_runtime.server import ServerOptions, make_app
from tests.cua.batch.chores import make_suite
from tests.cua.models.clients import png
from tests.cua.rollouts.test_play import CLICK, DONE
from tests.model_runtime.engine.real import start

NUM_TOKENS = 120
TEMPERATURE = 0.8


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models of the same sizes."""
    folder = tmp_path_factory.mktemp("two")
    for seed in (1, 2):
        write_tiny(folder / str(seed), seed=seed)
    return folder / "1", folder / "2"


class Run:
    """Rollouts that ask for one long reply, in front of a tiny engine."""

    def __init__(self, weights: Path, folder: Path) -> None:
        self.folder = folder
        self.engine: EngineThread = start(weights)
        app = make_app(self.engine, Processor.load(weights), ServerOptions(weights_dir=weights.parent))
        self.client = HttpEngine(Endpoint(base_url="http://engine.localhost/v1", api_key="none"), app=app)
        self.gateway = Gateway(self.client)
        self.writer = SampleWriter(folder, media_token_id=self.engine.tokenizer.special.media_pad)
        sampling = Sampling(
            temperature=TEMPERATURE,
            top_p=1.0,
            max_tokens=NUM_TOKENS,
            extra_body={"chat_template_kwargs": {"thinking": False}},
        )
        self.models = GatewayModels(self.gateway, self.writer, name="tiny", sampling=sampling)
        self.may_ask = asyncio.Event()  # for the rollouts that ask later

    async def play(self, rollout: Rollout) -> RolloutOutcome:
        async with self.models.open(rollout) as session:
            if rollout.spec.task_id == "later":
                await self.may_ask.wait()
            await self._ask(session, rollout.id)
            return RolloutOutcome(score=1.0, branches=tuple(await session.read_branches()))

    async def _ask(self, session: ModelSession, text: str) -> None:
        parts = (ImagePart(data=png()), TextPart(text=f"What is this? {text}"))
        try:
            await session.model.generate([Message(role="user", parts=parts)])
        except TruncatedReplyError:  # a random model seldom ends
            pass

    async def num_generated(self, at_least: int) -> None:
        while self.engine.stats().generated_tokens_total < at_least:
            await asyncio.sleep(0.005)

    def samples(self) -> dict[str, RolloutSample]:
        with SampleReader(self.folder) as reader:
            return {rollout.rollout: rollout.branches[0] for rollout in reader}


@asynccontextmanager
async def running(weights: Path, folder: Path) -> AsyncIterator[tuple[Run, RolloutScheduler]]:
    run = Run(weights, folder)
    async with RolloutScheduler(RolloutJournal(folder, run.writer)) as scheduler:
        for task_id in ("now", "later"):
            scheduler.submit(RolloutSpec(task_id=task_id, play=run.play), 2)
        yield run, scheduler
        run.may_ask.set()
        async for _ in scheduler.finished():
            pass
        assert scheduler.counts.ends == {"scored": 4}
    run.writer.close()
    await run.client.close()
    await run.engine.close()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["partial", "finish"])
async def test_each_token_keeps_its_version(
    folders: tuple[Path, Path], tmp_path: Path, mode: Literal["partial", "finish"]
) -> None:
    first, second = folders
    async with running(first, tmp_path) as (run, scheduler):
        await run.num_generated(40)
        async with policy_update(scheduler, 1, gateway=run.gateway, mode=mode):
            run.may_ask.set()  # asks during the pause
            await asyncio.sleep(0.1)
            await run.client.update_weights("1", second.name)
    samples = run.samples()
    scorers = SampleScorer(first), SampleScorer(second)
    with SampleReader(tmp_path) as reader:
        scores = {
            name: [scorer.score(sample, reader.read_media) for scorer in scorers] for name, sample in samples.items()
        }
    num_changed = 0
    for name, sample in samples.items():
        start_at, end = sample.prompt_length, len(sample.ids)
        assert int(sample.mask.sum()) == end - start_at
        for span in sample.spans:
            part = slice(span.start, span.end)
            assert np.abs(scores[name][span.version][part] - sample.logprobs[part]).max() < 1e-4
            assert np.abs(scores[name][1 - span.version][part] - sample.logprobs[part]).max() > 1e-2
            assert span.temperature == TEMPERATURE
        versions = [span.version for span in sample.spans]
        assert (sample.spans[0].start, sample.spans[-1].end) == (start_at, end)
        if name.startswith("later"):
            assert versions == [1]
        elif mode == "finish":
            assert versions == [0]
        else:
            num_changed += versions == [0, 1]
            assert sample.spans[0].end == sample.spans[-1].start or versions == [0]
    assert num_changed >= (mode == "partial")


async def test_the_time_of_a_pause_is_not_that_of_the_rollouts(tmp_path: Path) -> None:
    async def play(rollout: Rollout) -> RolloutOutcome:
        await asyncio.sleep(1.0)
        return RolloutOutcome(score=1.0)

    async with RolloutScheduler(RolloutJournal(tmp_path)) as scheduler:
        limited = scheduler.submit(RolloutSpec(task_id="a", play=play, limits=RolloutLimits(run_s=0.6)))
        await asyncio.sleep(0.1)
        scheduler.set_paused(True)
        late = scheduler.submit(RolloutSpec(task_id="b", play=play, limits=RolloutLimits(run_s=0.6)))
        await asyncio.sleep(1.2)
        assert late.ends == [None] and scheduler.counts.states == {"queued": 1}
        assert scheduler.report()["queue"] == "1 groups, it is paused"
        scheduler.set_paused(False)
        async for _ in scheduler.finished():
            pass
    assert [end.kind for group in (limited, late) for end in group.ends if end] == ["scored", "excluded"]


class SlowModel(ScriptedModel):
    """Replies of which each takes a while."""

    async def generate(self, *arguments: object, **named: object) -> Reply:
        await asyncio.sleep(0.1)
        return await super().generate(*arguments, **named)  # type: ignore[arg-type]


async def test_the_clocks_of_agents_are_stopped(tmp_path: Path) -> None:
    suite = make_suite()
    gateway = Gateway(HttpEngine(Endpoint(base_url="http://127.0.0.1:9/v1", api_key="none")))
    (episode,) = make_episodes(
        [("click/left", 1, 0)],
        make_task=suite.make_task,
        take_env=lambda spec: FakeEnv(),
        make_model=lambda: SlowModel([CLICK, CLICK, CLICK, DONE]),
    )
    scope, player = RunScope(caps=Caps(max_steps=None)), AgentPlayer(tmp_path / "runs", approve="yolo", max_time=3.0)
    async with RolloutScheduler(RolloutJournal(tmp_path)) as scheduler:
        spec = make_episode_spec(episode, player, scope=scope, limits=RolloutLimits(run_s=3.0))
        group = scheduler.submit(spec)
        while scheduler.counts.states != {"running": 1}:
            await asyncio.sleep(0.01)
        async with policy_update(scheduler, 1, gateway=gateway, control=scope.control):
            await asyncio.sleep(3.5)
            assert group.ends == [None]  # it waits for its next call
        async for _ in scheduler.finished():
            pass
    (end,) = group.ends
    assert end is not None and (end.kind, end.score, end.is_truncated) == ("scored", 1.0, False)


async def test_a_failed_update_keeps_the_version(tmp_path: Path) -> None:
    gateway = Gateway(HttpEngine(Endpoint(base_url="http://127.0.0.1:9/v1", api_key="none")))
    async with RolloutScheduler(RolloutJournal(tmp_path)) as scheduler:
        with pytest.raises(OSError, match="no weights"):
            async with policy_update(scheduler, 1, gateway=gateway):
                raise OSError("no weights")
        assert scheduler.version == 0
        assert scheduler.report()["queue"] == "0 groups, may start"
