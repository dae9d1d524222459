"""From an agent of others to the samples of a trainer: scheduler, gateway, the real server with a fake engine, file."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")  # of the server

from cua.rollouts.export import export_rows, read_rollouts
from cua.rollouts.journal import RolloutJournal
from cua.rollouts.rollout import Rollout, RolloutOutcome, RolloutSpec
from cua.rollouts.samples import SampleReader, SampleWriter
from cua.rollouts.scheduler import RolloutScheduler
from tests.cua.models.clients import png
from tests.cua.rollouts.test_gateway import REPLIES, gateway_to, hold, official
from tests.model_runtime.fakes import TOKENIZER
from tests.model_runtime.server.serving import Serving
from tests.model_runtime.server.test_recorded_tokens import TornEngine, say_in_turn

MEDIA_PAD = TOKENIZER.special.media_pad
COLOURS = ("#000", "#000", "#001", "#002", "#003")


async def test_conversations_with_images_become_samples(tmp_path: Path) -> None:
    writer = SampleWriter(tmp_path, media_token_id=MEDIA_PAD)
    turns: dict[str, Any] = {}
    with Serving(TornEngine(say_in_turn(*REPLIES))) as serving:
        async with gateway_to(serving) as (gateway, http):

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
