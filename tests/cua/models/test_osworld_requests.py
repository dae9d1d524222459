"""Requests of the GUI agent against those of the public OSWorld harness, value by value, after 0 to 5 steps."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from cua.gui_agent.protocol import ProtocolOptions, to_messages
from cua.gui_agent.protocol.parse import parse
from cua.messages import Reply
from cua.models.endpoint import PRESETS
from cua.step import Step
from envs import Observation, ScreenGeometry
from tests.cua.models.clients import Connect
from tests.fake_openai import FakeOpenAI

GOLDEN = json.loads(Path(__file__).with_name("osworld_requests.json").read_text("utf-8"))
PASSWORD = "osworld-public-evaluation"
GEOMETRY = ScreenGeometry(native_px=(1920, 1080), sent_px=(1920, 1080))


def see(number: int) -> Observation:
    return Observation(screenshot=f"screen {number}".encode(), geometry=GEOMETRY)


def step(number: int, thought: str, action: str, *, thinking: bool) -> Step:
    """A finished step, made from the answer that the harness got in its place."""
    body = f"## Action:\n{action}\n## Code:\n```python\npyautogui.click(0.5, 0.5)\n```"
    reply = (
        Reply(content=body, reasoning=thought)
        if thinking
        else Reply(content=f"## Thought\n{thought}\n{body}", reasoning="")
    )
    return Step(index=number + 1, observation=see(number), reply=reply, turn=parse(reply, thinking), actions=())


def with_digests(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same, images by the digest of their bytes."""
    for message in messages:
        for part in message["content"] if isinstance(message["content"], list) else ():
            if part["type"] == "image_url":
                head, _, data = part["image_url"]["url"].partition(",")
                part["image_url"]["url"] = f"{head},sha256:{hashlib.sha256(base64.b64decode(data)).hexdigest()}"
    return messages


@pytest.mark.parametrize("variant", ["thinking", "instant"])
@pytest.mark.parametrize("num_steps", range(6))
async def test_a_request_is_that_of_the_harness(
    server: FakeOpenAI, connect: Connect, variant: str, num_steps: int
) -> None:
    options = ProtocolOptions(thinking=variant == "thinking", password=PASSWORD)
    steps = [
        step(number, one["thought"], one["action"], thinking=options.thinking)
        for number, one in enumerate(GOLDEN["steps"][:num_steps])
    ]
    messages = to_messages(GOLDEN["instruction"], steps, see(num_steps), options)
    await connect(server.base_url).model.generate(messages, sampling=PRESETS["osworld"])
    sent, golden = server.chats[0].body, GOLDEN["requests"][variant][num_steps]
    wanted = json.loads(json.dumps(golden["messages"]).replace("The passoword of", "The password of"))
    assert with_digests(sent.pop("messages")) == wanted
    assert sent == {
        "model": "fake",
        **{name: golden[name] for name in ("max_tokens", "top_p")},
        "temperature": 0.0,  # the report's; the harness's agent sends 1
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_what_else_the_harness_sends() -> None:
    requests = [request for variant in GOLDEN["requests"].values() for request in variant]
    assert {tuple(request) for request in requests} == {("model", "messages", "max_tokens", "top_p", "temperature")}
    assert {request["temperature"] for request in requests} == {1}
    assert all("The passoword of the computer is" in request["messages"][0]["content"] for request in requests)
