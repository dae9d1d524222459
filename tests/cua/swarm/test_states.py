"""Each state of a child is on disk before it takes effect; who works at the same time; what is told of the budget."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cua import Watch
from cua.config import load_settings
from cua.errors import ModelError
from cua.messages import Message, Reply, TextPart, ToolResult
from cua.model import Tool
from cua.models.scripted import ConversationScript
from cua.run.budget import Caps
from cua.run.control import Control
from cua.run.events import Event, Noted
from cua.swarm import SwarmOptions, resume_swarm, run_swarm
from cua.swarm.budget import SwarmLimits
from cua.swarm.metrics import compute_metrics
from cua.swarm.sandboxes import AgentWorkspace, SandboxPool
from cua.tool_agent.profile import VISUAL_TOOLS
from cua.trajectory import load_run
from tests.cua.swarm.shapes import children_of, steps_of
from tests.cua.swarm.test_children import conversations
from tests.cua.swarm.test_swarm import OPTIONS, Cast, call, calls, play
from tests.cua.swarm.test_swarm_crash import answer, settings
from tests.fake_openai import FakeOpenAI, FunctionModel, status


def states_on_disk(runs_dir: Path) -> dict[str, list[str]]:
    """What the file of the only run below holds of children, read by another reader than the one that writes it."""
    (path,) = runs_dir.glob("*/trajectory.jsonl")
    states: dict[str, list[str]] = {}
    for line in path.read_text("utf-8").splitlines():
        event = json.loads(line)
        if event["event"] == "note" and event["kind"] == "child":
            states.setdefault(event["data"]["task"], []).append(event["data"]["state"])
    return states


class Looking(Cast):
    """Looks at the disk whenever it is asked."""

    def __init__(self, items: Sequence[str], runs_dir: Path, **more: Any) -> None:
        super().__init__(items, **more)
        self.runs_dir = runs_dir
        self.seen: list[tuple[str, dict[str, list[str]]]] = []

    async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
        self.seen.append((messages[1].text, states_on_disk(self.runs_dir)))
        return await super().generate(messages, tools, sampling)

    def at(self, question: str, number: int = 0) -> dict[str, list[str]]:
        return [states for asked, states in self.seen if asked == question][number]


async def test_each_state_is_on_disk_before_it_takes_effect(tmp_path: Path) -> None:
    """One at a time, so that the others are queued; the third loops, the second fails, the last is stopped."""
    same = [calls(call("note", text="again"))] * 6
    controls: list[Control] = []

    class Stopping(Looking):
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            if messages[1].text == "d 3":
                controls[0].stop()
            return await super().generate(messages, tools, sampling)

    broken = ModelError("bad request", retryable=False)
    model = Stopping(["a 2", "b 2", "c 9", "d 3"], tmp_path, faults={"b 2": [broken], "c 9": same})
    options = replace(OPTIONS, limits=SwarmLimits(max_parallel=1))
    done = await play(tmp_path, model, options, watch=Watch(on_control=controls.append))
    begun = ["created", "queued"]
    assert model.at("all", 0) == {}
    assert model.at("a 2") == {"t001": [*begun, "running"], "t002": begun, "t003": begun, "t004": begun}
    assert model.at("b 2") | {"t001": []} == model.at("a 2") | {"t001": [], "t002": [*begun, "running"]}
    assert model.at("b 2")["t001"] == [*begun, "running", "finished"]
    assert model.at("c 9")["t002"] == [*begun, "running", "failed"]
    assert model.at("d 3")["t003"] == [*begun, "running", "capped"]
    assert states_on_disk(tmp_path)["t004"] == [*begun, "running", "stopped"]
    assert [child.state for child in done.children] == ["finished", "failed", "capped", "stopped"]
    assert done.run.end.status == "stopped"


async def test_what_was_stopped_is_taken_up_again_and_marked(tmp_path: Path) -> None:
    controls: list[Control] = []

    class Stopping(Cast):
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            if messages[1].text == "b 4" and len(messages) == 6:
                controls[0].stop()
            return await super().generate(messages, tools, sampling)

    stopped = await play(tmp_path, Stopping(["a 1", "b 4"]), watch=Watch(on_control=controls.append))
    assert [child.state for child in stopped.children] == ["finished", "stopped"]
    model = Cast(["a 1", "b 4"])
    run_dir = Path(str(stopped.run.run_dir))
    again = await resume_swarm(run_dir, model=model, options=OPTIONS)
    assert [(child.state, child.num_tries) for child in again.children] == [("finished", 1), ("finished", 2)]
    assert (len(model.asked_by("a 1")), len(model.asked_by("b 4"))) == (0, 1)  # its third reply was on record
    assert states_on_disk(tmp_path)["t002"] == [
        *("created", "queued", "running", "stopped"),
        *("queued", "running", "finished"),
    ]
    reasons = [note.data["reason"] for note in load_run(run_dir).agents["t002"].notes if note.kind == "child"]
    assert reasons[4] == "taken up again"


async def test_tasks_of_one_reply_are_worked_on_at_the_same_time(tmp_path: Path) -> None:
    """Nobody is answered before all three have asked."""
    barrier = asyncio.Barrier(3)

    class Together(Cast):
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            if messages[1].text != "all":
                async with asyncio.timeout(30):
                    await barrier.wait()
            return await super().generate(messages, tools, sampling)

    done = await play(tmp_path, Together(["a 2", "b 2", "c 2"]))
    assert [child.state for child in done.children] == ["finished"] * 3


async def test_no_more_work_at_the_same_time_than_may(tmp_path: Path) -> None:
    most = now = 0

    class Counting(Cast):
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            nonlocal most, now
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.001)
            now -= 1
            return await super().generate(messages, tools, sampling)

    options = replace(OPTIONS, limits=SwarmLimits(max_parallel=3))
    done = await play(tmp_path, Counting([f"item{number} 3" for number in range(12)]), options)
    assert [child.state for child in done.children] == ["finished"] * 12
    assert most == 3


async def test_a_configuration_is_used_by_name_and_each_task_is_a_fresh_conversation(tmp_path: Path) -> None:
    made = call("create_subagent", name="worker", system_prompt="You work.")
    other = call("create_subagent", name="worker", system_prompt="You rest.")
    assigned = [call("assign_task", agent=name, prompt="a 2") for name in ("worker", "worker", "werker")]
    model = Cast([], faults={"all": [calls(made), calls(made, other), calls(*assigned)]})
    done = await play(tmp_path, model)
    assert [(child.id, child.state) for child in done.children] == [("t001", "finished"), ("t002", "finished")]
    first = [messages for messages in model.asked_by("a 2") if len(messages) == 2]
    said = [[message.text.partition("\n\nOnly what the user says")[0] for message in messages] for messages in first]
    assert said == [["You work.", "a 2"]] * 2
    told = [message.text for message in model.asked_by("all")[-1] if message.role == "tool"]
    assert "worker already exists with this system prompt." in told[1]
    assert "There is a sub-agent 'worker' with another system prompt" in told[2]
    assert "There is no sub-agent 'werker'" in told[5]
    assert "'worker'" in told[5].partition("make it")[2]


@pytest.mark.parametrize(
    ("caps", "told", "ended"),
    [
        (Caps(max_steps=None, max_calls=20), "16 of 20 tool calls are used", "capped"),
        (Caps(max_steps=20), "16 of 20 steps are used", "capped"),
        (Caps(max_steps=None, max_tokens=2000), "1600 of 2000 tokens are used", "unverified"),  # 10 % is its own
        (Caps(max_steps=None, max_cost_usd=0.2), "0.17 of 0.2 US dollars are used", "unverified"),
    ],
)
async def test_at_80_percent_the_person_and_the_orchestrator_are_told_once(
    tmp_path: Path, caps: Caps, told: str, ended: str
) -> None:
    """The person at once, while the child still works; the orchestrator with the child's message."""
    seen: list[tuple[int, str]] = []
    model = Cast(["a 50"])

    def listen(event: Event) -> None:
        if isinstance(event, Noted) and event.kind == "budget":
            seen.append((len(model.asked_by("a 50")), event.text))

    options = SwarmOptions(tools=OPTIONS.tools, limits=SwarmLimits(run=caps))
    done = await play(tmp_path, model, options, watch=Watch(listener=listen))
    assert [text for _, text in seen] == [told]
    assert seen[0][0] < len(model.asked_by("a 50"))
    assert done.children[0].state == "capped"
    assert done.children[0].message.endswith(f"[{told}; answer before they are gone]")
    assert done.run.end.status == ended
    assert done.run.end.answer is not None


