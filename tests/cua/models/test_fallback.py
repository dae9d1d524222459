import pytest

from cua.errors import ModelError, TruncatedReplyError
from cua.messages import Reply, Sampling
from cua.models.gate import RetryPolicy
from cua.models.make import FallbackModel
from cua.models.scripted import ScriptedModel
from tests.cua.models.clients import Connect, user
from tests.cua.models.conftest import REPLY
from tests.fake_openai import FakeOpenAI, refused_url

DOWN = ModelError("primary is down", retryable=True)


async def test_primary_answers_while_it_can() -> None:
    primary, second = ScriptedModel(["one"], name="big"), ScriptedModel([], name="small")
    model = FallbackModel(primary, second)
    assert await model.generate(user(), sampling=Sampling(top_p=0.5)) == Reply(content="one", model="big")
    assert primary.received_sampling == [Sampling(top_p=0.5)]
    assert model.name == "big (fallback: small)"


async def test_fallback_says_so_and_gives_the_primary_a_pause() -> None:
    now = [0.0]
    primary = ScriptedModel([DOWN, "primary is back"], name="big")
    second = ScriptedModel(["a", Reply(content="b", model="small-2026")], name="small")
    model = FallbackModel(primary, second, pause_s=300, clock=lambda: now[0])
    assert await model.generate(user(), sampling=Sampling(temperature=1.0)) == Reply(
        content="a", model="small (fallback for big)"
    )
    now[0] = 299.0
    assert await model.generate(user()) == Reply(content="b", model="small-2026 (fallback for big)")
    now[0] = 300.0
    assert await model.generate(user()) == Reply(content="primary is back", model="big")
    assert len(primary.received) == 2
    assert second.received_sampling == [None, None]


@pytest.mark.parametrize("error", [ModelError("wrong key", retryable=False), TruncatedReplyError("cut")])
async def test_mistakes_are_not_hidden(error: ModelError) -> None:
    second = ScriptedModel(["x"])
    with pytest.raises(ModelError) as caught:
        await FallbackModel(ScriptedModel([error]), second).generate(user())
    assert caught.value is error
    assert second.received == []


async def test_both_down() -> None:
    model = FallbackModel(ScriptedModel([DOWN]), ScriptedModel([ModelError("so is this", retryable=True)]))
    with pytest.raises(ModelError) as caught:
        await model.generate(user())
    assert (str(caught.value), caught.value.retryable) == ("primary is down; and the fallback: so is this", True)


async def test_over_http(server: FakeOpenAI, connect: Connect) -> None:
    primary = connect(refused_url(), retry=RetryPolicy(max_retries=1))
    model = FallbackModel(primary.model, connect(server.base_url).model)
    reply = await model.generate(user())
    assert (reply.content, reply.model) == (REPLY.content, "fake (fallback for fake)")
    assert len(primary.retries) == 1
    await model.close()
