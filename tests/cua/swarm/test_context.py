"""Messages of many children and an orchestrator's context; slots that wait for an agent's own children are lent."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cua.swarm.swarm as swarm_module
from cua.errors import ConfigError, ContextOverflowError
from cua.messages import Message, Reply, TextPart, ToolResult, Usage
from cua.run.control import Control
from cua.run.events import Noted, Watch
from cua.swarm import SwarmOptions, resume_swarm, run_swarm
from cua.swarm.budget import SwarmLimits
from cua.swarm.sandboxes import AgentWorkspace
from tests.cua.swarm.test_swarm import OPTIONS, Cast, Note, call, calls, play

NUM_WIDE = 100


def length(messages: Sequence[Message]) -> int:
    return sum(len(part.text) for message in messages for part in message.parts if hasattr(part, "text"))


class Wordy(Cast):
    """Children that answer with 14,000 characters; the orchestrator's model refuses more than `limit` characters."""

    def __init__(self, *args: Any, limit: int, **more: Any) -> None:
        super().__init__(*args, **more)
        self.limit = limit

    async def generate(self, messages: Sequence[Message], tools: Any = (), sampling: Any = None) -> Reply:
        if length(messages) > self.limit:
            raise ContextOverflowError("maximum context length is 262144 tokens")
        reply = await super().generate(messages, tools, sampling)
        usage = Usage(input_tokens=int(length(messages) / 3.5), output_tokens=10)
        content = reply.content + "x" * 14_000 if messages[1].text != "all" and reply.content else reply.content
        return replace(reply, content=content[:20_000], usage=usage)


@pytest.mark.long
async def test_messages_of_many_children_share_what_is_left_of_the_context(tmp_path: Path) -> None:
    """100 x 14,000 characters are 400k tokens; the context has 256k."""
    model = Wordy([f"item{number} 1" for number in range(NUM_WIDE)], limit=int(262_144 * 3.5))
    done = await play(tmp_path, model)
    assert done.run.end.status == "unverified"
    lengths = [len(child.message) for child in done.children]
    assert max(lengths) - min(lengths) < 50
    assert 5_000 < max(lengths) < 9_000
    assert all(len(child.answer) > 14_000 for child in done.children)
    assert 'read_result(task="t100", offset=' in done.children[-1].message
    shown = model.asked_by("all")[-1]
    assert sum(message.role == "tool" for message in shown) == NUM_WIDE + 1


@pytest.mark.parametrize("strategy", ["none", "hide-tool-result", "discard-all", "summary"])
@pytest.mark.long
async def test_a_round_that_is_too_wide_after_all_is_not_lost(tmp_path: Path, strategy: str) -> None:
    """The model takes far less than the limits say, as a smaller model would."""
    model = Wordy([f"item{number} 1" for number in range(NUM_WIDE)], limit=150_000)
    done = await play(tmp_path, model, context=strategy)
    assert [child.state for child in done.children] == ["finished"] * NUM_WIDE
    end = done.run.end
    assert end.answer is not None
    assert (end.status, end.cap) == (("capped", "context") if strategy == "none" else ("unverified", None))
    assert len([one for one in model.received if one[1].text.startswith("item")]) == NUM_WIDE  # none is run twice
    if strategy == "none":
        with pytest.raises(ConfigError, match="was full; resume it with --set context=summary"):
            await resume_swarm(Path(str(done.run.run_dir)), model=model, options=OPTIONS)
        again = Wordy([], limit=150_000)
        resumed = await resume_swarm(Path(str(done.run.run_dir)), model=again, options=OPTIONS, context="summary")
        assert resumed.run.end.status == "unverified"
        assert not [one for one in again.received if one[1].text.startswith("item")]


async def test_the_same_task_of_a_later_reply_gets_the_recorded_message(tmp_path: Path) -> None:
    made = call("create_subagent", name="worker", system_prompt="You work.")
    tasks = [call("assign_task", agent="worker", prompt=prompt) for prompt in ("a 2", "a 2", "b 2")]
    model = Cast([], faults={"all": [calls(made), calls(*tasks), calls(*tasks)]})
    done = await play(tmp_path, model)
    assert [child.assignment.prompt for child in done.children] == ["a 2", "a 2", "b 2"]  # twice in one reply is meant
    texts = [message.text for message in model.asked_by("all")[-1] if message.role == "tool"]
    assert sum("did this task before" in text for text in texts) == 3
    assert sum("done a 2" in text for text in texts) == 4


