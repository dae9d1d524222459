"""A real tiny model behind the server: template, images, grammars, prefix cache and log-probabilities together."""

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from model_runtime.checkpoint.tiny import write_tiny
from model_runtime.processor.processor import Processor
from model_runtime.server import make_app
from tests.model_runtime.engine.real import start
from tests.model_runtime.server.serving import USER

CHAT = "/v1/chat/completions"
INSTANT = {"thinking": {"type": "disabled"}}
SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 99}, "button": {"enum": ["left", "right"]}},
    "required": ["x", "button"],
    "additionalProperties": False,
}
CLICK = {"type": "function", "function": {"name": "click", "parameters": SCHEMA, "strict": True}}
WAIT = {"type": "function", "function": {"name": "wait"}}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder: Path = tmp_path_factory.mktemp("served")
    write_tiny(folder)
    with TestClient(make_app(start(folder, served_name="tiny"), Processor.load(folder))) as asked:
        yield asked


def post(client: TestClient, path: str = CHAT, **fields: Any) -> dict[str, Any]:
    got = client.post(path, json=fields)
    assert got.status_code == 200, got.text
    return got.json()  # type: ignore[no-any-return]


def screenshot() -> dict[str, Any]:
    pixels = np.random.default_rng(3).integers(0, 255, (60, 90, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()},
    }


def test_a_picture_in_a_tools_result_and_the_cache_of_the_next_step(client: TestClient) -> None:
    call = {"id": "functions.shot:0", "type": "function", "function": {"name": "shot", "arguments": "{}"}}
    messages = [
        *USER,
        {"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "functions.shot:0", "content": [screenshot()]},
    ]
    first = post(client, messages=messages, temperature=0, max_tokens=4)
    again = post(client, messages=messages, temperature=0, max_tokens=4)
    assert again["choices"] == first["choices"]
    assert first["choices"][0]["finish_reason"] == "length"
    num_prompt = first["usage"]["prompt_tokens"]
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert num_prompt - 8 <= again["usage"]["prompt_tokens_details"]["cached_tokens"] < num_prompt


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "click"}}])
def test_a_call_that_has_to_come_can_be_read(client: TestClient, choice: Any) -> None:
    got = post(
        client, messages=USER, tools=[CLICK, WAIT], tool_choice=choice, parallel_tool_calls=False, seed=1, **INSTANT
    )
    (call,) = got["choices"][0]["message"]["tool_calls"]
    assert got["choices"][0]["finish_reason"] == "tool_calls"
    name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
    assert call["id"] == f"functions.{name}:0"
    assert name == "click" or (choice == "required" and arguments == {})
    if name == "click":
        assert set(arguments) == {"x", "button"}
        assert 0 <= arguments["x"] <= 99


def test_reasoning_comes_before_a_call_that_has_to_come(client: TestClient) -> None:
    got = post(
        client,
        messages=USER,
        tools=[WAIT],
        tool_choice="required",
        parallel_tool_calls=False,
        thinking_budget=3,
        seed=1,
    )
    assert got["usage"]["completion_tokens_details"]["reasoning_tokens"] == 3
    assert [call["function"]["name"] for call in got["choices"][0]["message"]["tool_calls"]] == ["wait"]


@pytest.mark.parametrize("seed", range(3))
def test_forbidden_calls_are_not_made(client: TestClient, seed: int) -> None:
    fields: dict[str, Any] = {"max_tokens": 40, "return_token_ids": True, "min_tokens": 40, "seed": seed}
    got = post(client, messages=USER, tools=[CLICK], tool_choice="none", **fields, **INSTANT)["choices"][0]
    shown = client.post("/detokenize", json={"tokens": got["token_ids"]}).json()["prompt"]
    assert got["message"]["content"] == shown.removesuffix("<|im_end|>")
    assert len(got["token_ids"]) == 40
    assert "<|" not in got["message"]["content"]


def test_an_answer_follows_its_schema(client: TestClient) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "point", "schema": SCHEMA}}
    got = post(client, messages=USER, response_format=wanted, seed=2, **INSTANT)
    said = json.loads(got["choices"][0]["message"]["content"])
    assert set(said) == {"x", "button"}
    assert got["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"type": "integer", "minimum": 5, "maximum": 3}])
def test_a_schema_that_cannot_be_met_is_refused(client: TestClient, schema: dict[str, Any]) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    got = client.post(CHAT, json={"messages": USER, "response_format": wanted})
    assert (got.status_code, got.json()["error"]["param"]) == (400, "response_format")


def test_too_long_a_conversation(client: TestClient) -> None:
    got = client.post(CHAT, json={"messages": [{"role": "user", "content": "a" * 2000}]})
    assert (got.status_code, got.json()["error"]["code"]) == (400, "context_length_exceeded")


def test_choices_are_those_of_their_seeds(client: TestClient) -> None:
    def said(choice: dict[str, Any]) -> str:
        return choice["message"]["reasoning_content"]  # type: ignore[no-any-return]

    together = post(client, messages=USER, n=3, seed=5, max_tokens=6)["choices"]
    alone = [post(client, messages=USER, seed=5 + i, max_tokens=6)["choices"][0] for i in range(3)]
    assert [said(choice) for choice in together] == [said(choice) for choice in alone]


def test_tokens_in_and_out_have_the_log_probabilities_of_a_second_look(client: TestClient) -> None:
    path = "/v1/completions"
    drawn = post(client, path, prompt="Hello there", logprobs=0, return_token_ids=True, max_tokens=8, seed=4)
    choice = drawn["choices"][0]
    ids = choice["prompt_token_ids"] + choice["token_ids"]
    scored = post(client, path, prompt=ids, logprobs=0, echo=True, max_tokens=0)["choices"][0]["logprobs"]
    assert len(choice["token_ids"]) == len(choice["logprobs"]["token_logprobs"])
    found, expected = choice["logprobs"]["token_logprobs"], scored["token_logprobs"][-len(choice["token_ids"]) :]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_stream_says_what_the_whole_answer_says(client: TestClient) -> None:
    fields: dict[str, Any] = {
        "messages": USER,
        "temperature": 0,
        "max_tokens": 20,
        "chat_template_kwargs": {"thinking": False},
    }
    whole = post(client, **fields)["choices"][0]["message"]["content"]
    streamed = client.post(CHAT, json=fields | {"stream": True}).text
    chunks = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == whole
