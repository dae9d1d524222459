"""Replies over real HTTP: streams, whole answers, and all the ways in which servers differ."""

import dataclasses

import pytest

from cua.errors import ModelError, TruncatedReplyError
from cua.messages import Reply, ToolCall, Usage
from cua.models.accumulator import Delta
from cua.models.prices import Price, PriceTable
from tests.cua.models.clients import Connect, user
from tests.cua.models.conftest import REPLY
from tests.fake_openai import FakeOpenAI, delta, events, raw


def undated(reply: Reply) -> Reply:
    assert reply.duration_s > 0
    return dataclasses.replace(reply, duration_s=0.0)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reply_arrives_whole_under_both_names_of_reasoning(streaming: bool, field: str, connect: Connect) -> None:
    with FakeOpenAI(lambda messages: REPLY, reasoning_field=field) as server:
        client = connect(server.base_url, streaming=streaming)
        reply = await client.model.generate(user())
    assert undated(reply) == dataclasses.replace(REPLY, model="fake")
    assert client.model.last_reasoning_field == field


async def test_deltas_are_told_in_order(server: FakeOpenAI, connect: Connect) -> None:
    client = connect(server.base_url)
    await client.model.generate(user())
    kinds = [told.kind for told in client.deltas]
    assert kinds == sorted(kinds, key=["reasoning", "content"].index)
    assert len(kinds) > 5
    assert "".join(told.text for told in client.deltas if told.kind == "content") == REPLY.content
    assert "".join(told.text for told in client.deltas if told.kind == "reasoning") == REPLY.reasoning


async def test_a_throwing_display_does_not_look_like_a_model_failure(server: FakeOpenAI, connect: Connect) -> None:
    def broken_display(told: Delta) -> None:
        raise ZeroDivisionError

    client = connect(server.base_url)
    client.model._on_delta = broken_display
    with pytest.raises(ZeroDivisionError):
        await client.model.generate(user())


async def test_tool_calls_split_over_deltas(server: FakeOpenAI, connect: Connect) -> None:
    def piece(**fields: object) -> dict[str, object]:
        return delta(tool_calls=[fields])

    server.next(
        events(
            piece(index=0, id="functions.zoom:0", type="function", function={"name": "zoom", "arguments": ""}),
            piece(index=0, function={"arguments": '{"box": [0.1,'}),
            piece(index=1, id="functions.ocr:1", type="function", function={"name": "ocr", "arguments": None}),
            piece(index=0, function={"arguments": " 0.2]}"}),
            piece(index=1, function={"name": "ocr", "arguments": '{"a":1}'}),
            delta("tool_calls"),
        )
    )
    reply = await connect(server.base_url).model.generate(user())
    assert reply.tool_calls == (
        ToolCall(id="functions.zoom:0", name="zoom", arguments='{"box": [0.1, 0.2]}'),
        ToolCall(id="functions.ocr:1", name="ocr", arguments='{"a":1}'),
    )
    assert reply.finish_reason == "tool_calls"


async def test_tool_calls_without_index_or_id_or_with_object_arguments(server: FakeOpenAI, connect: Connect) -> None:
    server.next(
        events(
            delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "zoom", "arguments": "{"}}]),
            delta(tool_calls=[{"index": 0, "id": "b", "function": {"name": "ocr", "arguments": {"x": 1}}}]),
            delta(tool_calls=[{"index": 0, "id": "a", "function": {"arguments": "}"}}]),
            delta("tool_calls"),
        ),
        raw(
            b'{"choices": [{"message": {"tool_calls": [{"function": {"name": "f"}}, {"function": {"name": "g"}}]},'
            b' "finish_reason": "tool_calls"}]}'
        ),
    )
    model = connect(server.base_url).model
    assert (await model.generate(user())).tool_calls == (
        ToolCall(id="a", name="zoom", arguments="{}"),
        ToolCall(id="b", name="ocr", arguments='{"x": 1}'),
    )
    assert (await model.generate(user())).tool_calls == (
        ToolCall(id="functions.f:0", name="f", arguments="{}"),
        ToolCall(id="functions.g:1", name="g", arguments="{}"),
    )


async def test_a_finish_reason_without_an_end_mark_is_an_end(server: FakeOpenAI, connect: Connect) -> None:
    model = connect(server.base_url).model
    server.next(events(delta(content="ok"), delta("stop"), done=False))
    assert undated(await model.generate(user())) == Reply(content="ok", model="fake", finish_reason="stop")