class Kernels:
    """One kernel maker for all agents, whose cells return at once; counts the cells that run at the same time."""

    backend = "none"

    def __init__(self) -> None:
        self.num_running = self.most = 0

    async def make_kernel(self, folder: Path, **more: Any) -> Any:
        return self

    async def run(self, code: str, **more: Any) -> Any:
        self.num_running += 1
        self.most = max(self.most, self.num_running)
        await asyncio.sleep(0.01)
        self.num_running -= 1

    async def close(self) -> None:
        pass


class Cell(Note):
    """Runs a cell of the agent's kernel."""

    def __init__(self, place: Any) -> None:
        self._kernel = place.kernel

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        await self._kernel.run("1")
        return ToolResult(parts=(TextPart(text="noted"),))


class Nested(Cast):
    """Each child runs a cell, assigns a task to a child of its own, which runs a cell, and runs another cell."""

    async def generate(self, messages: Sequence[Message], tools: Any = (), sampling: Any = None) -> Reply:
        question = messages[1].text
        number = sum(message.role == "assistant" for message in messages)
        if not question.startswith("part"):
            return await super().generate(messages, tools, sampling)
        self.received.append(tuple(messages))
        return [
            calls(call("note", text="before")),
            calls(call("create_subagent", name="leaf", system_prompt="You work.")),
            calls(call("assign_task", agent="leaf", prompt=f"leaf{question[4]} 2")),
            calls(call("note", text="after")),
            Reply(content=f"done {question}"),
        ][number]


@pytest.mark.parametrize("num_kernels", [1, 3])
async def test_parents_that_hold_all_sandboxes_lend_them_to_their_children(tmp_path: Path, num_kernels: int) -> None:
    kernels = Kernels()
    options = SwarmOptions(tools=(Cell,), num_kernels=num_kernels, limits=SwarmLimits(max_depth=2))
    model = Nested([f"part{number}" for number in range(5)], faults={"all": [calls(call("note", text="first"))]})
    model.items = [f"part{number}" for number in range(5)]
    async with asyncio.timeout(30):
        done = await run_swarm(
            "all",
            model=Renumbered(model),
            options=options,
            sandbox=kernels,  # type: ignore[arg-type]
            runs_dir=tmp_path,
            approve="yolo",
        )
    assert [child.state for child in done.children] == ["finished"] * 10
    assert kernels.most <= num_kernels


class Renumbered:
    """The orchestrator runs a cell first, so that it holds a sandbox, too."""

    name = "renumbered"

    def __init__(self, inner: Cast) -> None:
        self._inner = inner

    async def generate(self, messages: Sequence[Message], tools: Any = (), sampling: Any = None) -> Reply:
        if messages[1].text == "all" and len(messages) > 2:
            messages = [*messages[:2], *messages[4:]]  # without its first step
        return await self._inner.generate(messages, tools, sampling)

    async def close(self) -> None:
        pass


async def test_a_standstill_is_noted_with_who_waits_for_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without loans, the parent that holds the only sandbox and its child wait for each other."""
    monkeypatch.setattr(swarm_module, "WATCHDOG_S", 0.4)
    monkeypatch.setattr(AgentWorkspace, "lent", lambda self: contextlib.nullcontext())
    notes: list[str] = []
    controls: list[Control] = []

    def listen(event: Any) -> None:
        if isinstance(event, Noted) and "has moved" in event.text:
            notes.append(event.text)
            controls[0].stop("enough")

    async with asyncio.timeout(30):
        await run_swarm(
            "all",
            model=Nested(["part0"]),
            options=SwarmOptions(tools=(Cell,), num_kernels=1, limits=SwarmLimits(max_depth=2)),
            sandbox=Kernels(),  # type: ignore[arg-type]
            runs_dir=tmp_path,
            approve="yolo",
            watch=Watch(listener=listen, on_control=controls.append),
        )
    assert "t001 waits for t002; t002 waits for a free sandbox" in notes[0]
