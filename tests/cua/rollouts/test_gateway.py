"""Gateway: agents of others through the official client, against the real server with a fake engine."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import APIStatusError, AsyncOpenAI

pytest.importorskip("prometheus_client")  # of the server

from cua.errors import ModelError
from cua.json_text import Json
from cua.messages import Reply
from cua.models.endpoint import Endpoint
from cua.rollouts.gateway import EngineError, Gateway, GatewayError, check_request
from cua.rollouts.gateway_app import HttpEngine, make_gateway_app
from cua.rollouts.samples import SampledRollout, check_rollout_samples
from cua.rollouts.turns import Drift
from model_runtime.checkpoint.tiny import write_tiny
from model_runtime.server import MediaAccess, ServerOptions
from tests.cua.models.clients import png
from tests.fake_openai import FakeOpenAI, raw, slow_first_byte
from tests.model_runtime.engine.real import start
from tests.model_runtime.fakes import FakeEngine, Script
from tests.model_runtime.server.serving import Serving
from tests.model_runtime.server.test_recorded_tokens import TornEngine, call, say_in_turn, vllm_answer

TOOLS: list[Any] = [{"type": "function", "function": {"name": "click", "parameters": {"type": "object"}}}]


@asynccontextmanager
async def gateway_to(serving: Serving) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient]]:
    engine = HttpEngine(Endpoint(base_url=serving.base_url, api_key="none"))
    gateway = Gateway(engine)
    transport = httpx.ASGITransport(app=make_gateway_app(gateway))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        yield gateway, client
    await engine.close()


def official(client: httpx.AsyncClient, base_url: str, key: str = "any") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=base_url, api_key=key, http_client=client, max_retries=0)  # type: ignore[arg-type]


def image(colour: str) -> Json:
    url = f"data:image/png;base64,{base64.b64encode(png(colour=colour)).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


async def hold(client: AsyncOpenAI, *, stream: bool = False, num_turns: int = 4, **fields: Any) -> list[str]:
    """Hold a conversation with tools and images as agents do: text goes back, reasoning does not."""
    messages: list[Any] = [{"role": "user", "content": [image("#000"), {"type": "text", "text": "Click."}]}]
    texts = []
    for turn in range(num_turns):
        if stream:
            pieces = [
                piece
                async for piece in await client.chat.completions.create(
                    model="k", messages=messages, tools=TOOLS, stream=True, **fields
                )
            ]
            content = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
            calls = [tool for piece in pieces for tool in (piece.choices[0].delta.tool_calls or ())]
        else:
            answer = await client.chat.completions.create(model="k", messages=messages, tools=TOOLS, **fields)
            content, calls = answer.choices[0].message.content or "", answer.choices[0].message.tool_calls or []
        texts.append(content)
        asked = [
            {
                "id": tool.id,
                "type": "function",
                "function": {"name": tool.function.name, "arguments": tool.function.arguments},
            }
            for tool in calls
        ]
        messages.append({"role": "assistant", "content": content, **({"tool_calls": asked} if asked else {})})
        messages += [{"role": "tool", "tool_call_id": tool["id"], "content": [image(f"#00{turn}")]} for tool in asked]
        messages += [] if asked else [{"role": "user", "content": [image(f"#00{turn}")]}]
    return texts


REPLIES = [("a \ufffd", *call("click", 0, x="1")), ("b",), ("c \ufffd", *call("click", 1, x="2")), ("d",)]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("by_key", [False, True])
async def test_conversations_of_the_official_client_are_one_sequence(stream: bool, by_key: bool) -> None:
    with Serving(TornEngine(say_in_turn(*REPLIES))) as serving:
        async with gateway_to(serving) as (gateway, http):
            gateway.open_session("s1")
            base_url = "http://gateway/v1" if by_key else "http://gateway/sessions/s1/v1"
            texts = await hold(official(http, base_url, "s1"), stream=stream)
            log = gateway.close_session("s1").log
    assert texts == ["a \ufffd", "b", "c \ufffd", "d"]
    assert [turn.drift for turn in log.turns] == [Drift.CLEAN] * 4
    assert [turn.parent_id for turn in log.turns] == [None, 0, 1, 2]
    assert [len(turn.media) for turn in log.turns] == [len(turn.files) for turn in log.turns] == [1, 2, 3, 4]
    (branch,) = log.branches()
    assert sum(branch.mask) == sum(sum(turn.sampled) for turn in log.turns)
    assert all(turn.is_delivered for turn in log.turns)


async def test_an_image_that_the_engine_has_forgotten_is_sent_again() -> None:
    with Serving(TornEngine(say_in_turn(("a \ufffd",))), ServerOptions(media=MediaAccess(cache_bytes=0))) as serving:
        async with gateway_to(serving) as (gateway, http):
            gateway.open_session("s")
            await hold(official(http, "http://gateway/sessions/s/v1"))
            assert gateway.close_session("s").log.counts() == {Drift.CLEAN: 3}


async def test_a_changed_reply_is_not_continued() -> None:
    with Serving(FakeEngine(say_in_turn(("a long reply",)))) as serving:
        async with gateway_to(serving) as (gateway, http):
            gateway.open_session("s")
            client = official(http, "http://gateway/sessions/s/v1")
            messages: list[Any] = [{"role": "user", "content": "Hello."}]
            await client.chat.completions.create(model="k", messages=messages)
            messages += [{"role": "assistant", "content": "a long r\u00e9ply"}, {"role": "user", "content": "Go on."}]
            await client.chat.completions.create(model="k", messages=messages)
            await client.chat.completions.create(model="k", messages=messages[:1])
            drifts = [turn.drift for turn in gateway.close_session("s").log.turns]
    assert drifts == [Drift.CLEAN, Drift.REALIGN, Drift.FORK]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"n": 2}, "n is 2"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"guided_regex": "a+"}, "guided_regex is not a field"),
        ({"messages": []}, "at least one message"),
        ({"messages": "Hello"}, "at least one message"),
        ({"messages": [{"role": "user", "tool_calls": [5]}]}, "tool_calls of a message"),
        ({"messages": [{"role": "user", "tool_calls": [{"function": "click"}]}]}, "tool_calls of a message"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}, "image_url of a part"),
    ],
)
def test_what_cannot_be_accounted_for_is_refused(fields: Json, reason: str) -> None:
    with pytest.raises(GatewayError, match=reason):
        check_request({"model": "k", "messages": [{"role": "user", "content": "Hi"}], **fields})


async def test_errors_have_the_form_of_openai() -> None:
    with Serving(FakeEngine()) as serving:
        async with gateway_to(serving) as (gateway, http):
            gateway.open_session("s")
            statuses = {}
            for session, fields in (("t", {}), ("s", {"presence_penalty": 0.5}), ("s", {"max_tokens": -1})):
                client = official(http, f"http://gateway/sessions/{session}/v1")
                with pytest.raises(APIStatusError) as caught:
                    await client.chat.completions.create(
                        model="k", messages=[{"role": "user", "content": "Hi"}], **fields
                    )
                statuses[session + next(iter(fields), "")] = caught.value.status_code
            assert statuses == {"t": 404, "spresence_penalty": 400, "smax_tokens": 400}
            assert (await http.post("/v1/chat/completions", json={})).status_code == 401
            assert (await http.post("/sessions/s/v1/chat/completions", content=b"[")).status_code == 400
            assert (await http.post("/sessions/s")).status_code == 409
            assert (await http.post("/sessions/new")).status_code == 201
            assert (await http.delete("/sessions/new")).json() == {"turns": 0, "drift": {}}


async def test_a_retry_gets_the_same_reply_and_a_repeat_is_a_second_sample() -> None:
    with Serving(FakeEngine(lambda _: Script(pieces=("</think>", "Hello"), first_s=0.2))) as serving:
        async with gateway_to(serving) as (gateway, _):
            session = gateway.open_session("s")
            body = {"model": "k", "messages": [{"role": "user", "content": "Hi"}]}
            lost = asyncio.ensure_future(gateway.complete("s", body, key="1"))
            await asyncio.sleep(0.05)
            lost.cancel()  # the client left
            answer, turn_id = await gateway.complete("s", body, key="1")
            assert (answer["choices"][0]["message"]["content"], turn_id, len(session.log.turns)) == ("Hello", 0, 1)
            await gateway.complete("s", body)
            assert [turn.drift for turn in session.log.turns] == [Drift.CLEAN, Drift.FORK]


class RestartingEngine(HttpEngine):
    """Engine whose weights are replaced during the first call, with `running: restart`."""

    num_calls = 0

    async def complete(self, body: object) -> Json:
        self.num_calls += 1
        if self.num_calls == 1:
            raise EngineError(503, {"error": {"message": "the weights were replaced", "code": "weights_replaced"}})
        return await super().complete(body)


@pytest.mark.parametrize("key", ["", "1"])
async def test_a_retry_after_an_error_asks_the_engine_again(key: str) -> None:
    with Serving(FakeEngine(lambda _: Script(pieces=("</think>", "Hello")))) as serving:
        engine = RestartingEngine(Endpoint(base_url=serving.base_url, api_key="none"))
        transport = httpx.ASGITransport(app=make_gateway_app(gateway := Gateway(engine)))
        session = gateway.open_session("s")
        async with httpx.AsyncClient(transport=transport) as http:
            client = AsyncOpenAI(base_url="http://gateway/sessions/s/v1", api_key="k", http_client=http)  # type: ignore[arg-type]
            fields: Any = {"extra_headers": {"idempotency-key": key}} if key else {}
            answer = await client.chat.completions.create(
                model="k", messages=[{"role": "user", "content": "Hi"}], **fields
            )
        await engine.close()
    assert answer.choices[0].message.content == "Hello"
    assert (engine.num_calls, [turn.is_delivered for turn in session.log.turns]) == (2, [True])


async def test_a_reply_that_was_not_delivered_is_kept_and_not_trained() -> None:
    with Serving(FakeEngine(lambda _: Script(pieces=("</think>", "Hello"), first_s=0.1))) as serving:
        async with gateway_to(serving) as (gateway, _):
            session = gateway.open_session("s")
            lost = asyncio.ensure_future(gateway.complete("s", {"messages": [{"role": "user", "content": "Hi"}]}))
            await asyncio.sleep(0.02)
            lost.cancel()
            while not session.log.turns:
                await asyncio.sleep(0.01)
            assert [turn.is_delivered for turn in session.log.turns] == [False]
            assert session.log.branches() == ()


class AnswerEngine:
    """Engine that gives one answer."""

    def __init__(self, answer: Json) -> None:
        self.answer = answer

    async def complete(self, body: object) -> Json:
        return self.answer


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"top_p": 0.9}, "top_p is 0.9, and the engine returns no kept sets .*send 1, or use `cua serve`"),
        ({"top_k": 40}, "top_k is 40"),
        ({"min_p": 0.1}, "min_p is 0.1"),
        ({"top_p": 1, "top_k": -1, "min_p": 0}, None),
    ],
)
async def test_filters_need_an_engine_that_returns_kept_sets(fields: Json, reason: str | None) -> None:
    with FakeOpenAI(lambda messages: Reply(content="unused")) as server:  # vLLM's form, without our fields
        server.always(raw(json.dumps(vllm_answer("a", [1, 2], [3])).encode()))
        engine = HttpEngine(Endpoint(base_url=server.base_url, api_key="none"))
        gateway = Gateway(engine)
        gateway.open_session("s")
        body = {"messages": [{"role": "user", "content": "Hi"}], **fields}
        if reason is None:
            await gateway.complete("s", body)
        else:
            with pytest.raises(GatewayError, match=reason):
                await gateway.complete("s", body)
        await engine.close()
        (seen,) = server.chats
    assert seen.body["return_kept_token_ids"] is True
    assert len(gateway.sessions["s"].log.turns) == (reason is None)


async def test_kept_sets_of_filters_are_recorded_and_the_default_has_none(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    with Serving(start(tmp_path, served_name="tiny")) as serving:  # type: ignore[arg-type]
        async with gateway_to(serving) as (gateway, http):
            gateway.open_session("s")
            client = official(http, "http://gateway/sessions/s/v1")
            asked: list[Any] = [{"role": "user", "content": "Hi"}]
            cases: list[Json] = [{}, {"top_p": 0.5, "temperature": 0.5}, {"extra_body": {"top_k": 7}}]
            for fields in cases:
                answer = await client.chat.completions.create(model="t", messages=asked, max_tokens=5, **fields)
                assert not {"kept_token_ids", "num_kept"} & set(answer.choices[0].model_extra or {})
            log = gateway.close_session("s").log
    assert [list(turn.num_kept) for turn in log.turns[::2]] == [[0] * 5, [7] * 5]
    free, nucleus, likeliest = log.branches()
    assert free.kept is None
    assert [sample.spans[0].top_p for sample in (free, nucleus, likeliest)] == [1.0, 0.5, 1.0]
    for sample in (nucleus, likeliest):
        branches = (replace(sample, weight=1.0),)
        check_rollout_samples(SampledRollout(rollout="r", group="g", reward=1.0, branches=branches), media_token_id=1)
        assert sample.kept is not None
        assert (sample.kept.num > 0).tolist() == sample.mask.tolist()


async def test_an_engine_without_ids_is_an_error() -> None:
    gateway = Gateway(AnswerEngine({"choices": [{"message": {"role": "assistant", "content": "Hi"}, "index": 0}]}))
    gateway.open_session("s")
    with pytest.raises(ModelError, match="no token ids"):
        await gateway.complete("s", {"messages": [{"role": "user", "content": "Hi"}]})


async def test_a_run_with_histories_tokenized_again_fails() -> None:
    def answer(at: int) -> Json:
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi"},
            "finish_reason": "stop",
            "token_ids": [5, 6],
            "logprobs": {"content": [{"logprob": -1.0}, {"logprob": -1.0}]},
        }
        return {"choices": [choice], "prompt_token_ids": [1, 2] if at == 0 else [1, 2, 5, 7 + at]}

    engine = AnswerEngine({})
    gateway = Gateway(engine)
    num_turns = 0
    with pytest.raises(GatewayError, match=r"% of the turns had their history tokenized again"):
        for at in range(200):
            if at % 40 == 0:  # sessions that have ended count, too
                gateway.open_session(f"s{at // 40}")
            engine.answer = answer(at % 40)
            await gateway.complete(f"s{at // 40}", {"messages": [{"role": "user", "content": str(at)}]})
            num_turns += 1
            if at % 40 == 39:
                gateway.close_session(f"s{at // 40}")
    assert num_turns == 103  # the first turns of three sessions do not count


@pytest.mark.parametrize("answer", [b"[1]", b"{", b'{"choices": ' + b"[" * 300 + b"]" * 300 + b"}"])
async def test_an_answer_that_is_no_completion_or_too_deep_is_an_error(answer: bytes) -> None:
    with FakeOpenAI(lambda messages: Reply(content="unused")) as server:
        server.always(raw(answer))
        engine = HttpEngine(Endpoint(base_url=server.base_url, api_key="none"))
        with pytest.raises(ModelError, match="not a chat completion"):
            await engine.complete({"messages": []})
        await engine.close()


async def test_calls_share_a_connection_one_after_the_other_and_have_their_own_at_once() -> None:
    with FakeOpenAI(lambda messages: Reply(content="unused")) as server:
        server.always(raw(json.dumps(vllm_answer("a", [1, 2], [3])).encode()))
        engine = HttpEngine(Endpoint(base_url=server.base_url, api_key="none"))
        for _ in range(3):
            await engine.complete({"messages": []})
        assert len({request.client_port for request in server.chats}) == 1
        server.always(slow_first_byte(0.2))
        await asyncio.gather(
            *(engine.complete({"messages": [], "model": "fake"}) for _ in range(3)), return_exceptions=True
        )
        assert len({request.client_port for request in server.chats}) == 3
        await engine.close()


async def test_errors_of_the_engine_are_passed_on() -> None:
    with Serving(FakeEngine()) as serving:
        engine = HttpEngine(Endpoint(base_url=serving.base_url, api_key="none"))
        with pytest.raises(EngineError) as caught:
            await engine.complete({"messages": "?"})
        assert (caught.value.status, "error" in caught.value.body) == (400, True)
        await engine.close()
    with pytest.raises(ModelError, match="cannot be reached"):
        await HttpEngine(Endpoint(base_url="http://127.0.0.1:9/v1", api_key="none")).complete({})
    assert json.dumps(caught.value.body)
