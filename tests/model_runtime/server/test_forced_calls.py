"""Replies that are held to a form, over the whole way: sampler, grammar, parser and server, at temperature 1."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from starlette.testclient import TestClient

from model_runtime.server import make_app
from model_runtime.tokenizer import Tokenizer
from tests.model_runtime.engine.spoken import RandomModel, ToldModel, start_spoken
from tests.model_runtime.fakes import FakeProcessor
from tests.model_runtime.server.serving import USER

CHAT = "/v1/chat/completions"
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 99}, "button": {"enum": ["left", "right"]}},
    "required": ["x", "button"],
    "additionalProperties": False,
}
NOTE = {"type": "object", "properties": {"text": {"type": "string", "maxLength": 8}}, "required": ["text"]}
SCHEMA_OF: dict[str, dict[str, Any]] = {"click": POINT, "note": NOTE, "wait": {"maxProperties": 0}}
TOOLS = [
    {"type": "function", "function": {"name": "click", "parameters": POINT, "strict": True}},
    {"type": "function", "function": {"name": "note", "parameters": NOTE}},
    {"type": "function", "function": {"name": "wait"}},
]
NAMED = {"type": "function", "function": {"name": "note"}}
NUM_SEEDS = 24


@pytest.fixture(scope="module")
def random_client(tokenizer: Tokenizer) -> Iterator[TestClient]:
    with TestClient(make_app(start_spoken(RandomModel(tokenizer), tokenizer), FakeProcessor())) as asked:
        yield asked


def ask(client: TestClient, *, thinking: bool = True, **fields: Any) -> list[dict[str, Any]]:
    """Choices, one for each seed, at temperature 1."""
    body = {"messages": USER, "temperature": 1, "top_p": 1, "seed": 1, "n": NUM_SEEDS, "max_tokens": 1500, **fields}
    got = client.post(CHAT, json=body | {"chat_template_kwargs": {"thinking": thinking}})
    assert got.status_code == 200, got.text
    choices: list[dict[str, Any]] = got.json()["choices"]
    assert {choice["finish_reason"] for choice in choices} <= {"stop", "tool_calls"}, "a reply did not come to its end"
    return choices


def calls_of(choice: dict[str, Any]) -> list[dict[str, Any]]:
    return choice["message"].get("tool_calls", [])  # type: ignore[no-any-return]


def check_call(call: dict[str, Any]) -> None:
    function = call["function"]
    assert function["name"] in SCHEMA_OF
    jsonschema.validate(json.loads(function["arguments"]), SCHEMA_OF[function["name"]])


@pytest.mark.parametrize("thinking", [True, False], ids=["thinking", "instant"])
@pytest.mark.parametrize("choice", ["required", "auto", NAMED], ids=["required", "strict", "named"])
@pytest.mark.long
def test_every_call_is_declared_and_fits_its_schema(random_client: TestClient, choice: Any, thinking: bool) -> None:
    choices = ask(random_client, tools=TOOLS, tool_choice=choice, thinking=thinking)
    for one in choices:
        for call in calls_of(one):
            check_call(call)
        assert one["message"]["content"] is None or choice == "auto"
    if choice == NAMED:
        assert [[call["function"]["name"] for call in calls_of(one)] for one in choices] == [["note"]] * NUM_SEEDS
    if choice == "required":
        assert all(map(calls_of, choices))
        assert {call["function"]["name"] for one in choices for call in calls_of(one)} == set(SCHEMA_OF)


@pytest.mark.parametrize("thinking", [True, False], ids=["thinking", "instant"])
def test_an_answer_by_schema_is_one_whatever_the_reasoning_was(random_client: TestClient, thinking: bool) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "point", "schema": POINT}}
    for choice in ask(random_client, response_format=wanted, thinking=thinking):
        jsonschema.validate(json.loads(choice["message"]["content"]), POINT)


def test_forbidden_calls_do_not_come_out_of_the_reasoning(random_client: TestClient) -> None:
    for choice in ask(random_client, tools=TOOLS, tool_choice="none", return_token_ids=True):
        assert not calls_of(choice)
        shown = random_client.post("/detokenize", json={"tokens": choice["token_ids"]}).json()["prompt"]
        message = choice["message"]
        said = f"{message.get('reasoning_content', '')}</think>{message['content'] or ''}<|im_end|>"
        assert shown.replace("\ufffd", "") == said.replace("\ufffd", "")


def test_what_a_model_writes_freely_holds_no_words_of_others(random_client: TestClient) -> None:
    """Roles, media and reserved slots are nobody's to write, in reasoning, content or arguments."""
    for choice in ask(random_client, return_token_ids=True):
        shown = random_client.post("/detokenize", json={"tokens": choice["token_ids"]}).json()["prompt"]
        for text in ("<|im_user|>", "<|im_system|>", "<|im_middle|>", "<|media_", "<|reserved_token_", "[PAD]"):
            assert text not in shown


def call_text(name: str, number: int, arguments: str) -> tuple[str, ...]:
    head = f"functions.{name}:{number}"
    return ("<|tool_call_begin|>", head, "<|tool_call_argument_begin|>", arguments, "<|tool_call_end|>")


TWO_CALLS = (
    "Both at once.",
    "</think>",
    "<|tool_calls_section_begin|>",
    *call_text("click", 0, '{"x":7,"button":"left"}'),
    *call_text("note", 1, '{"text":"a"}'),
    "<|tool_calls_section_end|>",
    "<|im_end|>",
)


@pytest.mark.parametrize("choice", ["required", "auto", None], ids=["required", "strict", "free"])
def test_parallel_calls_come_through(tokenizer: Tokenizer, choice: str | None) -> None:
    """A model that wants two calls in one reply gets them, under a grammar and without, whole and streamed."""
    loose = {"type": "function", "function": {"name": "click", "parameters": POINT}}
    fields: dict[str, Any] = {"messages": USER, "temperature": 1, "tools": [loose, *TOOLS[1:]]}
    if choice:
        fields |= {"tools": TOOLS, "tool_choice": choice}
    with TestClient(make_app(start_spoken(ToldModel(tokenizer, TWO_CALLS), tokenizer), FakeProcessor())) as client:
        whole = client.post(CHAT, json=fields).json()["choices"][0]
        streamed = client.post(CHAT, json=fields | {"stream": True}).text
        alone = client.post(CHAT, json=fields | {"parallel_tool_calls": False}).json()["choices"][0]
    expected = [("functions.click:0", "click", {"x": 7, "button": "left"}), ("functions.note:1", "note", {"text": "a"})]
    functions = [(call["id"], call["function"]) for call in calls_of(whole)]
    assert [(name, one["name"], json.loads(one["arguments"])) for name, one in functions] == expected
    assert whole["message"]["reasoning_content"] == "Both at once."
    assert read_streamed(streamed) == expected
    assert len(calls_of(alone)) == 1


def read_streamed(text: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(id, name, arguments) of the calls of a stream."""
    calls: list[list[str]] = []
    for line in text.splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            for piece in choice["delta"].get("tool_calls", []):
                if "id" in piece:
                    calls.append([piece["id"], piece["function"]["name"], ""])
                calls[piece["index"]][2] += piece["function"]["arguments"]
    return [(name, tool, json.loads(arguments)) for name, tool, arguments in calls]
