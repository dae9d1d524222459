"""The judge passes every client of ours and catches the ways of breaking the contract."""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from apps.literal import LiteralModel
from cua.check_model import ModelContractError, check_model
from cua.errors import ModelError, TruncatedReplyError
from cua.messages import Message, Reply, ReplyTokens, Sampling, ToolCall, Usage
from cua.model import Tool
from cua.models.gate import RetryPolicy
from cua.models.openai_compat import OpenAICompatModel, OpenAICompatOptions
from cua.models.scripted import ScriptedModel
from tests.apps.cli.running import wait_until
from tests.fake_openai import FakeOpenAI, refused_url, slow_first_byte

ALL = ("max_tokens", "stop", "seed")


class GoodModel:
    """Says what it was asked, and honours every field of the sampling."""

    name = "good"
    slow_s = 0.0

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        sampling = sampling or Sampling()
        await asyncio.sleep(self.slow_s)
        if not messages:
            raise ModelError("there are no messages; expected at least one", retryable=False)
        content = f"You said: {messages[-1].text} Seed {sampling.seed}."
        for word in sampling.stop:
            content = content.partition(word)[0]
        reply = Reply(content=content, usage=Usage(input_tokens=9, output_tokens=len(content.split())))
        if sampling.max_tokens is not None and len(content.split()) > sampling.max_tokens:
            cut = " ".join(content.split()[: sampling.max_tokens])
            usage = Usage(input_tokens=9, output_tokens=sampling.max_tokens)
            raise TruncatedReplyError("cut", reply=replace(reply, content=cut, usage=usage, finish_reason="length"))
        return reply

    async def close(self) -> None:
        pass


def client(base_url: str, **options: Any) -> OpenAICompatModel:
    return OpenAICompatModel(
        OpenAICompatOptions(
            model="good", base_url=base_url, sampling=Sampling(), retry=RetryPolicy(max_retries=0), **options
        )
    )


async def test_a_good_model_passes() -> None:
    await check_model(GoodModel)


@pytest.mark.parametrize("streaming", [True, False])
async def test_our_client_keeps_the_contract_over_http(streaming: bool) -> None:
    with FakeOpenAI(GoodModel(), model_id="good") as server:
        await check_model(
            lambda: client(server.base_url, streaming=streaming), make_unreachable=lambda: client(refused_url())
        )
        asked = [request.body for request in server.chats]
    assert {name for body in asked for name in ("stop", "seed", "max_tokens", "tools") if body.get(name)} == {
        *ALL,
        "tools",
    }


@pytest.mark.long
async def test_a_call_to_a_slow_server_is_cancelled_in_the_middle() -> None:
    with FakeOpenAI(GoodModel(), model_id="good") as server:
        server.always(slow_first_byte(0.15))
        await check_model(lambda: client(server.base_url), ignores=ALL)
        wait_until(lambda: any(exchange.client_left.is_set() for exchange in server.exchanges))


async def test_the_embedded_model_keeps_the_contract() -> None:
    await check_model(LiteralModel, ignores=("max_tokens", "stop"))


async def test_the_scripted_model_keeps_the_contract() -> None:
    await check_model(lambda: ScriptedModel(itertools.repeat("## Action:\nWait")), ignores=ALL)


class Broken(GoodModel):
    """Changes a good reply."""

    def change(self, reply: Reply) -> Any:
        return reply

    async def generate(self, *args: Any, **more: Any) -> Any:
        return self.change(await super().generate(*args, **more))


def changing(**fields: Any) -> type[Broken]:
    class Changed(Broken):
        def change(self, reply: Reply) -> Reply:
            return replace(reply, **fields)

    return Changed


class NoReply(Broken):
    def change(self, reply: Reply) -> Any:
        return reply.content


class Nameless(GoodModel):
    name = ""


class RaisesKeyError(GoodModel):
    async def generate(self, messages: Sequence[Message], *more: Any, **named: Any) -> Reply:
        if not messages:
            raise KeyError("messages")
        return await super().generate(messages, *more, **named)


class Mutates(GoodModel):
    async def generate(self, messages: Sequence[Message], *more: Any, **named: Any) -> Reply:
        reply = await super().generate(messages, *more, **named)
        if isinstance(messages, list):
            messages.pop()
        return reply


class Mute(GoodModel):
    async def generate(self, *args: Any, **named: Any) -> Reply:
        raise ModelError("", retryable=False)


class Refuses(GoodModel):
    async def generate(self, *args: Any, **named: Any) -> Reply:
        raise ModelError("no", retryable=False)


class RetryableTools(GoodModel):
    async def generate(self, messages: Sequence[Message], tools: Sequence[Tool] = (), *more: Any) -> Reply:
        if tools:
            raise ModelError("no tools here", retryable=True)
        return await super().generate(messages, tools, *more)


class IgnoresSampling(GoodModel):
    keeps: str = ""

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        kept = {name: getattr(sampling, name) for name in self.keeps.split() if sampling is not None}
        return await super().generate(messages, tools, Sampling(**kept))


