"""What comes over the wire, taken apart."""

import json
import struct
from typing import Any

import numpy as np
import pytest
from PIL import Image

from apps.endpoint_check.answer import (
    ParsedAnswer,
    ReceivedCall,
    TokenUsage,
    find_marker,
    join_stream,
    parse_answer,
    read_events,
)
from apps.endpoint_check.probes.media import COLOURS, make_avi, make_png


def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_however_they_are_cut(size: int) -> None:
    stream = 'data: {"a": "é🙂"}\r\n\r\n: a comment\n\ndata:two\ndata: lines\n\nevent: x\ndata: [DONE]'.encode()
    blocks = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert list(read_events(blocks)) == ['{"a": "é🙂"}', "two\nlines", "[DONE]"]


def test_a_streamed_answer_is_put_together() -> None:
    call = {"id": "functions.f:0", "type": "function", "function": {"name": "f", "arguments": ""}}
    events = [
        event({"role": "assistant", "content": ""}),
        event({"reasoning_content": "hm"}),
        event({"reasoning_content": "m"}),
        event({"content": "yes"}),
        event({"tool_calls": [{"index": 0, **call}]}),
        event({"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]}),
        event({"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]}),
        event({}, "tool_calls"),
        json.dumps({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}),
        "[DONE]",
    ]
    assert join_stream(events) == ParsedAnswer(
        content="yes",
        reasoning="hmm",
        reasoning_field="reasoning_content",
        calls=(ReceivedCall(id="functions.f:0", type="function", name="f", arguments='{"a": 1}'),),
        finish="tool_calls",
        usage=TokenUsage(prompt=3, completion=4, total=7),
    )


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([event({"content": "a"}, "stop")], "the stream ends without [DONE]"),
        ([event({"content": "a"}), "[DONE]"], "finish_reason is None"),
        ([event({"content": "a"}, "stop"), event({"content": "b"}), "[DONE]"], "text comes after the finish_reason"),
        ([event({}, "stop"), "[DONE]", event({})], "something comes after [DONE]"),
        ([event({}, "stop"), "{", "[DONE]"], "an event is not JSON: '{'"),
        ([json.dumps({"error": {"message": "NaN"}}), "[DONE]"], "an error in the stream: NaN"),
        ([event({"tool_calls": [{"id": "x"}]}, "stop"), "[DONE]"], "a piece of a tool call has no index"),
        ([event({"tool_calls": [{"index": 1, "id": "x"}]}, "stop"), "[DONE]"], "indexes of tool calls are [1]"),
    ],
)
def test_what_is_wrong_about_a_stream_is_told(events: list[str], problem: str) -> None:
    assert problem in "; ".join(join_stream(events).problems)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ([], "the answer has no choices"),
        ({"object": "chat.completion", "choices": [{"finish_reason": "stop"}]}, "the choice has no message"),
        ({"choices": [{"message": {"role": "assistant", "content": 3}, "finish_reason": "stop"}]}, "content is int"),
        ({"choices": [{"message": {"role": "user", "content": ""}, "finish_reason": "eos"}]}, "'eos'"),
        (
            {"choices": [{"message": {"tool_calls": [{"function": {"arguments": {}}}]}, "finish_reason": "stop"}]},
            "arguments are not text",
        ),
    ],
)
def test_what_is_wrong_about_a_whole_answer_is_told(body: Any, problem: str) -> None:
    assert problem in "; ".join(parse_answer(body).problems)


def test_markers_are_found_in_text() -> None:
    assert find_marker("so </think> it") == "</think>"
    assert find_marker("<|im_end|>") == "<|im_end|>"
    assert find_marker("a < b | c > d, [1]") is None


@pytest.mark.parametrize(("width", "height"), [(56, 56), (1, 3), (1280, 720)])
def test_a_picture_is_one_that_others_can_read(width: int, height: int, tmp_path: Any) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(make_png(width, height, COLOURS["blue"]))
    pixels = np.asarray(Image.open(path))
    assert pixels.shape == (height, width, 3)
    assert (pixels == COLOURS["blue"]).all()


def test_a_video_is_one_that_others_can_read(tmp_path: Any) -> None:
    av = pytest.importorskip("av")
    path = tmp_path / "a.avi"
    path.write_bytes(make_avi([COLOURS["red"]] * 4 + [COLOURS["blue"]] * 2))
    assert struct.unpack("<I", path.read_bytes()[4:8])[0] == path.stat().st_size - 8
    with av.open(str(path)) as video:
        frames = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
        assert video.streams.video[0].average_rate == 2
    assert [tuple(frame[30, 30]) for frame in frames] == [COLOURS["red"]] * 4 + [COLOURS["blue"]] * 2
