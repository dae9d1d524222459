"""A hundred agents under one scope: one budget, one set of switches, one journal."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from cua.messages import Message, Reply, Sampling, TextPart, Usage
from cua.model import Tool
from cua.run.budget import CapReachedError, Caps
from cua.run.end import RunResult
from cua.run.events import AgentIds, Event, RunEnded
from cua.run.scope import RunScope
from cua.tool_agent import Profile, ToolAgent
from cua.tools import Toolset
from cua.trajectory import RunHeader, TrajectoryWriter, load_run
from cua.trajectory.events import TOOLS_ENV
from tests.cua.tool_agent.fakes import calls, echo

NUM_AGENTS = 100
HEADER = RunHeader(instruction="Look everywhere", env=TOOLS_ENV, model="busy")


class Busy:
    """Calls a tool twice in each reply, for ever, or answers after some replies."""

    name = "busy"

    def __init__(self, num_replies: int | None = None) -> None:
        self.num_open = self.most_open = self.num_calls = 0
        self._num_replies = num_replies

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        self.num_calls += 1
        self.num_open += 1
        self.most_open = max(self.most_open, self.num_open)
        try:
            await asyncio.sleep(0.001)
        finally:  # a call under way is cancelled when the time is used up
            self.num_open -= 1
        num_earlier = sum(message.role == "assistant" for message in messages)
        if self._num_replies is not None and num_earlier >= self._num_replies:
            return Reply(content="There are 24 [^0^].", usage=Usage(input_tokens=90, output_tokens=10))
        return calls(("echo", "a"), ("echo", "b"), tokens=99)

    async def close(self) -> None:
        """Nothing to close."""


async def run_children(scope: RunScope, model: Busy, own: Caps) -> list[RunResult]:
    """All children at the same time, each with a tool agent of its own."""
    scope.begin("Look everywhere")

    async def run(number: int) -> RunResult:
        agent = ToolAgent(
            model=model,
            toolset=Toolset([echo()]),
            profile=Profile(system_prompt="be brief"),
            scope=scope.make_child(f"child-{number}", own),
        )
        return await agent.run((TextPart(text=f"Look at {number}"),))

    return await asyncio.gather(*(run(number) for number in range(NUM_AGENTS)))


@pytest.mark.long
async def test_tokens_of_all_hold_to_one_call() -> None:
    scope, model = RunScope(caps=Caps(max_steps=None, max_tokens=50_000)), Busy()
    results = await run_children(scope, model, Caps(max_steps=None))
    assert {(result.end.status, result.end.cap) for result in results} == {("capped", "tokens")}
    assert scope.budget.usage.total_tokens == 50_000  # of 100 each
    assert sum(result.usage.total_tokens for result in results) == 50_000
    assert model.most_open > NUM_AGENTS / 2


async def test_tool_calls_of_all_are_exact() -> None:
    scope = RunScope(caps=Caps(max_steps=None, max_calls=1501))
    results = await run_children(scope, Busy(), Caps(max_steps=None))
    assert {(result.end.status, result.end.cap) for result in results} == {("capped", "calls")}
    assert scope.budget.num_calls == 1501


@pytest.mark.parametrize(("most", "total"), [(250, 250), (500, 400)])
@pytest.mark.long
async def test_steps_of_all_and_of_each_are_exact(most: int, total: int) -> None:
    scope = RunScope(caps=Caps(max_steps=most))
    results = await run_children(scope, Busy(), Caps(max_steps=4))
    assert {(result.end.status, result.end.cap) for result in results} == {("capped", "steps")}
    assert sum(result.num_steps for result in results) == scope.budget.num_steps == total


async def test_time_of_all_holds_for_each_and_no_call_goes_on_behind_it() -> None:
    scope, model = RunScope(caps=Caps(max_steps=None, max_time_s=0.3)), Busy()
    results = await asyncio.wait_for(run_children(scope, model, Caps(max_steps=None)), 20)
    assert {(result.end.status, result.end.cap) for result in results} == {("capped", "time")}
    assert model.num_open == 0
    late = scope.make_child("late", Caps())
    with pytest.raises(CapReachedError, match=r"of 0\.3 s used"):
        late.begin_step()


async def test_a_call_of_a_childs_child_ends_with_the_time_of_all() -> None:
    scope = RunScope(caps=Caps(max_time_s=0.05))
    scope.begin("Look everywhere")
    child = scope.make_child("one", Caps(max_time_s=100)).make_child("two", Caps())
    child.begin("Look here")
    with pytest.raises(CapReachedError, match=r"of 0\.05 s used"):
        await asyncio.wait_for(child.control.unless_stopped(asyncio.Event().wait()), 10)


async def test_one_stop_ends_all_and_one_pause_holds_all() -> None:
    scope, model = RunScope(caps=Caps(max_steps=None)), Busy()
    working = asyncio.create_task(run_children(scope, model, Caps(max_steps=None)))
    while model.num_calls < 300:
        await asyncio.sleep(0.001)
    scope.control.pause()
    while model.num_open:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)  # what was under way comes to its end
    held = model.num_calls
    await asyncio.sleep(0.05)
    assert model.num_calls == held
    scope.control.resume()
    while model.num_calls == held:
        await asyncio.sleep(0.001)
    scope.control.stop("enough")
    results = await asyncio.wait_for(working, 10)
    assert {(result.end.status, result.end.reason) for result in results} == {("stopped", "enough")}


async def test_a_child_stops_alone_and_one_made_after_a_stop_does_not_begin() -> None:
    scope = RunScope(caps=Caps())
    one, two = scope.make_child("one", Caps()), scope.make_child("two", Caps())
    one.control.stop("no more")
    assert (one.control.is_stopped, two.control.is_stopped, scope.control.is_stopped) == (True, False, False)
    scope.control.stop("all")
    assert (two.control.stop_reason, scope.make_child("three", Caps()).control.stop_reason) == ("all", "all")


async def test_all_write_one_journal_and_each_is_read_back(tmp_path: Path) -> None:
    told: list[Event] = []
    with TrajectoryWriter.create(tmp_path, HEADER) as writer:
        scope = RunScope(caps=Caps(max_steps=None), record=writer, listener=told.append)
        results = await run_children(scope, Busy(num_replies=2), Caps())
        await scope.record.close()
    record = load_run(writer.run_dir)
    assert record.chain.status == "whole"
    assert (len(record.agents), record.run_id) == (NUM_AGENTS, writer.run_dir.name)
    for number in range(NUM_AGENTS):
        child = record.agents[f"child-{number}"]
        assert (child.agent, child.parent, child.end) == (f"child-{number}", "main", results[number].end)
        assert [len(step.outcomes) for step in child.tool_steps] == [2, 2, 0]
        assert child.question == (TextPart(text=f"Look at {number}"),)
    assert record.usage.total_tokens == NUM_AGENTS * 300 == scope.budget.usage.total_tokens
    ended = {event.ids for event in told if isinstance(event, RunEnded)}
    assert ended == {
        AgentIds(run_id=writer.run_dir.name, agent_id=f"child-{number}", parent_id="main")
        for number in range(NUM_AGENTS)
    }
