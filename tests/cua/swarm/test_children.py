"""What a child may be and be given: a browser, another model, files; and how limits and losses end it."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cua.errors import ModelError
from cua.messages import Reply, TextPart, ToolCall, ToolResult, Usage
from cua.model import Tool
from cua.models.scripted import ConversationScript, ScriptedModel
from cua.run.budget import Caps
from cua.swarm import PRESETS, SwarmOptions, run_swarm
from cua.swarm.budget import SwarmLimits
from cua.tool_agent.conversation import HIDDEN
from cua.tool_agent.profile import ToolContext
from cua.trajectory import load_run
from envs.browser.launch import find_browser
from tests.cua.swarm.test_swarm import NOTHING, OPTIONS, Cast, call, calls, play

PAGE = "data:text/html,<title>{0}</title><h1>{0}</h1>"
DONE = '## Action:\nFinish\n## Code:\n```python\ncomputer.terminate(status="success", answer="seen {{question}}")\n```'
CLICK = "## Action:\nClick\n## Code:\n```python\npyautogui.click(0.5, 0.5)\n```"


def conversations(**said: list[Reply | str | Exception]) -> ConversationScript:
    return ConversationScript({question: [(reply, 0.0) for reply in replies] for question, replies in said.items()})


def make_worker(**more: str) -> ToolCall:
    return call("create_subagent", name="worker", system_prompt="You work.", **more)


class Shout(Tool):
    """Writes `in.txt` of its agent's folder in capitals to `out.txt`."""

    name = "shout"
    description = "Write in.txt in capitals to out.txt."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}}

    def __init__(self, place: ToolContext) -> None:
        self._folder = place.kernel.folder

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        (self._folder / "out.txt").write_text((self._folder / "in.txt").read_text().upper())
        return ToolResult(parts=(TextPart(text=f"of {sorted(path.name for path in self._folder.iterdir())}"),))


async def test_files_are_handed_over_by_name_and_come_back(tmp_path: Path) -> None:
    for name in ("in.txt", "secret.txt"):
        (tmp_path / name).write_text("words")
    assign = call("assign_task", agent="worker", prompt="child", files=["in.txt"], returns=["out.txt", "none.txt"])
    missing = call("assign_task", agent="worker", prompt="child", files=["../trajectory.jsonl"])
    model = conversations(
        every=[calls(make_worker()), calls(assign, missing), "all done"], child=[calls(call("shout")), "child done"]
    )
    done = await run_swarm(
        "every",
        [tmp_path / "in.txt", tmp_path / "secret.txt"],
        model=model,
        options=SwarmOptions(tools=(Shout,)),
        runs_dir=tmp_path / "runs",
    )
    run_dir = Path(str(done.run.run_dir))
    assert (run_dir / "files" / "t001" / "out.txt").read_text() == "WORDS"
    assert done.children[0].message.endswith("[files: t001/out.txt]")
    assert {path.name for path in (run_dir / "children" / "t001" / "files").iterdir()} == {"in.txt", "out.txt"}
    assert done.children[1].state == "failed"
    assert "cannot be handed over" in done.children[1].message


async def test_a_child_asks_a_model_of_its_own(tmp_path: Path) -> None:
    assign = call("assign_task", agent="worker", prompt="child")
    model = conversations(every=[calls(make_worker(model="small")), calls(assign), "all done"])
    small = ScriptedModel(["by the small one"])
    done = await run_swarm("every", model=model, options=replace(OPTIONS, models={"small": small}), runs_dir=tmp_path)
    assert done.children[0].answer == "by the small one"
    assert len(small.received) == 1


async def test_a_model_that_does_not_exist_is_that_child_alone(tmp_path: Path) -> None:
    assign = call("assign_task", agent="worker", prompt="child")
    model = conversations(every=[calls(make_worker(model="scripted:nowhere.jsonl")), calls(assign), "all done"])
    done = await run_swarm("every", model=model, options=OPTIONS, runs_dir=tmp_path)
    assert done.children[0].state == "failed"
    assert "nowhere.jsonl" in done.children[0].message
    assert done.run.end.answer == "all done"


async def test_the_model_is_told_of_more_only_when_asked_for(tmp_path: Path) -> None:
    shown: dict[str, set[str]] = {}

    class Watching(Cast):
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            shown.update({tool.name: set(tool.parameters["properties"]) for tool in tools})
            return await super().generate(messages, tools, sampling)

    await play(tmp_path, Watching(["a 1"]), replace(OPTIONS, is_extended=True))
    assert shown["create_subagent"] == {"name", "system_prompt", "kind", "model"}
    assert shown["assign_task"] == {"agent", "prompt", "files", "returns", "url", "app", "schema"}


async def test_money_that_is_spent_caps_the_children(tmp_path: Path) -> None:
    limits = SwarmLimits(run=Caps(max_steps=None, max_cost_usd=0.2))  # each reply of a child costs 0.01
    done = await play(tmp_path, Cast(["a 50", "b 50"]), replace(OPTIONS, limits=limits))
    assert {child.state for child in done.children} == {"capped"}
    assert done.run.usage.cost_usd == pytest.approx(0.18, abs=0.021)  # children have 90 %; two calls may be out
    assert done.run.end.answer is not None


