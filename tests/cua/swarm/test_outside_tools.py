"""Tools outside the sandbox in a swarm: one MCP server for all agents, and the guard asks about each call."""

import json
import sys
from pathlib import Path

import pytest

from cua import Watch
from cua.errors import ConfigError
from cua.messages import Reply, ToolCall
from cua.models.scripted import ConversationScript
from cua.swarm import SwarmOptions, run_swarm
from cua.trajectory import load_run

pytest.importorskip("mcp", reason="needs the extra mcp")

SERVER = str(Path(__file__).parents[1] / "tool_agent" / "mcp_server.py")


def servers(folder: Path) -> str:
    (folder / "mcp.json").write_text(
        json.dumps({"mcpServers": {"plain": {"command": sys.executable, "args": [SERVER, "plain"]}}})
    )
    return str(folder / "mcp.json")


def asked(*calls: tuple[str, dict[str, object]]) -> Reply:
    made = [ToolCall(id=f"x:{n}", name=name, arguments=json.dumps(given)) for n, (name, given) in enumerate(calls)]
    return Reply(content="", tool_calls=tuple(made))


def adder() -> ConversationScript:
    """An orchestrator that adds itself, and two children that add at the same time."""
    tasks = [("assign_task", {"agent": "adder", "prompt": f"add for {name}"}) for name in ("one", "two")]
    lead = [
        asked(("create_subagent", {"name": "adder", "system_prompt": "You add."}), ("plain__add", {"a": 1, "b": 1})),
        asked(*tasks),
        "Done.",
    ]
    scripts = {"Add": [(reply, 0.0) for reply in lead]}
    for number, name in enumerate(("one", "two"), 2):
        own = [asked(("plain__add", {"a": number, "b": number})), "Added [^0^]."]
        scripts[f"for {name}"] = [(reply, 0.0) for reply in own]
    return ConversationScript(scripts)


@pytest.mark.slow
@pytest.mark.parametrize("is_allowed", [True, False])
async def test_children_use_the_tools_of_a_server_when_they_may(tmp_path: Path, *, is_allowed: bool) -> None:
    seen: list[str] = []

    async def approve(verdict: object, turn: object, actions: object) -> bool:
        seen.append(str(verdict))
        return is_allowed

    done = await run_swarm(
        "Add",
        model=adder(),
        mcp=servers(tmp_path),
        runs_dir=tmp_path / "runs",
        watch=Watch(approver=approve),
    )
    assert done.run.end.answer == "Done."
    assert done.run.run_dir is not None
    record = load_run(done.run.run_dir)
    agents = [record, *(record.agents[child.agent_id] for child in done.children)]
    told = [outcome.result.text for one in agents for step in one.tool_steps for outcome in step.outcomes]
    sums = sorted(text for text in told if text.isdigit())
    refused = [text for text in told if text.startswith("This call was refused")]
    assert (sums, len(refused), len(seen)) == ((["2", "4", "6"], 0, 3) if is_allowed else ([], 3, 3))


@pytest.mark.long
async def test_ray_and_servers_do_not_go_together(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(ConfigError, match="drop --executor ray or the setting mcp"):
        await run_swarm(
            "Add",
            model=adder(),
            mcp=servers(tmp_path),
            runs_dir=tmp_path / "runs",
            options=SwarmOptions(executor="ray"),
        )
