"""`cua mcp` as another agent uses it: the official client over a real process, scripted and literal models."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from cua.trajectory import load_run
from tests.apps.cli.running import CUA, environment
from tests.apps.cli.test_ask import COUNT, script

pytest.importorskip("mcp", reason="needs the extra mcp")

PAGE = "data:text/html,<title>Hello</title><button>Next</button><button>Delete account</button>"


@asynccontextmanager
async def serving(folder: Path, *flags: str) -> AsyncIterator[Any]:
    """A client of a running server, whose runs go to `runs`."""
    from mcp import Client, StdioServerParameters

    (folder / "runs").mkdir(exist_ok=True)
    arguments = ["mcp", "--folder", str(folder), *flags]
    parameters = StdioServerParameters(command=CUA, args=arguments, env=environment(folder / "runs"), cwd=folder)
    async with Client(parameters, read_timeout_seconds=120) as client:
        yield client


def said(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.slow
async def test_questions_and_looks(tmp_path: Path) -> None:
    image = Image.new("RGB", (60, 40), "white")
    image.paste("black", (5, 5, 35, 25))
    image.save(tmp_path / "dots.png")
    (tmp_path / "link.png").symlink_to("/etc/hostname")
    progress: list[tuple[float, str | None]] = []

    async def tell(number: float, total: float | None, message: str | None) -> None:
        progress.append((number, message))

    async with serving(tmp_path, "-m", script(tmp_path, [COUNT], [COUNT], "600 [^0^].")) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"task", "ask", "swarm", "see"}
        assert tools["ask"].input_schema["required"] == ["question"]

        question = {"question": "How many dark pixels?", "files": ["dots.png"]}
        answer = await client.call_tool("ask", question, progress_callback=tell)
        assert (said(answer), answer.is_error) == ("600 [^0^].", False)
        assert (answer.structured_content["status"], answer.structured_content["steps"]) == ("unverified", 3)
        assert progress == [(1, "ipython"), (2, "ipython")]
        capped = await client.call_tool("ask", {**question, "max_steps": 1})
        assert (said(capped), capped.is_error) == ("capped: 1 of 1 steps used", True)

        seen = await client.call_tool(
            "see", {"operation": "crop", "files": ["dots.png"], "options": {"box": "0,0,10,10"}}
        )
        assert (seen.is_error, json.loads(said(seen))["found"]) == (False, True), said(seen)
        assert [block.type for block in seen.content] == ["text", "image"]
        assert names_in(tmp_path) == {"dots.png", "link.png", "replies.jsonl", "runs"}

        wrong = {
            "is not inside": ("see", {"operation": "ocr", "files": ["../../etc/hostname"]}),
            "the only folder": ("ask", {"question": "?", "files": ["link.png"]}),
            "not an option": ("see", {"operation": "crop", "files": ["dots.png"], "options": {"output": "x.png"}}),
            "Did you mean 'count'": ("see", {"operation": "cuont", "files": ["dots.png"]}),
            "are invalid": ("ask", {"question": 5}),
            "unknown tool 'tasks'": ("tasks", {}),
            "MCP opens no others": ("task", {"instruction": "Look", "url": "file:///etc/hostname"}),
        }
        for told, (name, arguments) in wrong.items():
            result = await client.call_tool(name, arguments)
            assert (result.is_error, told in said(result)) == (True, True), said(result)


@pytest.mark.slow
async def test_what_needs_a_person_is_refused_and_a_cancelled_call_stops_its_run(tmp_path: Path) -> None:
    endless = script(tmp_path, ["while True: pass"], "never")
    async with serving(tmp_path, "-m", endless, "--set", "sandbox=none") as client:
        refused = await client.call_tool("ask", {"question": "?"})
        assert "Refused, because MCP cannot ask for approval: ipython runs without any isolation" in said(refused)
        assert "--policy FILE" in said(refused)
    for run_dir in (tmp_path / "runs").iterdir():
        run_dir.rename(tmp_path / run_dir.name)

    began = asyncio.Event()

    async def tell(number: float, total: float | None, message: str | None) -> None:
        began.set()

    async with serving(tmp_path, "-m", endless, "--set", "cell_timeout=600") as client:
        call = asyncio.create_task(client.call_tool("ask", {"question": "?"}, progress_callback=tell))
        await asyncio.wait_for(began.wait(), 60)
        await stopped_by_cancel(call, tmp_path)


async def stopped_by_cancel(call: "asyncio.Task[Any]", folder: Path) -> Path:
    """Cancel a call; the folder of its run, the only one, which has ended by that."""
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    (run_dir,) = (folder / "runs").iterdir()
    async with asyncio.timeout(60):
        while (record := await asyncio.to_thread(load_run, run_dir, images=0)).sealed is None:
            await asyncio.sleep(0.05)
    assert record.end is not None
    assert (record.end.status, record.end.reason) == ("stopped", "cancelled by the MCP client")
    return run_dir


def swarm_script(folder: Path, *, after_s: float = 0.0) -> str:
    """An orchestrator with two sub-agents; the second one takes its time."""
    made = {"id": "a", "name": "create_subagent", "arguments": '{"name": "reader", "system_prompt": "You read."}'}
    assigned = [
        {"id": river, "name": "assign_task", "arguments": json.dumps({"agent": "reader", "prompt": f"river {river}"})}
        for river in ("Rhine", "Elbe")
    ]
    lines = [
        {"for": "Compare", "content": "", "tool_calls": [made]},
        {"for": "Compare", "content": "", "tool_calls": assigned},
        {"for": "Compare", "content": "Both are long."},
        {"for": "river Rhine", "content": "It is long."},
        {"for": "river Elbe", "content": "It is long, too.", "after_s": after_s},
    ]
    (folder / "swarm.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"scripted:{folder / 'swarm.jsonl'}"


@pytest.mark.slow
async def test_a_swarm_tells_its_progress_and_is_cancelled(tmp_path: Path) -> None:
    told: list[str | None] = []

    async def tell(number: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with serving(tmp_path, "-m", swarm_script(tmp_path)) as client:
        done = await client.call_tool("swarm", {"question": "Compare them"}, progress_callback=tell)
        assert (said(done), done.is_error) == ("Both are long.", False)
        assert told[0] == "create_subagent" and told[1] == "assign_task, assign_task"
        assert {"t001 finished", "t002 finished"} <= {line.partition(":")[0] for line in told if line}
        few = await client.call_tool("swarm", {"question": "Compare them", "max_children": 1})
        assert said(few) == "Both are long."
        wrong = await client.call_tool("swarm", {"question": "Compare them", "max_children": 1000})
        assert (wrong.is_error, "are invalid" in said(wrong)) == (True, True)
    records = [load_run(run_dir) for run_dir in (tmp_path / "runs").iterdir()]
    assert sorted(len(record.agents) for record in records) == [1, 2]
    for record in records:
        record.run_dir.rename(tmp_path / record.run_dir.name)

    async with serving(tmp_path, "-m", swarm_script(tmp_path, after_s=600)) as client:
        told.clear()
        call = asyncio.create_task(client.call_tool("swarm", {"question": "Compare"}, progress_callback=tell))
        async with asyncio.timeout(60):
            while not any(line and line.startswith("t001 finished") for line in told):
                await asyncio.sleep(0.02)
        run_dir = await stopped_by_cancel(call, tmp_path)
        states = json.loads((run_dir / "swarm.json").read_text("utf-8"))["children"]
        assert [child["state"] for child in states] == ["finished", "stopped"]


@pytest.mark.slow
@pytest.mark.browser
async def test_a_task_in_a_real_browser(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        done = await client.call_tool("task", {"instruction": 'Click "Next".', "url": PAGE})
        assert (done.structured_content["status"], done.is_error) == ("unverified", False), said(done)
        refused = await client.call_tool(
            "task", {"instruction": 'Click "Delete account".', "url": PAGE, "max_steps": 3}
        )
        assert "Refused, because MCP cannot ask for approval: not allowed: risky (delete)" in said(refused)
        literal = await client.call_tool("ask", {"question": "?"})
        assert (literal.is_error, "cannot call tools" in said(literal)) == (True, True)
