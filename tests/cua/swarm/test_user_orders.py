"""Orders of the user to one sub-agent of a running swarm: cancel it, or give it a new instruction."""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cua.errors import ConfigError
from cua.messages import Message, Reply, TextPart
from cua.swarm import SwarmOptions, resume_swarm, run_swarm
from cua.swarm.budget import SwarmLimits
from cua.swarm.custom_agent import ChildTask
from cua.swarm.session import SwarmResult
from cua.swarm.swarm import Swarm
from cua.tool_agent.conversation import REDIRECT
from envs.fake import FakeEnv, FakeOptions
from tests.cua.swarm.test_children import CLICK, DONE, conversations, make_worker
from tests.cua.swarm.test_kinds import NESTED
from tests.cua.swarm.test_states import states_on_disk
from tests.cua.swarm.test_swarm import OPTIONS, Cast, call, calls
from tests.visual_tools.sandbox.test_backends import find_leftovers, find_logs

CANCELLED = "the user cancelled it"
Order = Callable[[Swarm], Awaitable[None]]


class Ordered:
    """Carries out orders while it is called: by question and number of its messages; implements `Model`."""

    name = "ordered"

    def __init__(self, inner: Any, orders: dict[tuple[str, int], Order]) -> None:
        self.inner, self.orders = inner, orders
        self.swarms: list[Swarm] = []
        self.received: list[tuple[Message, ...]] = []

    async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
        self.received.append(tuple(messages))
        order = self.orders.pop((messages[1].text, len(messages)), None)
        if order is not None:
            await order(self.swarms[0])
        reply: Reply = await self.inner.generate(messages, tools, sampling)
        return reply

    async def close(self) -> None:
        pass

    async def play(self, tmp_path: Path, options: SwarmOptions = OPTIONS, question: str = "all") -> SwarmResult:
        async with asyncio.timeout(30):
            return await run_swarm(
                question, model=self, on_swarm=self.swarms.append, options=options, runs_dir=tmp_path, approve="yolo"
            )


def tell(child: str, text: str) -> Order:
    return lambda swarm: swarm.redirect(child, text)


def cancel(child: str, wait_s: float = 0.0) -> Order:
    async def order(swarm: Swarm) -> None:
        await swarm.cancel(child)
        await asyncio.sleep(wait_s)

    return order


def cut_after(done: SwarmResult, folder: Path, *words: str) -> Path:
    """A copy of a run whose journal ends with the first line that has these words, as `kill -9` leaves it."""
    lines = (Path(str(done.run.run_dir)) / "trajectory.jsonl").read_bytes().splitlines(keepends=True)
    last = next(number for number, line in enumerate(lines) if all(word.encode() in line for word in words))
    folder.mkdir()
    (folder / "trajectory.jsonl").write_bytes(b"".join(lines[: last + 1]))
    return folder


def orders_in(messages: Any) -> list[str]:
    return [message.text.removeprefix(REDIRECT) for message in messages if message.text.startswith(REDIRECT)]


@pytest.mark.parametrize("line", ["is_cancelled", "t001 cancelled"])
async def test_a_cancelled_child_ends_alone_and_a_resume_does_not_run_it_again(tmp_path: Path, line: str) -> None:
    looked = replace(calls(call("note", text="x")), content="a first look")
    cast = Cast(["a 9", "b 5"], faults={"a 9": [looked]})
    done = await Ordered(cast, {("a 9", 4): cancel("t001", wait_s=60)}).play(tmp_path / "runs")  # in its second call
    assert [child.state for child in done.children] == ["cancelled", "finished"]
    assert f"[t001 cancelled: {CANCELLED}] What it said last:\na first look" in str(done.run.end.answer)
    assert (done.run.end.status, done.run.end.exit_code) == ("unverified", 0)
    again = Cast(["a 9", "b 5"])
    resumed = await resume_swarm(cut_after(done, tmp_path / "cut", line), model=again, options=OPTIONS)
    assert [child.state for child in resumed.children] == ["cancelled", "finished"]
    assert f"[t001 cancelled: {CANCELLED}]" in str(resumed.run.end.answer)
    assert not again.asked_by("a 9")


async def test_a_queued_child_is_cancelled_at_once(tmp_path: Path) -> None:
    seen: list[str] = []

    async def order(swarm: Swarm) -> None:
        await swarm.cancel("t002")
        await asyncio.sleep(0.2)
        seen.append(swarm.children[1].state)

    model = Ordered(Cast(["a 2", "b 2"]), {("a 2", 2): order})
    done = await model.play(tmp_path, replace(OPTIONS, limits=SwarmLimits(max_parallel=1)))
    assert seen == ["cancelled"]
    assert states_on_disk(tmp_path)["t002"] == ["created", "queued", "cancelled"]
    assert [child.state for child in done.children] == ["finished", "cancelled"]


