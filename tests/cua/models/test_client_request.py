"""What goes over the wire: the JSON of requests, and that it reads back into the same messages."""

import base64
import io
import json
from typing import Any

import pytest
from PIL import Image

from cua.errors import ModelError
from cua.messages import ImagePart, Message, Reply, Sampling, TextPart, ThinkPart, ToolCall, VideoPart
from cua.models.scripted import ScriptedModel
from cua.models.wire import ImageFormat
from tests.cua.models.clients import Connect, png, user
from tests.fake_openai import FakeOpenAI
from tests.serve_openai import DeclaredTool

PNG = png()
DATA_URL = "data:image/png;base64," + base64.b64encode(PNG).decode()
CALL = ToolCall(id="functions.zoom:0", name="zoom", arguments='{"box": [0, 0]}')
CONVERSATION = (
    Message(role="system", parts=(TextPart(text="You drive a computer."),)),
    Message(role="assistant", parts=(ThinkPart(text="old thought"), TextPart(text="# Step 1:"))),
    Message(role="user", parts=(ImagePart(data=PNG),)),
    Message(role="user", parts=(ImagePart(data=PNG), TextPart(text="# Task Instruction: {x} 漢字 😀"))),
    Message(role="assistant", parts=(ThinkPart(text="look closer"),), tool_calls=(CALL,)),
    Message(
        role="tool",
        parts=(TextPart(text="zoomed"), ImagePart(data=PNG)),
        tool_call_id="functions.zoom:0",
        name="zoom",
    ),
)


async def test_tokens_seed_and_stop_are_asked_for(server: FakeOpenAI, connect: Connect) -> None:
    sampling = Sampling(seed=7, stop=("END",), with_tokens=True, extra_body={"top_k": 5})
    reply = await connect(server.base_url).model.generate(CONVERSATION, sampling=sampling)
    sent = server.chats[0].body
    asked = {key: sent.get(key) for key in ("seed", "stop", "logprobs", "return_token_ids", "top_k")}
    assert asked == {"seed": 7, "stop": ["END"], "logprobs": True, "return_token_ids": True, "top_k": 5}
    assert sent["logprobs_mode"] == "processed_logprobs"
    assert reply.tokens is None  # this server knows nothing of ids


async def test_conversation_on_the_wire(server: FakeOpenAI, connect: Connect) -> None:
    await connect(server.base_url, api_key="sk-1").model.generate(CONVERSATION)
    image = {"type": "image_url", "image_url": {"url": DATA_URL}}
    assert server.chats[0].body == {
        "model": "fake",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "You drive a computer."},
            {"role": "assistant", "content": "# Step 1:"},
            {"role": "user", "content": [image]},
            {"role": "user", "content": [image, {"type": "text", "text": "# Task Instruction: {x} 漢字 😀"}]},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "look closer",
                "tool_calls": [
                    {
                        "id": "functions.zoom:0",
                        "type": "function",
                        "function": {"name": "zoom", "arguments": '{"box": [0, 0]}'},
                    }
                ],
            },
            {
                "role": "tool",
                "tool_call_id": "functions.zoom:0",
                "name": "zoom",
                "content": [{"type": "text", "text": "zoomed"}, image],
            },
        ],
    }
    assert server.chats[0].headers["authorization"] == "Bearer sk-1"


async def test_messages_arrive_at_the_served_model_as_they_left(connect: Connect) -> None:
    served = ScriptedModel(["ok"])
    with FakeOpenAI(served) as server:
        await connect(server.base_url).model.generate(CONVERSATION)
    without_old_thought = Message(role="assistant", parts=(TextPart(text="# Step 1:"),))
    assert served.received == [(CONVERSATION[0], without_old_thought, *CONVERSATION[2:])]


async def test_video_and_empty_messages(connect: Connect) -> None:
    served = ScriptedModel(["ok"])
    sent = (
        Message(role="user", parts=(VideoPart(data=b"\x00film"), TextPart(text=""))),
        Message(role="user", parts=()),
        Message(role="user", parts=(TextPart(text=""),)),
    )
    with FakeOpenAI(served) as server:
        await connect(server.base_url).model.generate(sent)
        assert [message["content"] for message in server.chats[0].body["messages"]][1:] == ["", ""]
    assert served.received == [(sent[0], sent[1], Message(role="user", parts=()))]


