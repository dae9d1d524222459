"""A swarm whose process is killed, and one whose server refuses, over the fake streaming server."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cua.messages import Message, Reply, ToolCall
from cua.swarm import SwarmOptions, resume_swarm, run_swarm
from cua.trajectory import load_run
from tests.cua.swarm.test_swarm import OPTIONS, Cast
from tests.fake_openai import FakeOpenAI, FunctionModel, status

NUM_CHILDREN = 12


def answer(messages: Any) -> Reply:
    """The orchestrator of 12 children, and each child with one call."""
    number = sum(message.role == "assistant" for message in messages)
    question = next(message.text for message in messages if message.role == "user")
    if question != "all":
        call = ToolCall(id="x", name="note", arguments=json.dumps({"text": question}))
        return Reply(content="", tool_calls=(call,)) if number == 0 else Reply(content=f"done {question}")
    if number == 0:
        made = json.dumps({"name": "worker", "system_prompt": "You work."})
        return Reply(content="", tool_calls=(ToolCall(id="x", name="create_subagent", arguments=made),))
    if number == 1:
        prompts = [json.dumps({"agent": "worker", "prompt": f"item {n}"}) for n in range(NUM_CHILDREN)]
        return Reply(
            content="", tool_calls=tuple(ToolCall(id="x", name="assign_task", arguments=prompt) for prompt in prompts)
        )
    return Reply(content="all done")


def settings(server: FakeOpenAI, tmp_path: Path) -> dict[str, Any]:
    return {
        "model": "fake",
        "base_url": server.base_url,
        "api_key": "sk-test-1234567890",
        "runs_dir": tmp_path,
        "options": OPTIONS,
    }


async def test_a_storm_of_429_loses_nobody(tmp_path: Path) -> None:
    def storm(messages: Sequence[Message]) -> Reply:
        reply = answer(messages)
        if len(reply.tool_calls) == NUM_CHILDREN:  # the children's first requests are refused
            server.next(*[status(429, **{"retry-after": "0.05"}) for _ in range(NUM_CHILDREN)])
        return reply

    with FakeOpenAI(FunctionModel(storm), model_id="fake") as server:
        done = await run_swarm("all", **settings(server, tmp_path))
    assert done.run.end.answer == "all done"
    assert [child.state for child in done.children] == ["finished"] * NUM_CHILDREN
    assert all(child.num_calls == 1 for child in done.children)


async def test_a_key_that_is_refused_ends_the_run_in_one_line(tmp_path: Path) -> None:
    with FakeOpenAI(FunctionModel(answer), model_id="fake") as server:
        server.always(status(401, "bad key"))
        done = await run_swarm("all", **settings(server, tmp_path))
    assert (done.run.end.status, done.run.end.source, done.run.end.retryable) == ("error", "model", False)
    assert "key is not accepted" in done.run.end.reason


_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from cua.swarm import run_swarm
from tests.cua.swarm.test_swarm import OPTIONS, Cast

class Deadly(Cast):
    async def generate(self, messages, tools=(), sampling=None):
        replies = sum(message.role == "assistant" for message in messages)
        if messages[1].text == "slow 9" and replies == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().generate(messages, tools, sampling)

asyncio.run(run_swarm("all", model=Deadly(["quick 1", "slow 9"]), options=OPTIONS, runs_dir=Path(sys.argv[1])))
"""


def killed_run(runs_dir: Path) -> Path:
    """The folder of a swarm whose process was killed in the middle of its second child."""
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", _KILLED, str(runs_dir)], cwd=root, check=False)
    assert done.returncode == -signal.SIGKILL
    (run_dir,) = runs_dir.iterdir()
    return run_dir


@pytest.mark.long
async def test_a_killed_swarm_goes_on(tmp_path: Path) -> None:
    run_dir = killed_run(tmp_path)
    assert load_run(run_dir).end is None
    model = Cast(["quick 1", "slow 9"])
    again = await resume_swarm(run_dir, model=model, options=OPTIONS)
    assert [child.state for child in again.children] == ["finished", "finished"]
    assert model.asked_by("quick 1") == []
    first: tuple[Message, ...] = model.asked_by("slow 9")[0]
    assert sum(message.role == "assistant" for message in first) == 4  # it goes on, and does not start anew
    assert again.children[1].num_calls == 8


@pytest.mark.long
async def test_half_done_children_start_anew_when_that_is_asked_for(tmp_path: Path) -> None:
    run_dir = killed_run(tmp_path)
    model = Cast(["quick 1", "slow 9"])
    options = SwarmOptions(tools=OPTIONS.tools, restarts_children=True)
    again = await resume_swarm(run_dir, model=model, options=options)
    assert [child.state for child in again.children] == ["finished", "finished"]
    assert len(model.asked_by("slow 9")) == 9
    assert model.asked_by("quick 1") == []
    assert [(child.num_tries, child.agent_id) for child in again.children] == [(1, "t001"), (2, "t002.2")]  # marked
    kept = load_run(run_dir).agents
    assert len(kept["t002"].tool_steps) in (3, 4)  # the last step is written while the next is asked for
    assert len(kept["t002.2"].tool_steps) == 9