async def test_time_that_is_up_stops_children_that_hang(tmp_path: Path) -> None:
    class Hanging(Cast):
        async def generate(self, messages: Any, tools: Any = (), sampling: Any = None) -> Reply:
            if messages[1].text == "b 2":
                await asyncio.Event().wait()
            return await super().generate(messages, tools, sampling)

    limits = SwarmLimits(child_time_s=1.0)
    done = await play(tmp_path, Hanging(["a 2", "b 2"]), replace(OPTIONS, limits=limits))
    assert [child.state for child in done.children] == ["finished", "capped"]
    assert "done a 2" in str(done.run.end.answer)


async def test_what_dies_is_accounted_for_and_nothing_runs_twice(tmp_path: Path) -> None:
    items = [f"item{number} 3" for number in range(40)]
    dying = items[5::10]
    model = Cast(items, faults={item: [ModelError("gone", retryable=False)] for item in dying})
    done = await play(tmp_path, model)
    states = {child.assignment.prompt: child.state for child in done.children}
    assert states == {item: "failed" if item in dying else "finished" for item in items}
    assert done.metrics.by_state == {"finished": 36, "failed": 4}
    assert [len(model.asked_by(item)) for item in items] == [1 if item in dying else 3 for item in items]
    kept = load_run(str(done.run.run_dir)).agents
    assert all(kept[child.id].notes[-1].data["state"] == child.state for child in done.children)


@pytest.mark.parametrize("settings", [{}, {"max_context": 4000}])
async def test_a_child_gives_up_old_results_when_its_context_is_long(tmp_path: Path, settings: dict[str, int]) -> None:
    long = Usage(input_tokens=9000)
    first = [calls(call("note", text=f"{number}"), usage=long if number == 3 else NOTHING) for number in range(4)]
    model = Cast(["a 8"], faults={"a 8": first})
    preset = replace(PRESETS["standard"], max_context=None if settings else 4000)
    done = await play(tmp_path, model, replace(OPTIONS, preset=preset), **settings)
    assert done.children[0].state == "finished"
    texts = [message.text for message in model.asked_by("a 8")[-1] if message.role == "tool"]
    assert texts[0] == HIDDEN
    notes = load_run(str(done.run.run_dir)).agents["t001"].notes
    assert any(note.kind == "context" and note.text.startswith("hide-tool-result") for note in notes)


async def test_the_orchestrator_gives_up_what_its_settings_say_and_its_children_keep_theirs(tmp_path: Path) -> None:
    long = Usage(input_tokens=9000)
    first = [calls(call("create_subagent", name="worker", system_prompt="You work."), usage=long)]
    model = Cast(["a 3"], faults={"all": first})
    done = await play(tmp_path, model, context="discard-all", max_context=4000)
    assert [message.role for message in model.asked_by("all")[1]] == ["system", "user"]  # it starts over
    assert done.run.run_dir is not None
    record = load_run(done.run.run_dir)
    assert [note.text.partition(":")[0] for note in record.notes if note.kind == "context"] == ["discard-all"]
    overflowing = await play(tmp_path / "none", Cast(["a 3"], faults={"all": list(first)}), max_context=4000)
    end = overflowing.run.end  # no success, as in the report: what outgrows the context counts as failed
    assert (end.status, end.cap, end.answer) == ("capped", "context", "what there is")
    assert "no context management is on" in overflowing.run.end.reason


@pytest.mark.slow
async def test_a_sandbox_that_dies_is_replaced(tmp_path: Path) -> None:
    cells = [
        ToolCall(id="x", name="ipython", arguments=json.dumps({"code": code}))
        for code in ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "print(6 * 7)")
    ]
    assign = call("assign_task", agent="worker", prompt="child")
    model = conversations(
        every=[calls(make_worker()), calls(assign), "all done"], child=[*(calls(cell) for cell in cells), "it is 42"]
    )
    done = await run_swarm("every", model=model, runs_dir=tmp_path)
    assert (done.children[0].state, done.children[0].answer) == ("finished", "it is 42")
    results = [
        step.outcomes[0].result for step in load_run(str(done.run.run_dir)).agents["t001"].tool_steps if step.outcomes
    ]
    assert "42" in results[1].text


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no Chromium found: cua setup")
async def test_children_drive_browsers_of_their_own(tmp_path: Path) -> None:
    made = call("create_subagent", name="clicker", system_prompt="You click.", kind="browser")
    assigned = [
        call("assign_task", agent="clicker", prompt=f"page {name}", url=PAGE.format(name)) for name in ("one", "two")
    ]
    model = conversations(
        every=[calls(made), calls(*assigned), "all done"],
        **{f"page {name}": [CLICK, DONE.replace("{{question}}", name)] for name in ("one", "two")},
    )
    done = await run_swarm("every", model=model, options=OPTIONS, runs_dir=tmp_path, approve="yolo")
    assert [(child.state, child.answer) for child in done.children] == [
        ("finished", "seen one"),
        ("finished", "seen two"),
    ]
    agents = load_run(str(done.run.run_dir)).agents
    assert [len(agents[name].steps) for name in ("t001", "t002")] == [2, 2]
    assert "one" in str(agents["t001"].steps[0].observation.url)