@pytest.mark.slow
async def test_a_child_is_cancelled_at_once_while_the_first_sandbox_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait for the start, which goes on for the others; at the end of the run nothing is left."""
    with tempfile.TemporaryDirectory(prefix="k") as folder:  # a short path: sockets lie below it
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        swarms: list[Swarm] = []
        seconds: list[float] = []

        async def order() -> None:
            while not find_logs(folder):
                await asyncio.sleep(0.01)
            began = time.monotonic()
            await swarms[0].cancel("t001")
            while swarms[0].children[0].state != "cancelled":
                await asyncio.sleep(0.01)
            seconds.append(time.monotonic() - began)

        code = {name: call("ipython", code=f"print({name!r})") for name in ("a", "b")}
        made = [calls(call("create_subagent", name="worker", system_prompt="You work."))]
        assigned = [calls(*(call("assign_task", agent="worker", prompt=name) for name in code))]
        script = conversations(
            every=[*made, *assigned, "all done"], **{name: [calls(cell), "done"] for name, cell in code.items()}
        )
        ordering = asyncio.create_task(order())
        async with asyncio.timeout(60):
            done = await run_swarm(
                "every", model=script, on_swarm=swarms.append, runs_dir=tmp_path, sandbox="landlock", approve="yolo"
            )
            await ordering
        assert [child.state for child in done.children] == ["cancelled", "finished"]
        assert seconds[0] < 1.0
        assert find_leftovers(folder) == []
        assert not find_logs(folder)


async def test_a_child_that_waits_for_a_free_browser_is_cancelled_at_once(tmp_path: Path) -> None:
    clicker = call("create_subagent", name="clicker", system_prompt="You.", kind="browser")
    tasks = [call("assign_task", agent="clicker", prompt=f"page {number}") for number in range(2)]
    script = conversations(every=[calls(clicker), calls(*tasks), "all done"])
    seen: list[str] = []

    class Screens:
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            if "every" in messages[1].text:
                return await script.generate(messages, tools, sampling)
            while not (waiting := [child for child in model.swarms[0].children if child.state == "waiting"]):
                await asyncio.sleep(0.01)
            await model.swarms[0].cancel(waiting[0].id)
            await asyncio.sleep(0.2)
            seen.append(waiting[0].state)
            return Reply(content=DONE.replace("{{question}}", "it"))

    model = Ordered(Screens(), {})
    options = replace(OPTIONS, make_env=lambda spec: FakeEnv(FakeOptions()), num_envs=1)
    done = await model.play(tmp_path, options, "every")
    assert seen == ["cancelled"]
    assert {child.state for child in done.children} == {"finished", "cancelled"}


async def test_children_of_a_cancelled_child_are_cancelled_also_queued_ones(tmp_path: Path) -> None:
    model = Ordered(conversations(**NESTED), {("low a", 2): cancel("t001", wait_s=60)})
    deep = replace(OPTIONS, limits=SwarmLimits(max_depth=2, max_parallel=1))
    done = await model.play(tmp_path, deep, "every")
    below = "t001, which it works for, has ended"
    assert [(child.state, child.reason) for child in done.children] == [
        ("cancelled", CANCELLED),
        ("cancelled", below),
        ("cancelled", below),
    ]
    assert "low b" not in {messages[1].text for messages in model.received}
    assert (done.run.end.num_unfinished, done.run.end.exit_code) == (0, 0)


async def test_a_new_instruction_is_for_the_next_step_of_one_child(tmp_path: Path) -> None:
    model = Ordered(Cast(["a 3", "b 3"]), {("a 3", 2): tell("t001", "only cheap ones")})
    await model.play(tmp_path)
    seen = [(messages[1].text, len(messages), orders_in(messages)) for messages in model.received]
    assert [orders for question, _, orders in seen if question != "a 3"] == [[]] * 6
    assert [(number, orders) for question, number, orders in seen if question == "a 3"] == [
        (2, []),
        (5, ["only cheap ones"]),
        (7, ["only cheap ones"]),
    ]


async def test_a_child_that_gets_a_new_instruction_with_its_answer_goes_on(tmp_path: Path) -> None:
    model = Ordered(Cast(["a 2"]), {("a 2", 4): tell("t001", "and the dear ones")})
    done = await model.play(tmp_path)
    assert orders_in(model.received[-2]) == ["and the dear ones"]
    assert done.children[0].num_steps == 3


@pytest.mark.parametrize(("line", "num_calls"), [(('"redirects"',), 3), (("asked", "only cheap ones"), 2)])
async def test_a_resume_gives_a_new_instruction_once(tmp_path: Path, line: tuple[str, ...], num_calls: int) -> None:
    """The journal ends before the child has taken it, and after."""
    done = await Ordered(Cast(["a 3"]), {("a 3", 2): tell("t001", "only cheap ones")}).play(tmp_path / "runs")
    again = Cast(["a 3"])
    resumed = await resume_swarm(cut_after(done, tmp_path / "cut", *line), model=again, options=OPTIONS)
    assert [child.state for child in resumed.children] == ["finished"]
    assert len(again.asked_by("a 3")) == num_calls
    assert [orders_in(messages) for messages in again.asked_by("a 3")] == [["only cheap ones"]] * num_calls


async def test_a_resume_loses_no_instruction_that_came_with_the_answer(tmp_path: Path) -> None:
    done = await Ordered(Cast(["a 2"]), {("a 2", 4): tell("t001", "and the dear ones")}).play(tmp_path / "runs")
    again = Cast(["a 2"])
    cut = cut_after(done, tmp_path / "cut", '"called"', '"agent":"t001"', '"index":2')
    await resume_swarm(cut, model=again, options=OPTIONS)
    assert [orders_in(messages) for messages in again.asked_by("a 2")] == [["and the dear ones"]]


async def test_agents_of_other_kinds_get_it_too(tmp_path: Path) -> None:
    async def asks_twice(task: ChildTask) -> str:
        question = Message(role="user", parts=(TextPart(text=task.prompt),))
        await task.ask([Message(role="system", parts=(TextPart(text="You."),)), question])
        return (await task.ask([Message(role="system", parts=(TextPart(text="You."),)), question])).content

    made = [make_worker(kind="twice"), call("create_subagent", name="clicker", system_prompt="You.", kind="browser")]
    assigned = [call("assign_task", agent=name, prompt=name) for name in ("worker", "clicker")]
    done_text = DONE.replace("{{question}}", "it")
    script = conversations(every=[calls(*made), calls(*assigned), "all done"], worker=["one", "two"])
    seen: list[str] = []

    class Screens:
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            text = "\n".join(message.text for message in messages)
            if "every" in text or "worker" in text:
                return await script.generate(messages, tools, sampling)
            seen.append(text)
            if len(seen) == 1:
                await model.swarms[0].redirect("t002", "click on blue")
            return Reply(content=CLICK if len(seen) == 1 else done_text)

    model = Ordered(Screens(), {("worker", 2): tell("t001", "only cheap ones")})
    options = replace(OPTIONS, agents={"twice": asks_twice}, make_env=lambda spec: FakeEnv(FakeOptions()))
    done = await model.play(tmp_path, options, "every")
    assert [child.state for child in done.children] == ["finished"] * 2, [child.reason for child in done.children]
    assert [orders_in(messages) for messages in model.received if messages[1].text == "worker"] == [
        [],
        ["only cheap ones"],
    ]
    assert ["click on blue" in text for text in seen] == [False, True]


async def test_the_last_text_of_a_child_on_a_screen_is_its_last_action(tmp_path: Path) -> None:
    clicker = call("create_subagent", name="clicker", system_prompt="You.", kind="browser")
    script = conversations(
        every=[calls(clicker), calls(call("assign_task", agent="clicker", prompt="page")), "all done"]
    )
    num_decisions = 0

    class Screens:
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            nonlocal num_decisions
            if "every" in messages[1].text:
                return await script.generate(messages, tools, sampling)
            num_decisions += 1
            if num_decisions == 2:
                await cancel("t001", wait_s=60)(model.swarms[0])
            return Reply(content=CLICK)

    model = Ordered(Screens(), {})
    options = replace(OPTIONS, make_env=lambda spec: FakeEnv(FakeOptions()))
    done = await model.play(tmp_path, options, "every")
    assert done.children[0].message == f"[t001 cancelled: {CANCELLED}] What it said last:\nClick"


async def test_an_order_to_a_child_that_is_not_at_work_names_those_that_are(tmp_path: Path) -> None:
    errors: list[str] = []

    async def order(swarm: Swarm) -> None:
        for child in ("t001", "t003"):
            with pytest.raises(ConfigError) as caught:
                await swarm.cancel(child)
            errors.append(str(caught.value))
        for instruction in ("", " \n", "x" * 100_001, 5):
            with pytest.raises(ConfigError, match="an instruction of 1 to 100000 characters for t002"):
                await swarm.redirect("t002", instruction)  # type: ignore[arg-type]

    model = Ordered(Cast(["a 1", "b 4"]), {("b 4", 6): order})
    await model.play(tmp_path)
    assert errors == [
        "t001 is not at work: it is finished",
        "there is no sub-agent 't003' at work. Did you mean 't002'? Known: t002.",
    ]
