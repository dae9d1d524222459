"""The reader of answers against arbitrary bytes and arbitrary cuts."""

import itertools
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cua.errors import ModelError
from cua.messages import Reply, ReplyTokens, ToolCall, Usage
from cua.models.accumulator import MAX_TEXT_CHARS, UsageCounts
from cua.models.response import MAX_PIECE_BYTES, MAX_PIECE_VALUES, ResponseReader
from tests.serve_openai import completion_json, event_bytes, stream_events

TEXT = st.text(max_size=60)
CALLS = st.lists(st.builds(ToolCall, id=st.text(min_size=1), name=st.text(min_size=1), arguments=TEXT), max_size=3)
REPLIES = st.builds(
    Reply,
    content=st.text(min_size=1, max_size=60),
    reasoning=TEXT,
    tool_calls=CALLS.map(tuple),
    usage=st.builds(Usage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9)),
)


def cut(body: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({min(place, len(body)) for place in places} | {0, len(body)})
    return [body[start:end] for start, end in itertools.pairwise(ends)]


def read(chunks: list[bytes]) -> Reply:
    reader = ResponseReader()
    for chunk in chunks:
        reader.feed(chunk)
    draft = reader.finish()
    usage = draft.usage or UsageCounts()
    return Reply(
        content=draft.content,
        reasoning=draft.reasoning,
        tool_calls=draft.tool_calls(0),
        finish_reason=draft.known_finish_reason,
        usage=Usage(input_tokens=usage.num_input, output_tokens=usage.num_output),
    )


def with_arguments(reply: Reply) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(id=c.id, name=c.name, arguments=c.arguments or "{}") for c in reply.tool_calls)


@given(reply=REPLIES, places=st.lists(st.integers(0, 3000), max_size=20))
def test_any_reply_in_any_pieces_comes_through(reply: Reply, places: list[int]) -> None:
    events = b"".join(map(event_bytes, stream_events(reply, "m"))) + event_bytes("[DONE]")
    whole = event_bytes(completion_json(reply, "m")).removeprefix(b"data: ")
    for body in (events, whole):
        got = read(cut(body, places))
        assert (got.content, got.reasoning, got.finish_reason, got.usage) == (
            reply.content,
            reply.reasoning,
            reply.finish_reason,
            reply.usage,
        )
        assert got.tool_calls == with_arguments(reply)


@given(
    body=st.one_of(st.binary(max_size=300), st.text(max_size=300).map(str.encode)),
    prefix=st.sampled_from([b"", b"data: ", b'{"choices": [', b'data: {"choices": [{"delta": ', b"<", b"\xef\xbb\xbf"]),
    places=st.lists(st.integers(0, 300), max_size=5),
)
def test_no_bytes_raise_anything_but_a_model_error(body: bytes, prefix: bytes, places: list[int]) -> None:
    reader = ResponseReader()
    try:
        for chunk in cut(prefix + body, places):
            reader.feed(chunk)
        reader.finish()
    except ModelError as error:
        assert 0 < len(str(error)) < 1000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from("choices delta message content tool_calls function usage error index".split()),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(values=st.lists(JSON, max_size=4))
def test_no_json_raises_anything_but_a_model_error(values: list[object]) -> None:
    reader = ResponseReader()
    try:
        for value in values:
            reader.feed(event_bytes({"choices": value} if isinstance(value, list) else {"error": value}))
        reader.finish()
    except ModelError as error:
        assert 0 < len(str(error)) < 1000


