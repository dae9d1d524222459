"""MCP servers whose process ends: what the calls get, and how often the server is started again."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from cua.messages import ToolResult
from cua.tool_agent.mcp_file import McpServer
from cua.tool_agent.mcp_servers import MAX_RESTARTS, McpConnection, McpTool

pytest.importorskip("mcp", reason="needs the extra mcp")

SERVER = str(Path(__file__).with_name("mcp_server.py"))


class Served:
    """A connection to a server that crashes on request, and its tools."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        server = McpServer(name="x", command=(sys.executable, SERVER, "crashes", str(folder)))
        self.connection = McpConnection(server, first_wait_s=0.01)
        self.tools: dict[str, McpTool] = {}

    async def call(self, name: str, **arguments: int) -> ToolResult:
        return await self.tools[f"x__{name}"].call(arguments)

    @property
    def pids(self) -> list[int]:
        return [int(line) for line in (self.folder / "starts").read_text().split()]


@pytest_asyncio.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    served = Served(tmp_path)
    await served.connection.open()
    served.tools = {tool.name: tool for tool in await served.connection.tools(set())}
    yield served
    await served.connection.close()
    assert not [pid for pid in served.pids if psutil.pid_exists(pid)]


def outcome(result: ToolResult) -> tuple[bool, str]:
    return result.is_error, result.text


@pytest.mark.long
async def test_a_call_that_ended_the_server_is_unknown_and_later_ones_work(served: Served) -> None:
    crashed = await served.call("crash")
    assert outcome(crashed) == (
        True,
        "The MCP server 'x' failed: its process ended or its connection broke during this call. The outcome of the "
        "call is unknown: what it did may still be in effect. Look before you repeat it. The next call "
        "starts the server again.",
    )
    assert outcome(await served.call("add", a=2, b=3)) == (False, "5")
    assert outcome(await served.call("add", a=2, b=4)) == (False, "6")
    assert len(served.pids) == 2


@pytest.mark.long
async def test_calls_at_the_same_time_fail_together_and_share_one_restart(served: Served) -> None:
    slow, crashed = await asyncio.gather(served.call("slow"), served.call("crash"))
    assert ("is unknown" in slow.text, "is unknown" in crashed.text) == (True, True)
    sums = await asyncio.gather(*(served.call("add", a=number, b=1) for number in range(5)))
    assert [result.text for result in sums] == ["1", "2", "3", "4", "5"]
    assert len(served.pids) == 2


@pytest.mark.long
async def test_a_server_killed_between_two_calls_costs_no_call(served: Served) -> None:
    psutil.Process(served.pids[0]).kill()
    async with asyncio.timeout(10):
        while not served.connection.has_ended:
            await asyncio.sleep(0.01)
    assert outcome(await served.call("add", a=1, b=1)) == (False, "2")


@pytest.mark.long
async def test_a_call_cancelled_during_a_restart_leaves_it_to_the_next(served: Served) -> None:
    await served.call("crash")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await served.call("add", a=1, b=1)
    assert outcome(await served.call("add", a=1, b=2)) == (False, "3")
    assert len(served.pids) == 2


@pytest.mark.long
async def test_a_server_that_does_not_start_again_is_given_up_with_one_error(served: Served) -> None:
    (served.folder / "broken").touch()
    await served.call("crash")
    first, second = await asyncio.gather(served.call("add", a=1, b=1), served.call("add", a=1, b=2))
    later = await served.call("add", a=1, b=3)
    assert first == second == later
    assert first.is_error
    assert first.text.startswith(
        f"The MCP server 'x' is not available: it was started again {MAX_RESTARTS} times in a row, and ended each time"
    )
    assert "it said: no licence for you" in first.text
    assert len(served.pids) == 1 + MAX_RESTARTS


@pytest.mark.long
async def test_crashes_in_a_row_are_bounded_and_a_call_that_returns_starts_the_count_again(served: Served) -> None:
    for _ in range(1 + MAX_RESTARTS):
        assert "is unknown" in (await served.call("crash")).text
        assert outcome(await served.call("add", a=1, b=1)) == (False, "2")
    for _ in range(1 + MAX_RESTARTS):
        assert "is unknown" in (await served.call("crash")).text
    assert "is not available" in (await served.call("add", a=1, b=1)).text
    assert len(served.pids) == 2 + 2 * MAX_RESTARTS


@pytest.mark.long
async def test_closing_during_a_restart_leaves_no_process(served: Served) -> None:
    await served.call("crash")
    waiting = asyncio.create_task(served.call("add", a=1, b=1))
    await asyncio.sleep(0.05)
    await served.connection.close()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