async def test_steps_of_all_agents_are_counted_over_a_resume(tmp_path: Path) -> None:
    caps = SwarmLimits(run=Caps(max_steps=20))
    done = await play(tmp_path, Cast(["a 50", "b 50"]), replace(OPTIONS, limits=caps))
    assert done.metrics.total_steps == 20 + 1  # and the last answer
    assert {child.state for child in done.children} == {"capped"}
    more = SwarmLimits(run=Caps(max_steps=24))
    model = Cast([])
    again = await resume_swarm(Path(str(done.run.run_dir)), model=model, options=replace(OPTIONS, limits=more))
    assert (again.run.end.status, again.run.end.answer) == ("capped", "what there is")
    assert len(model.received) == 24 - 21 + 1  # of the children, and again a last answer
    assert {child.state for child in again.children} == {"capped"}
    told = [message.text for message in model.received[-1] if "The limit was raised" in message.text]
    assert len(told) == 1
    assert "t001: [t001 capped: " in told[0]


@pytest.mark.parametrize("code", [401, 402, 403])
async def test_a_key_that_is_refused_in_the_middle_ends_all_children(tmp_path: Path, code: int) -> None:
    """The children's first requests are answered, all later ones are refused."""

    def refusing(messages: Sequence[Message]) -> Reply:
        if messages[-1].role == "tool" and messages[1].text != "all":
            server.always(status(code, "no more"))
        return answer(messages)

    with FakeOpenAI(FunctionModel(refusing), model_id="fake") as server:
        done = await run_swarm("all", **settings(server, tmp_path))
    assert (done.run.end.status, done.run.end.source, done.run.end.retryable) == ("error", "model", False)
    assert done.run.end.reason
    assert "\n" not in done.run.end.reason
    states = [child.state for child in done.children]
    assert {"suspended"} == set(states) - {"finished"}


