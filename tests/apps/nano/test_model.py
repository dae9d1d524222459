"""The model `nano` in this process, with weights that were never trained: requests, answers, errors, its end."""

import asyncio
import io
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from apps.nano.model import FOLDER_VARIABLE, NanoModel, find_weights
from apps.train.episodes import EpisodeStep, make_episode
from apps.train.lessons import LessonMaker
from apps.train.nano import make_config, make_model
from apps.train.screens.screen import TRAINED_FAMILIES, ScreenOptions
from apps.train.vocabulary import make_vocabulary
from cua.errors import ConfigError, TruncatedReplyError
from cua.gui_agent.protocol.history import to_messages
from cua.gui_agent.protocol.prompts import ProtocolOptions
from cua.messages import Message, Reply, Sampling, TextPart
from cua.models.make import make_model as make_named
from cua.step import Step, Turn
from envs import Observation, ScreenGeometry
from model_runtime.engine.contract import EngineRequest
from model_runtime.engine.thread import EngineThread
from model_runtime.media import Prompt
from model_runtime.tokenizer.tokenizer import load_tokenizer
from model_runtime.training.release import export_model

OPTIONS = ScreenOptions(families=TRAINED_FAMILIES, sizes_px=((280, 224), (400, 300)))
HELLO = Message(role="user", parts=(TextPart(text="Hello"),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("nano")
    model = make_model(made / "init", make_config(make_vocabulary()), seed=0)
    export_model(model.eval(), made / "model", ranks=make_vocabulary(), group_size=32)
    return made / "model"


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Prompt]]:
    """The prompts that reach the engine."""
    seen: list[Prompt] = []
    generate = EngineThread.generate

    def record(self: EngineThread, request: EngineRequest) -> AsyncIterator[Any]:
        seen.append(request.prompt)
        return generate(self, request)

    monkeypatch.setattr(EngineThread, "generate", record)
    yield seen


def make_messages(moments: tuple[EpisodeStep, ...]) -> list[Message]:
    """What the agent sends at the last of these moments."""
    seen = []
    for moment in moments:
        data = io.BytesIO()
        Image.fromarray(moment.screen.pixels).save(data, "PNG")
        height, width = moment.screen.pixels.shape[:2]
        geometry = ScreenGeometry(native_px=(width, height), sent_px=(width, height))
        seen.append(Observation(screenshot=data.getvalue(), geometry=geometry))
    steps = [
        Step(
            index=number,
            observation=observation,
            reply=Reply(content=""),
            turn=Turn(thought=asked.thought, action_text=asked.action, code=asked.code),
        )
        for number, (observation, asked) in enumerate(
            zip(seen, (moment.question for moment in moments[:-1]), strict=False), start=1
        )
    ]
    return to_messages(moments[-1].question.instruction, steps, seen[-1], ProtocolOptions())


@pytest.mark.long
async def test_the_engine_gets_what_it_was_trained_with(folder: Path, prompts: list[Prompt]) -> None:
    """At each step of an episode of four: through PNG, JSON and chat template, to the very tokens and pixels."""
    rng, maker = random.Random(0), LessonMaker(load_tokenizer(folder))
    episode = next(one for one in iter(lambda: make_episode(rng, OPTIONS), None) if len(one) == 4)
    model = NanoModel(folder)
    try:
        for count in range(1, 5):
            with suppress(TruncatedReplyError):  # what an untrained model says is no matter
                await model.generate(make_messages(episode[:count]), sampling=Sampling(temperature=0.0, max_tokens=2))
            expected = maker.make_prompt(episode[:count])
            assert prompts[-1].token_ids == expected.token_ids
            for sent, made in zip(prompts[-1].media, expected.media, strict=True):
                assert sent.offset == made.offset and (sent.item.frames == made.item.frames).all()
    finally:
        await model.close()


@pytest.mark.long
async def test_it_closes_and_loads_again(folder: Path) -> None:
    model = NanoModel(folder)
    for _ in range(2):
        with pytest.raises(TruncatedReplyError) as caught:
            await model.generate([HELLO], sampling=Sampling(temperature=0.0, max_tokens=3))
        reply = caught.value.reply
        assert reply is not None and reply.usage.output_tokens == 3 and reply.usage.cost_usd == 0.0
        await model.close()
        await model.close()


async def test_calls_at_once_load_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.nano import model as module

    loads, load = [], module.load_nano
    monkeypatch.setattr(module, "load_nano", lambda *given: (loads.append(1), load(*given))[1])
    model = NanoModel(folder)
    short = Sampling(temperature=0.0, max_tokens=2)
    ends = await asyncio.gather(*(model.generate([HELLO], sampling=short) for _ in range(3)), return_exceptions=True)
    await model.close()
    assert [type(end) for end in ends] == [TruncatedReplyError] * 3 and len(loads) == 1


def test_weights_by_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    assert find_weights() == folder
    made = make_named("nano")
    assert isinstance(made, NanoModel) and made.folder == folder
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(ConfigError, match=r"K25_NANO names .* holds no model"):
        make_named("nano")
