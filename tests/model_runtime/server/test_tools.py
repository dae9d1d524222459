"""Tools: what is declared, what may be called, which ids go where."""

import json
from typing import Any

import pytest

from model_runtime.chat.messages import ChatMessage, TextPart, ToolCall
from model_runtime.chat.template import encode_chat, render_chat
from tests.model_runtime.fakes import TOKENIZER, FakeEngine, Script
from tests.model_runtime.server.serving import TOOLS, USER

PATH = "/v1/chat/completions"
CALLING = (
    *("</think>", "Sure.", "<|tool_calls_section_begin|>"),
    *("<|tool_call_begin|>", "functions.click:0", "<|tool_call_argument_begin|>", '{"x": 1}', "<|tool_call_end|>"),
    *("<|tool_call_begin|>", "functions.wait:1", "<|tool_call_argument_begin|>", "{}", "<|tool_call_end|>"),
    "<|tool_calls_section_end|>",
)


def calling() -> FakeEngine:
    return FakeEngine(lambda request: Script(pieces=CALLING))


def names_of(body: dict[str, Any]) -> list[str]:
    return [call["function"]["name"] for call in body["choices"][0]["message"].get("tool_calls", [])]


@pytest.mark.parametrize(
    ("fields", "names", "reason"),
    [
        ({"tools": TOOLS}, ["click", "wait"], "tool_calls"),
        ({"tools": TOOLS, "tool_choice": "none"}, [], "stop"),
        ({}, [], "stop"),
        ({"tools": []}, [], "stop"),
        ({"tools": TOOLS, "parallel_tool_calls": False}, ["click"], "tool_calls"),
    ],
)
def test_calls_are_passed_on_where_they_may_be(ask: Any, fields: dict[str, Any], names: list[str], reason: str) -> None:
    client = ask(calling())
    got = client.post(PATH, json={"messages": USER, **fields}).json()
    assert names_of(got) == names
    assert got["choices"][0]["message"]["content"] == "Sure."
    assert got["choices"][0]["finish_reason"] == reason
    streamed = client.post(PATH, json={"messages": USER, "stream": True, **fields}).text
    chunks = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
    pieces = [piece for chunk in chunks for piece in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert [piece["function"]["name"] for piece in pieces if "id" in piece] == names
    assert chunks[-1]["choices"][0]["finish_reason"] == reason


def test_tools_stay_declared_where_calls_are_forbidden_by_grammar(ask: Any) -> None:
    engine = calling()
    client = ask(engine)
    for choice in ("auto", "none"):
        client.post(PATH, json={"messages": USER, "tools": TOOLS, "tool_choice": choice})
    free, bound = engine.seen
    assert free.prompt == bound.prompt
    assert free.params.grammar is None
    assert bound.params.grammar is not None
    assert (bound.params.grammar.kind, bound.params.grammar.starts_after_reasoning) == ("regex", True)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "wait"}}])
def test_a_call_that_has_to_come_is_a_grammar(ask: Any, choice: Any) -> None:
    engine = calling()
    got = ask(engine).post(PATH, json={"messages": USER, "tools": TOOLS, "tool_choice": choice})
    assert got.status_code == 200
    grammar = engine.seen[0].params.grammar
    assert grammar is not None
    assert grammar.kind == "lark"
    assert ("functions.click" in grammar.text) is (choice == "required")


HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Go."},
    {
        "role": "assistant",
        "content": None,
        "reasoning": "Hm.",
        "tool_calls": [
            {"id": "call_abc", "type": "function", "function": {"name": "click", "arguments": {"x": 1}}},
            {"id": "call_def", "type": "function", "function": {"name": "wait", "arguments": "{ }"}},
        ],
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
    },
    {"role": "tool", "tool_call_id": "call_def", "content": "waited"},
    {"role": "tool", "tool_call_id": "call_abc", "content": [{"type": "text", "text": "clicked"}]},
]


