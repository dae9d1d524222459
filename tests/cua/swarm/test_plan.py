"""Assignments that code hands out: no orchestrator decides on them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from cua.messages import Message, Reply, Sampling
from cua.model import Tool
from cua.step import CallOutcome
from cua.swarm import FinalStep, SwarmOptions, run_plan
from cua.swarm.child import Assignment, SubagentConfig
from cua.swarm.custom_agent import ChildTask
from cua.trajectory import load_run

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
