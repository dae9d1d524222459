"""Children that an outage, a refused key or a limit kept from finishing go on, and none of their calls is lost."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cua.errors import ConfigError, ModelError
from cua.messages import Message, Reply, Usage
from cua.run.budget import Caps
from cua.swarm import SwarmOptions, resume_swarm, run_swarm
from cua.swarm.budget import SwarmLimits
from cua.swarm.protocol import PRESETS
from cua.swarm.report import write_swarm_report
from cua.swarm.session import SwarmResult
from cua.trajectory import load_run
from tests.cua.swarm.test_children import conversations
from tests.cua.swarm.test_faults import counting, states_of
from tests.cua.swarm.test_kinds import NESTED
from tests.cua.swarm.test_swarm import OPTIONS, Cast, call, calls, play
from tests.cua.swarm.test_swarm_crash import NUM_CHILDREN, answer, settings
from tests.cua.swarm.test_user_orders import Ordered, cut_after
from tests.fake_openai import FakeOpenAI, FunctionModel, status

DEEP = replace(OPTIONS, limits=SwarmLimits(max_depth=2))


def run_dir_of(done: Any) -> Path:
    return Path(str(done.run.run_dir))


@pytest.mark.long
async def test_an_outage_is_waited_for_and_shown_and_uses_up_nothing(tmp_path: Path) -> None:
    """The server is away for longer than the five tries of a call take without patience."""
    seen: Counter[str] = Counter()
    model = FunctionModel(answer)
    first = FakeOpenAI(model, model_id="fake")
    first.__enter__()
    port = int(first.base_url.split(":")[-1].split("/")[0])
    limits = SwarmLimits(child_time_s=8.0)
    options = replace(counting(seen), limits=limits)
    running = asyncio.create_task(run_swarm("all", **{**settings(first, tmp_path), "options": options}))
    while len(seen) < NUM_CHILDREN // 3:
        await asyncio.sleep(0.005)
    await asyncio.to_thread(first.__exit__, None, None, None)
    await asyncio.sleep(10)
    with FakeOpenAI(model, model_id="fake", port=port):
        done = await running
    assert [child.state for child in done.children] == ["finished"] * NUM_CHILDREN
    assert done.run.end.exit_code == 0
    assert seen == Counter({f"item {number}": 1 for number in range(NUM_CHILDREN)})
    assert {child.num_tries for child in done.children} == {1}
    waited = [states for child in done.children if "suspended" in (states := states_of(done.run.run_dir, child.id))]
    assert waited
    assert all(states[-1] == "finished" for states in waited)


@pytest.mark.parametrize("code", [401, 502])
async def test_a_refused_key_or_a_long_outage_suspends_all_and_a_resume_finishes_all(tmp_path: Path, code: int) -> None:
    seen: Counter[str] = Counter()

    def refusing(messages: Sequence[Message]) -> Reply:
        if sum(seen.values()) >= NUM_CHILDREN // 3:
            server.always(status(code, "no more"))
        return answer(messages)

    with FakeOpenAI(FunctionModel(refusing), model_id="fake") as server:
        given = {**settings(server, tmp_path), "options": counting(seen), "retry_time": 2.0}
        done = await run_swarm("all", **given)
        assert done.run.end.status == "error"
        assert ("retry_time" in done.run.end.reason) == (code == 502)
        assert {child.state for child in done.children} - {"finished"} == {"suspended"}, [
            child.reason for child in done.children
        ]
    with FakeOpenAI(FunctionModel(answer), model_id="fake") as again:
        given = {**settings(again, tmp_path), "options": counting(seen)}
        resumed = await resume_swarm(run_dir_of(done), **given)
    assert [child.state for child in resumed.children] == ["finished"] * NUM_CHILDREN
    assert resumed.run.end.status == "unverified"
    assert seen == Counter({f"item {number}": 1 for number in range(NUM_CHILDREN)})


async def check_refused(done: SwarmResult, options: SwarmOptions, words: str) -> None:
    """Check that a resume asks no model, writes no line and names the limit."""
    path, model = run_dir_of(done) / "trajectory.jsonl", Cast([])
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=words):
        await resume_swarm(run_dir_of(done), model=model, options=options)
    assert not model.received
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("limits", "flag"),
    [
        (Caps(max_steps=20), "20 steps used; raise --max-steps"),
        (Caps(max_steps=None, max_calls=20), "20 of 20 tool calls used; raise --max-calls"),
        (Caps(max_steps=None, max_tokens=400), "of 400 tokens used; raise --max-tokens"),
        (Caps(max_steps=None, max_cost_usd=0.04), "of 0.04 USD used; raise --max-cost"),
        (Caps(max_steps=None, max_time_s=1.0), "of 1 s used; raise --max-time"),
    ],
)
async def test_a_resume_below_a_limit_that_ended_the_run_asks_nothing(tmp_path: Path, limits: Caps, flag: str) -> None:
    """The children use up their share, and the orchestrator the rest, until it is asked for a last answer."""
    price = Usage(input_tokens=90, output_tokens=10, cost_usd=0.01)

    class Busy(Cast):
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            await asyncio.sleep(0.05 if limits.max_time_s else 0)
            reply = await super().generate(messages, tools, sampling)
            is_over = messages[1].text == "all" and not reply.tool_calls and tools
            return calls(call("note", text="more"), usage=price) if is_over else reply

    options = replace(OPTIONS, limits=SwarmLimits(run=limits))
    done = await play(tmp_path, Busy(["a 50", "b 50"]), options)
    assert (done.run.end.status, done.run.end.answer) == ("capped", "what there is")
    await check_refused(done, options, f"a limit of the run .* is used up: .*{flag}")


async def test_a_resume_below_the_orchestrators_own_limit_asks_nothing(tmp_path: Path) -> None:
    preset = replace(PRESETS["standard"], orchestrator_calls=3)
    more = [calls(*(call("note", text=str(number)) for number in range(5))), Reply(content="")]  # two are refused
    options = replace(OPTIONS, preset=preset)
    done = await play(tmp_path, Cast(["a 1"], faults={"all": more}), options)
    assert (done.run.end.status, done.run.end.cap, done.run.end.answer) == ("capped", "calls", None)
    await check_refused(done, options, "3 of 3 tool calls used; raise --max-calls, or choose a --preset")


@pytest.mark.parametrize("which", ["child_calls", "tokens"])
async def test_children_that_a_limit_ended_go_on_when_it_is_raised(tmp_path: Path, which: str) -> None:
    def options(factor: int) -> SwarmOptions:
        if which == "tokens":
            return replace(OPTIONS, limits=SwarmLimits(run=Caps(max_steps=None, max_tokens=1200 * factor)))
        preset = replace(PRESETS["standard"], child_calls=3 * factor)
        return replace(OPTIONS, preset=preset, limits=SwarmLimits(child_calls=3 * factor))

    model = Cast(["a 6", "b 9", "c 2"])
    done = await play(tmp_path, model, options(1))
    assert [child.state for child in done.children] == ["capped", "capped", "finished"]
    assert done.run.end.exit_code == 3
    flag = {"child_calls": "--max-calls, or choose a --preset", "tokens": "--max-tokens"}[which]
    words = rf"no sub-agent of the run .*: t001 is capped \(.* used.*\); raise {flag}.*1 more are capped"
    await check_refused(done, options(1), words)
    more = Cast(["a 6", "b 9", "c 2"])
    again = await resume_swarm(run_dir_of(done), model=more, options=options(10))
    assert [child.state for child in again.children] == ["finished"] * 3
    assert len(more.asked_by("b 9")) < 9  # it goes on where it was
    assert not more.asked_by("c 2")
    assert (again.run.end.status, again.run.end.exit_code) == ("unverified", 0)
    (told,) = [message.text for message in more.asked_by("all")[-1] if "sub-agents have gone on" in message.text]
    assert "t001: done a 6" in told
    assert "t003" not in told
    with pytest.raises(Exception, match="nothing to resume"):
        await resume_swarm(run_dir_of(done), model=more, options=options(20))


async def test_news_of_children_are_not_lost_when_the_run_is_killed_before_they_are_told(tmp_path: Path) -> None:
    options = replace(OPTIONS, limits=SwarmLimits(child_calls=3), preset=few(3))
    done = await play(tmp_path, Cast(["a 6", "c 2"]), options)
    assert [child.state for child in done.children] == ["capped", "finished"]
    options = replace(OPTIONS, limits=SwarmLimits(child_calls=30), preset=few(30))
    await resume_swarm(run_dir_of(done), model=Cast([]), options=options)
    path = run_dir_of(done) / "trajectory.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    told = max(n for n, line in enumerate(lines) if b'"asked"' in line and b"sub-agents have gone on" in line)
    path.write_bytes(b"".join(lines[:told]))
    model = Cast([])
    again = await resume_swarm(run_dir_of(done), model=model, options=options)
    assert [child.state for child in again.children] == ["finished"] * 2
    assert not model.asked_by("a 6")
    assert sum("t001: done a 6" in message.text for message in model.asked_by("all")[-1]) == 1


async def test_a_child_that_was_going_on_when_the_run_was_killed_goes_on_again(tmp_path: Path) -> None:
    done = await play(
        tmp_path, Cast(["a 6", "c 2"]), replace(OPTIONS, limits=SwarmLimits(child_calls=3), preset=few(3))
    )
    options = replace(OPTIONS, limits=SwarmLimits(child_calls=30), preset=few(30))
    await resume_swarm(run_dir_of(done), model=Cast([]), options=options)
    path = run_dir_of(done) / "trajectory.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if b"t001 running" in line)
    path.write_bytes(b"".join(lines[: last + 2]))
    model = Cast([])
    again = await resume_swarm(run_dir_of(done), model=model, options=options)
    assert [child.state for child in again.children] == ["finished"] * 2
    assert sum("t001: done a 6" in message.text for message in model.asked_by("all")[-1]) == 1


DOWN = ModelError("server down", retryable=True)


@pytest.mark.parametrize("line", ["t001 finished", "t002 cancelled"])
async def test_a_suspended_child_of_a_child_that_has_ended_is_cancelled(tmp_path: Path, line: str) -> None:
    """Nothing would continue it: no call of its parent waits for it. Also after a kill between both lines."""
    below = [calls(call("note", text="x")), DOWN, DOWN, DOWN]
    done = await Ordered(conversations(**{**NESTED, "low a": below}), {}).play(tmp_path / "runs", DEEP, "every")
    states = [("t001", "finished"), ("t002", "cancelled"), ("t003", "finished")]
    assert [(child.id, child.state) for child in done.children] == states
    assert "[t002 suspended: server down" in str(load_run(run_dir_of(done)).agents["t001"].tool_steps[1])
    assert done.children[1].reason == "t001, which it works for, has ended"
    assert (done.run.end.num_unfinished, done.run.end.exit_code) == (0, 0)
    again = await resume_swarm(cut_after(done, tmp_path / "cut", line), model=conversations(**NESTED), options=DEEP)
    assert [(child.id, child.state) for child in again.children] == states
    assert (again.run.end.num_unfinished, again.run.end.exit_code) == (0, 0)


async def test_a_capped_child_of_a_child_that_has_ended_leaves_no_run_partial(tmp_path: Path) -> None:
    """Its parent has answered without it, and no call would continue it when the limit is raised."""
    low = [calls(call("note", text=str(number))) for number in range(4)]
    replies = {**NESTED, "every": [*NESTED["every"], "all done again"], "low a": [*low, "a done"]}
    first = replace(DEEP, limits=replace(DEEP.limits, run=Caps(max_steps=None, max_calls=6)))
    done = await Ordered(conversations(**replies), {}).play(tmp_path, first, "every")
    assert [(child.id, child.state) for child in done.children] == [
        ("t001", "capped"),
        ("t002", "capped"),
        ("t003", "finished"),
    ]
    assert done.run.end.exit_code == 3
    again = await resume_swarm(run_dir_of(done), model=conversations(**replies), options=DEEP)
    assert [child.state for child in again.children] == ["finished", "capped", "finished"]
    assert (again.run.end.num_unfinished, again.run.end.exit_code) == (0, 0)


def few(child_calls: int) -> Any:
    return replace(PRESETS["standard"], child_calls=child_calls)


async def test_a_run_with_unfinished_children_is_partial(tmp_path: Path) -> None:
    same = [calls(call("note", text="again"))] * 6
    done = await play(tmp_path, Cast(["a 2", "c 9"], faults={"c 9": same}))
    end = done.run.end
    assert (end.status, end.num_unfinished, end.exit_code) == ("unverified", 1, 3)
    assert "partial: of 2 sub-agents 1 capped (t002: " in end.reason
    assert load_run(run_dir_of(done)).end == end


async def test_an_answer_from_failed_children_only_is_a_failure(tmp_path: Path) -> None:
    broken = ModelError("bad request", retryable=False)
    done = await play(tmp_path, Cast(["a 2", "b 2"], faults={"a 2": [broken], "b 2": [broken]}))
    assert (done.run.end.status, done.run.end.exit_code) == ("failed", 1)
    assert "all 2 sub-agents failed, t001: bad request" in done.run.end.reason


async def test_the_page_of_a_killed_run_shows_no_child_at_work(tmp_path: Path) -> None:
    """As its process left it: one child has finished, one was at work, one was queued."""
    options = replace(OPTIONS, limits=SwarmLimits(max_parallel=1))
    done = await play(tmp_path / "runs", Cast(["a 1", "b 3", "c 1"]), options)
    text = write_swarm_report(cut_after(done, tmp_path / "cut", "t002 running")).read_text("utf-8")
    rows = re.findall(r"<td>worker</td><td>(\w+)</td>(?:<td class=\"n\">([^<]*)</td>)+", text)
    assert [state for state, _ in rows] == ["finished", "stopped", "stopped"]
    assert rows[2][1] == "0 ms"  # it was never at work


async def test_the_time_limit_counts_over_all_processes_of_a_run(tmp_path: Path) -> None:
    class Slow(Cast):
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            await asyncio.sleep(0.15)
            return await super().generate(messages, tools, sampling)

    def options(max_time_s: float) -> SwarmOptions:
        return replace(OPTIONS, limits=SwarmLimits(run=Caps(max_steps=None, max_time_s=max_time_s)))

    done = await play(tmp_path, Slow(["a 50"]), options(1.0))
    assert done.children[0].cap == "time"
    began = time.monotonic()
    again = await resume_swarm(run_dir_of(done), model=Slow([]), options=options(1.6))
    assert again.children[0].cap == "time"
    assert time.monotonic() - began < 1.5
    assert again.run.duration_s == pytest.approx(1.6, abs=0.6)
    assert again.metrics.wall_s > 1.4
