"""Assignments that code hands out: no orchestrator decides on them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cua.errors import ConfigError
from cua.messages import Message, Reply, Sampling, TextPart, ToolResult
from cua.model import Tool
from cua.step import CallOutcome
from cua.swarm import FinalStep, SwarmOptions, run_plan
from cua.swarm.budget import SwarmLimits
from cua.swarm.child import Assignment, SubagentConfig
from cua.swarm.custom_agent import ChildTask
from cua.swarm.protocol import PRESETS
from cua.trajectory import load_run
from tests.cua.swarm.test_swarm import Cast, Note

READER = SubagentConfig(name="reader", system_prompt="You read.", kind="reader")
WRITER = SubagentConfig(name="writer", system_prompt="You write.")
TASKS = [Assignment(config=READER, prompt="page 1"), Assignment(config=WRITER, prompt="page 2")]


class Model:
    """Answers with what it is asked last; implements `cua.model.Model`."""

    name = "model"

    def __init__(self) -> None:
        self.seen: list[Sequence[Message]] = []

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        self.seen.append(messages)
        return Reply(content=f"said of {messages[-1].text}")

    async def close(self) -> None:
        pass


async def read(task: ChildTask) -> str:
    await task.say("I look.")
    await task.say("I have looked.")
    return f"read {task.prompt}"


def options() -> SwarmOptions:
    return SwarmOptions(tools=(), agents={"reader": read})


async def test_the_model_answers_from_the_results(tmp_path: Path) -> None:
    model = Model()
    done = await run_plan(
        "What is there?", TASKS, FinalStep(note="Be brief."), options=options(), model=model, runs_dir=str(tmp_path)
    )
    assert [child.answer for child in done.children] == ["read page 1", "said of page 2"]
    assert [child.num_steps for child in done.children] == [2, 1]
    assert len(model.seen) == 2  # the writer and the answer
    assert [message.role for message in model.seen[1]] == ["system", "user", "user"]
    told = model.seen[1][-1].text
    assert "read page 1" in told and "said of page 2" in told and told.endswith("Be brief.")
    assert done.metrics.critical_steps == 1 + 1 + 2 + 1
    record = load_run(Path(str(done.run.run_dir)))
    calls = [[call.name for call in step.reply.tool_calls] for step in record.tool_steps]
    assert calls == [["create_subagent"] * 2, ["assign_task"] * 2, []]


async def test_code_answers_and_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    begun, model = asyncio.Event(), Model()

    async def wait(task: ChildTask) -> str:
        begun.set()
        await asyncio.sleep(600)
        return "never"

    def answer(outcomes: Sequence[CallOutcome]) -> str:
        return " and ".join(outcome.result.text for outcome in outcomes)

    then = FinalStep(answer=answer)
    slow = SwarmOptions(tools=(), agents={"reader": wait})
    running = asyncio.create_task(
        run_plan("What is there?", TASKS, then, options=slow, model=model, runs_dir=str(tmp_path))
    )
    await begun.wait()
    await asyncio.sleep(0.3)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    (run_dir,) = await asyncio.to_thread(lambda: list(tmp_path.iterdir()))
    done = await run_plan("What is there?", TASKS, then, resume=run_dir, options=options(), model=model)
    assert done.run.end.answer == "read page 1 and said of page 2"
    assert len(model.seen) == 1  # the writer had finished
    assert done.metrics.critical_steps == 1 + 1 + 2 + 1


class Writers(Cast):
    """Plays writers for as many calls as their prompts say, and answers the question with the last message."""

    async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
        if messages[1].text != "What is there?":
            return await super().generate(messages, tools, sampling)
        self.received.append(tuple(messages))
        return Reply(content=messages[-1].text)


class Merge(Tool):
    """Counts its calls."""

    name = "merge"
    description = "Merge."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}}

    def __init__(self) -> None:
        self.count = 0

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        self.count += 1
        return ToolResult(parts=(TextPart(text=f"merged {self.count}"),))


def texts_of(outcomes: Sequence[CallOutcome]) -> str:
    return " and ".join(outcome.result.text for outcome in outcomes)


def few(merge: Merge, child_calls: int) -> SwarmOptions:
    preset = replace(PRESETS["standard"], child_calls=child_calls)
    tools = (lambda place: Note(), lambda place: merge)
    return SwarmOptions(tools=tools, preset=preset, limits=SwarmLimits(child_calls=child_calls))


async def play(
    then: FinalStep, options: SwarmOptions, runs_dir: Path, resume: Path | None = None
) -> tuple[Any, Writers]:
    model, tasks = Writers([]), [Assignment(config=WRITER, prompt=prompt) for prompt in ("a 6", "c 2")]
    given: dict[str, Any] = {"runs_dir": runs_dir} if resume is None else {"resume": resume}
    return await run_plan("What is there?", tasks, then, options=options, model=model, **given), model


@pytest.mark.parametrize(
    ("then", "first", "last"),
    [
        (FinalStep(answer=texts_of), "t001 capped", "done a 6 and done c 2"),
        (FinalStep(call="merge", answer=texts_of), "merged 1", "merged 2"),
        (FinalStep(note="Be brief."), "t001 capped", "t001: done a 6"),
        (FinalStep(call="merge", note="Be brief."), "merged 1", "merged 2"),
    ],
)
async def test_children_that_a_limit_ended_go_on_when_it_is_raised(
    tmp_path: Path, then: FinalStep, first: str, last: str
) -> None:
    merge = Merge()
    done, _ = await play(then, few(merge, 3), tmp_path)
    run_dir = Path(str(done.run.run_dir))
    assert [child.state for child in done.children] == ["capped", "finished"]
    assert first in str(done.run.end.answer)
    assert done.run.end.exit_code == 3
    count = merge.count
    with pytest.raises(ConfigError, match=r"t001 is capped \(t001: 3 of 3 tool calls used\); raise --max-calls"):
        await play(then, few(merge, 3), tmp_path, run_dir)
    assert merge.count == count
    again, model = await play(then, few(merge, 30), tmp_path, run_dir)
    assert [child.state for child in again.children] == ["finished"] * 2
    assert last in str(again.run.end.answer)
    assert (again.run.end.status, again.run.end.exit_code) == ("unverified", 0)
    assert len(model.asked_by("a 6")) < 6  # it goes on where it was
    assert not model.asked_by("c 2")
    assert "done c 2" not in str(again.run.end.answer) or then.answer is not None  # it was told before


@pytest.mark.parametrize("call", ["", "merge"])
async def test_a_plan_goes_on_after_any_line_of_its_second_part(tmp_path: Path, call: str) -> None:
    merge, then = Merge(), FinalStep(call=call, answer=texts_of)
    done, _ = await play(then, few(merge, 3), tmp_path / "runs")
    run_dir = Path(str(done.run.run_dir))
    begun = len((run_dir / "trajectory.jsonl").read_bytes().splitlines())
    again, _ = await play(then, few(merge, 30), tmp_path, run_dir)
    lines = (run_dir / "trajectory.jsonl").read_bytes().splitlines(keepends=True)
    for cut in range(begun + 1, len(lines) - 2, 2):
        part = tmp_path / f"cut-{cut}"
        part.mkdir()
        (part / "trajectory.jsonl").write_bytes(b"".join(lines[:cut]))
        merge.count = 1
        resumed, model = await play(then, few(merge, 30), tmp_path, part)
        assert [child.state for child in resumed.children] == ["finished"] * 2, cut
        assert (resumed.run.end.answer, resumed.run.end.exit_code) == (again.run.end.answer, 0), cut
        assert not model.asked_by("c 2"), cut