async def test_tools_and_sampling(connect: Connect) -> None:
    served = ScriptedModel([Reply(content="", tool_calls=(CALL,), finish_reason="tool_calls")])
    schema = {"type": "object", "properties": {"box": {"type": "array"}}}
    tool = DeclaredTool(name="zoom", description="Look closer.", parameters=schema)
    sampling = Sampling(
        temperature=0.0, top_p=0.5, max_tokens=99, extra_body={"chat_template_kwargs": {"thinking": False}}
    )
    with FakeOpenAI(served) as server:
        reply = await connect(server.base_url).model.generate(user(), [tool], sampling)
        sent = server.chats[0].body
    assert reply.tool_calls == (CALL,)
    assert sent["tools"] == [
        {"type": "function", "function": {"name": "zoom", "description": "Look closer.", "parameters": schema}}
    ]
    assert {key: sent[key] for key in ("temperature", "top_p", "max_tokens", "chat_template_kwargs")} == {
        "temperature": 0.0,
        "top_p": 0.5,
        "max_tokens": 99,
        "chat_template_kwargs": {"thinking": False},
    }
    assert served.received_sampling == [Sampling(temperature=0.0, top_p=0.5, max_tokens=99)]


@pytest.mark.parametrize(
    ("in_options", "in_call", "sent"),
    [
        (None, None, {}),
        (Sampling(temperature=1.0), None, {"temperature": 1.0}),
        (Sampling(temperature=1.0), Sampling(top_p=0.9), {"top_p": 0.9}),
        (Sampling(temperature=1.0), Sampling(), {}),
    ],
)
async def test_sampling_of_the_call_replaces_the_options(
    server: FakeOpenAI, connect: Connect, in_options: Sampling | None, in_call: Sampling | None, sent: dict[str, Any]
) -> None:
    await connect(server.base_url, sampling=in_options).model.generate(user(), sampling=in_call)
    body = server.chats[0].body
    assert {key: value for key, value in body.items() if key in ("temperature", "top_p", "max_tokens")} == sent


async def test_without_streaming_nothing_asks_for_it(server: FakeOpenAI, connect: Connect) -> None:
    await connect(server.base_url, streaming=False).model.generate(user())
    assert set(server.chats[0].body) == {"model", "messages"}


async def test_endpoint_from_the_environment(
    server: FakeOpenAI, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url + "/")
    monkeypatch.setenv("OPENAI_API_KEY", " sk-env\n")
    client = connect(None)  # type: ignore[arg-type]
    await client.model.generate(user())
    assert server.chats[0].headers["authorization"] == "Bearer sk-env"
    assert repr(client.model) == f"OpenAICompatModel('fake' at {server.base_url})"


async def test_account_of_the_environment_is_named(
    server: FakeOpenAI, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "")
    await connect(server.base_url).model.generate(user())
    headers = server.chats[0].headers
    assert (headers["openai-organization"], "openai-project" in headers) == ("org-1", False)
    assert (headers["content-type"], headers["accept-encoding"]) == ("application/json", "identity")


@pytest.mark.parametrize(
    ("image_format", "media_type", "pillow"), [("webp:75", "image/webp", "WEBP"), ("jpeg:90", "image/jpeg", "JPEG")]
)
async def test_pictures_are_transcoded(connect: Connect, image_format: str, media_type: str, pillow: str) -> None:
    served = ScriptedModel(["ok"])
    with FakeOpenAI(served) as server:
        await connect(server.base_url, image_format=ImageFormat.parse(image_format)).model.generate(CONVERSATION[2:3])
    (part,) = served.received[0][0].parts
    assert isinstance(part, ImagePart)
    assert part.media_type == media_type
    with Image.open(io.BytesIO(part.data)) as image:
        assert (image.format, image.size, image.mode) == (pillow, (40, 30), "RGB")


async def test_broken_picture_is_not_retried(server: FakeOpenAI, connect: Connect) -> None:
    client = connect(server.base_url, image_format=ImageFormat.parse("webp"))
    with pytest.raises(ModelError, match=r"^an image of the conversation cannot be sent as webp:75: ") as caught:
        await client.model.generate([Message(role="user", parts=(ImagePart(data=b"no image"),))])
    assert not caught.value.retryable
    assert server.requests == []


async def test_concurrent_calls_share_one_client(connect: Connect) -> None:
    import asyncio

    with FakeOpenAI(lambda messages: Reply(content=messages[0].text)) as server:
        model = connect(server.base_url).model
        replies = await asyncio.gather(*(model.generate(user(f"call {i}")) for i in range(30)))
        assert [reply.content for reply in replies] == [f"call {i}" for i in range(30)]
        assert sorted(json.dumps(seen.body["messages"]) for seen in server.chats) == sorted(
            json.dumps([{"role": "user", "content": f"call {i}"}]) for i in range(30)
        )
