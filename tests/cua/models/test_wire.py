"""Encoding of requests: equal to the conversion of the whole conversation, at a cost that its length hardly changes."""

import json
import time
from collections.abc import Sequence

import pytest

from cua.messages import ImagePart, Message, Reply, TextPart, ThinkPart, ToolCall
from cua.models.wire import ImageEncoder, ImageFormat, RequestEncoder, to_wire
from tests.cua.models.clients import Connect, png
from tests.fake_openai import FakeOpenAI
from tests.serve_openai import DeclaredTool

TOOL = DeclaredTool(name="search", description="Search.", parameters={"type": "object"})


def conversation(num_turns: int, num_chars: int = 500) -> list[Message]:
    messages = [
        Message(role="system", parts=(TextPart(text="You search. 漢字 \ud83d"),)),
        Message(role="user", parts=(TextPart(text="Go"), ImagePart(data=png()))),
    ]
    for turn in range(num_turns):
        call = ToolCall(id=f"functions.search:{turn}", name="search", arguments='{"queries": ["a"]}')
        messages.append(Message(role="assistant", parts=(ThinkPart(text="think"),), tool_calls=(call,)))
        result = (TextPart(text=f"{turn} " + "r" * num_chars),)
        messages.append(Message(role="tool", parts=result, tool_call_id=call.id))
    return messages


async def sent_as(encoder: RequestEncoder, messages: Sequence[Message]) -> bool:
    """Return True if the encoder's request is the conversion of all messages."""
    whole = await to_wire(messages, ImageEncoder(ImageFormat()))
    return bool(json.loads(await encoder.encode({"model": "m"}, messages)) == {"model": "m", "messages": whole})


@pytest.mark.parametrize("max_bytes", [0, 2000, 2**20])
async def test_a_growing_conversation_is_sent_as_if_it_were_converted_each_time(max_bytes: int) -> None:
    encoder = RequestEncoder(ImageFormat(), max_bytes=max_bytes)
    messages = conversation(8)
    for length in range(1, len(messages) + 1):
        assert await sent_as(encoder, messages[:length])
    answered = [*messages, Message(role="assistant", parts=(TextPart(text="Done."),))]  # ends the tool loop
    assert await sent_as(encoder, answered)
    assert await sent_as(encoder, messages), "the reasoning is sent again"


async def test_a_message_is_encoded_once_even_if_it_is_made_again() -> None:
    encoder = RequestEncoder(ImageFormat())
    await encoder.encode({"model": "m"}, conversation(3))
    before = dict(encoder._encoded)
    await encoder.encode({"model": "m"}, conversation(4))
    assert len(encoder._encoded) == len(before) + 2
    assert all(encoder._encoded[key] is encoded for key, encoded in before.items())


async def test_what_is_kept_is_bounded_and_the_oldest_goes_first() -> None:
    encoder = RequestEncoder(ImageFormat(), max_bytes=5000)
    messages = conversation(20)
    await encoder.encode({"model": "m"}, messages)
    kept = [message for message, _ in encoder._encoded]
    assert kept == messages[-len(kept) :]
    assert sum(map(len, encoder._encoded.values())) == encoder._num_bytes <= 5000
    assert len(kept) >= 8


async def test_a_call_at_100_turns_costs_little_more_than_one_at_1(connect: Connect) -> None:
    """Processor time of this thread, the least of 5; it was 60 ms at 100 turns when each call converted everything."""
    took_s: dict[int, float] = {}
    with FakeOpenAI(lambda messages: Reply(content="ok")) as server:
        model = connect(server.base_url).model
        for num_turns in (1, 100):
            messages = conversation(num_turns)
            await model.generate(messages, [TOOL] * 8)
            tries = []
            for _ in range(5):
                started = time.thread_time()
                await model.generate(messages, [TOOL] * 8)
                tries.append(time.thread_time() - started)
            took_s[num_turns] = min(tries)
    assert took_s[100] < took_s[1] + 0.010, took_s