def test_endless_line_is_cut_off() -> None:
    reader = ResponseReader()
    chunk = b"x" * 65536
    tracemalloc.start()
    with pytest.raises(ModelError, match=r"^a single piece of the reply is longer than 16 MiB$"):
        for _ in range(2 * MAX_PIECE_BYTES // len(chunk)):
            reader.feed(chunk)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * MAX_PIECE_BYTES


def test_endless_stream_is_cut_off() -> None:
    reader = ResponseReader()
    comment = b": " + b"x" * 1_000_000 + b"\n"
    with pytest.raises(ModelError, match=r"^the reply is longer than 128 MiB, more than any model writes$"):
        for _ in range(200):
            reader.feed(comment)


def piece(text: str) -> bytes:
    return event_bytes({"choices": [{"delta": {"content": text}}]})


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ([piece("x" * 60_000)] * 1000, "has more than 4 million characters"),
        ([b'{"choices": [{"message": {"content": "', *[b"x" * 60_000] * 1000, b'"}}]}'], "longer than 16 MiB"),
        ([b'{"choices": [', *[b"{}," * 20_000] * 250, b"{}]}"], f"has more than {MAX_PIECE_VALUES} values"),
        ([b"data: " + b"x" * 60_000 + b"\n"] * 1000, "longer than 16 MiB"),
    ],
    ids=["text in pieces", "whole", "empty objects", "one event without an end"],
)
def test_a_reply_of_60_mb_ends_early_in_little_memory(body: list[bytes], told: str) -> None:
    reader = ResponseReader()
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match=told):
            for chunk in body:
                reader.feed(chunk)
            reader.finish()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * MAX_PIECE_BYTES
    assert reader.num_bytes < 100 * MAX_TEXT_CHARS


def test_empty_lines_before_the_first_event_and_none_after() -> None:
    event = b'data: {"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}], "usage": {}}'
    assert read([b"\r\n", b"\n ", b"\n", event]).content == "ok"


def events(*pieces: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(piece).encode() + b"\n\n" for piece in pieces) + b"data: [DONE]\n\n"


def logprobs(*pairs: tuple[float, bool | None]) -> dict[str, Any]:
    content = [{"token": "x", "logprob": value, "sampled": sampled} for value, sampled in pairs]
    return {"content": [{key: item for key, item in one.items() if item is not None} for one in content]}


def test_ids_and_log_probabilities_of_a_stream_are_put_together() -> None:
    reader = ResponseReader()
    reader.feed(
        events(
            {"choices": [{"delta": {"role": "assistant"}, "prompt_token_ids": [1, 2, 3]}]},
            {"choices": [{"delta": {"content": "a"}, "token_ids": [4], "logprobs": logprobs((-0.5, True))}]},
            {
                "choices": [
                    {"delta": {}, "token_ids": [5, 6], "logprobs": logprobs((-1.5, False), (0.0, True))}
                    | {"finish_reason": "stop"}
                ],
                "weight_version": "step-12",
            },
        )
    )
    draft = reader.finish()
    assert draft.tokens() == ReplyTokens(
        prompt_ids=(1, 2, 3), ids=(4, 5, 6), logprobs=(-0.5, -1.5, 0.0), sampled=(True, False, True)
    )
    assert draft.model_version == "step-12"


def test_ids_of_a_whole_answer_where_the_prompt_stands_on_top() -> None:
    choice = {"message": {"content": "a"}, "token_ids": [4, 5], "logprobs": logprobs((-0.5, None), (-1.0, None))}
    choice["finish_reason"] = "stop"
    reader = ResponseReader()
    reader.feed(json.dumps({"choices": [choice], "prompt_token_ids": [1], "system_fingerprint": "fp"}).encode())
    draft = reader.finish()
    assert draft.tokens() == ReplyTokens(prompt_ids=(1,), ids=(4, 5), logprobs=(-0.5, -1.0))
    assert draft.model_version == "fp"


def test_without_ids_there_are_no_tokens_and_too_few_log_probabilities_are_an_error() -> None:
    reader = ResponseReader()
    choice = {"message": {"content": "a"}, "finish_reason": "stop", "logprobs": logprobs((-1.0, None))}
    reader.feed(json.dumps({"choices": [choice]}).encode())
    assert reader.finish().tokens() is None
    reader = ResponseReader()
    reader.feed(json.dumps({"choices": [{**choice, "token_ids": [4, 5]}]}).encode())
    with pytest.raises(ModelError, match="gave 2 token ids and 1 log-probabilities"):
        reader.finish().tokens()
