"""Requests in the forms of OpenAI's Responses and Anthropic's Messages, through the gateway."""

import base64
import json
from typing import Any

import httpx
import pytest

pytest.importorskip("prometheus_client")  # of the server

from cua.json_text import Json
from cua.rollouts.dialects import DIALECTS
from cua.rollouts.gateway import GatewayError
from cua.rollouts.turns import Drift
from tests.cua.models.clients import png
from tests.cua.rollouts.test_gateway import REPLIES, gateway_to, image, official
from tests.model_runtime.server.serving import Serving
from tests.model_runtime.server.test_recorded_tokens import TornEngine, say_in_turn

NUM_TURNS = 4


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_of_the_responses_api_is_one_sequence(stream: bool) -> None:
    tools: list[Any] = [{"type": "function", "name": "click", "parameters": {"type": "object"}, "strict": False}]
    with Serving(TornEngine(say_in_turn(*REPLIES))) as serving:
        async with gateway_to(serving) as (gateway, http):
            gateway.open_session("s")
            client = official(http, "http://gateway/sessions/s/v1")
            screenshot = {"type": "input_image", "image_url": image("#000")["image_url"]["url"]}
            items: list[Any] = [{"role": "user", "content": [screenshot, {"type": "input_text", "text": "Click."}]}]
            texts = []
            for turn in range(NUM_TURNS):
                if stream:
                    events = [
                        event
                        async for event in await client.responses.create(
                            model="k", input=items, tools=tools, instructions="You click.", stream=True
                        )
                    ]
                    assert events[-1].type == "response.completed"
                    answer = events[-1].response
                else:
                    answer = await client.responses.create(
                        model="k", input=items, tools=tools, instructions="You click."
                    )
                texts.append(answer.output_text)
                items += [item.model_dump(exclude_none=True) for item in answer.output]
                calls = [item for item in answer.output if item.type == "function_call"]
                seen = {"type": "input_image", "image_url": image(f"#00{turn}")["image_url"]["url"]}
                outputs = [
                    {"type": "function_call_output", "call_id": call.call_id, "output": [seen]} for call in calls
                ]
                items += outputs or [{"role": "user", "content": [seen]}]
            log = gateway.close_session("s").log
    assert texts == ["a \ufffd", "b", "c \ufffd", "d"]
    assert log.counts() == {Drift.CLEAN: NUM_TURNS - 1}


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_of_anthropics_api_is_one_sequence(stream: bool) -> None:
    def block(colour: str) -> Json:
        data = base64.b64encode(png(colour=colour)).decode()
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}

    with Serving(TornEngine(say_in_turn(*REPLIES))) as serving:
        async with gateway_to(serving) as (gateway, http):
            gateway.open_session("s")
            content = [block("#000"), {"type": "text", "text": "Click."}]
            messages: list[Json] = [{"role": "user", "content": content}]
            for turn in range(NUM_TURNS):
                body = {
                    "model": "k",
                    "max_tokens": 500,
                    "system": [{"type": "text", "text": "You click."}],
                    "tools": [{"name": "click", "description": "Click.", "input_schema": {"type": "object"}}],
                    "messages": messages,
                    "stream": stream,
                }
                answer = await http.post("/v1/messages", json=body, headers={"x-api-key": "s"})
                reply = assemble(answer) if stream else answer.json()["content"]
                calls = [item for item in reply if item["type"] == "tool_use"]
                seen = block(f"#00{turn}")
                results = [{"type": "tool_result", "tool_use_id": call["id"], "content": [seen]} for call in calls]
                messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": results or [seen]}]
            log = gateway.close_session("s").log
    assert [call["input"] for call in messages[1]["content"] if call["type"] == "tool_use"] == [{"x": "1"}]
    assert log.counts() == {Drift.CLEAN: NUM_TURNS - 1}


def assemble(answer: httpx.Response) -> list[Json]:
    """Return the content of a stream of Anthropic's events, as its client puts it together."""
    events = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")
    content: list[Json] = []
    for event in events:
        if event["type"] == "content_block_start":
            content.append(event["content_block"])
        elif event["type"] == "content_block_delta" and "text" in event["delta"]:
            content[-1]["text"] += event["delta"]["text"]
        elif event["type"] == "content_block_delta":
            content[-1]["input"] = json.loads(event["delta"]["partial_json"])
    return content


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"input": "Hi", "previous_response_id": "r"}, "not stored here"),
        ({"input": [{"type": "web_search_call"}]}, "web_search_call"),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input_file"),
        ({"input": "Hi", "tools": [{"type": "web_search"}]}, "runs at the vendor"),
        ({"input": 5}, "neither a text nor a list"),
    ],
)
def test_responses_that_cannot_be_converted_are_refused(body: Json, reason: str) -> None:
    with pytest.raises(GatewayError, match=reason):
        DIALECTS["responses"].read(body)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"messages": [{"role": "user", "content": [{"type": "document"}]}]}, "document"),
        ({"messages": [{"role": "user", "content": [5]}]}, "not of this form"),
        ({"messages": [], "tools": [{"type": "bash_20250124", "name": "bash"}]}, "runs at the vendor"),
    ],
)
def test_messages_that_cannot_be_converted_are_refused(body: Json, reason: str) -> None:
    with pytest.raises(GatewayError, match=reason):
        DIALECTS["messages"].read(body)
