"""`/v1/chat/completions` through OpenAI's own SDK over a real socket."""

import asyncio
import json
from typing import Any, ClassVar

import httpx
import openai
import pytest
from pydantic import BaseModel

from model_runtime.chat.messages import ChatMessage, TextPart
from model_runtime.chat.template import encode_chat, render_chat
from tests.model_runtime.fakes import SPECIAL, TOKENIZER, FakeEngine, Script, answer
from tests.model_runtime.server.serving import TOOLS, USER, Serving

THOUGHT = ("I ", "think", "</think>")
CALL = (
    *("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "functions.click:0", "<|tool_call_argument_begin|>"),
    *('{"x": ', "1}", "<|tool_call_end|>"),
)
SECOND = ("<|tool_call_begin|>", "functions.wait:1", "<|tool_call_argument_begin|>", "{}", "<|tool_call_end|>")
END = "<|tool_calls_section_end|>"


def client_of(serving: Serving) -> openai.OpenAI:
    return openai.OpenAI(base_url=serving.base_url, api_key="none", max_retries=0)


def test_a_whole_answer_has_reasoning_content_calls_and_counts() -> None:
    engine = FakeEngine(lambda request: Script(pieces=(*THOUGHT, "Click", "ing.", *CALL, *SECOND, END)))
    with Serving(engine) as serving, client_of(serving) as client:
        got = client.chat.completions.create(model="kimi-k2.5", messages=USER, tools=TOOLS)  # type: ignore[call-overload]
    choice = got.choices[0]
    assert choice.message.reasoning_content == "I think"
    assert choice.message.content == "Clicking."
    assert [
        (call.id, call.type, call.function.name, call.function.arguments) for call in choice.message.tool_calls
    ] == [
        ("functions.click:0", "function", "click", '{"x": 1}'),
        ("functions.wait:1", "function", "wait", "{}"),
    ]
    assert choice.finish_reason == "tool_calls"
    num_prompt = len(engine.seen[0].prompt.token_ids)
    assert got.usage.prompt_tokens == num_prompt
    texts = ("I think", "Clicking.", "functions.click:0", '{"x": 1}', "functions.wait:1", "{}")
    assert got.usage.completion_tokens == sum(map(len, texts)) + 9 + 1  # a token a byte, 9 markers, the end token
    assert got.usage.total_tokens == got.usage.prompt_tokens + got.usage.completion_tokens
    assert got.usage.prompt_tokens_details.cached_tokens == 3
    assert got.usage.completion_tokens_details.reasoning_tokens == len("I think")
    assert (got.object, got.model, got.id[:9]) == ("chat.completion", "kimi-k2.5", "chatcmpl-")
    assert got.system_fingerprint.startswith("fp_")


async def test_a_stream_tells_the_same_in_pieces() -> None:
    engine = FakeEngine(lambda request: Script(pieces=(*THOUGHT, "Click", "ing.", *CALL, *SECOND, END)))
    with Serving(engine) as serving:
        async with openai.AsyncOpenAI(base_url=serving.base_url, api_key="none") as client:
            stream = await client.chat.completions.create(  # type: ignore[call-overload]
                model="kimi-k2.5", messages=USER, tools=TOOLS, stream=True, stream_options={"include_usage": True}
            )
            chunks = [chunk.model_dump(exclude_unset=True) async for chunk in stream]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    *told, last = chunks
    assert last["choices"] == []
    assert last["usage"]["completion_tokens_details"] == {"reasoning_tokens": len("I think")}
    assert [chunk["usage"] for chunk in told] == [None] * len(told)
    assert [chunk["choices"][0]["finish_reason"] for chunk in told] == [None] * (len(told) - 1) + ["tool_calls"]
    function = [
        {"index": 0, "id": "functions.click:0", "type": "function", "function": {"name": "click", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"x": '}},
        {"index": 0, "function": {"arguments": "1}"}},
        {"index": 1, "id": "functions.wait:1", "type": "function", "function": {"name": "wait", "arguments": ""}},
        {"index": 1, "function": {"arguments": "{}"}},
    ]
    assert [chunk["choices"][0]["delta"] for chunk in told] == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "I "},
        {"reasoning_content": "think"},
        {"content": "Click"},
        {"content": "ing."},
        *({"tool_calls": [piece]} for piece in function),
        {},
    ]


def test_the_raw_stream_is_events_and_a_done_mark(ask: Any) -> None:
    got = ask().post("/v1/chat/completions", json={"messages": USER, "stream": True})
    assert got.headers["content-type"] == "text/event-stream; charset=utf-8"
    *events, done, rest = got.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    assert "usage" not in chunks[0]
    assert [chunk["choices"][0]["delta"].get("content") for chunk in chunks] == ["", "Hello", ".", None]


def test_other_line_ends_stay_inside_their_event() -> None:
    engine = FakeEngine(lambda request: answer("a\u2028b\x85c\u2029d\r\n\x1e\U0001f600"))
    with Serving(engine) as serving:
        body = {"messages": USER, "stream": True}
        with httpx.stream("POST", f"{serving.base_url}/chat/completions", json=body) as got:
            chunks = [json.loads(line[6:]) for line in got.iter_lines() if line.startswith("data: {")]
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert text == "a\u2028b\x85c\u2029d\r\n\x1e\U0001f600"


def test_usage_with_every_chunk(ask: Any) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    got = ask().post("/v1/chat/completions", json={"messages": USER, "stream": True, "stream_options": options})
    counts = [
        json.loads(event.removeprefix("data: "))["usage"]["completion_tokens"]
        for event in got.text.split("\n\n")
        if event.startswith("data: {")
    ]
    assert counts == [1, 6, 8, 8, 8]  # </think>, Hello, the full stop with the end token


def prompt_of(*messages: ChatMessage, thinking: bool = True) -> tuple[int, ...]:
    return encode_chat(render_chat(messages, thinking=thinking), TOKENIZER).token_ids


@pytest.mark.parametrize(
    ("fields", "thinking", "temperature"),
    [
        ({}, True, 1.0),
        ({"chat_template_kwargs": {"thinking": False}}, False, 0.6),
        ({"thinking": {"type": "disabled"}}, False, 0.6),
        ({"thinking": {"type": "enabled"}}, True, 1.0),
        ({"reasoning_effort": "none"}, False, 0.6),
        ({"reasoning_effort": "high"}, True, 1.0),
        ({"temperature": 0, "thinking": {"type": "disabled"}}, False, 0.0),
    ],
)
def test_thinking_sets_prompt_and_temperature(
    ask: Any, fields: dict[str, Any], thinking: bool, temperature: float
) -> None:
    engine = FakeEngine(lambda request: answer("Hi") if request.starts_in_reasoning else Script(pieces=("Hi",)))
    got = ask(engine).post("/v1/chat/completions", json={"messages": USER, **fields}).json()
    assert got["choices"][0]["message"] == {"role": "assistant", "content": "Hi", "refusal": None}
    request = engine.seen[0]
    said = ChatMessage(role="user", parts=(TextPart("Say hello."),))
    assert request.prompt.token_ids == prompt_of(said, thinking=thinking)
    assert (request.params.temperature, request.params.top_p) == (temperature, 0.95)
    assert request.starts_in_reasoning is thinking


def test_sampling_fields_reach_the_engine(ask: Any) -> None:
    engine = FakeEngine()
    fields = {
        "top_k": 5,
        "min_p": 0.1,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "repetition_penalty": 1.1,
        "seed": 7,
        "max_tokens": 9,
        "max_completion_tokens": 90,
        "min_tokens": 2,
        "stop": "END",
        "stop_token_ids": [3],
        "ignore_eos": True,
        "logprobs": True,
        "top_logprobs": 2,
        "thinking": {"budget_tokens": 11},
        "priority": -2,
    }
    assert ask(engine).post("/v1/chat/completions", json={"messages": USER, **fields}).status_code == 200
    params = engine.seen[0].params
    names = ("top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "seed", "min_tokens")
    assert {name: getattr(params, name) for name in names} == {name: fields[name] for name in names}
    assert (params.max_tokens, params.stop, params.stop_token_ids) == (90, ("END",), (3,))
    assert (params.ignore_eos, params.logprobs, params.thinking_budget) == (True, 2, 11)
    assert engine.seen[0].priority == -2


def test_reasoning_that_was_cut_leaves_no_content(ask: Any) -> None:
    engine = FakeEngine(lambda request: Script(pieces=("I think and",), finish="length"))
    got = ask(engine).post("/v1/chat/completions", json={"messages": USER}).json()["choices"][0]
    assert got["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "reasoning_content": "I think and",
    }
    assert got["finish_reason"] == "length"


def test_choices_share_the_prompt_and_differ_in_seed(ask: Any) -> None:
    def say(request: Any) -> Script:
        return answer(f"seed {request.params.seed}")

    engine = FakeEngine(say)
    got = ask(engine).post("/v1/chat/completions", json={"messages": USER, "n": 3, "seed": 40}).json()
    assert [one["message"]["content"] for one in got["choices"]] == ["seed 40", "seed 41", "seed 42"]
    assert got["usage"]["prompt_tokens"] == len(engine.seen[0].prompt.token_ids)
    assert got["usage"]["completion_tokens"] == 3 * len("?seed 40.")
    assert len({request.request_id for request in engine.seen}) == 3


async def test_the_first_choice_fills_the_prefix_cache_before_the_others_start() -> None:
    gate = asyncio.Event()
    engine = FakeEngine(lambda request: answer("Hi", waits=gate))
    with Serving(engine) as serving:
        async with openai.AsyncOpenAI(base_url=serving.base_url, api_key="none") as client:
            asking = asyncio.create_task(client.chat.completions.create(model="kimi-k2.5", messages=USER, n=4))  # type: ignore[arg-type]
            while not engine.seen:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert len(engine.seen) == 1
            serving.call(gate.set)
            got = await asking
    assert [choice.index for choice in got.choices] == [0, 1, 2, 3]


def test_a_stream_of_several_choices_keeps_them_apart(ask: Any) -> None:
    engine = FakeEngine(lambda request: answer("a", "b"))
    got = ask(engine).post("/v1/chat/completions", json={"messages": USER, "n": 2, "stream": True})
    texts: dict[int, str] = {0: "", 1: ""}
    ends = []
    for line in got.text.splitlines():
        if line.startswith("data: {"):
            choice = json.loads(line[6:])["choices"][0]
            texts[choice["index"]] += choice["delta"].get("content", "")
            ends += [choice["finish_reason"]] * (choice["finish_reason"] is not None)
    assert (texts, ends) == ({0: "ab", 1: "ab"}, ["stop", "stop"])


def test_logprobs_and_token_ids_cover_every_token(ask: Any) -> None:
    engine = FakeEngine(lambda request: Script(pieces=("a", "</think>", "é")))
    body = {"messages": USER, "logprobs": True, "top_logprobs": 1, "return_token_ids": True}
    got = ask(engine).post("/v1/chat/completions", json=body).json()
    ids = [*b"a", SPECIAL.think_end, *"é".encode(), SPECIAL.im_end]
    choice = got["choices"][0]
    assert choice["token_ids"] == ids
    assert got["prompt_token_ids"] == list(engine.seen[0].prompt.token_ids)
    shown = choice["logprobs"]["content"]
    assert [one["token"] for one in shown] == ["a", "</think>", "\ufffd", "\ufffd", "<|im_end|>"]
    assert [one["bytes"] for one in shown[2:4]] == [[0xC3], [0xA9]]
    assert shown[0] == {
        "token": "a",
        "logprob": -0.5,
        "bytes": [97],
        "top_logprobs": [{"token": "a", "logprob": -0.5, "bytes": [97]}],
        "sampled": True,
    }
    streamed = ask(engine).post("/v1/chat/completions", json=body | {"stream": True}).text
    chunks = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
    assert [one for chunk in chunks for one in chunk["choices"][0].get("token_ids", [])] == ids
    entries = [one for chunk in chunks for one in (chunk["choices"][0]["logprobs"] or {"content": []})["content"]]
    assert entries == shown
    assert chunks[0]["prompt_token_ids"] == got["prompt_token_ids"]


class ClickTool:
    name = "click"
    description = "Click."
    parameters: ClassVar[dict[str, Any]] = {"type": "object", "properties": {"x": {"type": "integer"}}}

    async def call(self, arguments: Any) -> Any:
        raise NotImplementedError


def test_our_own_client_reads_it() -> None:
    from cua.messages import Message, TextPart
    from cua.models.openai_compat import OpenAICompatModel, OpenAICompatOptions

    engine = FakeEngine(lambda request: Script(pieces=(*THOUGHT, "Clicking.", *CALL, END)))
    with Serving(engine) as serving:
        model = OpenAICompatModel(OpenAICompatOptions(model="kimi-k2.5", base_url=serving.base_url))

        async def talk() -> Any:
            try:
                return await model.generate([Message(role="user", parts=(TextPart(text="Go."),))], [ClickTool()])
            finally:
                await model.close()

        reply = asyncio.run(talk())
    assert (reply.reasoning, reply.content, reply.finish_reason) == ("I think", "Clicking.", "tool_calls")
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [
        ("functions.click:0", "click", '{"x": 1}')
    ]
    assert (reply.usage.input_tokens, reply.usage.cached_tokens) == (len(engine.seen[0].prompt.token_ids), 3)


def test_the_sdks_helpers_put_a_stream_together_and_parse_an_answer() -> None:
    class Point(BaseModel):
        x: int

    engine = FakeEngine(lambda request: answer('{"x":', " 3}"))
    with Serving(engine) as serving, client_of(serving) as client:
        parsed = client.chat.completions.parse(model="kimi-k2.5", messages=USER, response_format=Point)  # type: ignore[arg-type]
        engine.say = lambda request: Script(pieces=(*THOUGHT, "Click", "ing.", *CALL, *SECOND, END))
        with client.chat.completions.stream(  # type: ignore[arg-type]
            model="kimi-k2.5", messages=USER, tools=TOOLS, logprobs=True, stream_options={"include_usage": True}
        ) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
    assert parsed.choices[0].message.parsed == Point(x=3)
    grammar = engine.seen[0].params.grammar
    assert grammar is not None
    assert grammar.kind == "json_schema"
    assert {"content.delta", "content.done", "tool_calls.function.arguments.done", "logprobs.content.done"} <= kinds
    assert final.choices[0].message.content == "Clicking."
    calls = final.choices[0].message.tool_calls or []
    assert [(call.id, call.function.arguments) for call in calls] == [
        ("functions.click:0", '{"x": 1}'),
        ("functions.wait:1", "{}"),
    ]
    assert final.usage is not None
    assert final.usage.prompt_tokens == len(engine.seen[1].prompt.token_ids)
