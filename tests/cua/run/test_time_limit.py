"""The time limit of a run holds while a real server hangs, fails or sends without end, and while tools run."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from cua.gui_agent.agent import Agent, AgentOptions
from cua.models.gate import RetryPolicy
from cua.models.openai_compat import OpenAICompatModel, OpenAICompatOptions
from cua.models.scripted import ScriptedModel
from cua.run.budget import Caps
from cua.run.end import RunResult
from cua.run.events import Event, Noted
from envs import InstructionTask
from envs.fake import FakeEnv
from tests.cua.tool_agent.fakes import QUESTION, FakeTool, calls, echo, make_agent
from tests.fake_openai import Exchange, FakeOpenAI, delta, event_bytes, slow_first_byte, status

CAPS = Caps(max_time_s=0.4)
PATIENT = RetryPolicy(max_retries=50, base_wait_s=30.0)
MOST_S = 10.0


async def endless(exchange: Exchange) -> None:
    """A stream that never comes to its end."""
    await exchange.start()
    while True:
        await exchange.write(event_bytes(delta(content="word ")))
        await exchange.wait(0.05)


FAULTS = pytest.mark.parametrize("fault", [slow_first_byte(60), status(500), status(429, retry_after="100"), endless])


def check(result: RunResult) -> None:
    assert (result.end.status, result.end.cap, result.num_steps) == ("capped", "time", 0)
    assert result.duration_s < MOST_S


@FAULTS
async def test_of_a_gui_run(fault: Any) -> None:
    with FakeOpenAI(ScriptedModel([])) as server:
        server.always(fault)
        model = OpenAICompatModel(OpenAICompatOptions(model="fake", base_url=server.base_url, retry=PATIENT))
        agent = Agent(model=model, env=FakeEnv(), options=AgentOptions(caps=CAPS))
        async with asyncio.timeout(MOST_S):
            check(await agent.run(InstructionTask(instruction="Click Save")))
            await model.close()


@FAULTS
async def test_of_a_run_with_tools(fault: Any) -> None:
    with FakeOpenAI(ScriptedModel([])) as server:
        server.always(fault)
        model = OpenAICompatModel(OpenAICompatOptions(model="fake", base_url=server.base_url, retry=PATIENT))
        agent = make_agent(model, [echo()], caps=CAPS)
        async with asyncio.timeout(MOST_S):
            check(await agent.run(QUESTION))
            await model.close()


async def test_of_a_tool_that_takes_long() -> None:
    ended: list[str] = []
    events: list[Event] = []

    async def answer(arguments: Mapping[str, Any]) -> Any:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(str(arguments["text"]))

    model = ScriptedModel([calls(("slow", "a"), ("slow", "b")), "never"])
    agent = make_agent(model, [FakeTool("slow", answer)], caps=CAPS, listener=events.append)
    async with asyncio.timeout(MOST_S):
        check(await agent.run(QUESTION))
    assert sorted(ended) == ["a", "b"]
    notes = [(event.kind, event.text) for event in events if isinstance(event, Noted)]
    assert notes == [("cut", "step 1 was cut off: its 2 calls were ended (0 of 0.4 s used)")]