def test_figures_by_hand() -> None:
    """Two children from 10 s on: one busy 6 s of the 8 s that it was held, one 3 of 4; the orchestrator 1 s a step."""
    steps = [replace(step, timings={"model": 1.0, "tools": 9.0 if step.outcomes else 0.0}) for step in steps_of([2, 0])]
    children = children_of({0: 4, 1: 2})
    for child, (ended_at, busy_s) in zip(children, ((18.0, 6.0), (14.0, 3.0)), strict=True):
        child.started_at, child.ended_at, child.busy_s, child.state = 10.0, ended_at, busy_s, "finished"
    measures = compute_metrics(steps, children, wall_s=10.0)
    assert (measures.critical_s, measures.busy_s) == (1.0 + 6.0 + 1.0, 2.0 + 9.0)
    assert (measures.efficiency, measures.idle_s) == (9 / 12, 3.0)
    assert (measures.critical_steps, measures.total_steps) == (1 + 4 + 1, 8)


class SlowKernels:
    """Kernels whose cells take 0.8 s; implements `KernelMaker` and `Kernel` as far as a cell goes."""

    backend = "none"

    async def make_kernel(self, folder: Path) -> Any:
        return self

    async def run(self, code: str, **more: Any) -> Any:
        await asyncio.sleep(0.8)

    async def close(self) -> None:
        pass


