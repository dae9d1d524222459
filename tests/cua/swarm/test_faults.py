"""A model server that asks for patience, or is started anew, while children work: nobody is lost, nothing run twice."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cua.errors import UnavailableError
from cua.messages import Message, Reply, TextPart, ToolResult
from cua.models.gate import EndpointGate, RetryPolicy, retry
from cua.swarm import SwarmOptions, run_swarm
from cua.swarm.swarm import Swarm
from cua.trajectory import load_run
from tests.cua.swarm.test_swarm import Cast, Note
from tests.cua.swarm.test_swarm_crash import NUM_CHILDREN, answer, settings
from tests.fake_openai import FakeOpenAI, FunctionModel, status


class Counting(Note):
    """Notes, and counts what was noted by whom."""

    def __init__(self, seen: "Counter[str]") -> None:
        self._seen = seen

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        self._seen[arguments["text"]] += 1
        return ToolResult(parts=(TextPart(text="noted"),))


def counting(seen: "Counter[str]") -> SwarmOptions:
    return SwarmOptions(tools=(lambda place: Counting(seen),))


def states_of(run_dir: str | None, child: str) -> list[str]:
    return [note.data["state"] for note in load_run(str(run_dir)).agents[child].notes if note.kind == "child"]


async def test_a_child_that_waits_for_the_endpoint_is_waiting_on_record(tmp_path: Path) -> None:
    def refusing(messages: Sequence[Message]) -> Reply:
        reply = answer(messages)
        if len(reply.tool_calls) == NUM_CHILDREN:
            server.next(status(429, **{"retry-after": "0.6"}))
        return reply

    seen: Counter[str] = Counter()
    with FakeOpenAI(FunctionModel(refusing), model_id="fake") as server:
        done = await run_swarm("all", **{**settings(server, tmp_path), "options": counting(seen)})
    assert [child.state for child in done.children] == ["finished"] * NUM_CHILDREN
    told = [states_of(done.run.run_dir, child.id) for child in done.children]
    waited = [states for states in told if "waiting" in states]
    assert waited, told
    for states in waited:  # never for longer than it waits, and written as any other change
        assert states[:3] == ["created", "queued", "running"]
        assert states[-1] == "finished"
        assert [states[place + 1] for place, state in enumerate(states) if state == "waiting"] == [
            "running"
        ] * states.count("waiting")
    assert sum(states.count("waiting") for states in told) <= 3 * NUM_CHILDREN  # not one for each call and try


async def test_an_outage_that_begins_while_a_child_waits_for_its_turn_suspends_it(tmp_path: Path) -> None:
    gate, swarms, admitted = EndpointGate(1), list[Swarm](), list[str]()

    class Gated(Cast):
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            async def call() -> Reply:
                async with gate.admit():
                    admitted.append(messages[1].text)
                    if len(admitted) == 3:  # the first call of a child, after two of the orchestrator
                        while "waiting" not in [child.state for child in swarms[0].children]:
                            await asyncio.sleep(0.01)
                        raise UnavailableError("no connection")
                    return await super(Gated, self).generate(messages, tools, sampling)

            return await retry(call, RetryPolicy(), has_answered=lambda: True)

    given: dict[str, Any] = {"options": counting(Counter()), "on_swarm": swarms.append, "runs_dir": tmp_path}
    async with asyncio.timeout(60):
        done = await run_swarm("all", model=Gated(["a 1", "b 1"]), **given)
    assert [child.state for child in done.children] == ["finished"] * 2
    waiter = done.children[admitted[2] == "a 1"]
    notes = [note.data for note in load_run(str(done.run.run_dir)).agents[waiter.id].notes]
    told = [(data["state"], data["reason"]) for data in notes]
    assert told[2:5] == [
        ("running", ""),
        ("waiting", "the model's endpoint is busy"),
        ("suspended", "no connection"),
    ]


async def test_short_waits_are_not_written(tmp_path: Path) -> None:
    done = await run_swarm("all", model=Cast(["a 5", "b 5"]), options=counting(Counter()), runs_dir=tmp_path)
    assert states_of(done.run.run_dir, "t001") == ["created", "queued", "running", "finished"]


@pytest.mark.long
async def test_a_model_server_that_is_started_anew_in_the_middle_loses_nobody(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    model = FunctionModel(answer)
    first = FakeOpenAI(model, model_id="fake")
    first.__enter__()
    port = int(first.base_url.split(":")[-1].split("/")[0])
    given = {**settings(first, tmp_path), "options": counting(seen)}
    running = asyncio.create_task(run_swarm("all", **given))
    while len(seen) < NUM_CHILDREN // 3:
        await asyncio.sleep(0.005)
    await asyncio.to_thread(first.__exit__, None, None, None)
    await asyncio.sleep(0.3)
    with FakeOpenAI(model, model_id="fake", port=port):
        done = await running
    assert done.run.end.answer == "all done"
    assert [child.state for child in done.children] == ["finished"] * NUM_CHILDREN
    assert seen == Counter({f"item {number}": 1 for number in range(NUM_CHILDREN)})
    assert done.metrics.num_calls == 1 + 2 * NUM_CHILDREN