class IgnoresStop(IgnoresSampling):
    keeps = "max_tokens seed"


class IgnoresMaxTokens(IgnoresSampling):
    keeps = "stop seed"

    async def generate(self, *args: Any, **named: Any) -> Reply:
        reply = await super().generate(*args, **named)
        return replace(reply, content=reply.content + " and so on" * 30, usage=Usage())


class Random(GoodModel):
    count = itertools.count()

    async def generate(self, *args: Any, **named: Any) -> Reply:
        reply = await super().generate(*args, **named)
        return replace(reply, reasoning=str(next(self.count)))


class MixesUp(GoodModel):
    """One place for the question of whoever asked last."""

    last: tuple[Message, ...] = ()

    async def generate(self, messages: Sequence[Message], *more: Any, **named: Any) -> Reply:
        self.last = tuple(messages)
        await asyncio.sleep(0.01)
        return await super().generate(self.last, *more, **named)


class SwallowsCancellation(GoodModel):
    async def generate(self, *args: Any, **named: Any) -> Reply:
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            return Reply(content="never mind")
        return await super().generate(*args, **named)


class DeafToCancellation(GoodModel):
    async def generate(self, *args: Any, **named: Any) -> Reply:
        for _ in range(100):
            try:
                await asyncio.sleep(0.06)
            except asyncio.CancelledError:
                continue
            return await super().generate(*args, **named)
        raise AssertionError


class DeadAfterCancellation(GoodModel):
    is_dead = False

    async def generate(self, *args: Any, **named: Any) -> Reply:
        if self.is_dead:
            raise ModelError("the connection is gone", retryable=True)
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            self.is_dead = True
            raise
        return await super().generate(*args, **named)


class ClosesOnce(GoodModel):
    is_closed = False

    async def close(self) -> None:
        if self.is_closed:
            raise RuntimeError("closed already")
        self.is_closed = True


class Hangs(GoodModel):
    async def generate(self, *args: Any, **named: Any) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError


CALL = ToolCall(id="a", name="look_up", arguments="{}")


@pytest.mark.parametrize(
    ("broken", "clause"),
    [
        (NoReply, "generate returns a Reply"),
        (Nameless, "a model has a name"),
        (RaisesKeyError, "what fails is a ModelError"),
        (Mutates, "the messages stay as they are"),
        (Mute, "a ModelError says what to do"),
        (Refuses, "an ordinary conversation is answered"),
        (RetryableTools, "tools are taken, or refused for good"),
        (IgnoresStop, "stop is honoured, or refused for good"),
        (IgnoresMaxTokens, "max_tokens is honoured, or refused for good"),
        (Random, "seed is honoured, or refused for good"),
        (MixesUp, "calls at the same time do not meet"),
        (SwallowsCancellation, "a call that is cancelled ends at once: the cancellation was swallowed"),
        (DeadAfterCancellation, "an ordinary conversation is answered: a question after one that was cancelled"),
        (ClosesOnce, "close may be called twice"),
        (changing(content=None), "content and reasoning are texts"),
        (changing(finish_reason="done"), "finish_reason is one of the closed set"),
        (changing(finish_reason="length"), "a reply that was cut is a TruncatedReplyError"),
        (changing(duration_s=float("nan")), "duration_s is a number of seconds"),
        (changing(tool_calls=[CALL]), "tool_calls is a tuple of ToolCall"),
        (changing(tool_calls=(replace(CALL, id=""),)), "a tool call has an id, a name"),
        (changing(tool_calls=(CALL, CALL)), "the ids of tool calls differ"),
        (changing(usage=Usage(input_tokens=1, cached_tokens=2)), "usage counts tokens"),
        (changing(usage=Usage(cost_usd=float("nan"))), "cost_usd is money"),
        (changing(tokens=ReplyTokens(ids=(1, 2), logprobs=(-0.1,))), "logprobs, sampled and num_kept go with the ids"),
        (changing(tokens=ReplyTokens(ids=(1,), logprobs=(0.5,))), "log-probabilities are not above 0"),
    ],
)
async def test_a_broken_model_is_caught_by_the_clause_it_breaks(broken: type[GoodModel], clause: str) -> None:
    with pytest.raises(ModelContractError) as caught:
        await check_model(broken)
    assert str(caught.value).startswith(clause)


@pytest.mark.parametrize(
    ("broken", "clause"), [(Hangs, "a call ends: a first question"), (DeafToCancellation, "a call that is cancelled")]
)
async def test_a_model_that_does_not_end_is_caught(broken: type[GoodModel], clause: str) -> None:
    with pytest.raises(ModelContractError, match=clause):
        await check_model(broken, timeout_s=0.3)


async def test_a_model_that_answers_without_a_server_is_caught() -> None:
    with pytest.raises(ModelContractError, match="a server that is off is a ModelError worth retrying"):
        await check_model(GoodModel, make_unreachable=GoodModel)