class Cell(Tool):
    """Runs a cell."""

    name = "note"
    description = "Run a cell."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}}

    def __init__(self, place: Any) -> None:
        self._kernel = place.kernel

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        await self._kernel.run("1")
        return ToolResult(parts=(TextPart(text="done"),))


async def test_who_waits_for_a_sandbox_is_waiting_and_not_busy(tmp_path: Path) -> None:
    options = SwarmOptions(tools=(Cell,), num_kernels=1)
    model = Cast(["a 2", "b 2"])
    done = await run_swarm(
        "all", model=model, options=options, sandbox=SlowKernels(), runs_dir=tmp_path, approve="yolo"
    )  # type: ignore[arg-type]
    assert [child.state for child in done.children] == ["finished"] * 2
    first, second = sorted(done.children, key=lambda child: child.ended_at)
    states = states_on_disk(tmp_path)
    assert (states[first.id].count("waiting"), states[second.id].count("waiting")) == (0, 1)
    held_s = second.ended_at - second.started_at
    assert held_s > 1.6 - 0.1
    assert 0.8 <= second.busy_s < held_s - 0.6
    assert done.metrics.idle_s > 0.6


async def test_figures_are_there_while_it_works(tmp_path: Path) -> None:
    """In the third call of the longer child: the orchestrator's two steps, and its own two."""
    live: list[tuple[int, int]] = []
    swarms: list[Any] = []

    class Watching(Cast):
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            if messages[1].text == "b 3":
                await asyncio.sleep(0.05)  # until the other one has ended
                measures = swarms[0].metrics()
                live.append((measures.critical_steps, measures.total_steps))
            return await super().generate(messages, tools, sampling)

    await play(tmp_path, Watching(["a 1", "b 3"]), on_swarm=swarms.append)
    assert live == [(2 + 1, 2 + 1), (2 + 1, 2 + 2), (2 + 2, 2 + 3)]


async def test_an_orchestrator_has_the_core_tools_beside_its_own_and_children_have_them_alone(tmp_path: Path) -> None:
    shown: dict[str, list[str]] = {}
    script = conversations(
        every=[
            calls(call("create_subagent", name="worker", system_prompt="You work.")),
            calls(call("assign_task", agent="worker", prompt="child")),
            "all done",
        ],
        child=["child done"],
    )

    class Watching:
        name = "watching"

        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            shown[messages[1].text] = [tool.name for tool in tools]
            return await script.generate(messages, tools, sampling)

        async def close(self) -> None:
            pass

    assert isinstance(script, ConversationScript)
    pytest.importorskip("trafilatura")
    await run_swarm("every", model=Watching(), runs_dir=tmp_path, search="local:world:0:tiny")
    core = {"ipython", "shell", "files", "search", "browse", "download"}
    assert core <= set(shown["child"])
    assert set(shown["every"]) == {"create_subagent", "assign_task", "read_result", *shown["child"]}


def test_another_agent_has_its_tools_at_once(tmp_path: Path) -> None:
    """A hundred children begin in one event loop: what their tools say of themselves is read once."""
    settings = load_settings({}).settings
    sandboxes = SandboxPool(None, settings, 4)

    def make_tools(name: str) -> list[Tool]:
        place = AgentWorkspace(sandboxes, tmp_path / name, 60.0)
        return [make(place.tool_context) for make in VISUAL_TOOLS]

    first, started = make_tools("first"), time.process_time()
    others = [make_tools(f"other-{number}") for number in range(20)]
    assert time.process_time() - started < 20 * 0.01  # 0.04 each when they were read each time
    for tools in others:
        assert [(one.name, one.description, one.parameters) for one in tools] == [
            (one.name, one.description, one.parameters) for one in first
        ]
        assert all(one.parameters is not other.parameters for one, other in zip(tools, first, strict=True))