async def test_text_with_every_kind_of_line_end_survives(server: FakeOpenAI, connect: Connect) -> None:
    text = "a\u2028b\u2029c\x85d\r\ne\rf\ng 漢字 😀 \x0b\x1c data: [DONE]"
    server.next(events(delta(content=text), delta("stop")))
    assert (await connect(server.base_url).model.generate(user())).content == text


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        b'data:{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}\r\n\r\ndata:[DONE]\r\n\r\n',
        b': waiting\n\n\n: still\nevent: x\nid: 1\ndata: {"choices":\ndata: [{"delta":{"content":"ok"},'
        b'"finish_reason":"stop"}]}',
        b'\xef\xbb\xbf \n{"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}], "x": null}',
        b'{"choices": [{"message": {"content": [{"type": "text", "text": "o"}, {"type": "text", "text": "k"}]},'
        b'"finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": "o\\u006b", "reasoning_content": null, "tool_calls": null},'
        b' "finish_reason": "stop"}], "usage": null, "error": null}',
    ],
    ids=["crlf", "comments and split data", "whole answer with a mark", "part list", "nulls"],
)
@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json", "text/plain", "application/x-foo"])
async def test_unusual_but_good_bodies_under_any_content_type(
    server: FakeOpenAI, connect: Connect, body: bytes, content_type: str
) -> None:
    server.next(raw(body, content_type))
    reply = await connect(server.base_url).model.generate(user())
    assert (reply.content, reply.finish_reason, reply.usage) == ("ok", "stop", Usage())


async def test_null_content_with_reasoning_is_a_reply(server: FakeOpenAI, connect: Connect) -> None:
    server.next(raw(b'{"choices": [{"message": {"content": null, "reasoning": "hm"}, "finish_reason": "stop"}]}'))
    reply = await connect(server.base_url).model.generate(user())
    assert (reply.content, reply.reasoning) == ("", "hm")


async def test_usage_of_moonshot_inside_the_choice(server: FakeOpenAI, connect: Connect) -> None:
    last = delta("stop")
    last["choices"][0]["usage"] = {"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 8}
    server.next(events(delta(content="ok"), last))
    usage = (await connect(server.base_url).model.generate(user())).usage
    assert usage == Usage(input_tokens=10, output_tokens=2, cached_tokens=8, cost_usd=0.0)


async def test_cost(server: FakeOpenAI, connect: Connect) -> None:
    prices = PriceTable(prices={"fake": Price(input=2.0, output=10.0, cached_input=0.5)})
    priced = connect(server.base_url, prices=prices)
    usage = (await priced.model.generate(user())).usage
    assert usage.cost_usd == pytest.approx((20 * 2.0 + 100 * 0.5 + 30 * 10.0) / 1e6, rel=1e-12)
    server.next(events(delta(content="ok"), delta("stop")))
    assert (await priced.model.generate(user())).usage == Usage(cost_usd=None), "a price without counts is unknown"
    assert (await connect(server.base_url).model.generate(user())).usage.cost_usd == 0.0, "loopback is free"


@pytest.mark.parametrize("streaming", [True, False])
async def test_length_is_truncation_not_failure(streaming: bool, connect: Connect) -> None:
    cut = Reply(content="abc", reasoning="long thought", finish_reason="length", usage=Usage(output_tokens=7))
    with FakeOpenAI(lambda messages: cut) as server:
        client = connect(server.base_url, streaming=streaming)
        with pytest.raises(TruncatedReplyError) as caught:
            await client.model.generate(user())
        assert len(server.chats) == 1
    assert str(caught.value) == (
        "the reply was cut at the token limit (the server's own limit, no max_tokens was sent) after 12 characters of "
        "reasoning and 3 of text. Raise it with --max-tokens"
    )
    assert caught.value.reply is not None
    assert undated(caught.value.reply) == dataclasses.replace(cut, model="fake")


async def test_content_filter_and_refusal_are_not_retried(server: FakeOpenAI, connect: Connect) -> None:
    server.next(events(delta("content_filter")), events(delta(refusal="I will not"), delta("stop")))
    model = connect(server.base_url).model
    for text in ("the server's content filter stopped the reply", "the model refuses: I will not"):
        with pytest.raises(ModelError) as caught:
            await model.generate(user())
        assert (str(caught.value), caught.value.retryable) == (text, False)


async def test_connection_is_reused(server: FakeOpenAI, connect: Connect) -> None:
    model = connect(server.base_url).model
    for _ in range(3):
        await model.generate(user())
    ports = {seen.client_port for seen in server.chats}
    assert len(ports) == 1
    await model.close()
    await model.close()