def test_foreign_ids_become_the_models_own_and_new_ones_go_on_from_them(ask: Any) -> None:
    engine = calling()
    got = ask(engine).post(PATH, json={"messages": HISTORY, "tools": TOOLS}).json()
    said = [
        ChatMessage(role="user", parts=(TextPart("Go."),)),
        ChatMessage(
            role="assistant",
            reasoning="Hm.",
            tool_calls=(
                ToolCall(id="functions.click:0", name="click", arguments='{"x": 1}'),
                ToolCall(id="functions.wait:1", name="wait", arguments="{ }"),
            ),
        ),
        ChatMessage(role="tool", tool_call_id="functions.wait:1", parts=(TextPart("waited"),)),
        ChatMessage(role="tool", tool_call_id="functions.click:0", parts=(TextPart("clicked"),)),
    ]
    assert engine.seen[0].prompt == encode_chat(render_chat(said, TOOLS), TOKENIZER)
    ids = [call["id"] for call in got["choices"][0]["message"]["tool_calls"]]
    assert ids == ["functions.click:2", "functions.wait:3"]


def test_twins_of_an_id_answer_in_order(ask: Any) -> None:
    call = {"id": "same", "type": "function", "function": {"name": "wait", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "tool_calls": [call, call]},
        {"role": "tool", "tool_call_id": "same", "content": "one"},
        {"role": "tool", "tool_call_id": "same", "content": "two"},
    ]
    engine = calling()
    assert ask(engine).post(PATH, json={"messages": history, "tools": TOOLS}).status_code == 200
    text = TOKENIZER.decode(engine.seen[0].prompt.token_ids)
    assert "## Return of functions.wait:0\none" in text
    assert "## Return of functions.wait:1\ntwo" in text


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "fly"}}}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": "always"}, "tool_choice"),
        ({"tools": [TOOLS[0], TOOLS[0]]}, "tools.1.function.name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools.0.function.name"),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
        ({"tools": TOOLS, "response_format": {"type": "json_object"}}, "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}},
            "response_format.json_schema.schema",
        ),
        ({"response_format": {"type": "yaml"}}, "response_format"),
    ],
)
def test_what_contradicts_itself_is_refused(ask: Any, fields: dict[str, Any], param: str) -> None:
    got = ask().post(PATH, json={"messages": USER, **fields})
    assert (got.status_code, got.json()["error"]["param"]) == (400, param)


def test_ten_thousand_tools(ask: Any) -> None:
    tools = [{"type": "function", "function": {"name": f"tool_{index}"}} for index in range(10_000)]
    got = ask().post(PATH, json={"messages": USER, "tools": tools})
    assert (got.status_code, got.json()["error"]["code"]) == (400, "too_many_tools")


@pytest.mark.parametrize(
    ("wanted", "kind", "text"),
    [
        ({"type": "text"}, None, ""),
        ({"type": "json_object"}, "json_object", ""),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "default": None}}},
            "json_schema",
            '{"type": "object", "default": null}',
        ),
    ],
)
def test_response_format_is_a_grammar(ask: Any, wanted: dict[str, Any], kind: str | None, text: str) -> None:
    engine = FakeEngine()
    assert ask(engine).post(PATH, json={"messages": USER, "response_format": wanted}).status_code == 200
    grammar = engine.seen[0].params.grammar
    assert (None if grammar is None else grammar.kind, grammar.text if grammar else "") == (kind, text)


def test_a_null_in_a_tools_schema_is_kept(ask: Any) -> None:
    schema = {"type": "object", "properties": {"x": {"enum": [None, 1], "default": None}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    engine = calling()
    assert ask(engine).post(PATH, json={"messages": USER, "tools": tools}).status_code == 200
    said = [ChatMessage(role="user", parts=(TextPart("Say hello."),))]
    assert engine.seen[0].prompt == encode_chat(render_chat(said, tools), TOKENIZER)
