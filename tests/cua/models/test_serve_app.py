"""The served application, called by the official client and by hand-written bytes."""

import json
import urllib.error
import urllib.request
from typing import Any

import openai
import pytest

from cua.errors import ModelError, TruncatedReplyError
from cua.messages import Reply, ToolCall, Usage
from cua.models.scripted import ScriptedModel
from tests.fake_openai import FakeOpenAI

REPLY = Reply(
    content="Hello, this is a reply of some length.",
    reasoning="Let me think about it for a while.",
    tool_calls=(ToolCall(id="functions.f:0", name="f", arguments='{"a": [1, 2, 3, 4, 5]}'),),
    finish_reason="tool_calls",
    usage=Usage(input_tokens=3, output_tokens=4, cached_tokens=2),
)
USER: list[Any] = [{"role": "user", "content": "hi"}]


def post(url: str, body: bytes) -> tuple[int, Any]:
    request = urllib.request.Request(f"{url}/chat/completions", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_official_client_reads_whole_answers_and_streams() -> None:
    with (
        FakeOpenAI(ScriptedModel([REPLY, REPLY])) as server,
        openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client,
    ):
        assert [model.id for model in client.models.list()] == ["fake"]
        whole = client.chat.completions.create(model="fake", messages=USER)
        events = list(
            client.chat.completions.create(
                model="fake", messages=USER, stream=True, stream_options={"include_usage": True}
            )
        )
    message = whole.choices[0].message
    assert (message.content, message.reasoning_content) == (REPLY.content, REPLY.reasoning)  # type: ignore[attr-defined]
    assert message.tool_calls is not None
    assert [call.to_dict() for call in message.tool_calls] == [
        {"id": "functions.f:0", "type": "function", "function": {"name": "f", "arguments": '{"a": [1, 2, 3, 4, 5]}'}}
    ]
    assert whole.usage is not None
    assert whole.usage.to_dict() == {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    deltas = [event.choices[0].delta for event in events if event.choices]
    assert "".join(delta.content or "" for delta in deltas) == REPLY.content
    assert events[-2].choices[0].finish_reason == whole.choices[0].finish_reason == "tool_calls"
    assert events[-1].usage == whole.usage


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"model": "other"}, 404, "the model 'other' does not exist; this server has 'fake'"),
        ({"messages": []}, 400, "messages: List should have at least 1 item after validation, not 0"),
        ({"messages": [{"role": "robot", "content": "x"}]}, 400,
         "messages.0.role: Input should be 'system', 'user', 'assistant' or 'tool'"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, 400,
         "a content part of type 'input_audio' is not known; known: text, image_url, video_url"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url",
          "image_url": {"url": "http://x/a.png"}}]}]}, 400,
         "expected a base64 data: URL, found 'http://x/a.png': nothing is fetched from here"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url",
          "image_url": {"url": "data:image/gif;base64,AAAA"}}]}]}, 400,
         "images of type 'image/gif' are not known; known: image/png, image/jpeg, image/webp"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url",
          "image_url": {"url": "data:image/png;base64,A*"}}]}]}, 400,
         "a data: URL is not base64: Only base64 data is allowed"),
    ],
)  # fmt: skip
def test_bad_requests(fields: dict[str, Any], code: int, text: str) -> None:
    with FakeOpenAI(ScriptedModel([])) as server:
        got, body = post(server.base_url, json.dumps({"model": "fake", "messages": USER} | fields).encode())
    assert (got, body["error"]["message"]) == (code, text)


def test_space_after_the_comma_of_a_data_url_is_taken() -> None:
    model = ScriptedModel(["ok"])
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64, AAAA"}}
    with FakeOpenAI(model) as server:
        code, _ = post(
            server.base_url, json.dumps({"model": "fake", "messages": [{"role": "user", "content": [part]}]}).encode()
        )
    assert code == 200
    (image,) = model.received[0][0].parts
    assert image.data == b"\x00\x00\x00"  # type: ignore[union-attr]


def test_errors_of_the_model() -> None:
    cut = Reply(content="ab", finish_reason="length")
    script = [
        ModelError("busy", retryable=True),
        ModelError("wrong", retryable=False),
        TruncatedReplyError("cut", reply=cut),
        TruncatedReplyError("cut and lost"),
    ]
    with FakeOpenAI(ScriptedModel(script)) as server:
        body = json.dumps({"model": "fake", "messages": USER}).encode()
        answers = [post(server.base_url, body) for _ in script]
    assert [code for code, _ in answers] == [503, 400, 200, 400]
    assert answers[0][1]["error"]["message"] == "busy"
    assert answers[2][1]["choices"][0] == {
        "index": 0,
        "message": {"role": "assistant", "content": "ab"},
        "finish_reason": "length",
    }
