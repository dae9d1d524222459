"""What is about to be done stands on disk before the first of it is done, in both loops."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cua.gui_agent.agent import Agent
from cua.messages import TextPart, ToolResult
from cua.models.scripted import ScriptedModel
from cua.trajectory import RunHeader, TrajectoryWriter
from cua.trajectory.events import TOOLS_ENV
from envs import Action, InstructionTask
from envs.fake import FakeEnv
from tests.cua.tool_agent.fakes import QUESTION, FakeTool, calls, make_agent
from tests.cua.trajectory import samples


def last_event(run_dir: Path) -> dict[str, Any]:
    """The newest line of a record, read by another reader than the one that writes it."""
    event: dict[str, Any] = json.loads((run_dir / "trajectory.jsonl").read_text("utf-8").splitlines()[-1])
    return event


def say(code: str) -> str:
    return f"## Action:\nAct\n## Code:\n```python\n{code}\n```"


class Watched(FakeEnv):
    """Looks into the record before it carries anything out."""

    def __init__(self, run_dir: Path) -> None:
        super().__init__()
        self.seen: list[tuple[Any, ...]] = []
        self._run_dir = run_dir

    def _act(self, action: Action) -> None:
        event = last_event(self._run_dir)
        self.seen.append((event["event"], event.get("index"), [one["kind"] for one in event.get("actions", ())]))
        super()._act(action)


async def test_actions_of_the_gui_agent(tmp_path: Path) -> None:
    replies = [
        say("pyautogui.click(0.1, 0.1)\npyautogui.write('x')"),
        say("pyautogui.press('tab')"),
        say("computer.terminate(status='success')"),
    ]
    with TrajectoryWriter.create(tmp_path, samples.HEADER) as writer:
        env = Watched(writer.run_dir)
        await Agent(model=ScriptedModel(replies), env=env, record=writer).run(InstructionTask(instruction="Do it"))
    assert env.seen == [
        ("acting", 1, ["click", "type_text"]),
        ("acting", 1, ["click", "type_text"]),
        ("acting", 2, ["press_key"]),
        ("acting", 3, ["terminate"]),
    ]


async def test_calls_of_the_agent_with_tools(tmp_path: Path) -> None:
    header = RunHeader(instruction="How many?", env=TOOLS_ENV, model="scripted")
    seen: list[tuple[Any, ...]] = []
    with TrajectoryWriter.create(tmp_path, header) as writer:

        async def answer(arguments: Mapping[str, Any]) -> ToolResult:
            event = last_event(writer.run_dir)
            seen.append((event["event"], event.get("index"), [call["arguments"] for call in event.get("calls", ())]))
            return ToolResult(parts=(TextPart(text="done"),))

        model = ScriptedModel([calls(("look", "a"), ("look", "b")), calls(("look", "c")), "24"])
        await make_agent(model, [FakeTool("look", answer)], record=writer).run(QUESTION)
    both, one = ['{"text": "a"}', '{"text": "b"}'], ['{"text": "c"}']
    assert seen == [("calling", 1, both), ("calling", 1, both), ("calling", 2, one)]
